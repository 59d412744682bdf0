"""One run: fill the windows, then time push by push."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from slidejoin.bench.checking import check_push
from slidejoin.bench.figures import in_order, resident_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slidejoin.bench.relation import Relation
    from slidejoin.bench.workload import Workload

__all__ = ["Run", "by_step", "measure", "rows_to_measure"]

FEWEST_PUSHES = 3
LEAST_ROWS, MOST_ROWS = 1 << 21, 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run has measured.

    Attributes
    ----------
    seconds : tuple of float
        Of each push.
    rows, pairs : int
        Of all measured pushes.
    steps : dict of str to float
        Seconds by step of `slidejoin.stats.Stats.seconds`.
    processor : float
        Seconds that all threads were on a processor.
    stored_rows : int
        Rows that both windows are to hold: what is kept beyond them counts as their cost.
    window_bytes : int
        What the join counts as rows and index, the most after any push.
    grown : int
        Bytes by which the resident memory of the process was larger than before the run, the most after any push.
    first, verified_pairs : int
        Ordinal of the first row of the last push, and how many of its pairs were compared with NumPy's.
    """

    seconds: tuple[float, ...]
    rows: int
    pairs: int
    steps: dict[str, float]
    processor: float
    stored_rows: int
    window_bytes: int
    grown: int
    first: int
    verified_pairs: int


def by_step(runs: Sequence[Run], scale: float) -> dict[str, float]:
    """Return the time of several runs by step, `scale` for each second, with ``other`` for the rest and ``total``."""
    total = scale * sum(sum(one.seconds) for one in runs)
    names = dict.fromkeys(name for one in runs for name in one.steps)
    steps = in_order({name: scale * sum(one.steps.get(name, 0.0) for one in runs) for name in names})
    return steps | {"other": max(0.0, total - sum(steps.values())), "total": total}


def rows_to_measure(load: Workload, rows: int | None) -> int:
    """Return how many rows a run measures: as asked, or four windows, between 2 Mi and 16 Mi, at least three pushes."""
    wanted = rows or min(max(4 * load.window, LEAST_ROWS), MOST_ROWS)
    return max(wanted, FEWEST_PUSHES * 2 * load.half)


def measure(load: Workload, relation: Relation, rows: int, between: Callable[[list[float]], None] | None = None) -> Run:
    """Fill the windows of a new join, then time so many rows, and check the last push.

    Parameters
    ----------
    load : Workload
    relation : Relation
        As `Workload.relation` gives it.
    rows : int
        To be measured.
    between : callable, optional
        Called with the seconds of each tenth of the pushes after it; what it does is not timed.

    Raises
    ------
    SlideJoinError
        If the last push gave other pairs than NumPy finds.
    """
    streams = load.streams(relation)
    load.join(relation).push(*streams.tables(0, 1), order_by="i")  # loads the kernels, whose memory is not the window's
    before, join, ordinal = resident_memory(), load.join(relation), 0
    for count, half in load.filling:
        for left, right in streams.pushes(ordinal, half, count):
            join.push(left, right, order_by="i")
            ordinal += half
    steps, pairs = dict(join.stats.seconds), join.stats.pairs
    pushes = -(-rows // (2 * load.half))
    seconds: list[float] = []
    out, processor, window_bytes, resident, reported = None, 0.0, 0, before, 0
    for left, right in streams.pushes(ordinal, load.half, pushes):
        out = None  # its memory is free again before the clock starts
        start_of_processor, start = process_time(), perf_counter()
        out = join.push(left, right, order_by="i")
        seconds.append(perf_counter() - start)
        processor += process_time() - start_of_processor
        window_bytes = max(window_bytes, join.stats.window_bytes)
        if len(seconds) - reported >= pushes / 10 or len(seconds) == pushes:
            resident = max(resident, resident_memory())
            if between is not None:
                between(seconds[reported:])
            reported = len(seconds)
    first = ordinal + (pushes - 1) * load.half
    return Run(
        seconds=tuple(seconds),
        rows=2 * load.half * pushes,
        pairs=join.stats.pairs - pairs,
        steps=in_order({name: took - steps.get(name, 0.0) for name, took in join.stats.seconds.items()}),
        processor=processor,
        stored_rows=2 * load.window,
        window_bytes=window_bytes,
        grown=resident - before,
        first=first,
        verified_pairs=check_push(
            out,
            streams,
            relation,
            window=load.window,
            first=first,
            last=first + load.half,
            output="pairs" if load.output == "payload" else load.output,
            order=load.order,
        ),
    )
