"""Columns and literals as plain value arrays, the input of evaluation and of range building."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pat

from slidejoin.predicate.truth.types import ONE_WORD_DIGITS, SECONDS_A_DAY, Kind, Type
from slidejoin.rows.arrow_buffers import chunks_of, from_buffer, values_in
from slidejoin.rows.held_types import as_lists, plain, plain_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = [
    "CALM",
    "INT64_MAX",
    "INT64_MIN",
    "Batch",
    "Column",
    "Values",
    "across",
    "aligned",
    "bytes_array",
    "fit",
    "in_steps",
    "literal_values",
    "load",
    "rows_of",
    "validity",
    "values_of",
]

Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1
CALM = 1 << 61
"""Decimals of more than 18 digits, or of negative scale, are int64 if all of a column are nearer to 0.

Sums of two of them fit as well.
"""
_SIGN_BIT = np.uint64(1 << 63)


@dataclass(slots=True, eq=False)
class Values:
    """Values of one expression, one for each row, or a single one for a constant.

    Attributes
    ----------
    data
        int64 or object (Python ints, where int64 would overflow) for exact kinds, float64, bool, a
        `pyarrow.LargeBinaryArray` for strings and binary, or the array itself for lists; shape (n,), or (1,) for a
        constant.
    valid
        False where the value is NULL; None if there is no NULL; of the shape of the data. Exact data is 0 there.
    low, high
        Bounds of exact data, not always tight, None until `limits` computes them.
    """

    data: Any
    valid: NDArray[np.bool_] | None = None
    low: int | None = None
    high: int | None = None

    def limits(self) -> tuple[int, int]:
        """Return bounds of exact data, (0, 0) if there is none. One pass over the data at most."""
        if self.low is None or self.high is None:
            self.tighten()
        return self.low or 0, self.high or 0

    def tighten(self) -> None:
        """Find the true smallest and largest value."""
        some = len(self.data) > 0
        self.low, self.high = (int(self.data.min()), int(self.data.max())) if some else (0, 0)


class Batch(Mapping[str, Column]):
    """The columns of a table, each looked up and loaded once, however many terms, filters and roles use it.

    Examples
    --------
    >>> batch = Batch(pa.table({"a": [1, 2]}))
    >>> len(batch["a"]), batch.rows
    (2, 2)
    """

    __slots__ = ("_loaded", "rows", "table")

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.rows: int = table.num_rows
        self._loaded: dict[str, Values] = {}

    def __getitem__(self, name: str) -> Column:
        """Return a column by its name."""
        return self.table.column(name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self.table.schema.names)

    def __len__(self) -> int:
        """Return the number of columns."""
        return int(self.table.num_columns)

    def load(self, name: str, meaning: Type) -> Values:
        """Return a column as values; its meaning follows from its type, so it is the same for all uses."""
        values = self._loaded.get(name)
        if values is None:
            values = self._loaded[name] = load(self.table.column(name), meaning)
        return values


def both_valid(one: NDArray[np.bool_] | None, two: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Return where both are valid."""
    if one is None:
        return two
    return one if two is None else one & two


def across(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array in that shape, one value repeated; kernels take no array whose rows share memory.

    Examples
    --------
    >>> across(np.zeros(1, np.bool_), (3,)).flags.c_contiguous
    True
    """
    return array if array.shape == shape else np.ascontiguousarray(np.broadcast_to(array, shape))


def aligned(values: Values) -> Values:
    """Return values with as many validities, of which a constant next to columns has but one, and the reverse."""
    valid = values.valid
    if valid is None or len(valid) == len(values.data):
        return values
    rows = max(len(valid), len(values.data))
    data: Any
    if isinstance(values.data, pa.Array):
        data = values.data if len(values.data) == rows else pa.repeat(values.data[0], rows)
    else:
        data = across(values.data, (rows,))
    return Values(data, across(valid, (rows,)), values.low, values.high)


def fit(data: NDArray[Any], valid: NDArray[np.bool_] | None) -> Values:
    """Return exact values from an object array of Python ints, as int64 if all of them fit."""
    values = Values(data, valid)
    low, high = values.limits()
    if low >= INT64_MIN and high <= INT64_MAX:
        values.data = data.astype(np.int64)
    return values


def literal_values(value: object, kind: Kind) -> Values:
    """Return a constant (unscaled int, float, bool, bytes or None) as values of shape (1,)."""
    if value is None:
        empty: Any = pa.array([b""], pa.large_binary()) if kind in {Kind.STRING, Kind.BINARY} else np.zeros(1, np.int64)
        if kind is Kind.BOOL:
            empty = np.zeros(1, np.bool_)
        elif kind is Kind.FLOAT:
            empty = np.zeros(1)
        return Values(empty, np.zeros(1, np.bool_))
    if isinstance(value, bytes):
        return Values(pa.array([value], pa.large_binary()))
    if isinstance(value, bool):
        return Values(np.array([value]))
    if isinstance(value, float):
        return Values(np.array([value]))
    held = np.empty(1, object)
    held[0] = value
    return fit(held, None)


def one_array(column: Column) -> pa.Array[Any]:
    """Return a column as one array; copies only if it has several chunks."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)  # type: ignore[return-value]  # the stubs are of pyarrow 20
    kind = plain_type(column.type)
    if kind != column.type:  # dictionaries of some types cannot be combined
        column = chunks_of([plain(chunk) for chunk in column.chunks], kind)
    joined: Any = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def validity(array: pa.Array[Any]) -> NDArray[np.bool_] | None:
    """Return where an array is not NULL; None if nowhere it is."""
    # A union has no marks of its own: its values may be NULL.
    if array.null_count == 0 and not pat.is_union(array.type):
        return None
    valid: NDArray[np.bool_] = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return valid


def _words(array: pa.Array[Any], dtype: str, words: int = 1, word: int = 0) -> NDArray[Any]:
    """Values buffer of a fixed-width array without a copy; of several words for each value one, 0 for the lowest."""
    buffer = array.buffers()[1]
    count = len(array)
    if count == 0 or buffer is None:
        return np.zeros(count, dtype)
    size = np.dtype(dtype).itemsize * words
    raw = from_buffer(buffer, dtype, count * words, array.offset * size)
    return raw if words == 1 else raw.reshape(count, words)[:, word]


def bytes_array(array: pa.Array[Any]) -> pa.Array[Any]:
    """Return strings or binary of any layout as one `large_binary` array with the same bytes."""
    if pat.is_dictionary(array.type):
        # Its few entries get large offsets first: decoded, they may be more than 2 GiB.
        indices, entries = array.indices, array.dictionary  # type: ignore[attr-defined]  # of dictionaries, by its type
        return pa.DictionaryArray.from_arrays(indices, bytes_array(entries)).dictionary_decode()
    if pat.is_string_view(array.type) or pat.is_run_end_encoded(array.type):
        array = plain(array)
    return array.cast(pa.large_binary())


WHOLE = {kind.id for kind in (pa.int64(), pa.timestamp("us"), pa.duration("us"), pa.time64("us"))}
"""Types, by their ids, whose values in memory are used as 64-bit integers."""

_PLAIN: dict[int, type[Any]] = {pa.float64().id: np.float64} | dict.fromkeys(WHOLE, np.int64)

_DIRECT = {Kind.INT: (pa.int64().id, np.int64), Kind.FLOAT: (pa.float64().id, np.float64)}
"""Kinds of which the usual type lies in memory as NumPy has it."""


def load(  # noqa: PLR0911 - one case for each layout
    column: Column, meaning: Type, *, biased: bool = False
) -> Values:
    """Return a column as values; numbers and times without NULLs are not copied where the layout allows.

    Parameters
    ----------
    column
        The data.
    meaning
        The result of `types.type_of` for its type.
    biased
        For an unsigned 64-bit column: give ``value - 2**63``, which always fits int64.
    """
    direct = _DIRECT.get(meaning.kind)
    if direct is not None and column.null_count == 0 and type(column) is pa.ChunkedArray:
        kind, dtype = direct
        if column.type.id == kind:
            return Values(values_in(column, dtype))  # which shares a single chunk's memory, and is the shortest way
    array = one_array(column)
    as_it_is = _PLAIN.get(array.type.id)
    if as_it_is is not None and array.null_count == 0 and len(array):  # the usual case, in a fifth of the time
        return Values(from_buffer(array.buffers()[1], as_it_is, len(array), array.offset * 8))
    if meaning.kind in {Kind.STRING, Kind.BINARY}:
        whole = bytes_array(array)
        # Of the decoded values: Arrow before 26 does not see a NULL entry of a dictionary from outside.
        return Values(whole, validity(whole))
    if pat.is_dictionary(array.type) or pat.is_run_end_encoded(array.type):
        array = plain(array)
    valid = validity(array)
    if meaning.kind is Kind.BOOL:
        filled = array if valid is None else array.fill_null(False)  # noqa: FBT003  Arrow's signature
        return Values(filled.to_numpy(zero_copy_only=False), valid)
    if meaning.kind is Kind.LIST:
        return Values(as_lists(array), valid)
    if meaning.kind is Kind.OTHER:
        return Values(np.zeros(len(array), np.int64), valid)
    if meaning.kind is Kind.FLOAT:
        raw = _words(array, f"float{array.type.bit_width}")
        return Values(raw.astype(np.float64, copy=False), valid)
    return _load_exact(array, valid, biased=biased)


def values_of(columns: Mapping[str, Column], name: str, meaning: Type) -> Values:
    """Return a column of some rows as values, from those loaded already where there are such."""
    return columns.load(name, meaning) if type(columns) is Batch else load(columns[name], meaning)


def rows_of(columns: Mapping[str, Column]) -> int:
    """Return how many rows some columns have."""
    return columns.rows if type(columns) is Batch else len(next(iter(columns.values())))


def _load_exact(array: pa.Array[Any], valid: NDArray[np.bool_] | None, *, biased: bool) -> Values:
    arrow = array.type
    factor, divisor = 1, 1
    if pat.is_decimal(arrow):
        factor = 10 ** -min(arrow.scale, 0)
        if arrow.precision > ONE_WORD_DIGITS:
            return _wide_decimals(array, valid, factor)
        raw = _words(array, f"int{min(arrow.bit_width, 64)}", max(arrow.bit_width // 64, 1))
    elif pat.is_unsigned_integer(arrow):
        raw = _words(array, f"uint{arrow.bit_width}")
    else:
        raw = _words(array, f"int{arrow.bit_width}")
        if pat.is_date32(arrow):
            factor = SECONDS_A_DAY
        elif pat.is_date64(arrow):
            factor, divisor = SECONDS_A_DAY, SECONDS_A_DAY * 1000
    if valid is not None:  # what lies under a NULL is arbitrary and must not look like an overflow
        raw = np.where(valid, raw, raw.dtype.type(0))
    values = _unsigned(raw, valid, biased=biased) if raw.dtype == np.uint64 else _signed(raw, valid)
    if divisor > 1:
        values = Values(values.data // divisor, valid)
    if factor == 1:
        return values
    low, high = (limit * factor for limit in values.limits())
    # Decimals of negative scale have squeezed keys, as those of many digits have.
    if (max(-low, high) < CALM) if pat.is_decimal(arrow) else (low >= INT64_MIN and high <= INT64_MAX):
        return Values(_multiplied(values.data, factor), valid, low, high)
    whole = values.data.astype(object) * factor
    return Values(whole, valid) if pat.is_decimal(arrow) else fit(whole, valid)


def _multiplied(data: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
    """Return int64 times a factor, of which all results fit; a factor that does not fit is one of zeros."""
    return np.ascontiguousarray(data) if factor == 1 else data * np.int64(min(factor, INT64_MAX))


def in_steps(column: Column, step: int) -> Values | None:
    """Return twice how many steps, of so many units each, decimals of two words are, int64; None if some have no room.

    A step is a power of ten; so that what is in between has a place.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from decimal import Decimal
    >>> in_steps(pa.array([Decimal("12.5")], pa.decimal128(38, 18)), 10**10).data.tolist()
    [2500000000]
    """
    array = one_array(column)
    if pat.is_dictionary(array.type) or pat.is_run_end_encoded(array.type):
        array = plain(array)
    of, scale = array.type, array.type.scale - len(str(step)) + 1
    try:
        counted = array.cast((pa.decimal256 if pat.is_decimal256(of) else pa.decimal128)(of.precision, scale))
    except pa.ArrowInvalid:  # as this would cut some digits off
        return None
    values = _wide_decimals(counted, validity(counted), 2)
    return values if values.data.dtype == np.int64 else None


def _wide_decimals(array: pa.Array[Any], valid: NDArray[np.bool_] | None, factor: int) -> Values:
    """Return decimals of 19 to 38 digits: int64 if all are calm, else Python ints."""
    low, high = (_words(array, "int64", array.type.bit_width // 64, word) for word in (0, 1))
    if valid is not None:
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    if np.array_equal(high, low >> 63) and (not low.size or max(int(low.max()), -int(low.min())) * factor < CALM):
        return Values(_multiplied(low, factor), valid)
    data = (high.astype(object) << 64) + np.ascontiguousarray(low).view(np.uint64).astype(object)
    return Values(data * factor, valid)


def _signed(raw: NDArray[Any], valid: NDArray[np.bool_] | None) -> Values:
    if raw.dtype == np.int64:
        return Values(raw, valid)
    reach = np.iinfo(raw.dtype)
    return Values(raw.astype(np.int64), valid, int(reach.min), int(reach.max))


def _unsigned(raw: NDArray[np.uint64], valid: NDArray[np.bool_] | None, *, biased: bool) -> Values:
    if biased:
        return Values((raw ^ _SIGN_BIT).view(np.int64), valid)
    if len(raw) and raw.max() >= _SIGN_BIT:
        return Values(raw.astype(object), valid)
    return Values(raw.view(np.int64), valid)
