"""Hypothesis strategies: whole joins over tiny domains, so that ties, ends and NULLs meet all the time.

A `Family` is a set of Arrow types that compare with each other; a `Case` is two tables, a predicate, a window and the
cuts of the arrivals into pushes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import slidejoin as sj
from tests.oracle import CountScope, Oracle, Scope, Step, TimeScope, span_ns
from tests.render import to_python, to_sql
from tests.tables import rows_of, values_of

Node = tuple[Any, ...]

# --------------------------------------------------------------------------------------------------------------------
# Types and their values


def _ints(bits: int, *, signed: bool) -> list[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    near = [v for v in (-3, -2, -1, 0, 1, 2, 3, 5) if low <= v <= high]
    wide = [v for v in (2**53, 2**53 + 1, 2**63 - 1, 2**63) if 2**31 < v < high]
    return [*near * 3, low, low + 1, high - 1, high, *wide]


_FLOATS = [*[-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0] * 2, 0.1, math.nan, math.inf, -math.inf]
_DAYS = [-1, 0, 1, 2]

INTEGERS: dict[pa.DataType, list[Any]] = {
    pa.int8(): _ints(8, signed=True),
    pa.int16(): _ints(16, signed=True),
    pa.int32(): _ints(32, signed=True),
    pa.int64(): _ints(64, signed=True),
    pa.uint8(): _ints(8, signed=False),
    pa.uint16(): _ints(16, signed=False),
    pa.uint32(): _ints(32, signed=False),
    pa.uint64(): _ints(64, signed=False),
}
FLOATS: dict[pa.DataType, list[Any]] = {
    pa.float32(): [*_FLOATS, 16_777_216.0],
    pa.float64(): [*_FLOATS, 2.0**53, 2.0**63, 2.0**64, 5e-324, 1e308, 0.30000000000000004],
}
# A band of 0.1 or 0.2 ends within a rounding of these.
_TENTHS = [
    0.0,
    0.1,
    0.2,
    0.3,
    0.1 + 0.2,
    0.4,
    0.5,
    0.6,
    0.7,
    0.8,
    1.0,
    1.1,
    -0.1,
    math.inf,
    -math.inf,
    math.nan,
    2.0**53,
]
DECIMALS: dict[pa.DataType, list[Any]] = {
    pa.decimal128(3, 0): [Decimal(v) for v in (-2, -1, 0, 1, 2, 3, 999, -999)],
    pa.decimal128(5, 2): [Decimal(v) for v in ("-1.00", "0.00", "0.10", "0.50", "1.00", "1.01", "2.00", "999.99")],
    pa.decimal128(18, 6): [Decimal(v) for v in ("0.000000", "0.100000", "1.000000", "1.000001", "999999999999.999999")],
    pa.decimal128(18, 0): [Decimal(v) for v in (0, 1, 2, 10**18 - 1, -(10**18) + 1, 2**53 + 1)],
    pa.decimal128(3, -2): [Decimal(v) for v in (0, 100, 200, -100, 99900)],
    pa.decimal256(4, 1): [Decimal(v) for v in ("0.0", "0.1", "0.5", "1.0", "2.0", "-1.0")],
    pa.decimal128(38, 0): [Decimal(v) for v in (0, 1, 2, -1, 2**61, 2**63, 2**64, 2**64 + 1, -(10**37), "9" * 38)],
    pa.decimal128(38, 18): [
        Decimal(v) for v in ("0", "1", "1.01", "12.5", "-12.5", "12.500000000000000001", "2", "1E19")
    ],
    pa.decimal256(38, 4): [Decimal(v) for v in ("0", "0.1", "0.5", "1", "1E33", "1E33", "-1E33")],
}


def _instants(zone: str | None) -> dict[pa.DataType, list[Any]]:
    near = [-2, -1, 0, 1, 2, 3]
    return {
        pa.timestamp("s", zone): [*near, 86_400, -86_400, 2**40, 2**63 - 1],
        pa.timestamp("ms", zone): [1000 * v for v in near] + [1, 999, 86_400_000],
        pa.timestamp("us", zone): [10**6 * v for v in near] + [1, -1, 86_400_000_000],
        pa.timestamp("ns", zone): [10**9 * v for v in near] + [1, -1, 86_400 * 10**9, 2**63 - 1, -(2**63) + 1],
    }


DATES: dict[pa.DataType, list[Any]] = {
    pa.date32(): [*_DAYS, 24_854],
    pa.date64(): [86_400_000 * v for v in _DAYS],
}
CLOCKS: dict[pa.DataType, list[Any]] = {
    pa.time32("s"): [0, 1, 2, 86_399],
    pa.time32("ms"): [0, 1000, 1001, 2000],
    pa.time64("us"): [0, 10**6, 10**6 + 1, 2 * 10**6],
    pa.time64("ns"): [0, 10**9, 10**9 + 1, 86_399 * 10**9],
}
SPANS: dict[pa.DataType, list[Any]] = {
    pa.duration("s"): [-1, 0, 1, 2, 3],
    pa.duration("ms"): [-1000, 0, 1, 1000, 2000],
    pa.duration("us"): [-(10**6), 0, 1, 10**6, 2 * 10**6],
    pa.duration("ns"): [-(10**9), 0, 1, 10**9, 2**63 - 1],
}
_TEXTS = ["", "a", "b", "A", "ab", "a\x00", "naïve", "2024-01-05", "2024-01-06", "2024-01-0", "\U0001f600", "\uffff"]
TEXTS: dict[pa.DataType, list[Any]] = {
    pa.string(): _TEXTS,
    pa.large_string(): _TEXTS,
    pa.string_view(): _TEXTS,
    pa.dictionary(pa.int8(), pa.string()): _TEXTS,
}
_BYTES = [b"", b"a", b"\x00", b"a\x00", b"\xff\xff", b"\xff" * 8, b"\xff" * 9, b"long value 1", b"long value 2"]
BINARIES: dict[pa.DataType, list[Any]] = {
    pa.binary(): _BYTES,
    pa.large_binary(): _BYTES,
    pa.binary(2): [b"a\x00", b"ab", b"\xff\xff"],
    pa.dictionary(pa.int16(), pa.binary()): _BYTES,
}


@dataclass(frozen=True)
class Family:
    """Types that compare with each other, and the literals that go with them."""

    name: str
    domains: dict[pa.DataType, list[Any]]
    literals: tuple[Any, ...] = ()
    offsets: tuple[Any, ...] = ()  # what may be added, and how wide a band is


def _dictionaries(domains: dict[pa.DataType, list[Any]]) -> dict[pa.DataType, list[Any]]:
    return {pa.dictionary(pa.int8(), kind): values for kind, values in domains.items()}


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "number",
            INTEGERS
            | FLOATS
            | DECIMALS
            | _dictionaries({pa.int64(): [-1, 0, 1, 2], pa.float64(): [0.0, 1.0, math.nan]}),
            (-1, 0, 1, 2, 0.5, 0.1, Decimal("1.01"), 2**53 + 1, 2**63, -(2**63) - 1),
            offsets=(0, 1, 2, 0.5, 0.1, Decimal("0.01"), 2**53, 2**63),
        ),
        Family(
            "int",
            INTEGERS,
            (-1, 0, 1, 2, 127, 255, 2**63 - 1, 2**63, 2**64, -(2**63) - 1),
            offsets=(0, 1, 2, 3, 255, 2**63),
        ),
        Family(
            "float",
            {pa.float64(): _TENTHS, pa.float32(): _TENTHS, pa.dictionary(pa.int8(), pa.float64()): _TENTHS},
            (0.1, 0.3, 1, 0),
            offsets=(0.1, 0.2, 0.3, 0, 1),
        ),
        Family(
            "decimal",
            DECIMALS,
            (0, 1, Decimal("0.1"), Decimal("1.01"), 0.5),
            offsets=(0, 1, Decimal("0.01"), Decimal("0.000001"), 0.5),
        ),
        Family(
            "naive",
            _instants(None) | DATES,
            (datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999)),
            offsets=(timedelta(0), timedelta(seconds=1), timedelta(microseconds=1), timedelta(days=1)),
        ),
        Family(
            "zoned",
            _instants("UTC") | _instants("Asia/Kolkata"),
            offsets=(timedelta(0), timedelta(seconds=1), timedelta(microseconds=1)),
        ),
        Family("clock", CLOCKS),
        Family("span", SPANS, (timedelta(seconds=1), timedelta(0)), offsets=(timedelta(0), timedelta(seconds=1))),
        Family("text", TEXTS, ("a", "", "it's", "2024-01-05")),
        Family("binary", BINARIES),
        Family("bool", {pa.bool_(): [True, False]}, (True, False)),
    )
}


def columns(kind: pa.DataType, values: list[Any], rows: int, *, nulls: bool = True) -> st.SearchStrategy[pa.Array[Any]]:
    """Arrays of `rows` values out of two to five of the domain's, NULL now and then.

    One string of bytes is drawn for all: half of a test's time went into drawing values one by one.
    """

    def made(drawn: bytes) -> pa.Array[Any]:
        few = [values[at % len(values)] for at in drawn[1 : 3 + drawn[0] % 4]]
        pool = [*few, *few, *few, None] if nulls else few
        return array([pool[at % len(pool)] for at in drawn[6:]], kind)

    return st.binary(min_size=6 + rows, max_size=6 + rows).map(made)


def array(values: list[Any], kind: pa.DataType) -> pa.Array[Any]:
    """An array of any type of this module; dictionaries by way of their values."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


# --------------------------------------------------------------------------------------------------------------------
# Predicates

LEFT, RIGHT = "left", "right"
COMPARE = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "same", "differ"])


@st.composite
def comparisons(draw: st.DrawFn, family: Family, name: str) -> Node:
    """One comparison, band or OR of bands over the column `name` of both sides."""
    left, right = ("col", LEFT, name), ("col", RIGHT, name)
    if draw(st.booleans()):
        left, right = right, left
    op = draw(COMPARE)
    forms = ["plain", "plain"]
    if family.literals:
        forms += ["single", "in"]
    if family.offsets:
        forms += ["shift", "band", "band", "abs", "or", "difference"]
    if family.name in ("number", "int", "float", "decimal"):
        forms += ["sum", "scaled", "negated", "quotient", "double"]
    if family.name in ("int", "decimal", "number"):
        forms += ["modulo"]
    form = draw(st.sampled_from(forms))
    offset = st.sampled_from(family.offsets).map(lambda value: ("lit", value)) if family.offsets else st.nothing()
    constant = st.sampled_from(family.literals).map(lambda value: ("lit", value)) if family.literals else st.nothing()
    sign = st.sampled_from(["+", "-"])
    if form == "plain":
        return (op, left, right)
    if form == "single":
        return (op, left, draw(constant))
    if form == "in":
        return ("in", left, draw(st.lists(st.sampled_from(family.literals), min_size=1, max_size=3)))
    if form == "shift":
        return (op, (draw(sign), left, draw(offset)), right)
    if form == "band":
        return ("between", left, ("-", right, draw(offset)), ("+", right, draw(offset)))
    if form == "difference":
        return (op, ("-", left, right), draw(offset))
    if form == "abs":
        return (draw(st.sampled_from(["<=", "<", ">", "<>", "="])), ("abs", ("-", left, right)), draw(offset))
    if form == "or":
        return (
            "or",
            ("between", left, ("-", right, draw(offset)), right),
            (op, left, (draw(sign), right, draw(offset))),
        )
    if form == "sum":
        return (op, ("+", left, right), draw(constant))
    if form == "scaled":
        factor = ("lit", draw(st.sampled_from([2, -1, -3, 0, 0.5])))
        return (op, ("*", left, factor), (draw(sign), right, draw(offset)))
    if form == "negated":
        return (op, ("neg", left), right)
    if form == "double":
        return (op, ("double", left), ("+", ("double", right), draw(offset)))
    if form == "quotient":
        return (op, ("/", left, draw(st.sampled_from([("lit", 2), ("lit", 3), right]))), draw(constant))
    return (
        op,
        (
            draw(st.sampled_from(["%", "//"])) if family.name == "int" else "%",
            left,
            draw(st.sampled_from([("lit", 3), ("lit", -2), right])),
        ),
        draw(st.sampled_from([right, ("lit", 1)])),
    )


@st.composite
def predicates(draw: st.DrawFn, families: dict[str, Family], depth: int = 2) -> Node:
    """Conditions over the columns of `families` (by column name) and the bool column ``flag``."""
    kind = draw(
        st.sampled_from(["one"] * 4 + ["two"] + (["and", "and", "or", "or", "not", "bool", "null"] if depth else []))
    )
    numeric = {name for name, family in families.items() if family.name in ("int", "number", "decimal", "float")}
    if kind == "two" and numeric == {"a", "b"}:
        one, two = draw(st.permutations([LEFT, RIGHT]))
        whole = (draw(st.sampled_from("+-*")), ("col", one, "a"), ("col", one, "b"))
        other = draw(
            st.sampled_from(
                [
                    ("col", two, "a"),
                    ("-", ("col", two, "b"), ("col", two, "a")),
                    ("+", ("col", two, "a"), ("col", one, "a")),
                ]
            )
        )
        return (draw(COMPARE), whole, other)
    if kind in ("one", "two"):
        name = draw(st.sampled_from(sorted(families)))
        return draw(comparisons(families[name], name))
    if kind == "bool":
        return ("col", draw(st.sampled_from([LEFT, RIGHT])), "flag")
    if kind == "null":
        side, name = draw(st.sampled_from([LEFT, RIGHT])), draw(st.sampled_from(sorted(families)))
        return ("isnull", ("col", side, name))
    if kind == "not":
        return ("not", draw(predicates(families, depth - 1)))
    return (kind, *draw(st.lists(predicates(families, depth - 1), min_size=2, max_size=2 + (depth > 1))))


# --------------------------------------------------------------------------------------------------------------------
# Windows


@dataclass(frozen=True)
class WindowCase:
    """A window as slidejoin and as the oracle take it."""

    window: sj.CountWindow | sj.TimeWindow
    scope: Scope


@st.composite
def count_windows(draw: st.DrawFn, largest: int = 6) -> WindowCase:
    left, right = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    slide = draw(st.one_of(st.just(1), st.integers(1, min(left, right))))
    return WindowCase(sj.CountWindow(left=left, right=right, slide=slide), CountScope(left, right, slide))


TIME_FAMILIES: dict[str, dict[pa.DataType, list[Any]]] = {
    "int": {kind: [v for v in values if abs(v) < 10] for kind, values in INTEGERS.items()},
    "naive": {kind: [v for v in values if abs(v) < 2**40] for kind, values in (_instants(None) | DATES).items()},
    "zoned": {kind: [v for v in values if abs(v) < 2**40] for kind, values in _instants("UTC").items()},
}
_LENGTHS = [
    "0 seconds",
    "1 second",
    "2 seconds",
    "1 day",
    timedelta(microseconds=1),
    timedelta(seconds=3),
    timedelta(0),
]
_SPAN_OF = {"0 seconds": timedelta(0), "1 second": timedelta(seconds=1), "2 seconds": timedelta(seconds=2)}
_SPAN_OF["1 day"] = timedelta(days=1)


@st.composite
def time_windows(draw: st.DrawFn, family: str, left_on: str = "ts", right_on: str = "ts") -> WindowCase:
    if family == "int":
        length = st.integers(0, 4)
        left, right, lateness = draw(length), draw(length), draw(st.sampled_from([0, 0, 1, 3, 100]))
        scope = TimeScope(left, right, left_on, right_on, lateness)
    else:
        length = st.sampled_from(_LENGTHS)
        left, right, lateness = draw(length), draw(length), draw(length)
        exact = [span_ns(_SPAN_OF.get(v, v)) for v in (left, right, lateness)]
        scope = TimeScope(exact[0], exact[1], left_on, right_on, exact[2])
    if left_on == right_on and left == right:
        window = sj.TimeWindow(left, on=left_on, lateness=lateness)
    else:
        window = sj.TimeWindow(left=left, right=right, left_on=left_on, right_on=right_on, lateness=lateness)
    return WindowCase(window, scope)


# --------------------------------------------------------------------------------------------------------------------
# Cases


@dataclass
class Push:
    """One call of push; None stands for a side that is not given."""

    left: pa.Table | None
    right: pa.Table | None
    order_by: str | None = None

    def arguments(self, *, self_join: bool = False) -> dict[str, Any]:
        """The keyword arguments of ``StreamJoin.push``."""
        given = {"left": self.left, "right": None if self_join else self.right, "order_by": self.order_by}
        return {name: value for name, value in given.items() if value is not None}


@dataclass
class Case:
    """A whole join."""

    predicate: Node
    window: WindowCase
    left: pa.Table
    right: pa.Table
    pushes: list[Push] = field(default_factory=list)
    self_join: bool = False
    as_text: bool = True

    def join(self, **options: Any) -> sj.StreamJoin:
        """The join of slidejoin, not yet fed."""
        on = to_sql(self.predicate) if self.as_text else to_python(self.predicate)
        schemas = (self.left.schema, self.left.schema if self.self_join else self.right.schema)
        return sj.StreamJoin(on=on, window=self.window.window, self_join=self.self_join, schemas=schemas, **options)

    def results(self, join: sj.StreamJoin, pushes: list[Push] | None = None) -> list[pa.Table]:
        """What each push gives."""
        given = self.pushes if pushes is None else pushes
        return [join.push(**push.arguments(self_join=self.self_join)) for push in given]

    def oracle(self, how: str = "inner") -> Oracle:
        return Oracle(self.predicate, self.window.scope, how, self_join=self.self_join)

    def steps(self, oracle: Oracle) -> list[list[Step]]:
        """What the law says for each arrival of each push."""
        return [
            oracle.push(
                rows_of(push.left) if push.left is not None else [],
                rows_of(push.right) if push.right is not None and not self.self_join else [],
                push.order_by,
            )
            for push in self.pushes
        ]

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # what Hypothesis prints
        printer.text(str(self))

    def __str__(self) -> str:
        def shown(table: pa.Table | None) -> str:
            if table is None:
                return "None"
            return str({name: values_of(table.column(name)) for name in table.column_names})

        pushes = [
            f"left={shown(push.left)} right={shown(push.right)} order_by={push.order_by!r}" for push in self.pushes
        ]
        types = {
            side: str(table.schema).replace("\n", ", ") for side, table in ((LEFT, self.left), (RIGHT, self.right))
        }
        return (
            f"Case(on={to_sql(self.predicate)!r}, window={self.window.window}, self_join={self.self_join}, "
            f"as_text={self.as_text}, types={types}, pushes=[\n  " + ",\n  ".join(pushes) + "])"
        )


@st.composite
def tables(
    draw: st.DrawFn,
    kinds: dict[str, tuple[pa.DataType, list[Any]]],
    most: int,
    *,
    ordered: bool,
    exactly: int | None = None,
) -> pa.Table:
    """A table with the columns id, a, b, flag, ts and o (which orders pushes: no NULL)."""
    rows = (
        draw(st.sampled_from([0, 1, 2, *range(3, most + 1), *range(most // 2, most + 1)]))
        if exactly is None
        else exactly
    )
    made: dict[str, pa.Array[Any]] = {"id": pa.array(range(rows), pa.int64())}
    for name, (kind, values) in kinds.items():
        made[name] = draw(columns(kind, values, rows))
    made["flag"] = draw(columns(pa.bool_(), [True, False], rows))
    orders = [0, 1, 2] if ordered else [0]
    made["o"] = draw(columns(pa.int16(), orders, rows, nulls=False))
    return pa.table(made)


def cuts(rows: int, parts: int) -> st.SearchStrategy[list[int]]:
    """Ascending positions that cut `rows` rows into `parts` pieces, some of them empty."""
    inner = st.lists(st.integers(0, rows), min_size=parts - 1, max_size=parts - 1).map(sorted)
    return inner.map(lambda at: [0, *at, rows])


@st.composite
def pushes(draw: st.DrawFn, left: pa.Table, right: pa.Table, most: int = 5) -> list[Push]:
    """The two tables cut into pushes; empty pieces are given as an empty table or not at all."""
    parts = draw(st.integers(1, most))
    at = {LEFT: draw(cuts(left.num_rows, parts)), RIGHT: draw(cuts(right.num_rows, parts))}
    made = []
    for i in range(parts):
        pieces = {}
        for side, table in ((LEFT, left), (RIGHT, right)):
            piece = table.slice(at[side][i], at[side][i + 1] - at[side][i])
            pieces[side] = None if piece.num_rows == 0 and draw(st.booleans()) else piece
        made.append(Push(pieces[LEFT], pieces[RIGHT], draw(st.sampled_from([None, None, "o"]))))
    return made


def _kind_of(draw: st.DrawFn, domains: dict[pa.DataType, list[Any]]) -> tuple[pa.DataType, list[Any]]:
    kind = draw(st.sampled_from(list(domains)))
    return kind, domains[kind]


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    window: str | None = None,
    family: str | None = None,
    self_join: bool = False,
    most: int = 10,
) -> Case:
    """Whole joins: types, rows, predicate, window, pushes."""
    families = {
        "a": FAMILIES[family or draw(st.sampled_from(["int", "number", "float", *FAMILIES]))],
        "b": FAMILIES[draw(st.sampled_from(["int", "number", *FAMILIES]))],
    }
    timed = draw(st.sampled_from(["int", "naive", "zoned"]))
    kinds: dict[str, dict[str, tuple[pa.DataType, list[Any]]]] = {}
    for side in (LEFT, RIGHT):
        kinds[side] = {name: _kind_of(draw, chosen.domains) for name, chosen in families.items()}
        kinds[side]["ts"] = _kind_of(draw, TIME_FAMILIES[timed])
    left = draw(tables(kinds[LEFT], most, ordered=True))
    right = left if self_join else draw(tables(kinds[RIGHT], most, ordered=True))
    chosen = window or draw(st.sampled_from(["count", "time"]))
    scope = draw(count_windows() if chosen == "count" else time_windows(timed))
    predicate = draw(predicates(families))
    made = Case(predicate, scope, left, right, self_join=self_join, as_text=draw(st.booleans()))
    made.pushes = draw(pushes(left, right))
    return made
