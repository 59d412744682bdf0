"""A time window bound to schemas: event times as whole ticks, and the scope of a pair as one more range term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import PredicateError, SchemaError, nearest
from slidejoin.predicate.ranges import Keys, Ranges
from slidejoin.predicate.tree import other
from slidejoin.predicate.types import UNIT_SCALE
from slidejoin.window import Span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.predicate.expr import Side
    from slidejoin.window import Length, TimeWindow

__all__ = ["ScopeTerm", "TimeScope", "saturating_add"]

LARGEST = int(np.iinfo(np.int64).max)
FARTHEST = (1 << 64) - 1
"""No two event times are farther apart: longer lengths mean the same."""


def saturating_add(values: NDArray[np.int64], amount: int) -> NDArray[np.int64]:
    """Add any whole amount to (n,) int64, staying at the ends of int64 instead of wrapping."""
    while abs(amount) > LARGEST:
        # What stays at an end stays there with the rest as well.
        step = LARGEST if amount > 0 else -LARGEST
        values, amount = saturating_add(values, step), amount - step
    if values.size == 0:
        return values
    if amount >= 0:
        most = LARGEST - amount
        return np.where(values > most, LARGEST, values + amount) if int(values.max()) > most else values + amount
    least = -LARGEST - 1 - amount
    return np.where(values < least, -LARGEST - 1, values + amount) if int(values.min()) < least else values + amount


def _family(kind: pa.DataType) -> str | None:
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_date(kind):
        return "timestamp"
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp"
    return None


def _scale(kind: pa.DataType) -> int:
    return UNIT_SCALE[kind.unit] if pa.types.is_timestamp(kind) else 0


@dataclass(frozen=True, slots=True)
class TimeScope:
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
        types: dict[str, pa.DataType] = {}
        for side, schema in (("left", left), ("right", right)):
            name = window.on(side)  # type: ignore[arg-type]
            if name not in schema.names:
                msg = f"the {side} side has no event-time column {name!r}; its columns are {', '.join(schema.names)}."
                raise PredicateError(msg + nearest(name, schema.names))
            types[side] = schema.field(name).type
            if _family(types[side]) is None:
                msg = (
                    f"event-time column {name!r} of the {side} side is {types[side]}; "
                    "use an integer, timestamp or date column"
                )
                raise PredicateError(msg)
        families = _family(types["left"]), _family(types["right"])
        if families[0] != families[1]:
            msg = f"event times of the sides do not compare: {types['left']} and {types['right']}; cast one of them"
            raise PredicateError(msg)
        whole = families[0] == "integer"
        scale = None if whole else max(_scale(types["left"]), _scale(types["right"]))
        lengths: tuple[Length, ...] = (window.left, window.right, window.lateness)
        for length in lengths:
            if isinstance(length, Span) == whole and length not in (0, Span(0)):
                kind = "an integer" if whole else "a timedelta or text such as '10 minutes'"
                msg = (
                    f"event-time column {window.left_on!r} is {types['left']}, so lengths and lateness are {kind}; "
                    f"got {length!s}"
                )
                raise PredicateError(msg)
        stay_left, stay_right, lateness = (
            min(x.ticks(scale or 0) if isinstance(x, Span) else x, FARTHEST) for x in lengths
        )
        return TimeScope(window, stay_left, stay_right, lateness, scale)

    def length(self, side: Side) -> int:
        """How many ticks rows of that side stay."""
        return self.left_length if side == "left" else self.right_length

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


def _zero(column: pa.Array) -> pa.Scalar:
    if pa.types.is_timestamp(column.type):
        return pa.scalar(0, pa.int64()).cast(pa.timestamp(column.type.unit)).cast(column.type)
    return pa.scalar(0, pa.int32()).cast(pa.date32()).cast(column.type)


@dataclass(frozen=True, slots=True)
class ScopeTerm:
    """The scope of a time window as a range term: a band of event times, ``-right <= l - r``, ``r - l <= left``."""

    scope: TimeScope
    shape: str = "scope"
    exact: bool = True

    @property
    def label(self) -> str:
        """The term in words, for `explain`."""
        window = self.scope.window
        return f"time scope l.{window.left_on} ~ r.{window.right_on}"

    def key(self, side: Side, columns: Mapping[str, Any]) -> Keys:
        """Return the event times of stored rows as keys (n,) int64."""
        ticks, valid = self.scope.ticks(side, columns)
        return Keys(ticks, valid, exact=True)

    def ranges(self, probe_side: Side, columns: Mapping[str, Any]) -> Ranges:
        """Return the event times in scope: up to the probe's own length after it, the other's before it."""
        ticks, valid = self.scope.ticks(probe_side, columns)
        lo = saturating_add(ticks, -self.scope.length(other(probe_side)))
        hi = saturating_add(ticks, self.scope.length(probe_side))
        if valid is not None:
            lo, hi = np.where(valid, lo, 1), np.where(valid, hi, 0)
        return Ranges(lo[None, :], hi[None, :], exact=True)
