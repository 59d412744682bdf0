"""A window bound to schemas: the scope of a pair, which decides who sees whom, and who expires.

Three kinds answer the same questions. `TimeScope`: a time window, whose scope is one more range term. `OrdinalScope`: a
count window, whose scope follows from the operator's ordinals alone. `CountScope`: a count window where the operator
sees only a part of the streams and rows carry their numbers, as in a bucket on Spark; it is a term, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import PredicateError, SchemaError, nearest
from slidejoin.predicate.ranges.ranges import Keys, Ranges
from slidejoin.predicate.truth.types import UNIT_SCALE
from slidejoin.rows.arrow_buffers import values_in
from slidejoin.sides import other
from slidejoin.spec.window import EVERYTHING, CountWindow, Span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.spec.window import Length, TimeWindow, Window

__all__ = [
    "CountScope",
    "OrdinalScope",
    "Scope",
    "TermScope",
    "TimeScope",
    "bind_scope",
    "common_scale",
    "displacing",
    "event_time_type",
    "family_of",
    "first_seen",
    "saturating_add",
    "ticks_of",
]

LARGEST = int(np.iinfo(np.int64).max)
FARTHEST = (1 << 64) - 1
"""No two event times are farther apart: longer lengths mean the same."""


def saturating_add(values: NDArray[np.int64], amount: int) -> NDArray[np.int64]:
    """Add any whole amount to (n,) int64, staying at the ends of int64 instead of wrapping."""
    while abs(amount) > LARGEST:
        # Values at an end stay there with the rest as well.
        step = LARGEST if amount > 0 else -LARGEST
        values, amount = saturating_add(values, step), amount - step
    if values.size == 0:
        return values
    if amount >= 0:
        most = LARGEST - amount
        return np.where(values > most, LARGEST, values + amount) if int(values.max()) > most else values + amount
    least = -LARGEST - 1 - amount
    return np.where(values < least, -LARGEST - 1, values + amount) if int(values.min()) < least else values + amount


def family_of(kind: pa.DataType) -> str | None:
    """Return which event times a type's values compare with; None if it is no event time."""
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_date(kind):
        return "timestamp"
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp"
    return None


def scale_of(kind: pa.DataType) -> int:
    """Return s of a type's ticks, which are ``10**-s`` seconds; 0 for dates, and for integers, which are their own."""
    return UNIT_SCALE[kind.unit] if pa.types.is_timestamp(kind) else 0


def event_time_type(schema: pa.Schema, name: str, whose: str) -> pa.DataType:
    """Return the type of an event-time column; `whose` it is, in words.

    Raises
    ------
    PredicateError
        For a column that is missing or is no event time.
    """
    if name not in schema.names:
        msg = f"{whose} has no event-time column {name!r}; its columns are {', '.join(schema.names)}."
        raise PredicateError(msg + nearest(name, schema.names))
    kind: pa.DataType = schema.field(name).type
    if family_of(kind) is None:
        msg = f"event-time column {name!r} of {whose} is {kind}; use an integer, timestamp or date column"
        raise PredicateError(msg)
    return kind


def common_scale(kinds: Sequence[pa.DataType]) -> int | None:
    """Return s of the ticks of all of these types, which compare; None for integers."""
    return None if family_of(kinds[0]) == "integer" else max(map(scale_of, kinds))


def ticks_of(length: Length, scale: int | None, column: str) -> int:
    """Return a length or lateness in ticks; `column` and its type in words.

    Raises
    ------
    PredicateError
        For a time where the column has integers, or the other way round.
    """
    whole = scale is None
    if isinstance(length, Span) == whole and length not in (0, Span(0)):
        kind = "an integer" if whole else "a timedelta or text such as '10 minutes'"
        msg = f"event-time {column}, so lengths and lateness are {kind}; got {length!s}"
        raise PredicateError(msg)
    return min(length.ticks(scale or 0) if isinstance(length, Span) else length, FARTHEST)


@dataclass(frozen=True, slots=True)
class OrdinalScope:
    """A count window over whole streams: the operator's own ordinals say which rows a probe sees, and which expire.

    ::

        CountWindow(left=2, right=3), right rows 0 1 2 3 4 before a left row: it sees 2 3 4; rows 0 and 1 have expired

    Attributes
    ----------
    window : CountWindow
    """

    window: CountWindow
    lateness: int = 0

    @property
    def counted(self) -> CountWindow | None:
        """The window whose rows expire as their numbers say."""
        return self.window

    @property
    def term(self) -> None:
        """The scope as a term: there is none, as ordinals need no comparison of columns."""

    @property
    def probing(self) -> tuple[str, ...]:
        """Columns that only probes need: none."""
        return ()

    def columns(self, side: Side) -> tuple[str, ...]:  # noqa: ARG002 - see `TimeScope`
        """Return no column: none tells whether a row is in scope."""
        return ()

    def length(self, side: Side) -> int:  # noqa: ARG002 - see `TimeScope`
        """Return 0: rows stay for no time."""
        return 0

    def oldest(self, side: Side, mark: int) -> int:
        """Return the ordinal from which on that side's rows may still be seen, `mark` of them having arrived."""
        return self.window.first(side, mark)

    def view(self, stored: Side) -> tuple[int, int]:
        """Return how many of the newest stored rows a probe sees, and in blocks of how many they expire."""
        return self.window.view(stored)

    def at_once(self, times: Mapping[Side, NDArray[np.int64] | None]) -> int:  # noqa: ARG002 - see `TimeScope`
        """Return how many rows the windows of both sides hold."""
        return self.window.left + self.window.right

    def times(self, side: Side, columns: Mapping[str, Any]) -> None:
        """Return None: rows expire by their ordinals."""


@dataclass(frozen=True, slots=True)
class ColumnScope(ABC):
    """A scope that columns of the rows decide: it is a range term, too, of the ticks that are its keys."""

    exact: ClassVar[bool] = True
    counted: ClassVar[CountWindow | None] = None
    """Rows expire by what they carry, not by how many have come here."""

    @property
    def term(self) -> Self:
        """The scope as a term."""
        return self

    @abstractmethod
    def ticks(self, side: Side, columns: Mapping[str, Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return what decides, (n,) int64, and for which rows it is not NULL (None: all)."""

    def times(self, side: Side, columns: Mapping[str, Any]) -> NDArray[np.int64] | None:
        """Return by which (n,) int64 rows expire."""
        return self.ticks(side, columns)[0]

    def key(self, side: Side, columns: Mapping[str, Any]) -> Keys:
        """Return the keys of stored rows, (n,) int64."""
        ticks, valid = self.ticks(side, columns)
        return Keys(ticks, valid, exact=True)


@dataclass(frozen=True, slots=True)
class TimeScope(ColumnScope):
    """Lengths and lateness of a time window in ticks: of ``10**-scale`` seconds, or of the integer columns."""

    window: TimeWindow
    left_length: int
    right_length: int
    lateness: int
    scale: int | None

    @staticmethod
    def bind(window: TimeWindow, left: pa.Schema, right: pa.Schema) -> TimeScope:
        """Check the event-time columns and turn the lengths into ticks.

        Raises
        ------
        PredicateError
            For a column that is missing or is no event time, sides that do not compare, or lengths of the other kind.
        """
        sides = (("the left side", left, window.left_on), ("the right side", right, window.right_on))
        kinds = [event_time_type(schema, name, whose) for whose, schema, name in sides]
        if family_of(kinds[0]) != family_of(kinds[1]):
            msg = f"the event times of the two sides are not comparable: {kinds[0]} and {kinds[1]}; cast one of them"
            raise PredicateError(msg)
        scale = common_scale(kinds)
        lengths = (window.left, window.right, window.lateness)
        left_length, right_length, lateness = (
            ticks_of(length, scale, f"column {window.left_on!r} is {kinds[0]}") for length in lengths
        )
        return TimeScope(window, left_length, right_length, lateness, scale)

    @property
    def probing(self) -> tuple[str, ...]:
        """Columns that only probes need: none."""
        return ()

    @property
    def shape(self) -> str:
        """How narrow the term's ranges are, by kind: of a time window they are expected to be narrow."""
        return "scope"

    @property
    def label(self) -> str:
        """The scope in words, for `explain`."""
        return f"time scope l.{self.window.left_on} ~ r.{self.window.right_on}"

    def columns(self, side: Side) -> tuple[str, ...]:
        """Return the columns that tell whether that side's rows are in scope."""
        return (self.window.on(side),)

    def length(self, side: Side) -> int:
        """How many ticks rows of that side stay."""
        return self.left_length if side == "left" else self.right_length

    def oldest(self, side: Side, mark: int) -> int:
        """Return the event time from which on that side's rows may still be seen, at that watermark."""
        return mark - self.length(side)

    def at_once(self, times: Mapping[Side, NDArray[np.int64] | None]) -> int:
        """Return how many of these rows the windows of both sides hold; of no rows, any number."""
        known = [t for t in times.values() if t is not None and t.size]
        if not known:
            return LARGEST
        span = max(int(t.max()) for t in known) - min(int(t.min()) for t in known)
        return sum(t.size for t in known) * (self.left_length + self.right_length) // max(span, 1)

    def view(self, stored: Side) -> tuple[int, int]:
        """Return that a probe sees all stored rows, as far as their number goes."""
        return self.window.view(stored)

    def ranks(self, side: Side, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        """Return by which (n,) int64 the rows of both sides have one order: their event times."""
        return self.ticks(side, columns)[0]

    def until(self, side: Side, ticks: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return up to which watermark rows with these event times stay, (n,) int64."""
        return saturating_add(ticks, self.length(side))

    def ranges(self, probe_side: Side, columns: Mapping[str, Any]) -> Ranges:
        """Return the event times in scope: up to the probe's own length after it, the other's before it."""
        ticks, valid = self.ticks(probe_side, columns)
        lo = saturating_add(ticks, -self.length(other(probe_side)))
        hi = saturating_add(ticks, self.length(probe_side))
        if valid is not None:
            lo, hi = np.where(valid, lo, 1), np.where(valid, hi, 0)
        return Ranges(lo[None, :], hi[None, :], exact=True)

    def ticks(self, side: Side, columns: Mapping[str, Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return event times as (n,) int64 ticks, and which of them are not NULL (None: all).

        Raises
        ------
        SchemaError
            For an event time that does not fit 64 bits in the finer unit of the two sides.
        """
        name = self.window.on(side)
        column = columns[name]
        if isinstance(column, pa.ChunkedArray):
            if not column.null_count and (pa.types.is_int64(column.type) or pa.types.is_timestamp(column.type)):
                # What most are, as they lie in memory.
                finer = 0 if self.scale is None else self.scale - scale_of(column.type)
                return self._scaled(name, values_in(column, np.int64), 10**finer), None
            column = column.combine_chunks()
        valid = None
        if column.null_count:
            valid = np.asarray(column.is_valid())
            column = pc.fill_null(
                column, pa.scalar(0, pa.int64()).cast(column.type) if self.scale is None else _zero(column)
            )
        if self.scale is None:
            if column.type == pa.uint64() and len(column) and pc.max(column).as_py() > LARGEST:
                msg = f"event time {pc.max(column).as_py()} in column {name!r} does not fit 64 signed bits; cast it"
                raise SchemaError(msg)
            return np.asarray(column).astype(np.int64, copy=False), valid
        if pa.types.is_date(column.type):
            # A date counts days (date32) or milliseconds that are whole days (date64): either is whole seconds.
            seconds = column.cast(pa.date32()).cast(pa.int32()).to_numpy(zero_copy_only=False).astype(np.int64) * 86_400
            return self._scaled(name, seconds, 10**self.scale), valid
        raw = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return self._scaled(name, raw, 10 ** (self.scale - UNIT_SCALE[column.type.unit])), valid

    @staticmethod
    def _scaled(name: str, ticks: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
        if factor == 1:
            return ticks
        if ticks.size and max(int(ticks.max()), -int(ticks.min())) > LARGEST // factor:
            msg = (
                f"an event time in column {name!r} does not fit 64 bits in the other side's finer unit; cast that side"
            )
            raise SchemaError(msg)
        return ticks * factor


def _zero(column: pa.Array[Any]) -> pa.Scalar[Any]:
    if pa.types.is_timestamp(column.type):
        return pa.scalar(0, pa.int64()).cast(pa.timestamp(column.type.unit)).cast(column.type)
    return pa.scalar(0, pa.int32()).cast(pa.date32()).cast(column.type)


def first_seen(window: CountWindow, stored: Side, arrived: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first stored ordinals in the window after so many rows, (n,) both: `CountWindow.first` for many."""
    outside = arrived - window.size(stored)
    np.maximum(outside, 0, out=outside)
    # A division by 1 takes as long as any other: 3 ns a row.
    return outside if window.slide == 1 else outside // window.slide * window.slide


def displacing(window: CountWindow, side: Side, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which row of a side displaces each row of it, or that row's block, (n,) both: ordinals.

    Examples
    --------
    >>> displacing(CountWindow(3, slide=2), "left", np.arange(5))
    array([4, 4, 6, 6, 8])
    """
    # The last row of the block leaves the last `size` rows with it.
    last = ordinals if window.slide == 1 else (ordinals // window.slide + 1) * window.slide - 1
    return last + window.size(side)


@dataclass(frozen=True, slots=True)
class CountScope(ColumnScope):
    """A count window over rows that carry their numbers: the operator may see only a part of both streams.

    Attributes
    ----------
    window : CountWindow
        Counted in rows of the whole streams.
    ordinal, seen : str
        Columns: a row's place among all rows of its side, and how many rows of the other side had arrived before it.
    """

    window: CountWindow
    ordinal: str
    seen: str
    lateness: int = 0

    @property
    def probing(self) -> tuple[str, ...]:
        """Columns that only arriving rows need, stored ones do not."""
        return (self.seen,)

    @property
    def shape(self) -> str:
        """How narrow the term's ranges are, by kind: nearly all rows that are stored are in them."""
        return "numbers"

    @property
    def label(self) -> str:
        """The scope in words, for `explain`."""
        return f"count scope {self.window!r}"

    def columns(self, side: Side) -> tuple[str, ...]:  # noqa: ARG002 - both sides have the same
        """Return the columns that tell whether that side's rows are in scope."""
        return self.ordinal, self.seen

    def length(self, side: Side) -> int:
        """Most rows of that side that are ever seen."""
        return self.window.size(side) + self.window.slide - 1

    def oldest(self, side: Side, mark: int) -> int:
        """Return the ordinal from which on that side's rows may still be seen, `mark` of them having arrived."""
        return self.window.first(side, mark)

    def at_once(self, times: Mapping[Side, NDArray[np.int64] | None]) -> int:
        """Return how many rows with these ordinals the windows of both sides hold; of no rows, any number."""
        if not any(one is not None and one.size for one in times.values()):
            return LARGEST
        total = 0
        for side, ordinals in times.items():
            if ordinals is not None and ordinals.size:
                span = int(ordinals.max()) - int(ordinals.min()) + 1
                total += ordinals.size * min(self.length(side), span) // span
        return total

    def ticks(self, side: Side, columns: Mapping[str, Any]) -> tuple[NDArray[np.int64], None]:  # noqa: ARG002 - as `TimeScope`
        """Return the ordinals, (n,) int64; every row has one."""
        return _numbers(columns[self.ordinal]), None

    def ranks(self, side: Side, columns: Mapping[str, Any]) -> NDArray[np.int64]:  # noqa: ARG002 - as `TimeScope`
        """Return the rows' places in the one order over both sides, (n,) int64."""
        return _numbers(columns[self.ordinal]) + _numbers(columns[self.seen])

    def until(self, side: Side, ticks: NDArray[np.int64]) -> None:
        """Return None: no watermark decides how long rows stay."""

    def view(self, stored: Side) -> tuple[int, int]:  # noqa: ARG002 - see `OrdinalScope`
        """Return that a probe sees all stored rows: those of other buckets count as well, which a term looks at."""
        return EVERYTHING, 1

    def ranges(self, probe_side: Side, columns: Mapping[str, Any]) -> Ranges:
        """Return the ordinals of the other side's rows that each probe sees."""
        seen = _numbers(columns[self.seen])
        return Ranges(first_seen(self.window, other(probe_side), seen)[None, :], (seen - 1)[None, :], exact=True)


def _numbers(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = np.asarray(column)
    return numbers


TermScope: TypeAlias = TimeScope | CountScope
"""A scope that columns of the rows decide, as a term."""

Scope: TypeAlias = OrdinalScope | TermScope


def bind_scope(window: Window, left: pa.Schema, right: pa.Schema, numbers: tuple[str, str] | None) -> Scope:
    """Return the scope of a window.

    Parameters
    ----------
    numbers : pair of str, optional
        For a count window the columns in which rows carry their numbers, see `CountScope`.

    Raises
    ------
    PredicateError
        For event-time columns that cannot be used.
    """
    if isinstance(window, CountWindow):
        return OrdinalScope(window) if numbers is None else CountScope(window, *numbers)
    return TimeScope.bind(window, left, right)
