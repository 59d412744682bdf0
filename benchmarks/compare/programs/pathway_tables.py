"""Pathway: tables of CSV files, read as a stream that ends."""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.compare.programs.common import WINDOW, Outcome, run, write_csv

Table = Any


def band(left: Table, right: Table) -> Table:
    """Return the pairs: an interval join of the prices, the window behind it."""
    import pathway as pw

    joined = left.interval_join(right, left.price, right.price, pw.temporal.interval(-50, 50))
    pairs = joined.select(l=left.number, r=right.number, apart=left.ts - right.ts)
    return pairs.filter((pairs.apart >= -WINDOW) & (pairs.apart <= WINDOW)).without(pairs.apart)


def equality_band(left: Table, right: Table) -> Table:
    """Return the pairs: an interval join in time by key, the band behind it."""
    import pathway as pw

    joined = left.interval_join(right, left.ts, right.ts, pw.temporal.interval(-WINDOW, WINDOW), left.k == right.k)
    pairs = joined.select(l=left.number, r=right.number, above=left.price - right.bid, below=right.ask - left.price)
    return pairs.filter((pairs.above >= 0) & (pairs.below >= 0)).without(pairs.above, pairs.below)


def inequalities(left: Table, right: Table) -> Table:
    """Return the pairs: an interval join in time, both inequalities behind it."""
    import pathway as pw

    joined = left.interval_join(right, left.ts, right.ts, pw.temporal.interval(-WINDOW, WINDOW))
    pairs = joined.select(
        l=left.number, r=right.number, longer=left.distance - right.distance, faster=right.air_time - left.air_time
    )
    return pairs.filter((pairs.longer > 0) & (pairs.faster > 0)).without(pairs.longer, pairs.faster)


def asof(left: Table, right: Table) -> Table:
    """Return the pairs: an as-of join that keeps every left row, of which those without a pair are left out."""
    import pathway as pw

    joined = left.asof_join(right, left.ts, right.ts, left.k == right.k, how=pw.JoinMode.LEFT)
    pairs = joined.select(l=left.number, r=right.number, apart=left.ts - pw.coalesce(right.ts, -WINDOW - 1))
    return pairs.filter(pairs.apart <= WINDOW).without(pairs.apart)


def join(query: str, folder: Path) -> Outcome:
    """Read the files, and write the pairs to another one."""
    import pathway as pw

    made = {"band": band, "equality_band": equality_band, "inequalities": inequalities, "asof": asof}[query]
    tables = []
    for path, names in write_csv(folder, id_as="number"):  # Pathway has an id of its own
        schema = pw.schema_from_types(**dict.fromkeys(names, int))
        tables.append(pw.io.csv.read(str(path), schema=schema, mode="static"))
    with tempfile.TemporaryDirectory() as out:
        pw.io.csv.write(made(*tables), str(Path(out) / "pairs.csv"))
        start = perf_counter()
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        seconds = perf_counter() - start
        pw.internals.parse_graph.G.clear()  # of the next folder
        # A line that takes an earlier one back has a diff of -1.
        pairs = pyarrow.csv.read_csv(Path(out) / "pairs.csv")
    left, right, count = (
        int(pc.sum(pc.multiply(pairs["diff"], column)).as_py() or 0) for column in (pairs["l"], pairs["r"], 1)
    )
    return Outcome(seconds, count, left, right)


if __name__ == "__main__":
    import pathway

    run(join, pathway.__version__)
