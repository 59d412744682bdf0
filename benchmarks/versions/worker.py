"""One checkout's process: reads names of cases from standard input, and answers with the time of a turn of each."""

from __future__ import annotations

import json
import statistics
import sys
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import slidejoin as sj
from benchmarks.versions.cases import CASES, WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.versions.cases import Case

FILLING = 1 << 17
"""Rows of the pushes that fill the windows."""


def batches(case: Case, rows: int, first: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield batches of both sides for ever; event times go on from `first`. Keys are drawn once, and come again."""
    random, half, drawn = np.random.default_rng(1), rows // 2, []
    for _ in range(64):
        sides = [random.integers(0, case.space, half) for _ in "lr"]
        if case.apart:  # the sides overlap by so much that a row has ten matches
            sides[0] = sides[0] // 2 + case.space // 2 - int(case.space // 2 * (2 * 10 / WINDOW) ** 0.5)
            sides[1] = sides[1] // 2
        drawn.append([keys.astype(np.float64) if case.doubles else keys for keys in sides])
    while True:
        for left, right in drawn:
            times = np.arange(first, first + half)
            first += half
            yield pa.Table.from_pydict({"k": left, "t": times}), pa.Table.from_pydict({"k": right, "t": times})


def full(case: Case) -> tuple[sj.StreamJoin, Iterator[tuple[pa.Table, pa.Table]]]:
    """Return a join whose windows are full, and the batches that come next."""
    schema = pa.schema([("k", pa.float64() if case.doubles else pa.int64()), ("t", pa.int64())])
    window = sj.TimeWindow(WINDOW, on="t") if case.timed else sj.CountWindow(WINDOW)
    join = sj.StreamJoin(
        on=case.on, window=window, output=case.output, algorithm=case.algorithm, schemas=(schema, schema), threads=2
    )
    filling, done = batches(case, FILLING, 0), 0
    while done < WINDOW * 9 // 8:
        left, right = next(filling)
        join.push(left, right, order_by="t")
        done += left.num_rows
    return join, batches(case, case.rows, done)


def serve() -> None:
    """Answer until standard input ends."""
    known: dict[str, tuple[sj.StreamJoin, Iterator[tuple[pa.Table, pa.Table]]]] = {}
    for line in sys.stdin:
        name = line.strip()
        case = CASES[name]
        if name not in known:
            known.clear()
            known[name] = full(case)
        join, source = known[name]
        ready, seconds = [next(source) for _ in range(case.pushes)], []
        for left, right in ready:
            start = perf_counter()
            join.push(left, right, order_by="t")
            seconds.append(perf_counter() - start)
        sys.stdout.write(json.dumps({"seconds": statistics.median(seconds), "pairs": join.stats.pairs}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
