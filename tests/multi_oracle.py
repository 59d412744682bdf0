"""The law of joins of many streams as plain Python loops, written from docs/many-streams.md alone.

Every arriving row is compared with every combination of rows of the other streams, one at a time. Values, comparisons
and three-valued logic are those of `tests.oracle`: a combination is one wide row, whose columns are called ``a.k``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cmp_to_key
from itertools import product
from typing import TYPE_CHECKING, Any

from tests.oracle import condition, order_of, tagged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.oracle import Row


@dataclass(frozen=True)
class Last:
    """A count window: the last `rows` rows, leaving in blocks of `slide`."""

    rows: int
    slide: int = 1

    def first(self, arrived: int) -> int:
        """The first ordinal that is visible once so many rows have come."""
        first = 0
        while first + self.slide - 1 < arrived - self.rows:
            first += self.slide
        return first


@dataclass(frozen=True)
class Within:
    """A time window: rows stay for `length`; times may be `lateness` behind the newest of their stream."""

    length: int
    on: str
    lateness: int = 0


@dataclass
class Kept:
    """A row that has an ordinal."""

    row: Row
    ordinal: int
    time: int


@dataclass
class MultiStep:
    """What one arrival produced: combinations as ordinals and as rows, stream by stream, in strict order."""

    stream: str
    row: Row
    counted: bool = True
    ordinals: list[tuple[int, ...]] = field(default_factory=list)
    rows: list[tuple[Row, ...]] = field(default_factory=list)


class MultiOracle:
    """The join, one arrival at a time."""

    def __init__(self, windows: Mapping[str, Last | Within], predicate: tuple[Any, ...]) -> None:
        self.windows, self.holds = dict(windows), condition(predicate)
        self.kept: dict[str, list[Kept]] = {name: [] for name in windows}
        self.newest: dict[str, int | None] = dict.fromkeys(windows)
        self.pairs = self.late_rows = self.null_time_rows = 0

    def push(self, batches: Mapping[str, Sequence[Row]], order_by: str | None = None) -> list[MultiStep]:
        """What each row of one push produces, in arrival order."""
        arrivals = [(name, row) for name in self.windows for row in batches.get(name, ())]
        if order_by is not None:

            def by_column(one: tuple[str, Row], two: tuple[str, Row]) -> int:
                a, b = tagged(one[1][order_by]), tagged(two[1][order_by])
                assert a is not None
                assert b is not None
                return order_of(a, b) or 0

            arrivals.sort(key=cmp_to_key(by_column))
        return [self.arrive(name, row) for name, row in arrivals]

    def watermark(self) -> int | None:
        """The smallest of all streams' newest times less their lateness; None while a stream has no row."""
        marks = []
        for name, window in self.windows.items():
            newest = self.newest[name]
            if isinstance(window, Last) or newest is None:
                return None
            marks.append(newest - window.lateness)
        return min(marks)

    def arrive(self, stream: str, row: Row) -> MultiStep:
        """What one row produces."""
        window, step, time = self.windows[stream], MultiStep(stream, row), 0
        if isinstance(window, Within):
            value = tagged(row[window.on])
            if value is None:
                self.null_time_rows += 1
                step.counted = False
                return step
            time, watermark = value[1], self.watermark()
            if watermark is not None and time < watermark:
                self.late_rows += 1
                step.counted = False
                return step
        own = Kept(row, len(self.kept[stream]), time)
        for combination in product(*([own] if name == stream else self.visible(name) for name in self.windows)):
            if self.in_scope(combination) and self.matches(combination):
                step.ordinals.append(tuple(one.ordinal for one in combination))
                step.rows.append(tuple(one.row for one in combination))
        self.kept[stream].append(own)
        newest = self.newest[stream]
        self.newest[stream] = time if newest is None else max(newest, time)
        self.pairs += len(step.rows)
        return step

    def visible(self, name: str) -> list[Kept]:
        """The rows of another stream that arrived before."""
        rows, window = self.kept[name], self.windows[name]
        return rows[window.first(len(rows)) :] if isinstance(window, Last) else rows

    def in_scope(self, combination: tuple[Kept, ...]) -> bool:
        """For every row the newest time of the combination less its own is at most its stream's length."""
        newest = max(one.time for one in combination)
        return all(
            isinstance(window, Last) or newest - one.time <= window.length
            for one, window in zip(combination, self.windows.values(), strict=True)
        )

    def matches(self, combination: tuple[Kept, ...]) -> bool:
        """Whether the predicate is true."""
        wide = {
            f"{name}.{column}": value
            for name, one in zip(self.windows, combination, strict=True)
            for column, value in one.row.items()
        }
        return self.holds(wide, {}) is True
