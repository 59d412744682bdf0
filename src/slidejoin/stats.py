"""Counters of a join, and where its time went."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Stats"]


@dataclass(slots=True)
class Stats:
    """What a join has seen and done so far.

    Attributes
    ----------
    rows_left, rows_right : int
        Rows with an ordinal: neither late nor without event time. A self-join counts its rows as left.
    pairs : int
        Pairs produced, or counted.
    late_rows, null_time_rows : int
        Rows left out, see the meaning of a time window.
    window_left, window_right : int
        Rows kept now.
    window_bytes : int
        Bytes kept now, rows and index.
    seconds : dict of str to float
        Time spent in each step: ``arrive``, ``insert`` (keys, sort, merge), ``probe``, ``write``, ``filter``,
        ``payload``, ``expire``.
    """

    rows_left: int = 0
    rows_right: int = 0
    pairs: int = 0
    late_rows: int = 0
    null_time_rows: int = 0
    window_left: int = 0
    window_right: int = 0
    window_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add the time of the block to ``seconds[name]``."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start

    def to_json(self) -> dict[str, Any]:
        """Return all counters as plain JSON values."""
        return asdict(self)
