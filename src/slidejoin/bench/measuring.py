"""One run: fill the windows, then time push by push."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from slidejoin.bench.checking import check_push
from slidejoin.bench.figures import in_order, resident_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from slidejoin.api.stream_join import StreamJoin
    from slidejoin.bench.relation import Relation
    from slidejoin.bench.workload import Workload

__all__ = ["Course", "Run", "by_step", "measure", "rows_to_measure"]

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
        Seconds by step of `slidejoin.operator.stats.Stats.seconds`.
    inside : dict of str to float
        Seconds by the index's own steps, where it is a structure of the papers: parts of the engine's.
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
    inside: dict[str, float]
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


class Course:
    """A new join whose windows are full, pushed into one push at a time.

    Parameters
    ----------
    load : Workload
    relation : Relation
        As `Workload.relation` gives it.
    rows : int
        To be measured.
    """

    def __init__(self, load: Workload, relation: Relation, rows: int) -> None:
        self.load, self.relation = load, relation
        self.pushes = -(-rows // (2 * load.half))
        self.seconds: list[float] = []
        streams = self._streams = load.streams(relation)
        # Loads the kernels, whose memory is not the window's.
        load.join(relation).push(*streams.tables(0, 1), order_by="i")
        self._before, ordinal = resident_memory(), 0
        first = replace(load, algorithm="auto") if load.quickly_filled else load
        self._join = first.join(relation)
        for stage, (count, half) in enumerate(load.filling):
            if stage and load.quickly_filled:
                self._join = load.restored(self._join.snapshot())
            for left, right in streams.pushes(ordinal, half, count):
                self._join.push(left, right, order_by="i")
                ordinal += half
        self._steps, self._pairs, self._first = dict(self._join.stats.seconds), self._join.stats.pairs, ordinal
        self._inside = _inside(self._join)
        self._coming = streams.pushes(ordinal, load.half, self.pushes)
        self._out: pa.Table | None = None
        self._processor, self._window_bytes, self._resident = 0.0, 0, self._before

    @property
    def over(self) -> bool:
        """Whether all rows were pushed."""
        return len(self.seconds) == self.pushes

    def push(self) -> None:
        """Time one push."""
        left, right = next(self._coming)
        self._out = None  # its memory is free again before the clock starts
        start_of_processor, start = process_time(), perf_counter()
        self._out = self._join.push(left, right, order_by="i")
        self.seconds.append(perf_counter() - start)
        self._processor += process_time() - start_of_processor
        self._window_bytes = max(self._window_bytes, self._join.stats.window_bytes)

    def look(self) -> None:
        """Look at the memory of the process."""
        self._resident = max(self._resident, resident_memory())

    def run(self) -> Run:
        """Check the last push and return what was measured.

        Raises
        ------
        SlideJoinError
            If the last push gave other pairs than NumPy finds.
        """
        load, stats = self.load, self._join.stats
        first = self._first + (self.pushes - 1) * load.half
        return Run(
            seconds=tuple(self.seconds),
            rows=2 * load.half * self.pushes,
            pairs=stats.pairs - self._pairs,
            steps=in_order({name: took - self._steps.get(name, 0.0) for name, took in stats.seconds.items()}),
            inside=in_order({name: took - self._inside.get(name, 0.0) for name, took in _inside(self._join).items()}),
            processor=self._processor,
            stored_rows=2 * load.window,
            window_bytes=self._window_bytes,
            grown=self._resident - self._before,
            first=first,
            verified_pairs=check_push(
                self._out,
                self._streams,
                self.relation,
                window=load.window,
                first=first,
                last=first + load.half,
                output="pairs" if load.output == "payload" else load.output,
                order=load.order,
            ),
        )


def _inside(join: StreamJoin) -> dict[str, float]:
    """Return the seconds that structures of the papers spent in their own steps, of both sides together."""
    engine, steps = join._state.engine, dict[str, float]()  # noqa: SLF001 - nobody else asks
    for window in () if engine is None else engine.windows.values():
        for name, took in getattr(window.index, "seconds", {}).items():
            steps[name] = steps.get(name, 0.0) + took
    return steps


def measure(load: Workload, relation: Relation, rows: int, between: Callable[[list[float]], None] | None = None) -> Run:
    """Fill the windows of a new join, then time so many rows, and check the last push.

    Parameters
    ----------
    load, relation, rows
        See `Course`.
    between : callable, optional
        Called with the seconds of each tenth of the pushes after it; what it does is not timed.

    Raises
    ------
    SlideJoinError
        If the last push gave other pairs than NumPy finds.
    """
    course, reported = Course(load, relation, rows), 0
    while not course.over:
        course.push()
        count = len(course.seconds)
        if count - reported >= course.pushes / 10 or course.over:
            course.look()
            if between is not None:
                between(course.seconds[reported:])
            reported = count
    return course.run()
