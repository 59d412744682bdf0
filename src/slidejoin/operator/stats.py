"""Counters of a join, and where its time went."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.display import Counters
from slidejoin.errors import StateError
from slidejoin.stored import MOST_COUNTED, StoredValue

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["MOST_RECENT", "PUSH_BOUNDS", "PushTimes", "Stats"]

PUSH_BOUNDS = (
    *(2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0),
)
"""Seconds: upper bounds of the buckets in which pushes are counted by their time."""


@dataclass(slots=True, repr=False)
class Stats(Counters):
    """What a join has seen and done so far; it prints one rounded figure a line.

    Attributes
    ----------
    rows_left, rows_right : int
        Rows with an ordinal: neither late nor without event time. A self-join counts its rows as left.
    pairs : int
        Pairs produced, or counted; with every `how`, those of the inner join. Of nearest matches those that were
        emitted, of aggregates those of the left rows that were emitted.
    unmatched_left, unmatched_right : int
        Rows emitted without a match, of outer and anti joins.
    late_rows, null_time_rows : int
        Rows left out, see the meaning of a time window.
    window_left, window_right : int
        Rows stored now.
    window_bytes : int
        Bytes stored now, rows and index.
    late_bytes : int or None
        Bytes of late rows that wait for `StreamJoin.late_rows`; None where they are dropped.
    watermark : int, str or None
        The join's watermark: an integer for integer columns, else an ISO time; None without.
    held_by : str or None
        The side that holds the watermark back: it is behind the other one, or has had no row.
    event_time_left, event_time_right : int, str or None
        The largest event time of each side.
    seconds : dict of str to float
        Time spent in each step, of all threads together: ``arrive``, ``insert`` (keys, sort, merge, rows), ``keys``
        (ranges of probes), ``probe``, ``write``, ``filter``, ``payload``, ``expire``. Topologies with join cores have
        ``distribution``, ``visit``, ``execution`` and ``gathering`` instead of ``probe``: until a message is ready to
        be sent, until the last core is done with it, of all cores together, and merging.
    """

    rows_left: int = 0
    rows_right: int = 0
    pairs: int = 0
    late_rows: int = 0
    null_time_rows: int = 0
    window_left: int = 0
    window_right: int = 0
    window_bytes: int = 0
    late_bytes: int | None = None
    watermark: int | str | None = None
    held_by: str | None = None
    event_time_left: int | str | None = None
    event_time_right: int | str | None = None
    unmatched_left: int = 0
    unmatched_right: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def step(self, name: str) -> _Step:
        """Return a context manager that adds the time of its block to ``seconds[name]``."""
        return _Step(self, name)

    def since(self, name: str, start: float) -> float:
        """Add the time since `start`, of `time.perf_counter`, to ``seconds[name]``, and return the time now.

        For steps of a few microseconds that follow each other: a quarter of what a block costs.

        Examples
        --------
        >>> stats = Stats()
        >>> now = stats.since("sort", perf_counter())
        >>> now = stats.since("probe", now)
        >>> list(stats.seconds)
        ['sort', 'probe']
        """
        now = perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - start
        return now

    def become(self, other: Stats) -> None:
        """Take over the counters of another one, in place, so that references to this one stay valid."""
        for field_ in fields(self):
            setattr(self, field_.name, getattr(other, field_.name))

    def _shown(self) -> dict[str, Any]:
        """Return the figures that this join has: one over a count window has no watermark."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @staticmethod
    def from_json(plain: object) -> Stats:
        """Read what `to_json` wrote; counters that there were not yet are missing.

        Raises
        ------
        StateError
            If something else is among them.
        """
        stored, stats = StoredValue(plain, "the counters of the state"), Stats()
        known = {one.name: one.default for one in fields(Stats)}
        for name, one in stored.fields.items():
            if name not in known:
                msg = f"{stored.name} have an unknown {name!r}"
                raise StateError(msg)
            value: Any
            if name == "seconds":
                value = {step: spent.number(0) for step, spent in one.fields.items()}
            elif known[name] == 0:
                value = one.whole(0, MOST_COUNTED)
            else:
                value = one.or_none(lambda it: it.text() if isinstance(it.value, str) else it.whole())
            setattr(stats, name, value)
        return stats


MOST_RECENT = 1 << 10
"""Times that are held one by one: they are counted together, which takes 50 ns each, and one by one 300."""


class PushTimes:
    """Counts pushes by their time; no part of a snapshot. `benchmarks/push_times.py` measures what a count takes.

    Attributes
    ----------
    recent : list of float
        Seconds of pushes that are not counted yet, fewer than `MOST_RECENT`.

    Examples
    --------
    >>> times = PushTimes()
    >>> times.add(0.0003)
    >>> counts, seconds = times.counted()
    >>> counts[PUSH_BOUNDS.index(5e-4)], seconds
    (1, 0.0003)
    """

    __slots__ = ("_counts", "_seconds", "recent")

    def __init__(self) -> None:
        self.recent: list[float] = []
        self._counts = np.zeros(len(PUSH_BOUNDS) + 1, np.int64)
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count a push that took so many seconds."""
        self.recent.append(seconds)
        if len(self.recent) >= MOST_RECENT:
            self.fold()

    def fold(self) -> None:
        """Count the recent times."""
        # Another list first: a thread that reads the figures meets one that pushes.
        recent, self.recent = self.recent, []
        times = np.array(recent, np.float64)
        self._counts += np.bincount(np.searchsorted(PUSH_BOUNDS, times), minlength=self._counts.size)
        self._seconds += float(times.sum())

    def counted(self) -> tuple[tuple[int, ...], float]:
        """Return the pushes in each bucket of `PUSH_BOUNDS`, and in one more for those above all; and their seconds."""
        self.fold()
        return tuple(self._counts.tolist()), self._seconds


class _Step:
    """One timed block; a class because a generator's context manager takes three times as long."""

    __slots__ = ("_name", "_start", "_stats")

    def __init__(self, stats: Stats, name: str) -> None:
        self._stats = stats
        self._name = name
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stats.since(self._name, self._start)
