"""The types of columns that can be given to a join, each with a few values: what tests of "every type" go through.

A value of a kind is named by its number: 0, 1 and 2 ascend where the type has an order. A kind with fewer values
repeats its last one; None is NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pandas as pd
import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["KINDS", "Kind", "OwnType", "rows_of_page"]

Maker = "Callable[[list[Any]], Any]"


class OwnType(pa.ExtensionType):
    """An extension type of the tests' own, over any storage."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, f"slidejoin.tests.own.{storage}")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> OwnType:
        return cls(storage)


for _storage in (pa.int64(), pa.string_view()):
    pa.register_extension_type(OwnType(_storage))


@dataclass(frozen=True, eq=False)
class Kind:
    """One type of column.

    ``make`` turns Python values into a column, which is an Arrow array, a Polars series or what pandas takes. ``step``
    is SQL text of a constant that is less than the distance of two values, ``literal`` that of the last value where
    Python has no constant of the type, ``function`` an equality of function calls that holds for equal values alone.
    ``length`` is a window for event times of this type, less than the distance of two.
    """

    name: str
    page: str
    values: Sequence[Any]
    make: Callable[[list[Any]], Any]
    step: str = "1"
    function: str = "coalesce(l.v, l.v) = coalesce(r.v, r.v)"
    length: Any = "1 second"
    literal: str | None = None
    plain: pa.DataType | None = None
    frame: str = "arrow"

    def __post_init__(self) -> None:
        if self.literal is None and (not self.values or isinstance(self.values[0], (list, dict, pa.MonthDayNano))):
            text = str(self.values[-1]) if self.values and isinstance(self.values[-1], list) else "1"
            object.__setattr__(self, "literal", "1" if any(mark in text for mark in ("(", "{", "[b'")) else text)

    def canon(self, number: int | None) -> int | None:
        """The number of a value as it comes out again."""
        return None if number is None or not self.values else min(number, len(self.values) - 1)

    def column(self, numbers: Sequence[int | None]) -> Any:
        """A column with these values."""
        places = [self.canon(number) for number in numbers]
        return self.make([None if place is None else self.values[place] for place in places])

    def batch(self, plain: dict[str, list[Any]], **columns: Sequence[int | None]) -> Any:
        """A batch of integer columns and columns of this kind."""
        made = {name: self.column(numbers) for name, numbers in columns.items()}
        if self.frame == "polars":
            return pl.DataFrame(plain | made, schema_overrides=dict.fromkeys(plain, pl.Int64))
        if self.frame == "pandas":
            return pd.DataFrame({name: pd.Series(values, dtype="int64") for name, values in plain.items()} | made)
        return pa.table({name: pa.array(values, pa.int64()) for name, values in plain.items()} | made)

    def schema(self, *plain: str, columns: Sequence[str] = ("v",)) -> pa.Schema:
        """The schema of such batches."""
        fields = [pa.field(name, pa.int64()) for name in plain]
        return pa.schema([*fields, *(pa.field(name, self.type) for name in columns)])

    def arrow(self, numbers: Sequence[int | None]) -> pa.ChunkedArray[Any]:
        """The values as an Arrow column."""
        batch = self.batch({}, v=numbers)
        if self.frame == "pandas":
            return pa.Table.from_pandas(batch, preserve_index=False).column("v")
        return (pa.table(batch) if self.frame == "polars" else batch).column("v")

    @cached_property
    def type(self) -> pa.DataType:
        """The Arrow type."""
        return self.arrow([0]).type

    @cached_property
    def _known(self) -> list[Any]:
        return self.arrow(range(len(self.values))).to_pylist()

    def read(self, column: Any) -> list[int | None]:
        """The numbers of the values in a column."""
        return [None if value is None else self._known.index(value) for value in column.to_pylist()]

    def __str__(self) -> str:
        return self.name


def of(kind: pa.DataType) -> Callable[[list[Any]], Any]:
    return lambda values: pa.array(values, kind)


def indices(values: list[Any], entries: list[Any]) -> list[Any]:
    return [None if value is None else entries.index(value) for value in values]


def dictionary(entries: list[Any], kind: pa.DataType, index: pa.DataType = pa.int8(), *, null: bool = False) -> Any:  # noqa: B008
    """A dictionary with more entries than are used; with ``null`` NULL is one of them, and NULLs refer to it."""

    def make(values: list[Any]) -> pa.Array[Any]:
        of_entries = [None, *entries] if null else entries
        places = [of_entries.index(value) if value is not None or null else None for value in values]
        return pa.DictionaryArray.from_arrays(pa.array(places, index), pa.array(of_entries, kind))

    return make


def runs(inner: Callable[[list[Any]], Any], ends: pa.DataType = pa.int32()) -> Any:  # noqa: B008
    def make(values: list[Any]) -> pa.Array[Any]:
        return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(values) + 1), ends), inner(values))

    return make


def members(inner: Callable[[list[Any]], Any]) -> Any:
    """Lists whose members are made by ``inner``."""

    def make(values: list[Any]) -> pa.Array[Any]:
        ends: list[int] = [0]
        flat: list[Any] = []
        for value in values:
            flat += value or []
            ends.append(len(flat))
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner(flat), mask=mask)

    return make


def stored(kind: Any, storage: pa.DataType) -> Any:
    return lambda values: pa.ExtensionArray.from_storage(kind, pa.array(values, storage))


def series(dtype: Any) -> Any:
    return lambda values: pl.Series("v", values, dtype=dtype)


NUMBERS, TEXTS, BYTES = [1, 3, 5], ["a", "b", "long enough to lie elsewhere"], [b"a", b"bb", b"ccc, not inline at all"]
FLOATS = [-1.5, 2.0, 4.5]
DATES = [date(2024, 1, 1), date(2024, 1, 3), date(2024, 2, 1)]
TIMES = [datetime(2024, 1, 1, 12), datetime(2024, 1, 3), datetime(2024, 2, 1, 1)]
ZONED = [one.replace(tzinfo=UTC) for one in TIMES]
CLOCKS = [time(1), time(2, 30), time(23, 59, 59)]
SPANS = [timedelta(days=-2), timedelta(days=1), timedelta(days=4)]
LISTS, TEXT_LISTS = [[1], [2, 3], [3]], [["a"], ["a", "b"], ["b"]]
MONTHS = [pa.MonthDayNano([months, 0, 0]) for months in (1, 2, 3)]
STRUCTS, TEXT_STRUCTS = [{"x": 1}, {"x": 2}, {"x": 3}], [{"x": "a"}, {"x": "b"}, {"x": "c, not inline at all"}]
MAPS = [[("a", 1)], [("a", 2)], [("b", 1), ("c", 3)]]
UUIDS = [UUID(int=number) for number in (1, 2, 3)]
DAY = "INTERVAL '1' DAY"
ABS, UPPER = "abs(l.v) = abs(r.v)", "upper(l.v) = upper(r.v)"
SIZE, MONTH = "octet_length(l.v) = octet_length(r.v)", "date_trunc('day', l.v) = date_trunc('day', r.v)"


def cents(values: Sequence[int]) -> list[Decimal]:
    return [Decimal(value) for value in values]


def wide(digits: int) -> list[Decimal]:
    return [Decimal(10 ** (digits - 3) + 2 * number) for number in range(3)]


def _numbers() -> list[Kind]:
    widths = (8, 16, 32, 64)
    ints = [getattr(pa, f"{sign}int{width}")() for sign in ("", "u") for width in widths]
    found = [Kind(str(kind), "integers", NUMBERS, of(kind), function=ABS, length=1) for kind in ints]
    found += [
        Kind(str(kind), "floats", FLOATS, of(kind), function=ABS) for kind in (pa.float16(), pa.float32(), pa.float64())
    ]
    narrow = [pa.decimal32(5, 2), pa.decimal64(10, 3), pa.decimal128(18, 4), pa.decimal256(18, 0), pa.decimal128(3, -2)]
    found += [
        Kind(str(kind), "decimals to 38 digits", cents((100, 300, 500)), of(kind), function=ABS) for kind in narrow
    ]
    found += [
        Kind(str(kind), "decimals to 38 digits", wide(kind.precision - kind.scale), of(kind), function=ABS)
        for kind in (pa.decimal128(19, 2), pa.decimal128(38, 0), pa.decimal256(38, 10))
    ]
    far = pa.decimal256(60, 2)
    return [*found, Kind(str(far), "decimals of more than 38 digits", wide(40), of(far), function=ABS)]


def _times() -> list[Kind]:
    found = [
        Kind(str(kind), "dates", DATES, of(kind), step=DAY, function=MONTH, length="1 day")
        for kind in (pa.date32(), pa.date64())
    ]
    for unit in ("s", "ms", "us", "ns"):
        for zone, values, page in ((None, TIMES, "without"), ("UTC", ZONED, "with"), ("Asia/Kolkata", ZONED, "with")):
            kind = pa.timestamp(unit, zone)
            found.append(Kind(str(kind), f"timestamps {page} time zone", values, of(kind), step=DAY, function=MONTH))
    found += [
        Kind(str(kind), "times of day", CLOCKS, of(kind))
        for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    ]
    found += [
        Kind(str(pa.duration(unit)), "durations", SPANS, of(pa.duration(unit)), step=DAY)
        for unit in ("s", "ms", "us", "ns")
    ]
    return [*found, Kind("month_day_nano_interval", "month intervals", MONTHS, of(pa.month_day_nano_interval()))]


def _texts() -> list[Kind]:
    found = [
        Kind(str(kind), "strings", TEXTS, of(kind), function=UPPER)
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    ]
    found += [
        Kind(str(kind), "binary", BYTES, of(kind), function=SIZE)
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    ]
    fixed = pa.binary(2)
    return [*found, Kind(str(fixed), "binary", [b"aa", b"ab", b"ba"], of(fixed), function="l.v = r.v")]


def _dictionaries() -> list[Kind]:
    found = []
    for inner in (pa.string(), pa.large_string(), pa.string_view()):
        for index in (pa.int8(), pa.uint32(), pa.int64()):
            name = f"dictionary<{inner}> by {index}"
            make = dictionary(TEXTS, inner, index)
            found.append(Kind(name, "dictionaries of strings", TEXTS, make, function=UPPER, plain=pa.string()))
        make = dictionary(TEXTS, inner, null=True)
        name = f"dictionary<{inner}> with a NULL entry"
        found.append(Kind(name, "dictionaries of strings", TEXTS, make, function=UPPER, plain=pa.string()))
    for of_bytes in (pa.binary(), pa.large_binary(), pa.binary_view()):
        make = dictionary(BYTES, of_bytes)
        found.append(
            Kind(f"dictionary<{of_bytes}>", "dictionaries of binary", BYTES, make, function=SIZE, plain=pa.binary())
        )
    pairs = [b"aa", b"ab", b"ba"]
    found += [
        Kind(
            "dictionary<fixed>", "dictionaries of binary", pairs, dictionary(pairs, pa.binary(2)), function="l.v = r.v"
        ),
        Kind(
            "dictionary<int64>",
            "dictionaries of integers",
            NUMBERS,
            dictionary(NUMBERS, pa.int64()),
            function=ABS,
            length=1,
        ),
        Kind(
            "dictionary<uint8> with a NULL entry",
            "dictionaries of integers",
            NUMBERS,
            dictionary(NUMBERS, pa.uint8(), null=True),
            function=ABS,
            length=1,
        ),
        Kind("dictionary<double>", "dictionaries of floats", FLOATS, dictionary(FLOATS, pa.float64()), function=ABS),
        Kind("dictionary<halffloat>", "dictionaries of floats", FLOATS, dictionary(FLOATS, pa.float16()), function=ABS),
        Kind(
            "dictionary<decimal64>",
            "dictionaries of decimals",
            cents((1, 3, 5)),
            dictionary(cents((1, 3, 5)), pa.decimal64(10, 2)),
            function=ABS,
        ),
        Kind("dictionary<bool>", "dictionaries of booleans", [False, True], dictionary([False, True], pa.bool_())),
        Kind(
            "dictionary<date32>",
            "dictionaries of dates",
            DATES,
            dictionary(DATES, pa.date32()),
            step=DAY,
            function=MONTH,
            length="1 day",
        ),
        Kind(
            "dictionary<timestamp>",
            "dictionaries of timestamps",
            TIMES,
            dictionary(TIMES, pa.timestamp("ms")),
            step=DAY,
            function=MONTH,
        ),
        Kind("dictionary<time64>", "dictionaries of times of day", CLOCKS, dictionary(CLOCKS, pa.time64("us"))),
        Kind(
            "dictionary<duration>", "dictionaries of durations", SPANS, dictionary(SPANS, pa.duration("us")), step=DAY
        ),
        Kind("dictionary<list>", "dictionaries of lists", LISTS, dictionary(LISTS, pa.list_(pa.int64()))),
        Kind(
            "dictionary<struct>",
            "dictionaries of other types",
            STRUCTS,
            dictionary(STRUCTS, pa.struct([("x", pa.int64())])),
        ),
        Kind(
            "dictionary<interval>",
            "dictionaries of other types",
            MONTHS,
            dictionary(MONTHS, pa.month_day_nano_interval()),
        ),
    ]
    return found


def _runs() -> list[Kind]:
    page = "run-end encoded"
    return [
        Kind(
            "runs of int64", f"{page} integers", NUMBERS, runs(of(pa.int64())), function=ABS, length=1, plain=pa.int64()
        ),
        Kind("runs of double", f"{page} floats", FLOATS, runs(of(pa.float64()), pa.int16()), function=ABS),
        Kind("runs of string", f"{page} strings", TEXTS, runs(of(pa.string())), function=UPPER, plain=pa.string()),
        Kind("runs of string_view", f"{page} strings", TEXTS, runs(of(pa.string_view()), pa.int64()), function=UPPER),
        Kind("runs of timestamp", f"{page} timestamps", TIMES, runs(of(pa.timestamp("us"))), step=DAY, function=MONTH),
        Kind("runs of list", f"{page} lists", LISTS, runs(of(pa.list_(pa.int64())))),
        Kind("runs of dictionary", f"{page} dictionaries", TEXTS, runs(dictionary(TEXTS, pa.string())), function=UPPER),
    ]


def _nested() -> list[Kind]:
    lists = "lists"
    pairs = [[1.0, 2.0], [2.0, 1.0], [3.0, 0.5]]
    return [
        Kind("list<int64>", lists, LISTS, of(pa.list_(pa.int64()))),
        Kind("large_list<string>", lists, TEXT_LISTS, of(pa.large_list(pa.string()))),
        Kind("list<string_view>", lists, TEXT_LISTS, of(pa.list_(pa.string_view())), plain=pa.list_(pa.string())),
        Kind("list<binary_view>", lists, [[b"a"], [b"b"], []], of(pa.list_(pa.binary_view()))),
        Kind(
            "fixed_size_list<double>",
            lists,
            pairs,
            of(pa.list_(pa.float64(), 2)),
            literal="[CAST(3.0 AS DOUBLE), CAST(0.5 AS DOUBLE)]",
        ),
        Kind("list<list<int8>>", "lists of lists", [[[1]], [[2]], [[3], [4]]], of(pa.list_(pa.list_(pa.int8())))),
        Kind("list<halffloat>", lists, [[1.5], [2.5], []], of(pa.list_(pa.float16()))),
        Kind("list<decimal32>", lists, [cents([1]), cents([2]), []], of(pa.list_(pa.decimal32(5, 2)))),
        Kind(
            "list<dictionary<string>>",
            lists,
            TEXT_LISTS,
            members(dictionary(["a", "b", "c"], pa.string())),
            plain=pa.list_(pa.string()),
        ),
        Kind(
            "list<dictionary<string_view>>",
            lists,
            TEXT_LISTS,
            members(dictionary(["a", "b", "c"], pa.string_view())),
            plain=pa.list_(pa.string()),
        ),
        Kind("list<dictionary<large_string>>", lists, TEXT_LISTS, members(dictionary(["a", "b"], pa.large_string()))),
        Kind("list<runs of string>", "lists of run-end encoded values", TEXT_LISTS, members(runs(of(pa.string())))),
        Kind("list_view<int64>", "list views", LISTS, of(pa.list_view(pa.int64()))),
        Kind("large_list_view<string>", "list views", TEXT_LISTS, of(pa.large_list_view(pa.string()))),
        Kind("list_view<string_view>", "list views", TEXT_LISTS, of(pa.list_view(pa.string_view()))),
        Kind(
            "list<struct>",
            "lists of structs and maps",
            [[one] for one in STRUCTS],
            of(pa.list_(pa.struct([("x", pa.int64())]))),
        ),
        Kind(
            "list<struct<string_view>>",
            "lists of structs and maps",
            [[one] for one in TEXT_STRUCTS],
            of(pa.list_(pa.struct([("x", pa.string_view())]))),
        ),
        Kind("struct<int64>", "structs", STRUCTS, of(pa.struct([("x", pa.int64())]))),
        Kind("struct<string_view>", "structs", TEXT_STRUCTS, of(pa.struct([("x", pa.string_view())]))),
        Kind(
            "struct<list_view>",
            "structs",
            [{"x": one} for one in LISTS],
            of(pa.struct([("x", pa.list_view(pa.int64()))])),
        ),
        Kind("map<string, int64>", "maps", MAPS, of(pa.map_(pa.string(), pa.int64()))),
        Kind("map<string_view, int64>", "maps", MAPS, of(pa.map_(pa.string_view(), pa.int64()))),
        Kind(
            "map<int64, string_view>", "maps", [[(1, "a")], [(2, "b")], []], of(pa.map_(pa.int64(), pa.string_view()))
        ),
        Kind("null", "null", [], of(pa.null())),
    ]


def union(values: list[Any]) -> pa.Array[Any]:
    kinds = pa.array([int(isinstance(value, str)) for value in values], pa.int8())
    whole = pa.array([value if isinstance(value, int) else None for value in values], pa.int64())
    text = pa.array([value if isinstance(value, str) else None for value in values], pa.string())
    return pa.UnionArray.from_sparse(kinds, [whole, text])


def dense_union(values: list[Any]) -> pa.Array[Any]:
    whole, text = [one for one in values if not isinstance(one, str)], [one for one in values if isinstance(one, str)]
    kinds, places, seen = [], [], [0, 0]
    for value in values:
        kinds.append(int(isinstance(value, str)))
        places.append(seen[kinds[-1]])
        seen[kinds[-1]] += 1
    children = [pa.array(whole, pa.int64()), pa.array(text, pa.string())]
    return pa.UnionArray.from_dense(pa.array(kinds, pa.int8()), pa.array(places, pa.int32()), children)


def _extensions() -> list[Kind]:
    page = "extension types"
    ids = [one.bytes for one in UUIDS]
    return [
        Kind("sparse_union", "unions", [1, "b", 3], union),
        Kind("dense_union", "unions", [1, "b", 3], dense_union),
        Kind("uuid", page, ids, stored(pa.uuid(), pa.binary(16))),
        Kind("json", page, ['{"a":1}', "2", "[3]"], stored(pa.json_(), pa.string())),
        Kind("bool8", page, [0, 1], stored(pa.bool8(), pa.int8())),
        Kind("opaque", page, BYTES, stored(pa.opaque(pa.binary(), "x", "y"), pa.binary())),
        Kind("own type over int64", page, NUMBERS, stored(OwnType(pa.int64()), pa.int64())),
        Kind("own type over string_view", page, TEXTS, stored(OwnType(pa.string_view()), pa.string_view())),
        Kind(
            "list<uuid>",
            page,
            [[1], [2, 3], [3]],
            members(lambda flat: stored(pa.uuid(), pa.binary(16))([UUID(int=one).bytes for one in flat])),
        ),
    ]


def _frames() -> list[Kind]:
    enum, polars, pandas = pl.Enum([*TEXTS, "never"]), {"frame": "polars"}, {"frame": "pandas"}
    strings, integers, floats = "strings", "integers", "floats"
    entries = "dictionaries of strings"
    return [
        Kind("Polars String", strings, TEXTS, series(pl.String), function=UPPER, **polars),
        Kind("Polars Binary", "binary", BYTES, series(pl.Binary), function=SIZE, **polars),
        Kind("Polars Enum", entries, TEXTS, series(enum), function=UPPER, plain=pa.string(), **polars),
        Kind("Polars Categorical", entries, TEXTS, series(pl.Categorical), function=UPPER, plain=pa.string(), **polars),
        Kind(
            "Polars List(Enum)",
            "lists",
            [[one] for one in TEXTS],
            series(pl.List(enum)),
            plain=pa.list_(pa.string()),
            **polars,
        ),
        Kind("Polars Array", "lists", [[1, 2], [2, 1], [3, 3]], series(pl.Array(pl.Int64, 2)), **polars),
        Kind("Polars Struct", "structs", TEXT_STRUCTS, series(pl.Struct({"x": pl.String})), **polars),
        Kind(
            "Polars Decimal",
            "decimals to 38 digits",
            cents((1, 3, 5)),
            series(pl.Decimal(12, 2)),
            function=ABS,
            **polars,
        ),
        Kind("Polars Time", "times of day", CLOCKS, series(pl.Time), **polars),
        Kind("Polars Null", "null", [], series(pl.Null), **polars),
        Kind(
            "pandas Int64",
            integers,
            NUMBERS,
            lambda values: pd.array(values, "Int64"),
            function=ABS,
            length=1,
            **pandas,
        ),
        Kind("pandas Float32", floats, FLOATS, lambda values: pd.array(values, "Float32"), function=ABS, **pandas),
        Kind("pandas boolean", "booleans", [False, True], lambda values: pd.array(values, "boolean"), **pandas),
        Kind("pandas string", strings, TEXTS, lambda values: pd.array(values, "string"), function=UPPER, **pandas),
        Kind(
            "pandas Categorical", entries, TEXTS, lambda values: pd.Categorical(values, TEXTS), function=UPPER, **pandas
        ),
        Kind(
            "pandas ArrowDtype",
            strings,
            TEXTS,
            lambda values: pd.array(values, pd.ArrowDtype(pa.string())),
            function=UPPER,
            **pandas,
        ),
        Kind(
            "pandas Timestamp",
            "timestamps with time zone",
            ZONED,
            lambda values: pd.Series(values, dtype="datetime64[us, UTC]"),
            step=DAY,
            function=MONTH,
            **pandas,
        ),
        Kind(
            "pandas Period",
            "extension types",
            [1, 2, 3],
            lambda values: pd.arrays.PeriodArray(
                pd.Series([-(2**63) if one is None else one for one in values]).to_numpy(), dtype="period[M]"
            ),
            **pandas,
        ),
    ]


KINDS = [
    Kind("bool", "booleans", [False, True], of(pa.bool_())),
    *_numbers(),
    *_times(),
    *_texts(),
    *_dictionaries(),
    *_runs(),
    *_nested(),
    *_extensions(),
    *_frames(),
]


def rows_of_page() -> dict[str, list[Kind]]:
    """The kinds of each line of the page, in order."""
    found: dict[str, list[Kind]] = {}
    for kind in KINDS:
        found.setdefault(kind.page, []).append(kind)
    return found
