"""Predicates over mixed types, and rows that lie on either side of the ends of each other's ranges.

A random row seldom lies where an answer changes. So rows of one side are drawn out of extreme values, and those of the
other side are found: each comparison is solved for a column, and the values next to the solution become rows.

Everything is made by a chooser, ``pick(options) -> option``, so that Hypothesis and a plain random generator can drive
it alike.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import slidejoin as sj
from tests.oracle import COMPARATORS, DAY_NS, Clock, Day, Instant, Span, evaluate, nearest_double, tagged
from tests.render import to_python, to_sql
from tests.strategies import BINARIES, TEXTS, array
from tests.tables import values_of

Node = tuple[Any, ...]
Pick = Callable[[Sequence[Any]], Any]
Raw = Any
"""A value as Arrow takes it: times as whole numbers of their unit."""

SIDES = ("left", "right")
MOVED = ("number", "naive", "zoned", "span")
"""Topics whose values have differences."""
TIMES = ("naive", "zoned", "clock")
"""Topics beside whose values a string is read as a time."""
ORDERED = ("=", "<>", "<", "<=", ">", ">=")

# --------------------------------------------------------------------------------------------------------------------
# Types

NUMBERS: tuple[pa.DataType, ...] = (
    *(pa.int64(), pa.float64()) * 4,
    *(pa.uint64(), pa.float32()) * 2,
    pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.float16(),
    pa.decimal128(18, 0), pa.decimal128(18, 6), pa.decimal128(5, 2), pa.decimal128(3, -2), pa.decimal256(18, 18),
    pa.decimal128(38, 0), pa.decimal128(38, 18), pa.decimal128(20, 2), pa.decimal128(38, 38), pa.decimal256(38, 4),
    pa.decimal128(19, -3),
    pa.dictionary(pa.int8(), pa.int64()), pa.dictionary(pa.int8(), pa.float64()),
)  # fmt: skip
NAIVE: tuple[pa.DataType, ...] = (*(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")), pa.date32(), pa.date64())
ZONED = tuple(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ("UTC", "Asia/Kolkata"))
SPANS = tuple(pa.duration(unit) for unit in ("s", "ms", "us", "ns"))
CLOCKS = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
TOPICS: dict[str, tuple[pa.DataType, ...]] = {
    "number": NUMBERS,
    "naive": NAIVE,
    "zoned": ZONED,
    "span": SPANS,
    "clock": CLOCKS,
    "bool": (pa.bool_(),),
    "text": tuple(TEXTS),
    "bytes": tuple(BINARIES),
}
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of a dictionary's values; other types as they are."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_int(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(plain_type(kind)))


def is_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(plain_type(kind)))


def reach_of(kind: pa.DataType) -> tuple[int, int]:
    """The smallest and the largest raw value of a type that counts in whole units."""
    if pa.types.is_decimal(kind):
        return -(10**kind.precision) + 1, 10**kind.precision - 1
    if pa.types.is_date64(kind):
        return -(2**31), 2**31 - 1  # in days, as of date32
    if pa.types.is_time(kind):
        return 0, DAY_NS // NANOSECONDS[kind.unit] - 1
    bits = kind.bit_width
    return (0, 2**bits - 1) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def unit_of(kind: pa.DataType) -> Fraction:
    """What a raw value counts, as the oracle has it: numbers, or nanoseconds."""
    if pa.types.is_decimal(kind):
        return Fraction(10) ** -kind.scale
    if pa.types.is_date(kind):
        return Fraction(DAY_NS)
    return Fraction(NANOSECONDS[kind.unit]) if hasattr(kind, "unit") else Fraction(1)


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """An unscaled number as a decimal, of any number of digits."""
    with localcontext(prec=100):
        return Decimal(unscaled).scaleb(-scale) if scale >= 0 else Decimal(unscaled * 10**-scale)


def raw_of(kind: pa.DataType, whole: int) -> Raw:
    """A whole number of units as Arrow takes it."""
    if pa.types.is_decimal(kind):
        return decimal_of(whole, kind.scale)
    return whole * 86_400_000 if pa.types.is_date64(kind) else whole


def float_steps(kind: pa.DataType, value: float, steps: int) -> list[float]:
    """The float nearest to a value among those of a type, and so many neighbours on either side."""
    whole, real, bits = {16: ("<h", "<e", 16), 32: ("<i", "<f", 32), 64: ("<q", "<d", 64)}[kind.bit_width]
    top = {16: 0x7C00, 32: 0x7F800000, 64: 0x7FF0000000000000}[bits]
    try:
        packed = struct.pack(real, value)
    except OverflowError:
        packed = struct.pack(real, math.copysign(math.inf, value))
    (number,) = struct.unpack(whole, packed)
    mask = (1 << (bits - 1)) - 1
    key = number if number >= 0 else -(number & mask)
    found = []
    for step in range(-steps, steps + 1):
        near = min(max(key + step, -top), top)
        magnitude = struct.unpack(real, struct.pack(whole, abs(near)))[0]
        found.append(-magnitude if near < 0 else magnitude)
    return found


def near(kind: pa.DataType, content: Fraction | float, steps: int = 1) -> list[Raw]:
    """Values of a type about a number, or about nanoseconds: those next to it on either side."""
    plain = plain_type(kind)
    if pa.types.is_floating(plain):
        return float_steps(plain, nearest_double(content), steps)
    if pa.types.is_boolean(plain):
        return []
    low, high = reach_of(plain)
    exact = Fraction(content) / unit_of(plain)
    around = range(math.floor(exact) - steps, math.ceil(exact) + steps + 1)
    return [raw_of(plain, whole) for whole in sorted({min(max(whole, low), high) for whole in around})]


# --------------------------------------------------------------------------------------------------------------------
# Values

WHOLE = (0, 1, -1, 2, 3, 5, 7, 100, 127, -128, 255, 1000, 10**6, 2**31, 2**31 - 1, -(2**31), 2**32, 10**15,
         2**53, 2**53 + 1, 2**53 - 1, -(2**53) - 1, 2**54 + 3, 9_007_199_254_740_995, 2**62, 2**62 + 1, -(2**62),
         10**18, 1_700_000_000_000_000_000, 1_700_000_000_000_000_001, -1_700_000_000_000_000_127,
         2**63 - 1, 2**63 - 1000, -(2**63), 2**63, 2**64 - 1, 2**64, 2**61, 2**62 - 1, 2**70 + 1, -(2**70), 2**126,
        10**19, 12_500_000_000_000_000_000, 10**20 + 10**17, 10**37, -(10**37), 10**37 - 1)  # fmt: skip
"""Whole numbers where something changes: ends of types, of what a double tells apart, of 64 bits."""

REAL = (0.0, -0.0, 0.1, 0.3, 0.1 + 0.2, 0.5, 1.0, -1.0, 1.5, 2.5, 1e-3, 5e-324, 2.0**-1022, 1e15 + 0.5, 2.0**52 + 0.5,
        2.0**53, 2.0**54, 1.7e18, -1.7e18, 2.0**62, 2.0**63, 2.0**64, 1e17, 1e19, 1e300, -1e300, 1.7976931348623157e308,
        65504.0, 16_777_217.0)  # fmt: skip

CONSTANTS: dict[str, tuple[Any, ...]] = {
    "int": (0, 1, 2, 3, -1, -2, 5, 7, 10, 1000, -1000, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63),
            2**64, 10**310),
    "float": (0.1, 0.5, 0.3, 1e-3, 7.3, 0.0, -0.5, 1.0, 2.0, 1000.0, 1e16, 1e300, 5e-324, 1e17 + 16.0, 1.7e18),
    "decimal": tuple(map(Decimal, ("0.1", "0.01", "1.01", "-2.5", "1e-18", "1E+3", "1E+310"))),
    "naive": (datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 1, 1), datetime(9999, 12, 31), date(1970, 1, 2),
              date.min),
    "zoned": (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)),
    "clock": (time(0), time(0, 0, 1), time(23, 59, 59, 999_999)),
    "span": (timedelta(0), timedelta(seconds=1), timedelta(microseconds=1), timedelta(days=-1), timedelta.max),
    "text": ("a", "", "ab", "it's"),
    "bytes": (b"", b"a", b"\x00"),
    "bool": (True, False),
}  # fmt: skip


@cache
def extremes(kind: pa.DataType) -> list[Raw]:
    """Values of a type where something changes."""
    plain = plain_type(kind)
    if pa.types.is_boolean(plain):
        return [True, False]
    if kind in TEXTS:
        return list(TEXTS[kind])
    if kind in BINARIES:
        return list(BINARIES[kind])
    if pa.types.is_floating(plain):
        return [value for about in (*REAL, *WHOLE) for value in near(plain, float(about), 0)] + [math.inf, -math.inf]
    low, high = reach_of(plain)
    unit = unit_of(plain)
    ends = [low, low + 1, high - 1, high]
    inside = [whole for whole in WHOLE if low <= whole <= high]
    scaled = [int(value / unit) for value in (1, -1, 2, 100) if (value / unit).denominator == 1]
    return [raw_of(plain, whole) for whole in [*inside, *ends, *(v for v in scaled if low <= v <= high)]]


# --------------------------------------------------------------------------------------------------------------------
# Expressions


@dataclass(frozen=True)
class Scope:
    """The columns that expressions are made of: by side a topic's columns, by name their types."""

    pick: Pick
    kinds: dict[str, dict[str, pa.DataType]]
    topics: dict[str, str]

    def columns(self, topic: str, sides: tuple[str, ...] = SIDES) -> list[Node]:
        """All columns of a topic."""
        return [("col", side, name) for side in sides for name, of in self.topics.items() if of == topic]

    def column(self, topic: str, sides: tuple[str, ...] = SIDES) -> Node:
        return self.pick(self.columns(topic, sides))

    def is_int(self, node: Node) -> bool:
        """Whether an expression is an integer, for ``%`` and durations."""
        if node[0] == "col":
            return is_int(self.kinds[node[1]][node[2]])
        if node[0] == "lit":
            return isinstance(node[1], int) and not isinstance(node[1], bool)
        if node[0] in ("/", "double"):
            return False
        return all(self.is_int(part) for part in node[1:])


def literal_of(scope: Scope, kinds: Sequence[str] = ("int", "int", "float", "decimal")) -> Node:
    return ("lit", scope.pick(CONSTANTS[scope.pick(kinds)]))


def number(scope: Scope, sides: tuple[str, ...], depth: int, core: Node | None = None) -> Node:
    """A number out of the columns of some sides; around `core` if there is one."""
    pick = scope.pick
    inner = core or scope.column("number", sides)
    for _ in range(pick((0, 0, 1, 1, 1, 2, 3)) if depth else 0):
        form = pick(("shift", "shift", "shift", "scale", "turned", "neg", "over", "abs", "double", "column", "modulo"))
        constant = literal_of(scope)
        if form == "shift":
            inner = (pick("+-"), inner, constant)
        elif form == "turned":
            inner = (pick("+-*"), constant, inner)
        elif form == "scale":
            inner = ("*", inner, constant)
        elif form == "over":
            inner = ("/", inner, constant) if pick((0, 1, 1)) else ("/", constant, inner)
        elif form in ("neg", "abs", "double"):
            inner = (form, inner)
        elif form == "column":
            inner = (pick("+-*/"), inner, number(scope, sides, depth - 1))
        elif scope.is_int(inner):
            inner = ("%", inner, ("lit", pick((3, -2, 7, 2**53 + 1))))
    return inner


def span(scope: Scope, sides: tuple[str, ...], depth: int) -> Node:
    """A duration out of the columns of some sides, or a constant."""
    pick = scope.pick
    options = ["constant"]
    if scope.columns("span", sides):
        options += ["column"] * 3
    if depth:
        options += [topic for topic in ("naive", "zoned") if scope.columns(topic, sides)]
        options += ["sum", "times", "neg", "abs"]
    form = pick(options)
    if form == "constant":
        return ("lit", pick(CONSTANTS["span"]))
    if form == "column":
        return scope.column("span", sides)
    if form in ("naive", "zoned"):
        return ("-", instant(scope, form, sides, depth - 1), instant(scope, form, sides, depth - 1))
    inner = span(scope, sides, depth - 1)
    if form == "sum":
        return (pick("+-"), inner, span(scope, sides, depth - 1))
    if form == "times":
        factor = ("lit", pick((2, -1, 0, 10**9, 2**40)))
        return ("*", inner, factor) if pick((0, 1)) else ("*", factor, inner)
    return (form, inner)


def instant(scope: Scope, topic: str, sides: tuple[str, ...], depth: int, core: Node | None = None) -> Node:
    """A point in time around a column of some sides."""
    inner = core or scope.column(topic, sides)
    for _ in range(scope.pick((0, 0, 1, 2)) if depth else 0):
        beside = span(scope, sides, depth - 1)
        inner = ("+", beside, inner) if scope.pick((0, 0, 1)) else (scope.pick("+-"), inner, beside)
    return inner


def value(scope: Scope, topic: str, sides: tuple[str, ...], depth: int, core: Node | None = None) -> Node:
    """A value of a topic that compares with others of it."""
    if topic == "number":
        return number(scope, sides, depth, core)
    if topic in ("naive", "zoned"):
        return instant(scope, topic, sides, depth, core)
    if topic == "span":
        if core is None:
            return span(scope, sides, depth)
        return core if not depth or scope.pick((0, 1)) else (scope.pick("+-"), core, span(scope, sides, depth - 1))
    return core or scope.column(topic, sides)


def constant_of(scope: Scope, topic: str) -> Node | None:
    """A constant that compares with values of a topic."""
    if topic == "number":
        return literal_of(scope)
    if topic not in CONSTANTS:
        return None
    return (scope.pick(("lit", "text")) if topic in TIMES else "lit", scope.pick(CONSTANTS[topic]))


def comparison(scope: Scope, topic: str, cores: dict[str, Node]) -> Node:
    """One comparison of values of a topic, mostly around the same two columns."""
    pick = scope.pick
    op = pick(ORDERED if topic not in ("text", "bytes") else ("=", "=", "<>"))
    left = value(scope, topic, ("left",), 2, cores["left"] if pick((0, 1, 1)) else None)
    right = value(scope, topic, ("right",), 2, cores["right"] if pick((0, 1, 1)) else None)
    one, two = (left, right) if pick((0, 1)) else (right, left)
    constant = constant_of(scope, topic)
    bound = literal_of(scope) if topic == "number" else ("lit", pick(CONSTANTS["span"]))
    form = pick(
        ("plain", "plain", "plain", "bare", "bare", "single", "null", "flag")
        + (("band", "band", "shift", "difference", "absolute", "mixed", "mixed", "gone") if topic in MOVED else ())
    )
    if form == "bare":
        return (op, cores["left"], cores["right"])
    if form == "single" and constant is not None:
        if constant[0] == "lit" and pick((0, 1)):
            return ("in", one, [constant[1], None][: pick((1, 2))])
        return (op, one, constant) if pick((0, 1)) else (op, constant, one)
    if form == "null":
        return ("isnull", pick((one, two, (op, one, two))))
    if form == "flag":
        return (pick(("=", "<>", "<", ">=")), (op, one, two), ("col", pick(SIDES), "flag"))
    if form == "band":
        other = literal_of(scope) if topic == "number" else ("lit", pick(CONSTANTS["span"]))
        return ("between", one, ("-", two, bound), ("+", two, other))
    if form == "shift":
        return (op, one, (pick("+-"), two, bound))
    if form == "difference":
        return (op, ("-", one, two), bound)
    if form == "absolute":
        return (op, ("abs", ("-", one, two)), bound)
    if form == "mixed":
        return (op, value(scope, topic, SIDES, 2), value(scope, topic, SIDES, 2))
    if form == "gone":  # what cancels is 0, but unknown where it is
        kept, cancelled = pick(((one, two), (two, one)))
        nothing = ("-", cancelled, cancelled)
        return (op, kept, nothing) if topic in ("number", "span") else (op, kept, ("+", two, nothing))
    return (op, one, two)


def end(scope: Scope, topic: str, core: Node, constants: Sequence[Node]) -> Node:
    """A column, moved by one of few constants or by none, as ends of bands are."""
    form = scope.pick(("bare", "bare", "shift", "shift", "shift", "turned", "scale", "neg"))
    constant = scope.pick(constants)
    if form == "shift":
        return (scope.pick("+-"), core, constant)
    if topic != "number" or form == "bare":
        return core
    if form == "scale":
        return (scope.pick("*/"), core, ("lit", scope.pick((2, -1, 0.5, 3, 1000))))
    return ("neg", core) if form == "neg" else (scope.pick("+-"), constant, core)


def ends(scope: Scope, topic: str, cores: dict[str, Node]) -> Node:
    """Up to three comparisons of the same two columns, each of which may end ranges where another begins."""
    pick = scope.pick
    constants = [literal_of(scope) if topic == "number" else ("lit", pick(CONSTANTS["span"])) for _ in range(2)]

    def one() -> Node:
        op, form = pick(ORDERED), pick(("plain", "plain", "plain", "absolute", "difference", "band"))
        first, second = (end(scope, topic, cores[side], constants) for side in pick((SIDES, SIDES[::-1])))
        if form == "plain":
            return (op, first, second)
        if form == "band":
            core = second if second[0] == "col" else cores["left" if first == cores["right"] else "right"]
            return ("between", first, ("-", core, constants[0]), ("+", core, constants[1]))
        gone = ("-", first, second) if topic != "number" or pick((0, 1, 1)) else ("+", first, second)
        return (op, ("abs", gone) if form == "absolute" else gone, pick(constants))

    parts = [one() for _ in range(pick((1, 2, 2, 3)))]
    whole = parts[0] if len(parts) == 1 else (pick(("and", "or")), *parts)
    return ("not", whole) if pick((0, 0, 0, 1)) else whole


def condition(scope: Scope, depth: int = 2, *, focused: bool = False) -> Node:
    """Comparisons joined by AND, OR and NOT, mostly several of the same two columns; see `extreme`."""
    pick = scope.pick
    topics = sorted(set(scope.topics.values()) - {"bool"}) or ["bool"]
    topic = pick(topics)
    cores = {side: scope.column(topic, (side,)) for side in SIDES}

    def one(level: int) -> Node:
        form = pick(("comparison",) * 4 + (("and", "or", "not") if level else ()) + ("flag",))
        if form == "flag":
            return ("col", pick(SIDES), "flag")
        if form == "not":
            return ("not", one(level - 1))
        if form in ("and", "or"):
            return (form, *(one(level - 1) for _ in range(pick((2, 2, 3)))))
        if pick((0, 0, 0, 1)):
            other = pick(topics)
            return comparison(scope, other, {side: scope.column(other, (side,)) for side in SIDES})
        return comparison(scope, topic, cores)

    form = "ends" if focused else pick(("one", "two", "three", "any", *(("ends",) * 4 if topic in MOVED else ())))
    if form == "ends":
        return ends(scope, topic, cores)
    if form == "any":
        return one(depth)
    count = {"one": 1, "two": 2, "three": 3}[form]
    parts = [comparison(scope, topic, cores) for _ in range(count)]
    return parts[0] if count == 1 else (pick(("and", "and", "or")), *parts)


def comparisons_in(node: Node) -> Iterator[tuple[Node, Node]]:
    """The operands of all comparisons below a node."""
    if node[0] in COMPARATORS:
        yield node[1], node[2]
    if node[0] == "between":
        yield node[1], node[2]
        yield node[1], node[3]
    for part in node[1:]:
        if isinstance(part, tuple):
            yield from comparisons_in(part)


def columns_in(node: Node) -> set[tuple[str, str]]:
    """The columns below a node, as (side, name)."""
    if node[0] == "col":
        return {(node[1], node[2])}
    return {found for part in node[1:] if isinstance(part, tuple) for found in columns_in(part)}


# --------------------------------------------------------------------------------------------------------------------
# Rows


def value_of(kind: pa.DataType, raw: Raw) -> Any:
    """A raw value as the oracle has it."""
    if raw is None:
        return None
    plain = plain_type(kind)
    if pa.types.is_timestamp(plain):
        return Instant(raw * NANOSECONDS[plain.unit], plain.tz is not None)
    if pa.types.is_date(plain):
        return Day(raw // 86_400_000 if pa.types.is_date64(plain) else raw)
    if pa.types.is_time(plain):
        return Clock(raw * NANOSECONDS[plain.unit])
    return Span(raw * NANOSECONDS[plain.unit]) if pa.types.is_duration(plain) else raw


def moved(kind: pa.DataType, content: Fraction) -> Any:
    """Any number or time of a type's kind, in the form of the oracle, whether a column can hold it or not."""
    plain = plain_type(kind)
    if pa.types.is_timestamp(plain):
        return Instant(int(content), plain.tz is not None)
    if pa.types.is_date(plain):
        return Day(int(content / DAY_NS))
    if pa.types.is_time(plain):
        return Clock(int(content))
    if pa.types.is_duration(plain):
        return Span(int(content))
    if pa.types.is_floating(plain):
        return nearest_double(content)
    if pa.types.is_decimal(plain):
        with localcontext(prec=100):
            return Decimal(content.numerator) / Decimal(content.denominator)
    return int(content)


def gap(sides: tuple[Node, Node], left: dict[str, Any], right: dict[str, Any]) -> Fraction | None:
    """How far apart the operands of a comparison are; None where that means nothing."""
    try:
        values = [evaluate(side, left, right) for side in sides]
        contents = [None if found is None else Fraction(found[1]) for found in values]
    except (TypeError, ValueError, OverflowError):  # other kinds, infinities and NaN
        return None
    one, two = contents
    return None if one is None or two is None else one - two


def solved(
    sides: tuple[Node, Node], row: dict[str, dict[str, Any]], side: str, name: str, kind: pa.DataType
) -> Fraction | None:
    """About which value of a column the operands of a comparison are equal, all other columns given."""
    start = tagged(row[side][name])
    if start is None or isinstance(start[1], str | bytes) or not math.isfinite(start[1]):
        return None
    at = Fraction(start[1])

    def gap_at(content: Fraction) -> Fraction | None:
        rows = {**row, side: {**row[side], name: moved(kind, content)}}
        return gap(sides, rows["left"], rows["right"])

    for _ in range(4):
        here = gap_at(at)
        step = max(abs(at) / 3, unit_of(plain_type(kind)) * 7) if not is_float(kind) else abs(at) / 3 + 1
        there = gap_at(at + step)
        if here is None or there is None or here == there:
            return None
        if here == 0:
            break
        nearer = at - here * step / (there - here)
        if is_float(kind):
            rounded = nearest_double(nearer)
            if math.isinf(rounded):
                return None
            nearer = Fraction(rounded)
        if nearer == at:
            break
        at = nearer
    return at


@dataclass
class Extreme:
    """A predicate and two tables: columns ``id``, ``flag`` and those that the predicate compares."""

    predicate: Node
    left: pa.Table
    right: pa.Table

    def join(self, *, as_text: bool = False, **options: Any) -> sj.StreamJoin:
        """The join of slidejoin over windows that hold all rows."""
        on = to_sql(self.predicate) if as_text else to_python(self.predicate)
        schemas = (self.left.schema, self.right.schema)
        return sj.StreamJoin(on=on, window=sj.CountWindow(1 << 20), schemas=schemas, **options)

    def __str__(self) -> str:
        lines = [f"on {to_sql(self.predicate)}", str(self.predicate)]
        for side, table in (("left", self.left), ("right", self.right)):
            lines += [
                f"{side}.{field.name} {field.type}: {values_of(table.column(field.name))}" for field in table.schema
            ]
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # what Hypothesis prints
        printer.text(str(self))


def table_of(kinds: dict[str, pa.DataType], rows: list[dict[str, Raw]]) -> pa.Table:
    """Raw rows as a table, numbered."""
    made = {"id": pa.array(range(len(rows)), pa.int64())}
    return pa.table(made | {name: array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def extreme(
    pick: Pick, most: int = 16, *, topics: Sequence[str] = (), alike: bool = False, focused: bool = False
) -> Extreme:
    """A predicate with rows of either side next to the ends of the other's ranges.

    `topics` are those of the columns, drawn if there are none; with `alike` both sides have the same types; if it is
    `focused`, all comparisons are of the same two columns, with one constant beside each at most.
    """
    first = topics or [pick(("number",) * 8 + tuple(TOPICS))]
    beside = {"naive": "span", "zoned": "span"}.get(first[0], first[0])
    by_name = dict(
        zip("ab", [first[0], topics[1] if len(topics) > 1 else pick((first[0], beside, beside))], strict=True)
    )
    by_name["flag"] = "bool"
    kinds: dict[str, dict[str, pa.DataType]] = {}
    for side in SIDES:
        kinds[side] = {name: pick(TOPICS[topic]) for name, topic in by_name.items()}
    if alike:
        kinds["right"] = kinds["left"]
    predicate = condition(Scope(pick, kinds, by_name), focused=focused)

    def drawn(side: str) -> dict[str, Raw]:
        made = {}
        for name, kind in kinds[side].items():
            odd = pick((0,) * 9 + ((1, 2) if is_float(kind) else (1, 1)))
            made[name] = None if odd == 1 else math.nan if odd else pick(extremes(kind))
        return made

    rows = {side: [drawn(side) for _ in range(3)] for side in SIDES}
    operands = list(comparisons_in(predicate))
    for _ in range(most):
        side = pick(SIDES)
        other = "right" if side == "left" else "left"
        if len(rows[side]) >= most or not operands:
            continue
        sides = pick(operands)
        names = sorted(name for where, name in columns_in(("and", *sides)) if where == side)
        if not names:
            continue
        name, base = pick(names), dict(pick(rows[side]))
        kind = kinds[side][name]
        if base[name] is None or (isinstance(base[name], float) and not math.isfinite(base[name])):
            base[name] = pick(extremes(kind))
        values = {
            side: {key: value_of(kinds[side][key], raw) for key, raw in base.items()},
            other: {key: value_of(kinds[other][key], raw) for key, raw in pick(rows[other]).items()},
        }
        at = solved(sides, values, side, name, kind)
        rows[side] += [{**base, name: raw} for raw in (near(kind, at) if at is not None else [base[name]])]
    tables = {side: table_of(kinds[side], rows[side][:most]) for side in SIDES}
    return Extreme(predicate, tables["left"], tables["right"])


@st.composite
def extremes_of(draw: st.DrawFn, **options: Any) -> Extreme:
    """`extreme` driven by Hypothesis."""
    return extreme(lambda options_: draw(st.sampled_from(list(options_))), **options)
