"""What is taken as a batch, and that the window never shares memory which its owner may write into."""

from __future__ import annotations

import array
import math
from datetime import datetime
from decimal import Decimal
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.operator.ingest.batches import same_schema, to_table
from slidejoin.plan.output_schema import names_twice

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.float64())])
PLAIN = {"a": [1, 2], "b": [0.5, 1.5]}


class Stream:
    """Something with ``__arrow_c_stream__`` and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class OneArray:
    """Something with ``__arrow_c_array__`` and nothing else."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


TABLE = pa.table(PLAIN, SCHEMA)
GIVEN: dict[str, Any] = {
    "table": TABLE,
    "chunks": pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1, 0), TABLE.slice(1)]),
    "metadata": TABLE.replace_schema_metadata({"k": "v"}),
    "required": TABLE.cast(pa.schema([pa.field(f.name, f.type, nullable=False, metadata={"m": "n"}) for f in SCHEMA])),
    "batch": TABLE.to_batches()[0],
    "dict": PLAIN,
    "tuples": {"a": (1, 2), "b": (0.5, 1.5)},
    "numpy": {"a": np.array([1, 2]), "b": np.array([0.5, 1.5])},
    "strided": {"a": np.array([1, 0, 2])[::2], "b": np.array([1.5, 0.5])[::-1]},
    "arrow": {"a": TABLE.column(0), "b": TABLE.column(1).chunk(0)},
    "series": {"a": pd.Series([1, 2]), "b": pl.Series([0.5, 1.5])},
    "buffers": {"a": array.array("q", [1, 2]), "b": range(2)},
    "pandas": pd.DataFrame(PLAIN, index=[7, 8]),
    "polars": pl.DataFrame(PLAIN),
    "stream": Stream(TABLE),
    "array": OneArray(TABLE.to_batches()[0]),
    "reader": lambda: pa.RecordBatchReader.from_batches(SCHEMA, TABLE.to_batches()),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", GIVEN)
def test_what_is_taken(name: str, known: bool) -> None:
    batch = GIVEN[name]() if name == "reader" else GIVEN[name]
    if name == "buffers" and not known:
        batch = batch | {"b": [0.0, 1.0]}
    table = to_table(batch, "left", SCHEMA if known else None)
    assert table.schema.equals(SCHEMA) or name == "required"
    assert table.schema.types == SCHEMA.types
    assert table.column("a").to_pylist() == [1, 2]
    assert table.column("b").to_pylist() == ([0.0, 1.0] if name == "buffers" else [0.5, 1.5])


def test_values_of_a_dict_take_the_known_types() -> None:
    schema = pa.schema([("a", pa.int16()), ("b", pa.timestamp("ms"))])
    assert to_table({"a": [1], "b": [None]}, "left", schema).schema.equals(schema)


def test_masks_become_null() -> None:
    masked = np.ma.masked_array([1, 2, 3], [False, True, False])
    assert to_table({"a": masked}, "left", None).column("a").to_pylist() == [1, None, 3]


class Own:
    """An array of another library, which shows its memory to NumPy."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.values


@pytest.mark.parametrize("kind", ["numpy", "series", "frame", "foreign"])
def test_arrays_may_be_written_into_after_the_push(kind: str) -> None:
    values = np.arange(5)
    frame = pd.DataFrame({"a": values}, copy=False)
    made = {"numpy": values, "series": pd.Series(values, copy=False), "foreign": Own(values)}
    batch = frame if kind == "frame" else {"a": made[kind]}
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(10), select=["l.a"])
    join.push(left=batch)
    values[:] = 99
    if kind == "frame":
        frame.loc[:, "a"] = 98
    assert join.push(right={"a": [0, 1, 2, 3, 4, 98, 99]}).column("a").to_pylist() == [0, 1, 2, 3, 4]
    join.push(left={"a": np.arange(5)} if kind != "frame" else pd.DataFrame({"a": np.arange(5)}))
    assert join.push(right={"a": [4]}).num_rows == 2


READ = "the right batch cannot be read as columns: "
BAD: list[tuple[Any, str]] = [
    (5, r"the right batch is a int; give a pyarrow Table or RecordBatch, a pandas or Polars frame, a dict of arrays"),
    ([1], "the right batch is a list"),
    ({"a": 1}, READ),
    ({"a": object()}, READ),
    ({"a": [object()]}, READ),
    ({"a": [1, "x"]}, READ),
    ({"a": np.zeros((2, 2))}, READ),
    ({1: [1]}, READ + "names of columns are text, got 1"),
    ({"a": [1], "b": [1, 2]}, READ + "columns have different lengths: a 1, b 2"),
    (pa.table([[1], [2]], ["a", "a"]), "the right batch has more than one column named 'a'; rename them"),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), READ),
]


@pytest.mark.parametrize(("batch", "text"), BAD, ids=range(len(BAD)))
def test_what_is_refused_and_nothing_taken(batch: Any, text: str) -> None:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(10))
    join.push(left={"a": [1]})
    with pytest.raises(sj.SchemaError, match=text):
        join.push(right=batch)
    assert join.stats.rows_right == 0
    assert join.push(right={"a": [1]}).num_rows == 1


@pytest.mark.parametrize(
    ("got", "text"),
    [
        ({"a": pa.int64()}, "the left batch lacks column 'b'; it has a."),
        ({"a": pa.int64(), "bb": pa.float64()}, "lacks column 'b'; it has a, bb. Did you mean 'bb'?"),
        ({"a": pa.int64(), "b": pa.float64(), "c": pa.int8()}, "has column 'c', which earlier batches lack: a, b"),
        ({"b": pa.float64(), "a": pa.int64()}, "has its columns in another order: b, a; expected a, b"),
        ({}, "lacks column 'a'; it has no columns."),
    ],
    ids=str,
)
def test_other_schemas(got: dict[str, pa.DataType], text: str) -> None:
    same_schema(SCHEMA, SCHEMA, "left")
    with pytest.raises(sj.SchemaError) as error:
        same_schema(pa.schema(list(got.items())), SCHEMA, "left")
    assert text in str(error.value)


def test_several_chunks_and_empty_batches_of_every_kind() -> None:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(10), schemas=(SCHEMA, SCHEMA))
    none = [pa.chunked_array([], SCHEMA.field(n).type) for n in SCHEMA.names]
    empty = [SCHEMA.empty_table(), pa.table(none, names=SCHEMA.names)]
    empty += [pa.record_batch(SCHEMA.empty_table().columns and [[], []], schema=SCHEMA), {"a": [], "b": []}]
    empty += [pl.DataFrame(schema={"a": pl.Int64, "b": pl.Float64}), TABLE.slice(2)]
    empty += [pd.DataFrame({"a": np.array([], np.int64), "b": np.array([], float)})]
    for batch in empty:
        assert join.push(left=batch, right=batch, order_by="a").num_rows == 0
        assert join.push(left=batch).num_rows == join.push(right=batch).num_rows == 0
    assert (join.stats.rows_left, join.stats.rows_right) == (0, 0)
    chunks = GIVEN["chunks"]
    assert join.push(left=chunks, right=chunks).num_rows == 2


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        (pa.int64(), [1.9], "column 'a': values are double, expected int64"),
        (pa.int64(), [Decimal("1.5")], "column 'a': values are decimal128(2, 1), expected int64"),
        (pa.int64(), [True], "column 'a': values are bool, expected int64"),
        (pa.int16(), [70_000], "column 'a': Integer value 70000 not in range"),
        (pa.timestamp("s"), [datetime(2020, 1, 1, 0, 0, 0, 5)], "would lose data"),
        (pa.date32(), [datetime(2020, 1, 1, 1)], "column 'a': values are timestamp[us], expected date32[day]"),
        (pa.null(), [1], "values are int64, but all values of the first batch were NULL; give schemas= with the types"),
    ],
    ids=["float", "decimal", "boolean", "range", "unit", "date", "null"],
)
def test_python_values_are_never_cut_to_fit(kind: pa.DataType, values: list[Any], text: str) -> None:
    schema = pa.schema([("a", kind)])
    with pytest.raises(sj.SchemaError, match="the left batch cannot be read as columns: ") as error:
        to_table({"a": values}, "left", schema)
    assert text in str(error.value)


def test_python_values_that_fit_another_type_are_taken() -> None:
    schema = pa.schema([("i", pa.uint8()), ("f", pa.float64()), ("d", pa.decimal128(5, 1)), ("u", pa.uint64())])
    table = to_table({"i": [None], "f": [1], "d": [2], "u": [2**64 - 1]}, "left", schema)
    assert table.schema == schema
    assert table.to_pylist() == [{"i": None, "f": 1.0, "d": Decimal("2.0"), "u": 2**64 - 1}]


@pytest.mark.parametrize("one", [pa.table({"a": [1]}), {"a": [1]}, None, 5], ids=["table", "dict", "None", "number"])
def test_join_streams_wants_iterables_of_batches(one: Any) -> None:
    with pytest.raises(sj.SchemaError, match="join_streams takes an iterable of left batches, got"):
        list(sj.join_streams(one, [], on="l.a = r.a", window=sj.CountWindow(1)))


@pytest.mark.parametrize("schemas", [(pa.schema([]),), pa.schema([("a", pa.int64())]), ({"a": int},) * 2, 5], ids=repr)
def test_schemas_are_a_pair(schemas: Any) -> None:
    with pytest.raises(ValueError, match="schemas must be a pair of pyarrow schemas"):
        sj.StreamJoin("l.a = r.a", sj.CountWindow(1), schemas=schemas)


def test_a_self_join_has_one_schema() -> None:
    with pytest.raises(ValueError, match=r"a self-join needs the same schema twice.*; got two that differ"):
        sj.StreamJoin(
            "l.a = r.b",
            sj.CountWindow(1),
            self_join=True,
            schemas=(pa.schema([("a", pa.int64())]), pa.schema([("b", pa.int64())])),
        )


NUMPY_SCHEMA = pa.schema([("i", pa.int64()), ("f", pa.float32())])
ARRAYS: dict[str, Any] = {"i": np.array([1, 2]), "f": np.array([0.5, np.nan], np.float32)}


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (ARRAYS, {"i": [1, 2], "f": [0.5, "nan"]}),
        ({"i": np.array([1, 0, 2])[::2], "f": ARRAYS["f"]}, {"i": [1, 2], "f": [0.5, "nan"]}),
        ({"i": ARRAYS["i"].astype(np.int8), "f": [None, 2]}, {"i": [1, 2], "f": [None, 2.0]}),
        ({"i": np.empty(0, np.int64), "f": np.empty(0, np.float32)}, {"i": [], "f": []}),
    ],
    ids=["exact", "strided", "others", "empty"],
)
def test_arrays_of_numpy_are_read_alike(batch: Any, expected: dict[str, list[Any]]) -> None:
    table = to_table(batch, "left", NUMPY_SCHEMA)
    table.validate(full=True)
    assert table.schema.equals(NUMPY_SCHEMA, check_metadata=True)
    got = {name: ["nan" if value != value else value for value in values] for name, values in table.to_pydict().items()}
    assert got == expected


def test_a_dict_in_another_order_is_still_refused() -> None:
    with pytest.raises(sj.SchemaError, match="the left batch has its columns in another order: f, i; expected i, f"):
        to_table({"f": ARRAYS["f"], "i": ARRAYS["i"]}, "left", NUMPY_SCHEMA)
    with pytest.raises(sj.SchemaError, match="columns have different lengths: i 1, f 2"):
        to_table({"i": np.array([1]), "f": ARRAYS["f"]}, "left", NUMPY_SCHEMA)


def test_a_table_of_the_same_schema_is_passed_on() -> None:
    assert to_table(TABLE, "left", SCHEMA, own=False) is TABLE
    assert to_table(TABLE, "left", SCHEMA) == TABLE
    named = SCHEMA.with_metadata({"k": "v"})
    assert to_table(TABLE, "left", named).schema.equals(named, check_metadata=True)


def test_integers_from_2_to_the_63_are_uint64() -> None:
    whole = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(9))
    whole.push(left={"a": [2**63, None, 2**64 - 1]}, right={"a": [1, 2**63]})
    found = whole.push(left={"a": [2**63, 1]})
    assert found.schema == pa.schema([("a", pa.uint64()), ("a_right", pa.uint64())])
    assert set(found["a"].to_pylist()) == {1, 2**63}


@pytest.mark.parametrize(
    "batches", [[{"a": [2**64]}], [{"a": [2**63, -1]}], [{"a": [1]}, {"a": [2**63]}]], ids=["66 bits", "sign", "int64"]
)
def test_larger_integers_are_refused_with_what_to_do(batches: list[dict[str, list[int]]]) -> None:
    whole = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(9))
    for batch in batches[:-1]:
        whole.push(left=batch)
    with pytest.raises(sj.SchemaError, match=r"column 'a': .* uint64 has room for 0 to 2\*\*64 - 1.*schemas="):
        whole.push(left=batches[-1])
    assert whole.push(left=batches[0] if batches[1:] else {"a": [3]}).num_rows == 0


def test_cost_grows_linearly_with_the_number_of_columns() -> None:
    """Looking through all names for each name would take a hundred times as long."""
    rows = {f"c{place}": [1] for place in range(20_000)}
    begun = process_time()
    table = to_table(rows, "left", None)
    assert to_table(rows, "left", table.schema).equals(table)
    assert to_table(table.to_batches()[0], "left", table.schema).equals(table)
    other = table.set_column(0, "c0", pa.array([1], pa.int32()))
    assert to_table(other, "left", table.schema).equals(table)
    assert names_twice([*rows, "c7"], fold=False) == ["c7"]
    assert process_time() - begun < 8


class Column:
    """A column of another library, with one of the ways in which Arrow reads it."""

    def __init__(self, values: pa.Array[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)


class AsArray(Column):
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._values.__arrow_c_array__(requested_schema)


class AsStream(Column):
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.chunked_array([self._values]).__arrow_c_stream__(requested_schema)


class OfArrow(Column):
    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array[Any]:  # noqa: A002 - its name in Arrow
        return self._values if type is None else self._values.cast(type)


WAYS: dict[str, Any] = {
    "pyarrow": lambda values: values,
    "array": AsArray,
    "stream": AsStream,
    "protocol": OfArrow,
    "pandas": lambda values: pd.Series(pd.arrays.ArrowExtensionArray(values)),
}


@pytest.mark.parametrize("known", [None, pa.string(), pa.string_view(), pa.large_string()], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_invalid_memory_is_refused_before_it_is_read(way: str, known: pa.DataType | None) -> None:
    offsets = np.array([0, 2, 5], np.int32)
    column = WAYS[way](pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"abcde")]))
    offsets[1] = 4_000_000
    with pytest.raises(sj.SchemaError, match=r"column 's': .*(offset|Offset)"):
        to_table({"s": column}, "left", None if known is None else pa.schema([("s", known)]))


FLOATS = pa.schema([("x", pa.float32())])


@pytest.mark.parametrize(
    "values", [[0.1, None, 3, float("inf")], np.array([0.1, None, 3, np.inf], object)], ids=["list", "objects"]
)
def test_floats_of_python_are_the_nearest_ones_of_the_type(values: Any) -> None:
    table = to_table({"x": values}, "left", FLOATS)
    assert table["x"].to_pylist() == [float(np.float32(0.1)), None, 3.0, float("inf")]
    half = to_table({"x": values}, "left", pa.schema([("x", pa.float16())]))
    assert half["x"].to_pylist()[2:] == [3.0, float("inf")]
    with pytest.raises(sj.SchemaError, match=r"column 'x': value 1e\+300 is beyond the largest float"):
        to_table({"x": [0.1, 1e300]}, "left", FLOATS)


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        (pa.list_(pa.float32()), lambda one: [one, None]),
        (pa.list_(pa.float32(), 2), lambda one: (0.5, one)),
        (pa.list_(pa.list_(pa.float16())), lambda one: [None, [one]]),
        (pa.struct([("x", pa.float32()), ("y", pa.float64())]), lambda one: {"x": one, "y": 1e300}),
        (pa.map_(pa.string(), pa.float32()), lambda one: [("a", one)]),
        (pa.dictionary(pa.int32(), pa.float32()), lambda one: one),
    ],
    ids=lambda one: str(one) if isinstance(one, pa.DataType) else "",
)
def test_members_are_never_made_infinite(kind: pa.DataType, make: Callable[[float], Any]) -> None:
    schema = pa.schema([("x", kind)])
    rows = [make(0.5), None, make(math.inf), make(-math.inf)]
    table = to_table({"x": rows}, "left", schema)
    expected: pa.Array[Any] = pa.array(rows, kind)
    assert table["x"].to_pylist() == expected.to_pylist()
    assert to_table({"x": np.array([*rows, make(0.5)], object)}, "left", schema).num_rows == len(rows) + 1
    with pytest.raises(sj.SchemaError, match="column 'x': a value is beyond the largest of"):
        to_table({"x": [*rows, make(1e300)]}, "left", schema)


VALUES: list[tuple[Any, pa.DataType, Any]] = [
    (np.array([0.1, 1e300]), pa.float32(), None),
    (np.array([0.5, 2.0]), pa.float32(), [0.5, 2.0]),
    (np.array([1.0, 2.0]), pa.int64(), None),
    (np.array([True, False]), pa.int64(), None),
    (np.array([1, 2]), pa.int16(), [1, 2]),
    (np.array([1, 70_000]), pa.int16(), None),
    (np.array([1, 2]), pa.timestamp("us"), None),
    (np.array([1, 2], "datetime64[us]"), pa.int64(), None),
    (
        np.array([1000, 2000], "datetime64[ns]"),
        pa.timestamp("us"),
        [datetime(1970, 1, 1, 0, 0, 0, at) for at in (1, 2)],
    ),
    (np.array([1001, 2000], "datetime64[ns]"), pa.timestamp("us"), None),
    (np.array(["a", "b"]), pa.large_string(), ["a", "b"]),
    (np.array(["a", "b"]), pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
    (np.array([1, 2]), pa.string(), None),
]


@pytest.mark.parametrize(("values", "kind", "expected"), VALUES, ids=range(len(VALUES)))
def test_every_form_of_an_array_is_taken_alike(values: Any, kind: pa.DataType, expected: list[Any] | None) -> None:
    """As a type that the side's is not, what loses nothing is taken and everything else is refused."""
    schema = pa.schema([("a", kind)])
    arrow = pa.array(values)
    forms: dict[str, Any] = {"numpy": values, "strided": np.repeat(values, 2)[::2], "own": Own(values)}
    forms |= {name: way(arrow) for name, way in WAYS.items()} | {"series": pd.Series(values)}
    batches: dict[str, Any] = {name: {"a": form} for name, form in forms.items()}
    batches |= {"table": pa.table({"a": arrow}), "frame": pd.DataFrame({"a": values})}
    for name, batch in batches.items():
        if expected is not None:
            assert to_table(batch, "left", schema)["a"].to_pylist() == expected, name
            continue
        with pytest.raises(
            sj.SchemaError, match=r"column 'a' of the left batch is .*, expected .* as in the first batch"
        ):
            to_table(batch, "left", schema)


@pytest.mark.parametrize(
    "values",
    [np.array([]), pd.Series([], dtype=float), Own(np.array([])), []],
    ids=["array", "series", "object", "list"],
)
def test_an_array_without_values_has_any_type(values: Any) -> None:
    assert to_table({"a": values}, "left", pa.schema([("a", pa.int64())])).num_rows == 0
