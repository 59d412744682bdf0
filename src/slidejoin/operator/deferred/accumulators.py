"""Accumulators: the state of one aggregate function for many left rows, to which pairs and other states are added.

Adding needs no order and nothing is ever subtracted, so that any parts of the pairs may come in any order. Whole
numbers and decimals are added up in limbs of 32 bits, each in an int64 of its own: no sum on the way can overflow,
and whether the last one has room in its type is known exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pat

from slidejoin.rows.arrow_buffers import array_of, buffer_of, from_buffer
from slidejoin.rows.held_types import plain, plain_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.plan.deferred import BoundAggregate

__all__ = [
    "LIMB",
    "LOW",
    "Accumulator",
    "Counts",
    "ExactSums",
    "Extremes",
    "PairValues",
    "Sums",
    "accumulator_of",
    "masked",
    "plain_values",
]

LIMB = 32
LOW = (1 << LIMB) - 1
EXACT_DOUBLE = 1 << 53
"""Whole numbers up to this are doubles."""

LARGEST_DECIMAL = 10**38 - 1


class PairValues(NamedTuple):
    """The values of one right column of pairs.

    Attributes
    ----------
    places : (n,) int64
        The left row of each pair, ascending.
    values : pyarrow.Array or None
        None where no column is read.
    """

    places: NDArray[np.int64]
    values: pa.Array[Any] | None

    def known(self) -> PairValues:
        """Return those that are not NULL."""
        if self.values is None or not (self.values.null_count or pat.is_union(self.values.type)):
            return self
        valid = np.asarray(self.values.is_valid())
        return PairValues(self.places[valid], self.values.filter(pa.array(valid)))


class Accumulator(ABC):
    """The state of one aggregate function.

    Parameters
    ----------
    rows : int
        Left rows.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows

    @abstractmethod
    def add(self, pairs: PairValues) -> None:
        """Add pairs."""

    @abstractmethod
    def merge(self, other: Accumulator, first: int) -> None:
        """Add another state of the same function: its row 0 to row `first`."""

    @abstractmethod
    def part(self, first: int, last: int) -> Accumulator:
        """Return the state of rows first…last-1."""

    @abstractmethod
    def result(self) -> pa.Array[Any]:
        """Return the function's value of each row."""

    def overflow(self) -> tuple[int, str] | None:
        """Return the first row whose value has no room in its type, and the value; None if there is none."""
        return None

    @abstractmethod
    def columns(self) -> dict[str, pa.Array[Any]]:
        """Return the state as columns, a row for each left row."""

    @abstractmethod
    def load(self, columns: Mapping[str, pa.Array[Any]]) -> None:
        """Take what `columns` returned."""

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return sum(column.nbytes for column in self.columns().values())


def _add(into: NDArray[Any], places: NDArray[np.int64], values: NDArray[Any]) -> None:
    """Add values to the rows at ascending places."""
    if places.size:
        starts = _starts(places)
        into[places[starts]] += np.add.reduceat(values, starts)


def _starts(places: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.flatnonzero(np.concatenate([np.ones(1, np.bool_), places[1:] != places[:-1]]))


def _plain(numbers: NDArray[Any]) -> pa.Array[Any]:
    kind = pa.int64() if numbers.dtype == np.int64 else pa.float64()
    return pa.Array.from_buffers(kind, numbers.size, [None, buffer_of(np.ascontiguousarray(numbers))], 0)


def masked(numbers: NDArray[Any], kind: pa.DataType, nothing: NDArray[np.bool_]) -> pa.Array[Any]:
    """Return numbers of fixed width as values of a type, NULL where there is `nothing`, (n,) bool."""
    valid = buffer_of(np.packbits(~nothing, bitorder="little")) if nothing.any() else None
    return pa.Array.from_buffers(kind, nothing.size, [valid, buffer_of(np.ascontiguousarray(numbers))], -1)


class Counts(Accumulator):
    """The number of pairs, or of values that are not NULL."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.counts: NDArray[np.int64] = np.zeros(rows, np.int64)

    def add(self, pairs: PairValues) -> None:
        """Add pairs, see `Accumulator`."""
        self.counts += np.bincount(pairs.known().places, minlength=self.rows)

    def merge(self, other: Accumulator, first: int) -> None:
        """Add another state, see `Accumulator`."""
        assert isinstance(other, Counts)  # noqa: S101 - see `Accumulator`
        self.counts[first : first + other.rows] += other.counts

    def part(self, first: int, last: int) -> Counts:
        """Return the state of some rows, see `Accumulator`."""
        part = Counts(last - first)
        part.counts = self.counts[first:last]
        return part

    def result(self) -> pa.Array[Any]:
        """Return the counts."""
        return _plain(self.counts)

    def columns(self) -> dict[str, pa.Array[Any]]:
        """Return the state as columns."""
        return {"count": _plain(self.counts)}

    def load(self, columns: Mapping[str, pa.Array[Any]]) -> None:
        """Take what `columns` returned."""
        self.counts = _numbers(columns["count"])


def _numbers(column: pa.Array[Any]) -> NDArray[np.int64]:
    return np.array(column, np.int64)


class Sums(Accumulator):
    """Sums, or means, of doubles."""

    def __init__(self, rows: int, *, mean: bool) -> None:
        super().__init__(rows)
        self._mean = mean
        self.counts: NDArray[np.int64] = np.zeros(rows, np.int64)
        self.totals: NDArray[np.float64] = np.zeros(rows)

    def add(self, pairs: PairValues) -> None:
        """Add pairs, see `Accumulator`."""
        places, values = pairs.known()
        assert values is not None  # noqa: S101 - sums are of a column
        self.counts += np.bincount(places, minlength=self.rows)
        with np.errstate(all="ignore"):
            _add(self.totals, places, np.asarray(values.cast(pa.float64())))

    def merge(self, other: Accumulator, first: int) -> None:
        """Add another state, see `Accumulator`."""
        assert isinstance(other, Sums)  # noqa: S101 - see `Accumulator`
        rows = slice(first, first + other.rows)
        self.counts[rows] += other.counts
        with np.errstate(all="ignore"):
            self.totals[rows] += other.totals

    def part(self, first: int, last: int) -> Sums:
        """Return the state of some rows, see `Accumulator`."""
        part = Sums(last - first, mean=self._mean)
        part.counts, part.totals = self.counts[first:last], self.totals[first:last]
        return part

    def result(self) -> pa.Array[Any]:
        """Return the sums, or means."""
        totals = self.totals / np.maximum(self.counts, 1) if self._mean else self.totals
        return masked(totals, pa.float64(), self.counts == 0)

    def columns(self) -> dict[str, pa.Array[Any]]:
        """Return the state as columns."""
        return {"count": _plain(self.counts), "total": _plain(self.totals)}

    def load(self, columns: Mapping[str, pa.Array[Any]]) -> None:
        """Take what `columns` returned."""
        self.counts, self.totals = _numbers(columns["count"]), np.array(columns["total"], np.float64)


class ExactSums(Accumulator):
    """Sums, or means, of whole numbers or decimals, without rounding and without overflow on the way.

    The number of a row is ``sum(limb << (32 * i))``. All limbs but the last stay from 0 to 2**32 - 1.

    Parameters
    ----------
    kind : pyarrow.DataType
        Of the result.
    scale : int or None
        Of decimals: a number stands for ``number / 10**scale``. None of whole numbers.
    """

    def __init__(self, rows: int, kind: pa.DataType, scale: int | None, *, mean: bool) -> None:
        super().__init__(rows)
        self._kind, self._scale, self._mean = kind, scale, mean
        self.counts: NDArray[np.int64] = np.zeros(rows, np.int64)
        self.limbs: NDArray[np.int64] = np.zeros((2 if scale is None else 4, rows), np.int64)

    def add(self, pairs: PairValues) -> None:
        """Add pairs, see `Accumulator`."""
        places, values = pairs.known()
        assert values is not None  # noqa: S101 - sums are of a column
        self.counts += np.bincount(places, minlength=self.rows)
        for into, limb in zip(self.limbs, self._limbs(values), strict=True):
            _add(into, places, limb)
        self._carry()

    def _limbs(self, values: pa.Array[Any]) -> list[NDArray[np.int64]]:
        """Return values as limbs, the lowest first."""
        if self._scale is not None:
            decimals = values.cast(pa.decimal128(38, self._scale))
            words = from_buffer(decimals.buffers()[1], np.int64, 2 * (decimals.offset + len(decimals)))
            low, high = words[2 * decimals.offset :].reshape(-1, 2).T
            return [low & LOW, low >> LIMB & LOW, high & LOW, high >> LIMB]
        if values.type == pa.uint64():
            wide = np.asarray(values)
            return [(wide & np.uint64(LOW)).astype(np.int64), (wide >> np.uint64(LIMB)).astype(np.int64)]
        whole = np.asarray(values.cast(pa.int64()))
        return [whole & LOW, whole >> LIMB]

    def _carry(self) -> None:
        for at in range(len(self.limbs) - 1):
            self.limbs[at + 1] += self.limbs[at] >> LIMB
            self.limbs[at] &= LOW

    def merge(self, other: Accumulator, first: int) -> None:
        """Add another state, see `Accumulator`."""
        assert isinstance(other, ExactSums)  # noqa: S101 - see `Accumulator`
        rows = slice(first, first + other.rows)
        self.counts[rows] += other.counts
        self.limbs[:, rows] += other.limbs
        self._carry()

    def add_totals(self, counts: NDArray[np.int64], limbs: NDArray[np.int64]) -> None:
        """Add the counts (rows,) int64 and limbs (limbs, rows) int64 of more pairs."""
        self.counts += counts
        self.limbs += limbs
        self._carry()

    def part(self, first: int, last: int) -> ExactSums:
        """Return the state of some rows, see `Accumulator`."""
        part = ExactSums(last - first, self._kind, self._scale, mean=self._mean)
        part.counts, part.limbs = self.counts[first:last], self.limbs[:, first:last]
        return part

    def overflow(self) -> tuple[int, str] | None:
        """Return the first row whose sum has no room, see `Accumulator`."""
        if self._mean:
            return None
        top, most = self.limbs[-1], 1 << (LIMB - 1)
        wide = (top < -most) | (top >= most)
        if self._scale is not None:
            # 10**38 has 127 bits, so its own upper limb tells most numbers apart.
            near = np.abs(top) >= LARGEST_DECIMAL >> 3 * LIMB
            for row in np.flatnonzero(near).tolist():
                wide[row] = abs(self._number(row)) > LARGEST_DECIMAL
        if not wide.any():
            return None
        row = int(wide.argmax())
        return row, str(Fraction(self._number(row), 10 ** max(self._scale or 0, 0)))

    def _number(self, row: int) -> int:
        """Return the exact sum of a row, unscaled."""
        return sum(int(limb) << LIMB * at for at, limb in enumerate(self.limbs[:, row]))

    def result(self) -> pa.Array[Any]:
        """Return the sums, or means."""
        if self._mean:
            return masked(self._means(), pa.float64(), self.counts == 0)
        words = [self.limbs[at] | self.limbs[at + 1] << LIMB for at in range(0, len(self.limbs), 2)]
        return masked(np.stack(words, axis=1) if len(words) > 1 else words[0], self._kind, self.counts == 0)

    def _means(self) -> NDArray[np.float64]:
        """Return the means, each rounded once."""
        means = np.zeros(self.rows)
        divisor = 10 ** max(self._scale or 0, 0)
        # Both are doubles without rounding, so that one division rounds once.
        top = self.limbs[1] if len(self.limbs) == 2 else np.full(self.rows, EXACT_DOUBLE)  # noqa: PLR2004 - of int64
        near = np.abs(top) < EXACT_DOUBLE >> LIMB
        some = near & (self.counts > 0)
        means[some] = (top[some] * (LOW + 1) + self.limbs[0][some]) / self.counts[some]
        for row in np.flatnonzero(~near & (self.counts > 0)).tolist():
            exact = Fraction(self._number(row), int(self.counts[row]) * divisor) * 10 ** max(-(self._scale or 0), 0)
            means[row] = exact.numerator / exact.denominator
        return means

    def columns(self) -> dict[str, pa.Array[Any]]:
        """Return the state as columns."""
        limbs = {f"limb{at}": _plain(limb) for at, limb in enumerate(self.limbs)}
        return {"count": _plain(self.counts)} | limbs

    def load(self, columns: Mapping[str, pa.Array[Any]]) -> None:
        """Take what `columns` returned."""
        self.counts = _numbers(columns["count"])
        self.limbs = np.stack([_numbers(columns[f"limb{at}"]) for at in range(len(self.limbs))])


class Extremes(Accumulator):
    """The smallest or largest value; NaN counts only where there is nothing else.

    Parameters
    ----------
    kind : pyarrow.DataType
        Of the values.
    largest : bool
    """

    def __init__(self, rows: int, kind: pa.DataType, *, largest: bool) -> None:
        super().__init__(rows)
        self._kind, self._largest = kind, largest
        self.values: pa.Array[Any] = _nulls(rows, plain_type(kind))

    def add(self, pairs: PairValues) -> None:
        """Add pairs, see `Accumulator`."""
        places, values = pairs.known()
        assert values is not None  # noqa: S101 - these are of a column
        if not places.size:
            return
        some = np.flatnonzero(np.asarray(self.values.is_valid()))
        if some.size:
            values = _joined(values, self.values.take(array_of(some)))
            places = np.concatenate([places, some])
        # NaN comes last in both directions.
        order = np.asarray(pc.array_sort_indices(_sortable(values), "descending" if self._largest else "ascending"))
        rank = np.empty(order.size, np.int64)
        rank[order] = np.arange(order.size)
        best = np.full(self.rows, order.size)
        if some.size:
            np.minimum.at(best, places, rank)
        else:
            starts = _starts(places)
            best[places[starts]] = np.minimum.reduceat(rank, starts)
        nothing = best == order.size
        chosen: NDArray[Any] = order.astype(np.int64)[np.where(nothing, 0, best)]
        self.values = values.take(pa.array(chosen, mask=nothing))

    def take(self, values: pa.Array[Any]) -> None:
        """Add a value for each row, NULL for none."""
        if self.values.null_count == self.rows:
            self.values = values
        else:
            self.add(PairValues(np.arange(self.rows), values))

    def merge(self, other: Accumulator, first: int) -> None:
        """Add another state, see `Accumulator`."""
        assert isinstance(other, Extremes)  # noqa: S101 - see `Accumulator`
        self.add(PairValues(np.arange(first, first + other.rows), other.values))

    def part(self, first: int, last: int) -> Extremes:
        """Return the state of some rows, see `Accumulator`."""
        part = Extremes(last - first, self._kind, largest=self._largest)
        part.values = self.values.slice(first, last - first)
        return part

    def result(self) -> pa.Array[Any]:
        """Return the values."""
        return self.values if self.values.type == self._kind else self.values.cast(self._kind)

    def columns(self) -> dict[str, pa.Array[Any]]:
        """Return the state as columns."""
        return {"value": self.result()}

    def load(self, columns: Mapping[str, pa.Array[Any]]) -> None:
        """Take what `columns` returned."""
        self.values = plain(columns["value"])


def _nulls(rows: int, kind: pa.DataType) -> pa.Array[Any]:
    """Return NULLs of a type."""
    nulls: pa.Array[Any] = pa.nulls(rows, kind)  # type: ignore[call-overload]  # the stubs know no type in general
    return nulls


def _joined(one: pa.Array[Any], two: pa.Array[Any]) -> pa.Array[Any]:
    joined: pa.Array[Any] = pa.concat_arrays([one, two if two.type == one.type else two.cast(one.type)])
    return joined


def _sortable(values: pa.Array[Any]) -> pa.Array[Any]:
    """Return values as a type that Arrow sorts."""
    kind = values.type
    if pat.is_decimal(kind) and kind.bit_width < 128:  # noqa: PLR2004
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    return values.cast(pa.float32()) if pat.is_float16(kind) else values


def plain_values(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a column that is held."""
    return plain_type(kind)


def accumulator_of(function: BoundAggregate, rows: int) -> Accumulator:
    """Return the empty state of a function for so many left rows."""
    if function.function == "count":
        return Counts(rows)
    if function.function in ("min", "max"):
        return Extremes(rows, function.kind, largest=function.function == "max")
    mean = function.function == "mean"
    if function.summed == "float":
        return Sums(rows, mean=mean)
    return ExactSums(rows, function.kind, function.scale, mean=mean)
