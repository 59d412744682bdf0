"""The topologies as stations of a simulation, and SplitJoin's closed formulas of their latencies (section 6).

All times are of one parcel and were measured on one thread, see `benchmarks.cases.topology_measure`; those of a core
belong to its share of the window. What the models leave out: cores of another machine have other caches, and more of
them share the bandwidth of memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.cases.simulation import Station
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "MODELS", "StageTimes", "cell_join", "depth", "handshake", "handshake_low_latency", "handshake_processing_latency",
    "handshake_visiting_latency", "mergers_of", "round_robin", "rows_waited", "split_join",
    "split_join_processing_latency", "split_join_visiting_latency",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Seconds that one parcel takes in each stage.

    Attributes
    ----------
    enter : float
        Before it is sent to any core: reading it, its keys, its place in the window.
    pass_on : float
        To hand it to another thread, the papers' T_CL.
    monitor : float
        At each link of a chain: to compare it with the rows of the other stream that are on their way, T_ML, and to
        take the message of the row that expires for it.
    core : float
        To store it in one core and compare it with what that core has.
    merge : float
        In one merger.
    leave : float
        In the end: to filter, and to make tables.
    """

    enter: float = 0.0
    pass_on: float = 0.0
    monitor: float = 0.0
    core: float = 0.0
    merge: float = 0.0
    leave: float = 0.0

    def __post_init__(self) -> None:
        for name in ("enter", "pass_on", "monitor", "core", "merge", "leave"):
            if not getattr(self, name) >= 0:
                msg = f"{name}: got {getattr(self, name)}, expected seconds, at least 0"
                raise ConfigError(msg)


def depth(cores: int, fan_out: int) -> int:
    """Return how many levels of a tree have branches: the logarithm of its leaves, rounded up.

    Examples
    --------
    >>> [depth(cores, 2) for cores in (1, 2, 3, 4, 5, 32)], depth(1000, 10)
    ([0, 1, 2, 2, 3, 5], 3)
    """
    levels, reached = 0, 1
    while reached < cores:
        reached *= fan_out
        levels += 1
    return levels


def split_join(cores: int, times: StageTimes, *, fan_out: int = 8, fan_in: int = 8) -> list[Station]:
    """Return a distribution tree, join cores, and a gathering tree (SplitJoin, figure 11)."""
    _check(cores, fan_out, fan_in)
    stations = [Station(name="enter", service=_always(times.enter))]
    parents = [0]
    for level in range(depth(cores, fan_out)):
        # The lowest distributors have the cores as children, those above as many as are needed.
        nodes = -(-cores // fan_out ** (depth(cores, fan_out) - level))
        parents = _below(stations, parents, nodes, "distributor", times.pass_on)
    leaves = _below(stations, parents, cores, "core", times.core)
    for leaf in leaves:
        stations[leaf].visits = True
    while len(leaves) > 1:
        leaves = _above(stations, leaves, fan_in, "merger", times.pass_on + times.merge)
    _above(stations, leaves, fan_in, "leave", times.leave)
    return stations


def _below(stations: list[Station], parents: list[int], count: int, name: str, seconds: float) -> list[int]:
    """Add children, dealt evenly to the parents; return their numbers."""
    first = len(stations)
    for number in range(count):
        stations.append(Station(name=f"{name} {len(stations)}", service=_always(seconds)))
        parent = stations[parents[number * len(parents) // count]]
        parent.to = [*parent.to, first + number]
    return list(range(first, first + count))


def _above(stations: list[Station], children: list[int], fan_in: int, name: str, seconds: float) -> list[int]:
    """Add stations that each merge what comes from some of the children; return their numbers."""
    added = []
    for begin in range(0, len(children), fan_in):
        group = children[begin : begin + fan_in]
        for child in group:
            stations[child].to = [len(stations)]
        added.append(len(stations))
        stations.append(Station(name=f"{name} {len(stations)}", service=_always(seconds), inputs=len(group)))
    return added


def handshake_low_latency(cores: int, times: StageTimes) -> list[Station]:
    """Return a chain of cores, each of which forwards a parcel before it compares it (SplitJoin, figure 10)."""
    _check(cores)
    stations = [Station(name="enter", service=_always(times.enter))]
    last = 1 + 2 * cores
    for core in range(cores):
        # The first link has no neighbour before it, whose rows it would have to look at.
        took = times.pass_on + (times.monitor if core else 0.0)
        further = [3 + 2 * core] if core + 1 < cores else []
        stations += [
            Station(name=f"link {core}", service=_always(took), to=[2 + 2 * core, *further], thread=core),
            Station(name=f"core {core}", service=_always(times.core), to=[last], thread=core, priority=1, visits=True),
        ]
    stations[0].to = [1]
    # Results are collected from one core after the other.
    stations.append(Station(name="leave", service=_always(cores * times.merge + times.leave), inputs=cores))
    return stations


def handshake(cores: int, times: StageTimes) -> list[Station]:
    """Return a chain of cores, each of which compares a parcel and then hands it on (SplitJoin, section 1).

    The rows of the two streams take it in opposite directions, twice: to push on the rows that are stored, and to meet
    them all. In the paper a row stays in each core until others push it further, see `rows_waited`.
    """
    _check(cores)
    stations = [Station(name="enter", service=_always(times.enter))]
    ends = _both_ways(stations, [0, 0], cores, "push", times.pass_on)
    stations.append(Station(name="flush", service=_always(0.0), inputs=len(ends)))
    for end in ends:
        stations[end].to = [len(stations) - 1]
    flush = len(stations) - 1
    ends = _both_ways(stations, [flush, flush], cores, "core", times.pass_on + times.core / 2)
    for end in ends:
        stations[end].to = [len(stations)]
    # Results are collected from one core after the other.
    stations.append(
        Station(name="leave", service=_always(cores * times.merge + times.leave), inputs=len(ends))
    )  # fmt: skip
    return stations


def _both_ways(stations: list[Station], begin: list[int], cores: int, name: str, seconds: float) -> list[int]:
    """Add the ways of both streams through a chain of cores; return the numbers of their last stations."""
    ends = []
    for way, before in zip((range(cores), range(cores - 1, -1, -1)), begin, strict=True):
        last = before
        for core in way:
            station = Station(
                name=f"{name} {len(stations)}", service=_always(seconds), thread=core, visits=name == "core"
            )  # fmt: skip
            stations[last].to = [*stations[last].to, len(stations)]
            last = len(stations)
            stations.append(station)
        ends.append(last)
    return ends


def round_robin(cores: int, times: StageTimes) -> list[Station]:
    """Return cores that each have the whole window, and take the rows of a parcel in turns (CellJoin, 3.1, b)."""
    _check(cores)
    return split_join(cores, times, fan_out=max(cores, 2), fan_in=max(cores, 2))


def cell_join(workers: int, times: StageTimes, *, most: int = 0, rows: int | None = None) -> list[Station]:
    """Return a coordinator that starts workers on their parts of the window, and takes their results (CellJoin, 4).

    Parameters
    ----------
    workers : int
    times : StageTimes
    rows : int, optional
        Of the parcels that `times` are of: more rows take longer in proportion, but for `pass_on`. By default every
        parcel takes these times.
    most : int
        Rows that are joined together at most, while more wait; 0: each parcel by itself.
    """
    _check(workers)

    def scaled(seconds: float, fixed: float = 0.0) -> Callable[[int], float]:
        return _always(fixed + seconds) if rows is None else lambda count: fixed + seconds * count / rows

    stations = [
        Station(
            name="enter", service=scaled(times.enter, workers * times.pass_on), to=range(1, workers + 1), thread=0,
            priority=1, most=most,
        )
    ]  # fmt: skip
    stations += [
        Station(name=f"worker {number}", service=scaled(times.core), to=[workers + 1], thread=number + 1, visits=True)
        for number in range(workers)
    ]
    took = scaled(workers * times.merge + times.leave)
    stations.append(Station(name="leave", service=took, inputs=workers, thread=0))
    return stations


MODELS: dict[str, Callable[[int, StageTimes], list[Station]]] = {
    "split_join": split_join,
    "handshake_low_latency": handshake_low_latency,
    "handshake": handshake,
    "round_robin": round_robin,
    "cell_join": cell_join,
}
"""Every topology that can be simulated."""


def mergers_of(topology: str, cores: int, *, fan_in: int = 8) -> int:
    """Return how many parts a topology's gathering has: mergers of a tree, or a collector that goes from core to core.

    Examples
    --------
    >>> mergers_of("split_join", 28), mergers_of("handshake_low_latency", 28), mergers_of("round_robin", 28)
    (5, 28, 1)
    """
    if topology not in ("split_join", "round_robin"):
        return cores
    branches = fan_in if topology == "split_join" else max(cores, 2)
    mergers, nodes = 0, cores
    for _ in range(depth(cores, branches)):
        nodes = -(-nodes // branches)
        mergers += nodes
    return mergers


# -- closed formulas ---------------------------------------------------------------------------------------------------


def handshake_processing_latency(cores: int, times: StageTimes) -> float:
    """Return SplitJoin's formula (1), with the time to collect as all of the linear collector."""
    collect = cores * times.merge + times.leave
    return times.pass_on + (cores - 1) * (times.pass_on + times.monitor) + times.core + collect


def handshake_visiting_latency(cores: int, times: StageTimes) -> float:
    """Return SplitJoin's formula (2)."""
    return times.pass_on + (cores - 1) / 2 * (times.pass_on + times.monitor) + times.core / 2


def split_join_processing_latency(cores: int, times: StageTimes, *, fan_out: int = 8, fan_in: int = 8) -> float:
    """Return SplitJoin's formula (5), for which (3) and (4) are the steps; trees have whole levels."""
    down, up = depth(cores, fan_out), depth(cores, fan_in)
    return times.pass_on * down + times.core + (times.pass_on + times.merge) * up + times.leave


def split_join_visiting_latency(cores: int, times: StageTimes, *, fan_out: int = 8) -> float:
    """Return SplitJoin's formula (6)."""
    return times.pass_on * depth(cores, fan_out) + times.core / 2


def _check(cores: int, *fans: int) -> None:
    if cores < 1:
        msg = f"cores: got {cores}, expected at least 1"
        raise ConfigError(msg)
    for fan in fans:
        if fan < 2:  # noqa: PLR2004 - a tree with one branch has no end
            msg = f"fan_out and fan_in: got {fan}, expected at least 2"
            raise ConfigError(msg)


def _always(seconds: float) -> Callable[[int], float]:
    return lambda _rows: seconds


def rows_waited(window: int, cores: int) -> NDArray[np.int64]:
    """Return how many rows of each stream have to come until the newest row meets one of the other stream.

    This is the original handshake join, if nothing but later rows moves its rows. In the paper a row moves on when
    later rows of its stream push it out of a core's segment, and meets the rows of the other stream that lie in the
    core to which it comes. `slidejoin.papers.split_join.handshake` flushes its chain instead, because pairs have to
    come out with their later row. What that saves is computed here.

    Both streams are equally fast, and their windows are full. With ``s = ceil(window / cores)`` rows a segment, a row
    has passed ``age // s`` cores, and two rows meet when they have passed ``cores - 1`` together. O(n log n).

    Parameters
    ----------
    window : int
        Rows of each window, n.
    cores : int
        Of the chain.

    Returns
    -------
    (n,) int64
        By how many rows of its own stream came after the stored row, from none on.

    Raises
    ------
    ConfigError
        If one of them is below 1.

    Examples
    --------
    Two cores have four rows each. The newest stored row has to be pushed into the next core by four rows.

    >>> rows_waited(8, 2).tolist()
    [4, 3, 2, 1, 0, 0, 0, 0]

    With many cores, half as many rows as the stored one has left to go, on average a quarter of the window.

    >>> round(float(rows_waited(1 << 10, 1 << 10).mean()) / (1 << 10), 2)
    0.25
    """
    for name, value in (("window", window), ("cores", cores)):
        if value < 1:
            msg = f"{name}: got {value}, expected at least 1"
            raise ConfigError(msg)
    segment, age = -(-window // cores), np.arange(window)
    low, high = np.zeros(window, np.int64), np.full(window, cores * segment)
    while (low < high).any():
        middle = (low + high) // 2
        met = (age + middle) // segment + middle // segment >= cores - 1
        low, high = np.where(met, low, middle + 1), np.where(met, middle, high)
    return low
