"""The forms of a batch: anything with the Arrow interface, pandas and Polars frames, a dict of arrays.

Columns of another type than their side's are taken where nothing is lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.errors import SchemaError, nearest
from slidejoin.operator.ingest.own_memory import (
    checked,
    owned,
    owned_column,
    places_of_shared,
    places_to_check,
    shares_values,
    used_alone,
)
from slidejoin.rows.arrow_buffers import chunks_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["as_type", "family", "same_schema", "takes", "to_table"]

NUMPY_TYPES: dict[np.dtype[Any], pa.DataType] = {
    np.dtype(name): getattr(pa, name)()
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
}
"""Types whose NumPy arrays and Arrow columns have the same bytes."""


_FOR_LARGE = (
    "An integer does not fit the column's type: uint64 has room for 0 to 2**64 - 1 and is taken with schemas= or as a "
    "NumPy array of that type; for other integers beyond 64 bits give Decimal values or text"
)

FIRST, DECLARED, RESTORED = "as in the first batch", "as schemas= said", "as the restored join has it"
"""Where the schema of a side comes from."""


def to_table(
    batch: object, side: str, schema: pa.Schema | None, known_from: str = FIRST, *, own: bool = True
) -> pa.Table:
    """Return the batch as a table, its values as the types of `schema` where that is known and nothing is lost.

    Parameters
    ----------
    known_from : str
        Where the schema comes from, for errors.
    own : bool, default True
        Whether the table has memory of its own. If not, the caller copies what it keeps before its user's call returns.

    Raises
    ------
    SchemaError
        If it is no batch, its memory is invalid, or it does not have the side's schema. Nothing is taken then.
    """
    if schema is None:
        return _first(batch, side, own=own)
    # The forms that programs push thousands of times a second are checked first: 0.2 µs instead of 12.
    known = _known.get(id(schema))
    if known is None or known.schema is not schema:
        known = _learned(schema)
    if isinstance(batch, pa.RecordBatch):
        batch = pa.Table.from_batches([batch])
    if isinstance(batch, pa.Table) and batch.schema.equals(schema, check_metadata=True):
        batch = checked(batch, known.checked, known.shared, side)
        return owned(batch) if own else batch
    if type(batch) is dict and (made := _from_numpy(batch, known)) is not None:
        return made
    table = _read(batch, side, schema)
    same, of_dict = table.schema.equals(schema), type(batch) is dict
    # The columns of a dict have memory of their own already, which Arrow made or which was checked then.
    if not of_dict:
        table = _checked(table, side)
    if not same:
        table = _mended(table, schema, side, known_from)
    elif not table.schema.equals(schema, check_metadata=True):
        # Field metadata and nullability may differ between batches and mean nothing here.
        table = pa.Table.from_arrays(table.columns, schema=schema)
    return owned(table) if own and not of_dict else table


def _first(batch: object, side: str, *, own: bool) -> pa.Table:
    """Return the first batch of a side, which decides its schema, as a table."""
    table = _read(batch, side, None)
    twice = [name for name, times in Counter(table.column_names).items() if times > 1]
    if twice:
        msg = f"the {side} batch has more than one column named {', '.join(map(repr, sorted(twice)))}; rename them"
        raise SchemaError(msg)
    if type(batch) is dict:
        return table
    table = _checked(table, side)
    return owned(table) if own else table


def _checked(table: pa.Table, side: str) -> pa.Table:
    return checked(table, places_to_check(table.schema), places_of_shared(table.schema), side)


@dataclass(frozen=True, slots=True)
class _Known:
    """What to know of a side's schema to read thousands of batches a second: Arrow takes microseconds for each."""

    schema: pa.Schema
    names: list[str]
    dtypes: list[np.dtype[Any] | None]
    """The types of NumPy arrays that have the bytes of each column, None where there is no such type."""
    types: list[pa.DataType]
    checked: tuple[int, ...]
    """See `places_to_check`."""
    shared: tuple[int, ...]
    """See `places_of_shared`."""


_known: dict[int, _Known] = {}
"""By the identity of a schema, which stays here."""

MOST_KNOWN = 1 << 10


def _learned(schema: pa.Schema) -> _Known:
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    # By their ids, as types that users derive need not be hashable.
    dtypes = {kind.id: dtype for dtype, kind in NUMPY_TYPES.items()}
    types = schema.types
    places = places_to_check(schema), places_of_shared(schema)
    known = _Known(schema, schema.names, [dtypes.get(kind.id) for kind in types], types, *places)
    _known[id(schema)] = known
    return known


def _read(batch: object, side: str, schema: pa.Schema | None) -> pa.Table:
    try:
        table = _table(batch, schema)
    except MemoryError:
        raise
    except Exception as error:  # what is read may be any object, with any error of its own
        msg = f"the {side} batch cannot be read as columns: {error}"
        raise SchemaError(msg) from error
    if table is None:
        msg = (
            f"the {side} batch is a {type(batch).__name__}; give a pyarrow Table or RecordBatch, a pandas or Polars "
            "frame, a dict of arrays, or anything with __arrow_c_stream__"
        )
        raise SchemaError(msg)
    return table


def _table(batch: Any, schema: pa.Schema | None) -> pa.Table | None:  # noqa: ANN401, PLR0911 - one case for each kind
    if isinstance(batch, pa.Table):
        return batch
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if isinstance(batch, dict):
        return _from_dict(batch, schema)
    if hasattr(batch, "columns") and any(kind.__module__.split(".")[0] == "pandas" for kind in type(batch).__mro__):
        return pa.Table.from_pandas(batch, preserve_index=False).replace_schema_metadata(None)
    if hasattr(batch, "__arrow_c_stream__"):
        return pa.table(batch)
    if hasattr(batch, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(batch)])
    return None


def _from_numpy(batch: dict[Any, Any], known: _Known) -> pa.Table | None:
    """Read NumPy arrays that have the schema's names, order and types; None for anything else."""
    if list(batch) != known.names:
        return None
    arrays, rows = [], None
    for values, kind, dtype in zip(batch.values(), known.types, known.dtypes, strict=True):
        if type(values) is not np.ndarray or values.ndim != 1 or dtype is None or values.dtype != dtype:
            return None
        if rows is not None and values.size != rows:
            return None
        rows = values.size
        # Copied, because their owner may write into them later.
        arrays.append(pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(values.tobytes())], 0))
    return pa.Table.from_arrays(arrays, schema=known.schema) if arrays else None


def _from_dict(batch: dict[Any, Any], schema: pa.Schema | None) -> pa.Table:
    arrays = {}
    kinds = {} if schema is None else dict(zip(schema.names, schema.types, strict=True))
    for name, values in batch.items():
        kind = kinds.get(name)
        if not isinstance(name, str):
            msg = f"names of columns are text, got {name!r}"
            raise TypeError(msg)
        try:
            arrays[name] = _column(values, kind)
        except OverflowError as error:
            msg = f"column {name!r}: {error}. {_FOR_LARGE}"
            raise pa.ArrowInvalid(msg) from error
        except (pa.ArrowException, TypeError, ValueError) as error:
            msg = f"column {name!r}: {error}"
            raise pa.ArrowInvalid(msg) from error
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        msg = f"columns have different lengths: {', '.join(f'{name} {len(a)}' for name, a in arrays.items())}"
        raise pa.ArrowInvalid(msg)
    return pa.Table.from_pydict(arrays)


def _column(values: Any, kind: pa.DataType | None) -> pa.Array[Any] | pa.ChunkedArray[Any]:  # noqa: ANN401
    """Read the values of a column into memory of its own.

    Arrays have a type, which is another one than `kind` perhaps: what reads the batch decides whether that is taken.
    Python values have none and are read as that type.
    """
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return _foreign(values)
    # Arrow shares the memory of NumPy arrays and of pandas columns, and their owner may write into them later.
    if type(values) is np.ndarray and values.ndim == 1:
        own = NUMPY_TYPES.get(values.dtype)
        if own is not None:
            # By its buffer: `pa.array` would load pandas, half a second of a process's first push.
            array: pa.Array[Any] = pa.Array.from_buffers(own, values.size, [None, pa.py_buffer(values.tobytes())], 0)
            return array if kind is None or values.size else pa.nulls(0, kind)  # type: ignore[call-overload]
    if hasattr(values, "__arrow_c_stream__") and not _of_pandas(values):
        return _foreign(pa.chunked_array(values))
    if hasattr(values, "__arrow_c_array__"):
        return _foreign(pa.array(values))
    if hasattr(values, "__array__") and not isinstance(values, np.ndarray) and not _of_pandas(values):
        values = np.asarray(values)
    dtype = getattr(values, "dtype", None)
    if hasattr(values, "__arrow_array__") or (
        dtype is not None and not (isinstance(dtype, np.dtype) and dtype.hasobject)
    ):
        # An array without values says nothing of their type: that of NumPy is float64.
        return _foreign(pa.array(values)) if kind is None or len(values) else pa.nulls(0, kind)  # type: ignore[call-overload]
    return _inferred(values) if kind is None else _listed(values, kind)


def _of_pandas(values: object) -> bool:
    return any(kind.__module__.split(".")[0] == "pandas" for kind in type(values).__mro__)


def _foreign(values: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Return values of which others own the memory as a column with memory of its own, checked before it is read."""
    column = pa.chunked_array([values]) if isinstance(values, pa.Array) else values
    column = used_alone(column) if shares_values(column.type) else column
    column.validate(full=True)
    return owned_column(column)


def _listed(values: Any, kind: pa.DataType) -> pa.Array[Any] | pa.ChunkedArray[Any]:  # noqa: ANN401
    """Read Python values, as another type than their own only where nothing is lost, unlike ``pa.array(…, type)``.

    Python has one type of floats: they are read as the nearest ones of a shorter type.
    """
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType):
        return _members(values, kind)
    try:
        own: pa.Array[Any] = pa.array(values)
    except (pa.ArrowInvalid, OverflowError):
        return pa.array(values, type=kind)  # such as integers beyond 64 bits, for decimals
    if own.type == kind:
        return own
    if pa.types.is_null(kind):
        msg = f"values are {own.type}, but all values of the first batch were NULL; give schemas= with the types"
        raise pa.ArrowTypeError(msg)
    given, wanted = family(own.type), family(kind)
    if given == wanted == "float":
        return _nearest_floats(own, kind)
    if wanted == "decimal" and takes(given, wanted):
        # A cast of integers to decimals asks for digits that they need not have; reading them again does not.
        return pa.array(values, type=kind)
    if (made := as_type(pa.chunked_array([own]), kind)) is not None:
        return made
    msg = f"values are {own.type}, expected {kind}"
    raise pa.ArrowTypeError(msg)


def _members(values: Any, kind: pa.DataType) -> pa.Array[Any]:  # noqa: ANN401
    made: pa.Array[Any] = pa.array(values, type=kind)
    # `float` is the name of float32, `double` that of float64; members are looked at where one may be too large.
    if "float" in str(kind) and _infinities(made.to_pylist()) > _infinities(values):
        msg = f"a value is beyond the largest of {kind}"
        raise pa.ArrowInvalid(msg)
    return made


def _infinities(value: Any) -> int:  # noqa: ANN401
    """Return how many infinite floats are in a Python value, at any depth."""
    if isinstance(value, (float, np.floating)):
        return int(np.isinf(value))
    if isinstance(value, pa.Scalar):
        return _infinities(value.as_py())
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return 0
    return sum(map(_infinities, value))


def _inferred(values: Any) -> pa.Array[Any]:  # noqa: ANN401
    try:
        return pa.array(values)  # type: ignore[no-any-return]  # the stubs are of pyarrow 20
    except OverflowError:
        return pa.array(values, type=pa.uint64())  # integers from 2**63 on


def _nearest_floats(values: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    made = values.cast(kind)
    beyond = pc.and_(pc.is_inf(made.cast(pa.float64())), pc.is_finite(values.cast(pa.float64())))
    if pc.any(beyond, min_count=0).as_py():
        msg = f"value {values.filter(beyond)[0]} is beyond the largest {kind}"
        raise pa.ArrowInvalid(msg)
    return made


def _mended(table: pa.Table, schema: pa.Schema, side: str, known_from: str) -> pa.Table:
    """Return the table with the columns of the schema, of other types where nothing is lost."""
    same_schema(table.schema, schema, side)
    columns = []
    for column, field in zip(table.columns, schema, strict=True):
        if column.type == field.type:
            columns.append(column)
            continue
        said = f"column {field.name!r} of the {side} batch is {column.type}, expected {field.type} {known_from}"
        try:
            made = as_type(column, field.type)
        except pa.ArrowException as error:
            msg = (
                f"{said}, and not all of its values can be: {error}; cast the column, or give another type in schemas="
            )
            raise SchemaError(msg) from error
        if made is None and pa.types.is_null(field.type):
            msg = f"{said}, which had only NULLs in it; give schemas= with the types when you create the join"
            raise SchemaError(msg)
        if made is None:
            msg = f"{said}; cast it"
            raise SchemaError(msg)
        columns.append(made)
    return pa.Table.from_arrays(columns, schema=schema)


FAMILIES: dict[str, Callable[[pa.DataType], bool]] = {
    "null": pa.types.is_null,
    "boolean": pa.types.is_boolean,
    "integer": pa.types.is_integer,
    "float": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "timestamp": pa.types.is_timestamp,
    "date": pa.types.is_date,
    "time": pa.types.is_time,
    "duration": pa.types.is_duration,
    "string": lambda kind: any(
        is_(kind) for is_ in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    ),
    "binary": lambda kind: any(
        is_(kind) for is_ in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    ),
}

WIDER = {("integer", "float"), ("integer", "decimal")}
"""Kinds of numbers whose values may be those of another kind."""


def family(kind: pa.DataType) -> str:
    """Return the kind of values of a type, "other" where no other type has the same."""
    return next((name for name, is_one in FAMILIES.items() if is_one(kind)), "other")


def takes(given: str, wanted: str) -> bool:
    """Return whether values of one family may be those of another."""
    return (given == wanted != "other") or given == "null" or (given, wanted) in WIDER


def as_type(column: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.ChunkedArray[Any] | None:
    """Return the column as another type; None if such values are not taken as that type.

    Raises
    ------
    pyarrow.ArrowException
        If a value would not be the same.
    """
    if pa.types.is_null(column.type):
        return chunks_of([pa.nulls(len(column)).cast(kind)], kind)
    if isinstance(kind, pa.BaseExtensionType) or isinstance(column.type, pa.BaseExtensionType):
        return None
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type != plain:
        if not takes(family(column.type), family(plain)) or _zone(column.type) != _zone(plain):
            return None
        column = _exact(column, plain)
    if not pa.types.is_dictionary(kind):
        return column
    encoded: Any = pc.dictionary_encode(column)
    return chunks_of(
        [
            pa.DictionaryArray.from_arrays(one.indices.cast(kind.index_type), one.dictionary, ordered=kind.ordered)
            for one in encoded.chunks
        ],
        kind,
    )


def _zone(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _exact(column: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.ChunkedArray[Any]:
    if pa.types.is_decimal(kind) and pa.types.is_integer(column.type):
        # Arrow asks for as many digits as the type may have, whatever the values need.
        column = column.cast(
            pa.decimal256(76, kind.scale) if pa.types.is_decimal256(kind) else pa.decimal128(38, kind.scale)
        )
    out = column.cast(kind)
    if pa.types.is_floating(kind) and pa.types.is_floating(column.type):
        back = out.cast(column.type)
        # NaN is no other value than NaN.
        same = pc.or_kleene(pc.equal(back, column), pc.is_nan(column))
        if pc.all(same, min_count=0).as_py() is False:
            msg = f"values would be rounded to {kind}"
            raise pa.ArrowInvalid(msg)
    return out


def same_schema(got: pa.Schema, expected: pa.Schema, side: str) -> None:
    """Compare names, in order.

    Raises
    ------
    SchemaError
        Saying which column differs.
    """
    have, wanted = set(got.names), set(expected.names)
    missing = [name for name in expected.names if name not in have]
    if missing:
        msg = f"the {side} batch lacks column {missing[0]!r}; it has {', '.join(got.names) or 'no columns'}."
        raise SchemaError(msg + nearest(missing[0], got.names))
    unknown = [name for name in got.names if name not in wanted]
    if unknown or len(got.names) != len(expected.names):
        extra = (unknown or got.names)[0]
        msg = f"the {side} batch has column {extra!r}, which earlier batches lack: {', '.join(expected.names)}"
        raise SchemaError(msg)
    if got.names != expected.names:
        msg = (
            f"the {side} batch has its columns in another order: {', '.join(got.names)}; "
            f"expected {', '.join(expected.names)}"
        )
        raise SchemaError(msg)
