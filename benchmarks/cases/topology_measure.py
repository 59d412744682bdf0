"""Joins of one topology on full windows: seconds of a push, and of its stages, with any number of cores and threads.

A topology with k cores runs on one thread as well: its cores then work one after the other, each on its share of the
window. So the stages of 32 cores can be measured on a machine with two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from queue import SimpleQueue
from threading import Thread
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.cases.topology_models import StageTimes, mergers_of
from slidejoin.api.stream_join import StreamJoin
from slidejoin.errors import SlideJoinError
from slidejoin.options import TOPOLOGIES
from slidejoin.spec.window import CountWindow, TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slidejoin.options import Options, Topology

__all__ = ["CORES_OF", "BandStream", "Points", "Pushes", "hand_over", "measure", "stage_times", "topology_with"]

SPAN, REACH = 10_000, 10
"""Values of both attributes, and how far those of a pair may lie apart (SplitJoin, section 7; CellJoin, 8.2)."""

WARM_UP = 2
FEWEST, MOST = 3, 4000

CORES_OF = {"cell_join": "workers"}
"""What a topology calls its cores, if not that."""

IN_CORES = ("visit", "execution", "probe")
"""Steps that are divided among cores, messages between these included: the first one that a topology counts."""

BEFORE = ("arrive", "insert", "keys", "shift")
GATHERED = ("gathering", "write")
"""Steps before and after; a topology that counts its ``distribution`` has the others in it."""


def topology_with(name: str, cores: int, **options: Any) -> Topology | str:
    """Return a topology with so many cores; ``"shared"`` has as many as the join has threads."""
    if name not in TOPOLOGIES or name == "shared":
        return name
    return TOPOLOGIES[name](**{CORES_OF.get(name, "cores"): cores}, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class BandStream:
    """The papers' streams: two attributes a row, an integer and a float, uniform over 1 to 10,000; two bands of ±10.

    Attributes
    ----------
    window : int
        Rows kept of each side.
    timed : bool
        Whether the window is one of time, in which so many rows come.
    push : int
        Rows, half of them of each side.
    reach : int
        Half the width of the bands.
    seed : int
    """

    window: int
    timed: bool = False
    push: int = 64
    reach: int = REACH
    seed: int = 1

    @property
    def on(self) -> str:
        """The predicate."""
        near = self.reach
        return f"l.x BETWEEN r.a - {near} AND r.a + {near} AND l.y BETWEEN r.b - {near}.0 AND r.b + {near}.0"

    @property
    def kept(self) -> CountWindow | TimeWindow:
        """The window: one row of each side comes in a millisecond."""
        return TimeWindow(f"{self.window - 1} milliseconds", on="ts") if self.timed else CountWindow(self.window)

    def tables(self, first: int, rows: int) -> tuple[pa.Table, pa.Table]:
        """Return rows of both sides, so many of each, from the row with that number on."""
        random = np.random.Generator(np.random.Philox(key=np.array([self.seed, first], np.uint64)))
        times = pa.array(np.arange(first, first + rows)).cast(pa.timestamp("ms"))

        def side(whole: str, broken: str) -> pa.Table:
            values: dict[str, Any] = {
                whole: random.integers(1, SPAN + 1, rows).astype(np.int32),
                broken: random.uniform(1, SPAN, rows).astype(np.float32),
            }
            return pa.table(values | ({"ts": times} if self.timed else {}))

        return side("x", "y"), side("a", "b")

    def filled(self) -> tuple[bytes, int]:
        """Return the state of a join with full windows, and the number of the next row."""
        join = StreamJoin(on=self.on, window=self.kept, output="positions")
        # A little more, so that the oldest rows leave.
        rows = self.window + self.window // 16
        for first in range(0, rows, 1 << 15):
            join.push(*self.tables(first, min(1 << 15, rows - first)), **({"order_by": "ts"} if self.timed else {}))
        return join.snapshot(), rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushes:
    """What the pushes of a join took.

    Attributes
    ----------
    rows, count : int
        Of a push, and how many pushes.
    seconds : float
        Of a push: the mean of the fastest tenth, as other work of the machine only adds.
    processor : float
        Seconds of processor time of these pushes, of all threads together.
    stages : dict of str to float
        Seconds of these pushes by step, of all threads together.
    matches : int
        Pairs of the first two pushes, as many for all joins of a stream.
    tables : float
        In how many tables the pairs of a push came.
    """

    rows: int
    count: int
    seconds: float
    processor: float
    stages: dict[str, float]
    matches: int
    tables: float

    @property
    def rows_per_second(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds


def measure(
    stream: BandStream,
    state: tuple[bytes, int],
    topology: Topology | str,
    *,
    threads: int,
    algorithm: str | Options = "nested_loop",
    seconds: float = 0.5,
) -> Pushes:
    """Restore a join in a topology, and push for so many seconds; at least three pushes after two that warm it up.

    With one thread it is the processor time that counts: the same, where no other process takes the processor away.
    """
    join = StreamJoin.restore(state[0], threads=threads, algorithm=algorithm, topology=topology)
    half, at, matches = max(stream.push // 2, 1), state[1], 0
    order: dict[str, Any] = {"order_by": "ts"} if stream.timed else {}
    took: list[_Push] = []
    for number in range(WARM_UP + MOST):
        tables = stream.tables(at, half)
        at += half
        join.stats.seconds.clear()
        began, start = process_time(), perf_counter()
        out = list(join.push_iter(*tables, **order))
        lasted, spent = perf_counter() - start, process_time() - began
        if number < WARM_UP:
            matches += sum(table.num_rows for table in out)
            continue
        took.append(_Push(lasted, spent, dict(join.stats.seconds), len(out)))
        if len(took) >= FEWEST and sum(one.lasted for one in took) >= seconds:
            break
    fast = _fastest(took, threads)
    names = dict.fromkeys(name for one in fast for name in one.steps)
    return Pushes(
        rows=2 * half,
        count=len(took),
        seconds=_mean(one.seconds(threads) for one in fast),
        processor=_mean(one.spent for one in fast),
        stages={name: _mean(one.share(threads) * one.steps.get(name, 0.0) for one in fast) for name in names},
        matches=matches,
        tables=_mean(one.tables for one in took),
    )


class _Push(NamedTuple):
    """One push: seconds by the clock, of all threads together, and of its steps by the clock; and its tables."""

    lasted: float
    spent: float
    steps: Mapping[str, float]
    tables: int

    def seconds(self, threads: int) -> float:
        """Return what counts: of one thread the processor time, which other processes take less of."""
        return self.spent if threads == 1 else self.lasted

    def share(self, threads: int) -> float:
        """Return by what the steps have to be multiplied, so that they add up to it."""
        return min(self.spent / self.lasted, 1.0) if threads == 1 else 1.0


def _fastest(took: Sequence[_Push], threads: int) -> list[_Push]:
    """Return the fastest tenth of the pushes; of one thread those that were disturbed least come into question.

    Where the thread lost its processor, one step has all of the pause, and no factor gives it back.
    """
    calm = sorted(took, key=lambda one: -one.share(threads))[: len(took) // 2 + 1]
    return sorted(calm, key=lambda one: one.seconds(threads))[: len(took) // 10 + 1]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def stage_times(found: Pushes, cores: int, passing: float, mergers: int) -> StageTimes:
    """Return what a push takes in each stage, from one that was measured on one thread with so many cores.

    Parameters
    ----------
    found : Pushes
        With one thread.
    cores : int
    passing : float
        Seconds of `hand_over`.
    mergers : int
        Among which gathering is divided, see `benchmarks.cases.topology_models.mergers_of`; 0: what leaves is gathered.
    """
    inside = next((found.stages[name] for name in IN_CORES if name in found.stages), 0.0)
    before = found.stages.get("distribution", sum(found.stages.get(name, 0.0) for name in BEFORE))
    gathered = sum(found.stages.get(name, 0.0) for name in GATHERED)
    rest = max(found.seconds - inside - before - gathered, 0.0)
    # What is left is half before the cores, such as reading the tables, and half behind, such as making one.
    return StageTimes(
        enter=before + rest / 2,
        pass_on=passing,
        monitor=passing,
        core=inside / cores,
        merge=gathered / mergers if mergers else 0.0,
        leave=rest / 2 + (0.0 if mergers else gathered),
    )


def hand_over(times: int = 2000) -> float:
    """Return the seconds that it takes to hand a message to another thread: half of a round trip."""
    there: SimpleQueue[int] = SimpleQueue()
    back: SimpleQueue[int] = SimpleQueue()

    def echo() -> None:
        while (number := there.get()) >= 0:
            back.put(number)

    thread = Thread(target=echo, daemon=True)
    thread.start()
    took = []
    for number in range(times):
        start = perf_counter()
        there.put(number)
        back.get()
        took.append(perf_counter() - start)
    there.put(-1)
    thread.join()
    return _low(took) / 2


def _low(values: Sequence[float]) -> float:
    """Return the lowest tenth."""
    return sorted(values)[len(values) // 10]


class Points:
    """Measures each point once, though several figures show it, and compares the numbers of pairs.

    Parameters
    ----------
    seconds : float
        For each point.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._states: dict[BandStream, tuple[bytes, int]] = {}
        self._found: dict[tuple[Any, ...], Pushes] = {}
        self.passing = hand_over()

    def pushes(
        self,
        stream: BandStream,
        topology: str,
        cores: int,
        threads: int,
        algorithm: str | Options = "nested_loop",
        **options: Any,
    ) -> Pushes:
        """Return what a push takes in a topology.

        Raises
        ------
        SlideJoinError
            If it finds other pairs than another topology.
        """
        key = (stream, topology, cores, threads, algorithm, *options.items())
        if key not in self._found:
            if (filling := replace(stream, push=0)) not in self._states:
                self._states[filling] = filling.filled()
            state = self._states[filling]
            found = measure(
                stream, state, topology_with(topology, cores, **options), threads=threads, algorithm=algorithm,
                seconds=self._seconds,
            )  # fmt: skip
            others = [(one, said) for one, said in self._found.items() if one[0] == stream]
            for one, said in others[:1]:
                if said.matches != found.matches:
                    msg = f"{topology} found {found.matches:,} pairs, {one[1]} {said.matches:,}; please report it"
                    raise SlideJoinError(msg)
            self._found[key] = found
        return self._found[key]

    def stages(self, stream: BandStream, topology: str, cores: int, **options: Any) -> StageTimes:
        """Return the stages of a push in a topology with so many cores, measured on one thread."""
        found = self.pushes(stream, topology, cores, 1, **options)
        return stage_times(found, cores, self.passing, mergers_of(topology, cores))
