"""Accumulators: the state of one aggregate function for many left rows, to which pairs and other states are added.

Adding needs no order and nothing is ever subtracted, so that any parts of the pairs may come in any order. Whole
numbers and decimals are added up in limbs of 32 bits, each in an int64 of its own: no sum on the way can overflow,
and whether the last one has room in its type is known exactly.

The states of all functions of an `Aggregate` are columns, too, so that parts can be put together. Of each left row
there is the number of its pairs, then the state of each function::

    0.count │ 1.count 1.limb0 1.limb1 │ 2.value        pairs │ sum of whole numbers │ smallest value
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pat

from slidejoin.errors import AggregateOverflowError, StateError
from slidejoin.rows.arrow_buffers import array_of, buffer_of, from_buffer
from slidejoin.rows.held_types import plain, plain_type
from slidejoin.rows.stored_tables import int64s
from slidejoin.stored import MOST_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from slidejoin.plan.deferred import AggregateRule, BoundAggregate

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
    "check_numbers",
    "empty_states",
    "loaded_states",
    "masked",
    "plain_values",
    "results_of",
    "state_columns",
    "state_schema",
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
    """The number of pairs, or of values that are not NULL.

    Attributes
    ----------
    numbers : dict from str to (rows,) array
        The state: what is added up, by the names of the columns. A sum has further ones.
    """

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.numbers: dict[str, NDArray[Any]] = {"count": np.zeros(rows, np.int64)}

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many values each row has."""
        return self.numbers["count"]

    def add(self, pairs: PairValues) -> None:
        """Add pairs, see `Accumulator`."""
        self.add_counts(np.bincount(pairs.known().places, minlength=self.rows))

    def add_counts(self, counts: NDArray[np.int64]) -> None:
        """Add the counts of more pairs, (rows,)."""
        self.numbers["count"] += counts

    def merge(self, other: Accumulator, first: int) -> None:
        """Add another state, see `Accumulator`."""
        assert isinstance(other, Counts)  # noqa: S101 - see `Accumulator`
        rows = slice(first, first + other.rows)
        with np.errstate(all="ignore"):
            for own, more in zip(self.numbers.values(), other.numbers.values(), strict=True):
                own[rows] += more
        self._carry()

    def _carry(self) -> None:
        """Bring the state into its form after numbers were added."""

    def part(self, first: int, last: int) -> Self:
        """Return the state of some rows, see `Accumulator`."""
        part = copy(self)
        part.rows = last - first
        part.numbers = {name: own[first:last] for name, own in self.numbers.items()}
        return part

    def result(self) -> pa.Array[Any]:
        """Return the counts."""
        return _plain(self.counts)

    def columns(self) -> dict[str, pa.Array[Any]]:
        """Return the state as columns."""
        return {name: _plain(own) for name, own in self.numbers.items()}

    def load(self, columns: Mapping[str, pa.Array[Any]]) -> None:
        """Take what `columns` returned."""
        self.numbers = {name: np.array(columns[name], own.dtype) for name, own in self.numbers.items()}


class Sums(Counts):
    """Sums, or means, of doubles."""

    def __init__(self, rows: int, *, mean: bool) -> None:
        super().__init__(rows)
        self._mean = mean
        self.numbers["total"] = np.zeros(rows)

    @property
    def totals(self) -> NDArray[np.float64]:
        """The sum of each row."""
        return self.numbers["total"]

    def add(self, pairs: PairValues) -> None:
        """Add pairs, see `Accumulator`."""
        places, values = pairs.known()
        assert values is not None  # noqa: S101 - sums are of a column
        self.add_counts(np.bincount(places, minlength=self.rows))
        with np.errstate(all="ignore"):
            _add(self.totals, places, np.asarray(values.cast(pa.float64())))

    def add_totals(self, counts: NDArray[np.int64], totals: NDArray[np.float64]) -> None:
        """Add the counts and sums of more pairs, (rows,) each."""
        self.add_counts(counts)
        with np.errstate(all="ignore"):
            self.numbers["total"] += totals

    def result(self) -> pa.Array[Any]:
        """Return the sums, or means."""
        totals = self.totals / np.maximum(self.counts, 1) if self._mean else self.totals
        return masked(totals, pa.float64(), self.counts == 0)


class ExactSums(Counts):
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
        self.numbers |= {f"limb{at}": np.zeros(rows, np.int64) for at in range(2 if scale is None else 4)}

    @property
    def limbs(self) -> list[NDArray[np.int64]]:
        """The limbs of each row, the lowest first."""
        return list(self.numbers.values())[1:]

    def add(self, pairs: PairValues) -> None:
        """Add pairs, see `Accumulator`."""
        places, values = pairs.known()
        assert values is not None  # noqa: S101 - sums are of a column
        self.add_counts(np.bincount(places, minlength=self.rows))
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
        limbs = self.limbs
        for at in range(len(limbs) - 1):
            limbs[at + 1] += limbs[at] >> LIMB
            limbs[at] &= LOW

    def add_totals(self, counts: NDArray[np.int64], limbs: NDArray[np.int64]) -> None:
        """Add the counts (rows,) int64 and limbs (limbs, rows) int64 of more pairs."""
        self.add_counts(counts)
        own = self.limbs
        for at, limb in enumerate(limbs):
            own[at] += limb
        self._carry()

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
        return sum(int(limb) << LIMB * at for at, limb in enumerate(own[row] for own in self.limbs))

    def result(self) -> pa.Array[Any]:
        """Return the sums, or means."""
        if self._mean:
            return masked(self._means(), pa.float64(), self.counts == 0)
        limbs = self.limbs
        words = [limbs[at] | limbs[at + 1] << LIMB for at in range(0, len(limbs), 2)]
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


HIGHEST = 1 << 62
"""Of the highest limb of a sum: to so many values as there may be more can be added."""

NULL_STATE = "value"
"""The column of a state in which a row without pairs has NULL; in others it has 0."""


def empty_states(rule: AggregateRule, rows: int) -> list[Accumulator]:
    """Return the state of so many left rows: the number of pairs, and each function's."""
    return [Counts(rows), *(accumulator_of(function, rows) for function in rule.functions)]


def state_columns(states: Sequence[Accumulator]) -> list[pa.Array[Any]]:
    """Return states as columns, a row for each left row."""
    return [column for state in states for column in state.columns().values()]


def state_schema(rule: AggregateRule) -> pa.Schema:
    """Return the schema of these columns."""
    return pa.schema(
        [
            pa.field(f"{number}.{name}", column.type)
            for number, state in enumerate(empty_states(rule, 0))
            for name, column in state.columns().items()
        ]
    )


def loaded_states(rule: AggregateRule, table: pa.Table, places: NDArray[np.int64] | None = None) -> list[Accumulator]:
    """Return the states that columns of a table hold.

    Parameters
    ----------
    places : (n,) int64, optional
        The row of the table of each left row, -1 for one without pairs; all rows, in their order, by default.
    """
    count = table.num_rows if places is None else places.size
    states = empty_states(rule, count)
    index: pa.Array[Any] | None = None if places is None else pa.array(places, mask=places < 0)
    for number, state in enumerate(states):
        loaded = {}
        for name in state.columns():
            column: Any = table.column(f"{number}.{name}")
            column = column if index is None else column.take(index)
            column = column if name == NULL_STATE or not column.null_count else column.fill_null(0)
            loaded[name] = column.combine_chunks()
        state.load(loaded)
    return states


def check_numbers(table: pa.Table) -> None:
    """Check the counts and sums of one state that somebody has stored: none is NULL, none makes a sum overflow.

    Raises
    ------
    StateError
        If one is.
    """
    limbs = sum(name.startswith("limb") for name in table.column_names)
    for name in table.column_names:
        column = table.column(name)
        if name == "count":
            int64s(column, 0, MOST_ROWS, "the numbers of values of aggregates")
        elif name == f"limb{limbs - 1}":
            int64s(column, -HIGHEST, HIGHEST, "the highest limbs of sums")
        elif name.startswith("limb"):
            int64s(column, 0, LOW, "the limbs of sums")
        elif name != NULL_STATE and column.null_count:
            msg = f"{column.null_count} sums of aggregates are NULL"
            raise StateError(msg)


def results_of(
    rule: AggregateRule, states: Sequence[Accumulator], whose: Callable[[int], str], then: str = ""
) -> list[pa.Array[Any]]:
    """Return the value of each function for each row.

    Parameters
    ----------
    whose : function
        Returns how a row is called in an error.
    then : str
        What the error says behind all else.

    Raises
    ------
    AggregateOverflowError
        If a sum has no room in its type.
    """
    for function, state in zip(rule.functions, states[1:], strict=True):
        over = state.overflow()
        if over is not None:
            msg = (
                f"Aggregate {function.name}={function.function}(r.{function.column}) of {whose(over[0])} is {over[1]}, "
                f"which does not fit its type; cast the column to a decimal or a float in the stream before{then}"
            )
            raise AggregateOverflowError(msg)
    return [state.result() for state in states[1:]]
