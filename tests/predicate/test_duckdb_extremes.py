"""Every function, cast and operator of docs/predicates.md over extreme values of every type, against DuckDB.

Where slidejoin differs on purpose, `Difference` says so. Each has to occur, so that none outlives its reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.predicate.engines import DATABASE, by_slidejoin, duckdb, plain, same

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Form = str | tuple[str, str]
"""An expression of the columns x and y, or two of them: ours, and theirs where DuckDB writes it otherwise."""


class Overflow:
    """DuckDB has no value there, because one of its types has no room."""


@dataclass
class Difference:
    """Where values may differ, and why."""

    why: str
    rows: Callable[[str, Any, Any], bool]
    """Takes our expression and the values of x and y."""


@dataclass
class Extremes:
    """Extreme values of a type, what is computed of one and of two, and where that differs."""

    name: str
    kind: pa.DataType
    values: Sequence[Any]
    of_one: Sequence[Form]
    of_two: Sequence[Form] = ()
    differ: Sequence[Difference] = field(default_factory=list)


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array[Any]:
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int64() if kind.bit_width == 64 else pa.int32()).cast(kind)
    return pa.array(values, kind)


def by_duckdb(text: str, table: pa.Table) -> list[Any]:
    """The value on each row; times of any year as seconds."""
    numbered = table.append_column("row number", pa.array(range(table.num_rows)))
    with DATABASE.cursor() as database:
        database.register("l", numbered)

        def run(where: str = "") -> list[Any]:
            found = database.sql(f"SELECT {text} AS v FROM l {where}")  # noqa: S608
            digits = DIGITS.get(str(found.types[0]))
            if digits is None:
                return [plain(row[0]) for row in found.fetchall()]
            values = found.to_arrow_table().column(0)
            unit = pa.int32() if values.type == pa.date32() else pa.int64()
            ticks = values.cast(unit).to_pylist()
            day = 86_400 if values.type == pa.date32() else 1
            return [None if one is None else Fraction(one * day, 10**digits) for one in ticks]

        try:
            return run()
        except duckdb.Error:
            rest = database.sql(f'SELECT "row number" FROM l WHERE TRY({text}) IS NULL').fetchall()  # noqa: S608
            numbers = ", ".join(str(row[0]) for row in rest)
            others = iter(run(f'WHERE "row number" NOT IN ({numbers})'))
            single = {row[0]: _one(run, row[0]) for row in rest}
            return [single[row] if row in single else next(others) for row in range(table.num_rows)]


DIGITS = {"DATE": 0, "TIMESTAMP": 6, "TIMESTAMP_NS": 9, "TIMESTAMP_MS": 3, "TIMESTAMP_S": 0}


def _one(run: Callable[[str], list[Any]], row: int) -> Any:
    try:
        return run(f'WHERE "row number" = {row}')[0]
    except duckdb.Error:
        return Overflow


CASTS: list[Form] = [
    (f"CAST(l.x AS {to})", f"TRY_CAST(l.x AS {to})")
    for to in (
        *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
        *("DECIMAL(7, 2)", "DECIMAL(18, 0)", "DECIMAL(18, 18)", "DECIMAL(38, 0)"),
    )
]
NUMBERS: list[Form] = [
    *("abs(l.x)", "sign(l.x)", "floor(l.x)", "ceil(l.x)", "trunc(l.x)", "sqrt(l.x)", "-l.x"),
    *("round(l.x)", "round(l.x, 1)", "round(l.x, 2)", "round(l.x, 17)", "round(l.x, 400)"),
    *("coalesce(l.x, 0)", "coalesce(NULL, l.x)", "ifnull(l.x, 1)", "nullif(l.x, 0)", "if(l.x IS NULL, 1, l.x)"),
    *("CASE WHEN l.x > 0 THEN l.x END", "greatest(l.x, 1)", "least(l.x, NULL, 1)", "l.x IS NULL"),
]
TEXT_OF: list[Form] = ["CAST(l.x AS VARCHAR)", "concat('a', l.x, NULL)", "l.x || 'b'", "concat(l.x)"]
TWO: list[Form] = [
    *("l.x + l.y", "l.x - l.y", "l.x * l.y", "l.x / l.y", ("l.x % l.y", "l.x % nullif(l.y, 0)")),
    *("l.x < l.y", "l.x = l.y", "l.x IS DISTINCT FROM l.y", "l.x BETWEEN l.y AND l.x"),
    *("greatest(l.x, l.y)", "least(l.x, l.y)", "coalesce(l.x, l.y)", "nullif(l.x, l.y)"),
]
WHOLE: list[Form] = [("l.x // l.y", "l.x // nullif(l.y, 0)")]
INTEGERS: dict[pa.DataType, list[int | None]] = {
    pa.int8(): [None, 0, 1, -1, -128, 127],
    pa.uint8(): [None, 0, 255],
    pa.int32(): [None, 0, 1, -7, 2**31 - 1, -(2**31)],
    pa.int64(): [None, 0, 1, -1, 7, -3, 2**53 + 1, 2**63 - 1, -(2**63)],
    pa.uint64(): [None, 0, 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1],
}
DOUBLES = [
    *(None, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 0.49999999999999994, 1.45, 2.675, 1.115, 0.15, 4.35, 1e15 + 0.5),
    *(2.0**52 + 1, 2.0**53, 1e17, -1e300, 1.7976931348623157e308, 5e-324, 2.0**63, -(2.0**63), 9.223372036854775e18),
    *(127.5, -128.5, 32767.5, 3.4028235677973366e38, 1e22, 123456789.125, 99999.995, 99999.994999),
    *(math.inf, -math.inf, math.nan),
]
SINGLES = [None, 0.0, -0.0, 0.10000000149011612, 1.4500000476837158, 2.5, 1e10, math.inf, -math.inf, math.nan]


def decimals(*texts: str) -> list[Decimal | None]:
    return [None, *map(Decimal, texts)]


def wide(*values: Any) -> bool:
    return any(value is not None and abs(value) > 2**53 for value in values)


def nan(*values: Any) -> bool:
    return any(isinstance(value, float) and math.isnan(value) for value in values)


COMPARING = {"CASE WHEN l.x > 0 THEN l.x END", "nullif(l.x, l.y)", "l.x < l.y", "l.x = l.y", "l.x BETWEEN l.y AND l.x"}
OF_INTEGERS = [
    Difference("DuckDB takes doubles", lambda form, x, _y: form in ("floor(l.x)", "ceil(l.x)") and wide(x)),
    Difference("DuckDB rounds both before it divides", lambda form, x, y: form == "l.x / l.y" and wide(x, y)),
]
OF_DOUBLES = [
    Difference("comparisons with NaN are unknown", lambda form, x, y: nan(x, y) and form in COMPARING),
    Difference("the remainder by 0 is NaN", lambda form, _x, y: form == "l.x % l.y" and y == 0),
]
OF_SINGLES = Difference(
    "DuckDB computes with 32 bits",
    lambda form, _x, _y: form[:5] == "round" or form[3:6] in (" + ", " - ", " * ", " / ", " % "),
)

LETTERS = [
    *(None, "", " ", "a", "A", "é", "É", "ß", "ẞ", "İ", "\u0131", "ǅ", "ﬁ", "Σ", "ς", "e\u0301", "\U0001f600"),
    *("\U0001f468\u200d\U0001f469", "a\u00a0", "\u3000b ", "\ttab\t", "\n", "x" * 300, "naïve", "a%b", "a_b", "a\\b"),
    *("aab", "\ufeff", "\u200b", "\u2028", "\ud7ff", "\U0010ffff", "أ", "ff", "\u1680x\u2007", "\u1c89", "\ua7dc"),
]
NEW_LETTERS = {"\u1c89", "\ua7dc"}
OF_LETTERS = Difference(
    "letters that are newer than the Unicode of pyarrow",
    lambda form, x, _y: x in NEW_LETTERS and form in ("lower(l.x)", "upper(l.x)"),
)
STRINGS: list[Form] = [
    *("lower(l.x)", "upper(l.x)", "trim(l.x)", "ltrim(l.x)", "rtrim(l.x)", "trim(l.x, 'a')", "ltrim(l.x, ' é')"),
    *("rtrim(l.x, '')", "trim(l.x, '\u3000')", "replace(l.x, 'a', 'é')", "replace(l.x, '', 'y')"),
    *("replace(l.x, 'é', '')", "length(l.x)", ("octet_length(l.x)", "strlen(l.x)"), "l.x || 'é'", "'' || l.x"),
    *("concat(l.x, NULL, l.x)", "coalesce(l.x, 'n')", "nullif(l.x, '')", "CAST(l.x AS VARCHAR)"),
    *(f"substr(l.x, {at}{n})" for at in (-9, -2, -1, 0, 1, 2, 3, 9) for n in ("", ", 0", ", 1", ", 2", ", 99")),
    *(f"{name}(l.x, {n})" for name in ("left", "right") for n in (-9, -1, 0, 1, 2, 9)),
    *("l.x LIKE '%'", "l.x LIKE '_'", "l.x LIKE 'a%'", "l.x ILIKE 'É%'", "l.x ILIKE '%ß%'", "l.x ILIKE 'i%'"),
    *("l.x LIKE 'a!%%' ESCAPE '!'", "l.x LIKE 'a\\b'", "l.x NOT LIKE '%a'"),
]
OF_TWO_STRINGS: list[Form] = [
    *("starts_with(l.x, l.y)", "ends_with(l.x, l.y)", "contains(l.x, l.y)", "strpos(l.x, l.y)"),
    *("position(l.y IN l.x)", "l.x || l.y", "concat(l.x, l.y)", "l.x < l.y", "l.x = l.y", "greatest(l.x, l.y)"),
    *("least(l.x, l.y)", "nullif(l.x, l.y)", "coalesce(l.x, l.y)", "l.x LIKE l.y", "l.x ILIKE l.y"),
    *("l.x LIKE l.y || '%'", "l.x IS NOT DISTINCT FROM l.y"),
]
READ_BY_DUCKDB = {"0x10", "1_000", "+-1", "nan(1)"}
MANY_ZEROS = "1" + "0" * 400 + "e-400"
WRITTEN = [
    *(None, "", "0", "-0", "+1", "--1", "+-1", "1.", "1.5", ".5", ".", "-.5", "2.5", "-2.5", "1e3", "1E3", "1e+3"),
    *("1e-3", "1e", "1e400", "-1e400", "1e-400", "1e-99999999999", "-1e-400", "1e99999999999999999999", "inf", "+inf"),
    *("-Infinity", "INFINITY", "nan", "-NaN", "NaN ", "nan(1)", " 12 ", "\t12\n", "\x0b1", "\x0c1", "\u00a01"),
    *("1\u3000", "127", "128", "-128", "-129", "32767", "32768", "2147483648", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775808", "-9223372036854775809", "9223372036854775807.4"),
    *("9223372036854775806.5", "99999.994", "99999.995", "99999.99", "99999.99500000000000000000001", "0.005"),
    *("0.00499999", "-0.005", "0x10", "1_000", "1,000", "1d", "true", "TRUE", "t", "f", "yes", "Y", "no", "n", "on"),
    *("off", "1 ", "truee", " true", "9007199254740993", "1.7976931348623159e308", "1.7976931348623158e308"),
    *("4.9e-324", "2e-324", "3.5e38", "3.4028235677973366e38", "1.00000005960464477540", "1e308", "0.1", "0.5"),
    *("123456789.123456789", "1" * 40, "0." + "0" * 320 + "1", "0" * 50 + "1", MANY_ZEROS, "\u0661", "1.5", "-1.5"),
    *("9" * 38, "9" * 39, "1e37", "1e38", "0.5e1"),
]
OF_WRITTEN = [
    Difference("numbers that only DuckDB reads", lambda _form, x, _y: x in READ_BY_DUCKDB),
    Difference("exponents that only we read", lambda _form, x, _y: x in ("1e-99999999999", MANY_ZEROS)),
    Difference("exponents that 18 places leave no room for",
               lambda form, x, _y: "DECIMAL(18, 18)" in form and x is not None and "e-" in x),
]  # fmt: skip
TIME_TEXTS = [
    *(None, "", "2024-01-05", "2024-1-5", "2024-01-05 ", "  2024-01-05", "2024-02-30", "2024-02-29", "2023-02-29"),
    *("0001-01-01", "9999-12-31", "2024-01-05T", "2024-01-05T10", "2024-01-05 10", "2024-01-05 10:11", "20240105"),
    *("2024-01-05 10:11:12", "2024-01-05T10:11:12", "2024-01-05t10:11:12", "2024-01-05 10:11:12.1", "2024-01-5"),
    *("2024-01-05 10:11:12.123456", "2024-01-05 10:11:12.1234565", "2024-01-05 10:11:12.123456789"),
    *("2024-01-05 23:59:60", "2024-01-05x", "2024-13-01", "2024-00-01", "2024-01-32", "2024-01-00", "2024-1-05"),
    *("9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "1960-12-31 23:59:59.5", "2024-01-05 10:11:12 "),
]
TIMES_OF_DUCKDB = [
    *("0000-01-01", "-0001-01-01", "0044-03-15 (BC)", "10000-01-01", "24-01-05", "2024/01/05", "infinity", "epoch"),
    *("2024-01-05 10:11:12.", "2024-01-05 10:11:12.1234567891", "2024-01-05 24:00:00", "2024-01-05 1:2:3"),
    *("2024-01-05 10:11:12Z", "2024-01-05 10:11:12+02", "2024-01-05 10:11:12 UTC", "2024-01-05  10:11:12"),
]
OF_TIME_TEXTS = [
    Difference("times that only DuckDB reads", lambda _form, x, _y: x in TIMES_OF_DUCKDB),
    Difference("a date with spaces behind it as a timestamp", lambda _form, x, _y: x == "2024-01-05 "),
]
PARTS = ["year", "isoyear", "quarter", "month", "week", "day", "dayofyear", "dayofweek", "isodow", "hour", "minute",
         "second", "millisecond", "microsecond", "epoch"]  # fmt: skip
UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"]
TIMES: list[Form] = [
    *(f"{part}(l.x)" for part in PARTS),
    *(f"date_trunc('{unit}', l.x)" for unit in UNITS),
    *("EXTRACT(year FROM l.x)", "date_part('week', l.x)", "CAST(l.x AS DATE)", "CAST(l.x AS TIMESTAMP)"),
    *("CAST(l.x AS VARCHAR)", "concat(l.x, '!')", "l.x || ''", "coalesce(l.x, NULL)", "l.x IS NULL"),
    *("l.x + INTERVAL '1 day'", "l.x - INTERVAL '3 hours'"),
]
OF_TWO_TIMES: list[Form] = ["greatest(l.x, l.y)", "least(l.x, l.y)", "nullif(l.x, l.y)", "l.x < l.y", "l.x = l.y"]
AS_THEY_ARE = {"CAST(l.x AS VARCHAR)", "concat(l.x, '!')", "l.x || ''", "coalesce(l.x, NULL)", *OF_TWO_TIMES}
MICROS = [
    *(None, 0, 1, -1, 999_999, -999_999, 10**6, 86_399_999_999, 86_400_000_000, -86_400_000_000, 951_782_400_000_000),
    *(1_704_067_199_999_999, 1_703_980_800_000_000, 1_230_768_000_000_000, 1_262_303_999_999_999),
    *(-62_135_596_800_000_000, -62_135_596_800_000_001, -62_167_219_200_000_000, -62_167_219_200_000_001),
    *(253_402_300_799_999_999, 253_402_300_800_000_000, -210_866_803_200_000_000, 9_223_371_244_800_000_000),
    *(2**62, -(2**62)),
]
DAYS = [None, 0, 1, -1, -719_162, -719_163, -719_528, -719_529, 2_932_896, 2_932_897, 16_800, -16_800, 10**6, -(10**6),
        19_722, 19_723, 20_088, 365_000]  # fmt: skip
NANOS = [None, 0, 1000, -1000, 10**9, 86_399_999_999_000, 1, -1, 999, 1499, 1500, 10**9 - 1, 86_399_999_999_999, 2**62,
         -(2**62), 2**63 - 2, -(2**63) + 2, -1500]  # fmt: skip
OF_NANOS = Difference(
    "DuckDB rounds nanoseconds to microseconds first",
    lambda form, x, _y: form not in AS_THEY_ARE and x is not None and x % 1000 != 0,
)

ALL = [
    *(Extremes(str(kind), kind, values, [*CASTS, *NUMBERS, *TEXT_OF], [*TWO, *WHOLE],
               OF_INTEGERS if kind.bit_width == 64 else ())
      for kind, values in INTEGERS.items()),
    Extremes("double", pa.float64(), DOUBLES, [*CASTS, *NUMBERS], TWO, OF_DOUBLES),
    Extremes("single", pa.float32(), SINGLES, [*CASTS, *NUMBERS], TWO, [*OF_DOUBLES, OF_SINGLES]),
    Extremes("decimal(7, 2)", pa.decimal128(7, 2),
             decimals("0", "0.01", "-0.01", "0.05", "-0.05", "0.5", "1.5", "2.5", "-2.5", "99999.99", "-99999.99"),
             [*CASTS, *NUMBERS, *TEXT_OF], TWO),
    Extremes("decimal(18, 0)", pa.decimal128(18, 0), decimals("0", "5", "9" * 18, "-" + "9" * 18),
             [*CASTS, *NUMBERS, *TEXT_OF], TWO),
    Extremes("decimal(18, 6)", pa.decimal128(18, 6),
             decimals("0.000001", "0.5", "-0.5", "999999999999.999999", "-999999999999.999999"),
             [*CASTS, *NUMBERS, *TEXT_OF], TWO),
    Extremes("boolean", pa.bool_(), [None, True, False],
             [*CASTS, *TEXT_OF, "coalesce(l.x, TRUE)", "l.x IS TRUE", "l.x IS NOT FALSE"],
             ["l.x = l.y", "l.x < l.y", "greatest(l.x, l.y)", "nullif(l.x, l.y)"],
             [Difference("1 has no room", lambda form, x, _y: "DECIMAL(18, 18)" in form and x is True)]),
    Extremes("string", pa.string(), LETTERS, STRINGS, OF_TWO_STRINGS, [OF_LETTERS]),
    Extremes("number in text", pa.string(), WRITTEN, CASTS, (), OF_WRITTEN),
    Extremes("time in text", pa.string(), [*TIME_TEXTS, *TIMES_OF_DUCKDB],
             [(f"CAST(l.x AS {to})", f"TRY_CAST(l.x AS {to})") for to in ("DATE", "TIMESTAMP")], (), OF_TIME_TEXTS),
    Extremes("date", pa.date32(), DAYS, TIMES, OF_TWO_TIMES),
    Extremes("microseconds", pa.timestamp("us"), MICROS, TIMES, OF_TWO_TIMES),
    Extremes("seconds", pa.timestamp("s"), [None, 0, 1, -1, 10**9, -62_135_596_801, 253_402_300_800], TIMES,
             OF_TWO_TIMES),
    Extremes("milliseconds", pa.timestamp("ms"), [None, 0, 1, -1, 999, -999, 10**12, -62_135_596_800_001,
                                                  253_402_300_800_000], TIMES, OF_TWO_TIMES),
    Extremes("nanoseconds", pa.timestamp("ns"), NANOS, TIMES, OF_TWO_TIMES, [OF_NANOS]),
]  # fmt: skip


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_every_value_is_that_of_duckdb(case: Extremes) -> None:
    ones, twos = [(x, None) for x in case.values], list(product(case.values, repeat=2))
    seen = set()
    for forms, rows in ((case.of_one, ones), (case.of_two, twos)):
        table = pa.table({name: column([row[at] for row in rows], case.kind) for at, name in enumerate("xy")})
        for form in forms:
            our_text, their_text = (form, form) if isinstance(form, str) else form
            for row, ours, theirs in zip(
                rows, by_slidejoin(our_text, table), by_duckdb(their_text, table), strict=True
            ):
                if theirs is Overflow or same(ours, theirs):
                    continue
                reasons = [one.why for one in case.differ if one.rows(our_text, *row)]
                assert reasons, (our_text, row, ours, theirs)
                seen.update(reasons[:1])
    assert seen == {one.why for one in case.differ}, "a difference that is none any more"


BEYOND: dict[str, Callable[[int, int], int]] = {
    "({x} + {y})": lambda x, y: x + y,
    "({x} - {y})": lambda x, y: x - y,
    "({x} * {y})": lambda x, y: x * y,
    "(-{x})": lambda x, _y: -x,
    "abs({x} - {y})": lambda x, y: abs(x - y),
}
OF_BEYOND: list[Form] = [
    *("CAST({0} AS VARCHAR)", "concat('u', {0})", "'' || {0}", "abs({0})", "sign({0})", "-{0}", "length(concat({0}))"),
    *("{0} = 9223372036854775808", "{0} IN (18446744073709551615, 0)", "greatest({0}, 9223372036854775807)"),
    *("least({0}, -1)", "coalesce({0}, 1)", "nullif({0}, 0)", "{0} % 7", "{0} // 3"),
    *("CASE WHEN {0} > 0 THEN {0} ELSE 0 END", "CASE WHEN {0} < 0 THEN 0 ELSE {0} END"),
    *CASTS,
]


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()], ids=str)
def test_functions_of_whole_numbers_beyond_64_bits(kind: pa.DataType) -> None:
    """Against DuckDB's integers of 128 bits."""
    for value, exact in BEYOND.items():
        rows = [(x, y) for x, y in product(INTEGERS[kind], repeat=2) if x is None or y is None or exact(x, y) < 2**126]
        table = pa.table({name: pa.array([row[at] for row in rows], kind) for at, name in enumerate("xy")})
        ours = value.format(x="l.x", y="l.y")
        theirs = value.format(x="CAST(l.x AS HUGEINT)", y="CAST(l.y AS HUGEINT)")
        numbers = [None if x is None or ("y" in value and y is None) else exact(x, y or 0) for x, y in rows]
        assert by_slidejoin(ours, table) == numbers
        assert by_slidejoin(f"CAST({ours} AS VARCHAR)", table) == [None if n is None else str(n) for n in numbers]
        for form in OF_BEYOND:
            one, two = (form, form) if isinstance(form, str) else form
            found = zip(rows, by_slidejoin(one.format(ours), table), by_duckdb(two.format(theirs), table), strict=True)
            wrong = [row for row in found if row[2] is not Overflow and not same(*row[1:])]
            assert not wrong, (one.format(ours), wrong[:3])
