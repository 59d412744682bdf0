"""A discrete-event simulation of a topology: stations that serve parcels of rows, threads that work for stations.

A *parcel* is what a push is to a topology: some rows that arrive together. A *station* is a step that takes time, such
as a distributor, a join core or a merger. It serves one parcel after the other, in the order in which they came, and
hands each on. Stations belong to *threads*, each of which does one thing at a time; with fewer *processors* than
threads, threads wait for one. `benchmarks.cases.topology_models` says which stations a topology consists of.

Events lie in a heap by time. All else is in the order of events, so that a simulation always gives the same.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Parcel", "Simulated", "Station", "simulate"]


@dataclass(slots=True, eq=False)
class Parcel:
    """Rows that travel together.

    Attributes
    ----------
    rows : int
        How many rows.
    arrived : tuple of float
        When each of the parcels that it consists of came, in seconds.
    visits : list of (float, float)
        When each visit of a station with `Station.visits` began and ended.
    """

    rows: int
    arrived: tuple[float, ...] = ()
    visits: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Station:
    """A step that takes time.

    Attributes
    ----------
    name : str
    service : callable
        Returns the seconds that a parcel of so many rows takes.
    to : sequence of int
        The stations that each parcel is handed on to; none of them: it leaves.
    inputs : int
        From how many stations it gets each parcel; it is served when it has come from all, as a merger does.
    thread : int, optional
        Which thread works for it; by default one of its own.
    priority : int
        Of a thread's stations with waiting parcels, that of the lowest number is served first.
    most : int
        Rows of waiting parcels that it takes together, as rate-aware batching does; 0 takes one parcel.
    visits : bool
        Whether its rows are compared with stored ones here, see `Simulated.visiting`.
    """

    name: str
    service: Callable[[int], float]
    to: Sequence[int] = ()
    inputs: int = 1
    thread: int | None = None
    priority: int = 0
    most: int = 0
    visits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What a simulation gives.

    Attributes
    ----------
    rows : int
        That have left.
    seconds : float
        Until the last one left.
    latencies : tuple of float
        Seconds from the arrival of each parcel until it left, in the order of arrival.
    visiting : tuple of float
        Seconds from the arrival of each parcel until its rows have met half of what they are compared with, on average
        over the stations that they visit: SplitJoin's visiting latency (Definition 4).
    served : dict of str to int
        Rows that each station served, by name.
    busy : dict of str to float
        Seconds that each station worked.
    """

    rows: int
    seconds: float
    latencies: tuple[float, ...]
    visiting: tuple[float, ...]
    served: dict[str, int]
    busy: dict[str, float]

    @property
    def rows_per_second(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def mean_latency(self) -> float:
        """Seconds, on average over the parcels."""
        return sum(self.latencies) / len(self.latencies) if self.latencies else 0.0

    @property
    def mean_visiting(self) -> float:
        """Seconds, likewise."""
        return sum(self.visiting) / len(self.visiting) if self.visiting else 0.0


class _Network:
    """The stations of one simulation, and what is in them."""

    def __init__(self, stations: Sequence[Station], processors: int | None) -> None:
        self.stations = stations
        own = max((one.thread for one in stations if one.thread is not None), default=-1) + 1
        self.threads = [own + number if one.thread is None else one.thread for number, one in enumerate(stations)]
        self.of: dict[int, list[int]] = {}
        for number, thread in enumerate(self.threads):
            self.of.setdefault(thread, []).append(number)
        self.waiting: list[deque[tuple[int, Parcel]]] = [deque() for _ in stations]
        self.missing: list[dict[int, int]] = [{} for _ in stations]
        self.working: set[int] = set()
        self.queued: deque[int] = deque()
        self.free = len(self.of) if processors is None else processors
        self.events: list[tuple[float, int, int, Parcel]] = []
        self.now, self.turn = 0.0, 0
        self.left: list[tuple[float, Parcel]] = []
        self.served = [0] * len(stations)
        self.busy = [0.0] * len(stations)

    def at(self, time: float, station: int, parcel: Parcel) -> None:
        """Plan an event: a parcel arrives at a station; at ``~station``, it has been served there."""
        self.turn += 1
        heappush(self.events, (time, self.turn, station, parcel))

    def arrive(self, station: int, parcel: Parcel) -> None:
        """Put a parcel into a station's queue, if it has come from all inputs."""
        one = self.stations[station]
        if one.inputs > 1:
            missing = self.missing[station]
            rest = missing.get(id(parcel), one.inputs) - 1
            if rest:
                missing[id(parcel)] = rest
                return
            missing.pop(id(parcel), None)
        self.turn += 1
        self.waiting[station].append((self.turn, parcel))
        self.ask(self.threads[station])

    def ask(self, thread: int) -> None:
        """Let a thread wait for a processor, if it has work and does none."""
        if thread not in self.working and any(self.waiting[station] for station in self.of[thread]):
            self.working.add(thread)
            self.queued.append(thread)

    def start(self) -> None:
        """Give free processors to threads that wait, in their order."""
        while self.free and self.queued:
            thread = self.queued.popleft()
            self.free -= 1
            ready = [station for station in self.of[thread] if self.waiting[station]]
            station = min(ready, key=lambda one: (self.stations[one].priority, self.waiting[one][0][0]))
            parcel = self.take(station)
            took = self.stations[station].service(parcel.rows)
            self.served[station] += parcel.rows
            self.busy[station] += took
            if self.stations[station].visits:
                parcel.visits.append((self.now, self.now + took))
            self.at(self.now + took, ~station, parcel)

    def take(self, station: int) -> Parcel:
        """Take the next parcel out of a station's queue, or several as one."""
        waiting, most = self.waiting[station], self.stations[station].most
        _, parcel = waiting.popleft()
        if not most or not waiting or parcel.rows + waiting[0][1].rows > most:
            return parcel
        rows, arrived = parcel.rows, list(parcel.arrived)
        while waiting and rows + waiting[0][1].rows <= most:
            _, further = waiting.popleft()
            rows += further.rows
            arrived += further.arrived
        return Parcel(rows, tuple(arrived))

    def finish(self, station: int, parcel: Parcel) -> None:
        """Hand a parcel on that has been served, and free the thread and its processor."""
        self.free += 1
        thread = self.threads[station]
        self.working.discard(thread)
        targets = self.stations[station].to
        for target in targets:
            self.arrive(target, parcel)
        if not targets:
            self.left.append((self.now, parcel))
        self.ask(thread)


def simulate(
    stations: Sequence[Station],
    rows: Sequence[int],
    *,
    times: Sequence[float] | None = None,
    processors: int | None = None,
    in_flight: int | None = None,
) -> Simulated:
    """Send parcels through stations; the first station is where they come in.

    Parameters
    ----------
    stations : sequence of Station
        Every path from the first one ends at the same one, which hands on to none.
    rows : sequence of int
        Of each parcel, each at least 1.
    times : sequence of float, optional
        When each comes, ascending, in seconds; by default all are there at the beginning.
    processors : int, optional
        How many threads work at the same time; by default all.
    in_flight : int, optional
        How many parcels are on their way at most, the others wait outside: 1 is a join whose pushes wait for their
        result. Latencies begin when a parcel is let in.

    Raises
    ------
    ConfigError
        For impossible numbers.

    Examples
    --------
    >>> stations = [Station(name="distributor", service=lambda rows: 1.0, to=[1, 2])]
    >>> stations += [Station(name=f"core {n}", service=lambda rows: 4.0, to=[3], visits=True) for n in range(2)]
    >>> stations += [Station(name="merger", service=lambda rows: 1.0, inputs=2)]
    >>> found = simulate(stations, [10] * 3)
    >>> found.latencies, found.visiting, found.rows
    ((6.0, 10.0, 14.0), (3.0, 7.0, 11.0), 30)
    >>> simulate(stations, [10] * 3, processors=1).seconds, simulate(stations, [10] * 3, in_flight=1).seconds
    (30.0, 18.0)
    """
    for name, value in (("processors", processors), ("in_flight", in_flight)):
        if value is not None and value < 1:
            msg = f"{name}: got {value}, expected at least 1"
            raise ConfigError(msg)
    if times is not None and len(times) != len(rows):
        msg = f"times: got {len(times)} for {len(rows)} parcels"
        raise ConfigError(msg)
    running = _Network(stations, processors)
    pending = deque((0.0 if times is None else times[number], count) for number, count in enumerate(rows))
    inside = 0

    def let_in() -> None:
        nonlocal inside
        while pending and (in_flight is None or inside < in_flight):
            due, count = pending.popleft()
            begin = max(due, running.now) if in_flight is not None else due
            running.at(begin, 0, Parcel(count, (begin,)))
            inside += 1

    let_in()
    while running.events:
        running.now = running.events[0][0]
        # All that happens at this moment comes before anything that begins at it.
        while running.events and running.events[0][0] == running.now:
            _, _, station, parcel = heappop(running.events)
            if station >= 0:
                running.arrive(station, parcel)
                continue
            before = len(running.left)
            running.finish(~station, parcel)
            if len(running.left) > before:
                inside -= len(parcel.arrived)
                let_in()
        running.start()
    return _summary(running)


def _summary(running: _Network) -> Simulated:
    gone: list[tuple[float, float, float]] = []
    for end, parcel in running.left:
        met = [(begin + stop) / 2 for begin, stop in parcel.visits]
        middle = sum(met) / len(met) if met else end
        gone += [(arrived, end - arrived, middle - arrived) for arrived in parcel.arrived]
    gone.sort(key=lambda one: one[0])
    names = [one.name for one in running.stations]
    return Simulated(
        rows=sum(parcel.rows for _, parcel in running.left),
        seconds=max((end for end, _ in running.left), default=0.0),
        latencies=tuple(latency for _, latency, _ in gone),
        visiting=tuple(visiting for _, _, visiting in gone),
        served=dict(zip(names, running.served, strict=True)),
        busy=dict(zip(names, running.busy, strict=True)),
    )
