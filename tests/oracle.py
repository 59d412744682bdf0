"""The law of slidejoin as plain Python loops: slow, obvious, and shared by all tests.

Written from the text of the contract alone, never from the implementation. Nothing here is vectorised: every arriving
row is compared with every stored row, one at a time.

A row is a dict from column name to a Python value: ``None``, ``bool``, ``int``, ``float``, ``Decimal``, ``str``,
``bytes``, or one of `Instant`, `Day`, `Clock`, `Span` (times as exact integers; `datetime` and its friends are taken
too).

A predicate is a tree of tuples::

    ("col", "left", "a")   ("lit", 5)   ("text", datetime)              a column, a literal, a time written as a string
    ("+", x, y)  - * / % //   ("neg", x)   ("abs", x)   ("double", x)      arithmetic
    ("=", x, y)  <> < <= > >=   ("same", x, y)   ("differ", x, y)       comparisons, IS [NOT] DISTINCT FROM
    ("between", x, lo, hi)   ("in", x, [literals])   ("isnull", x)
    ("and", p, q, …)   ("or", p, q, …)   ("not", p)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Expression = Callable[["Row", "Row"], "Value"]
    Condition = Callable[["Row", "Row"], bool | None]

Row = dict[str, Any]
Output = tuple[Row | None, Row | None]  # one output row; None for the side that an unmatched or semi row lacks
Value = tuple[str, Any] | None  # kind and content; None is NULL
SIDES = ("left", "right")
COMPARATORS = ("=", "<>", "<", "<=", ">", ">=")
HOLDS = {"=": (0,), "<>": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}  # by the order of two values
OPERATORS = ("+", "-", "*", "/", "%", "//")
REMEMBERED = 10_000  # rows, of each expression

# --------------------------------------------------------------------------------------------------------------------
# Values


@dataclass(frozen=True)
class Instant:
    """A timestamp: nanoseconds since 1970, in UTC where it is zoned."""

    ns: int
    zoned: bool = False


@dataclass(frozen=True)
class Day:
    """A date: days since 1970-01-01."""

    days: int


@dataclass(frozen=True)
class Clock:
    """A time of day: nanoseconds since midnight."""

    ns: int


@dataclass(frozen=True)
class Span:
    """A duration in nanoseconds."""

    ns: int


DAY_NS = 86_400 * 10**9
EXACT = ("int", "decimal")
NUMBERS = ("int", "decimal", "float")
INSTANTS = ("date", "naive")  # a date is its midnight among naive timestamps


def span_ns(span: timedelta) -> int:
    """The nanoseconds of a timedelta."""
    return ((span.days * 86_400 + span.seconds) * 10**6 + span.microseconds) * 1000


def tagged(value: Any) -> tuple[str, Any] | None:
    """A Python value as (kind, content); NULL is None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, int):
        return "int", value
    if isinstance(value, Decimal):
        return "decimal", Fraction(value)
    if isinstance(value, float):
        return "float", value
    if isinstance(value, str):
        return "text", value
    if isinstance(value, bytes):
        return "bytes", value
    if isinstance(value, Instant):
        return ("zoned" if value.zoned else "naive"), value.ns
    if isinstance(value, Day):
        return "date", value.days * DAY_NS
    if isinstance(value, Clock):
        return "clock", value.ns
    if isinstance(value, Span):
        return "span", value.ns
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return "naive", span_ns(value - datetime(1970, 1, 1))
        return "zoned", span_ns(value - datetime(1970, 1, 1, tzinfo=UTC))
    if isinstance(value, date):
        return "date", (value - date(1970, 1, 1)).days * DAY_NS
    if isinstance(value, time):
        midnight = timedelta(
            hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
        )
        return "clock", span_ns(midnight)
    if isinstance(value, timedelta):
        return "span", span_ns(value)
    raise TypeError(f"the oracle has no kind for {value!r}")


def literal(value: Any) -> tuple[str, Any] | None:
    """A literal: a finite float means the decimal number that was written."""
    if isinstance(value, float) and math.isfinite(value):
        return tagged(Decimal(repr(value)))
    return tagged(value)


# --------------------------------------------------------------------------------------------------------------------
# Comparison


def order_of(a: tuple[str, Any], b: tuple[str, Any]) -> int | None:
    """-1, 0 or 1 as `a` is below, equal to or above `b`; None where they are unordered (NaN)."""
    (kind, x), (other_kind, y) = a, b
    if kind == other_kind == "text":
        x, y = x.encode(), y.encode()  # strings are ordered by their bytes
    if kind in NUMBERS and other_kind in NUMBERS:
        if "float" in (kind, other_kind) and "decimal" in (kind, other_kind):
            x, y = nearest_double(x), nearest_double(y)
        # An int against a float is exact: Python does not round the int.
    elif not (kind == other_kind or (kind in INSTANTS and other_kind in INSTANTS)):
        raise TypeError(f"{kind} does not compare with {other_kind}")
    if x != x or y != y:
        return None
    return int(x > y) - int(x < y)


def comparable(a: tuple[str, Any], beside: tuple[str, Any]) -> Any:
    """What is compared of a number or time: its exact value, but beside a double that of a decimal's nearest double."""
    value = nearest_double(a[1]) if (a[0], beside[0]) == ("decimal", "float") else a[1]
    return Fraction(value) if isinstance(value, float) and math.isfinite(value) else value


def compare(op: str, a: tuple[str, Any] | None, b: tuple[str, Any] | None) -> bool | None:
    """One comparison in three-valued logic."""
    if a is None or b is None:
        return None
    order = order_of(a, b)
    if order is None:
        return None
    return order in HOLDS[op]


def same(a: tuple[str, Any] | None, b: tuple[str, Any] | None) -> bool:
    """IS NOT DISTINCT FROM: equality to which NULL is a value, and NaN too."""
    if a is None or b is None:
        return a is None and b is None
    if a[1] != a[1] and b[1] != b[1]:
        return True
    return order_of(a, b) == 0


# --------------------------------------------------------------------------------------------------------------------
# Arithmetic


def nearest_double(x: Any) -> float:
    """The double nearest to an exact number (ties to even)."""
    if isinstance(x, float):
        return x
    exact = Fraction(x)
    try:
        return exact.numerator / exact.denominator  # Python rounds the true quotient once
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def divide(x: float, y: float) -> float:
    """IEEE division."""
    if y != 0:
        return x / y
    if x == 0 or x != x:
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def ieee(op: str, x: float, y: float) -> float:
    """One operation on two doubles, rounded once."""
    if op == "/":
        return divide(x, y)
    return x + y if op == "+" else x - y if op == "-" else x * y


def on_exact(op: str, x: Any, y: Any) -> Any:
    """``+ - *`` without bounds."""
    return x + y if op == "+" else x - y if op == "-" else x * y


def on_int_and_float(op: str, x: Any, y: Any) -> float:
    """One correctly rounded result of the exact operands, one of which is an int and one a float."""
    whole, single = (x, y) if isinstance(x, int) else (y, x)
    if whole == 0 or not math.isfinite(single) or (single == 0 and op in "*/"):
        # Beside a zero, an infinity or NaN nothing but the sign of an int counts, however large it is.
        sign = float((whole > 0) - (whole < 0))
        return ieee(op, *((sign, y) if isinstance(x, int) else (x, sign)))
    a, b = Fraction(x), Fraction(y)
    return nearest_double(a / b if op == "/" else on_exact(op, a, b))


def arithmetic(op: str, a: tuple[str, Any] | None, b: tuple[str, Any] | None) -> tuple[str, Any] | None:
    """``a op b`` as written."""
    if a is None or b is None:
        return None
    (kind, x), (other_kind, y) = a, b
    kinds = (kind, other_kind)
    if kind in NUMBERS and other_kind in NUMBERS:
        if op == "%" and "float" in kinds:
            x, y = nearest_double(x), nearest_double(y)
            wrong = x != x or y != y or math.isinf(x) or y == 0
            return "float", math.nan if wrong else math.fmod(x, y)
        if op in ("%", "//"):
            if y == 0:
                return None
            if op == "%":
                return ("decimal" if "decimal" in kinds else "int"), (abs(x) % abs(y)) * (-1 if x < 0 else 1)
            if kinds != ("int", "int"):
                raise TypeError("// takes ints")
            return "int", abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)
        if op == "/" and kinds == ("int", "int"):
            return "float", nearest_double(Fraction(x, y)) if y else divide(float(x > 0) - float(x < 0), 0.0)
        if "decimal" in kinds and ("float" in kinds or op == "/"):
            x = x if kind == "int" else nearest_double(x)
            y = y if other_kind == "int" else nearest_double(y)
        if isinstance(x, float) and isinstance(y, float):
            return "float", ieee(op, x, y)
        if isinstance(x, float) or isinstance(y, float):
            return "float", on_int_and_float(op, x, y)
        return ("decimal" if "decimal" in kinds else "int"), on_exact(op, x, y)
    if op in "+-" and kinds == ("span", "span"):
        return "span", on_exact(op, x, y)
    if op == "*" and kinds in (("span", "int"), ("int", "span")):
        return "span", x * y
    if op == "-" and (kinds == ("zoned", "zoned") or (kind in INSTANTS and other_kind in INSTANTS)):
        return "span", x - y
    if other_kind == "span" and op in "+-" and kind in (*INSTANTS, "zoned"):
        return ("zoned" if kind == "zoned" else "naive"), on_exact(op, x, y)
    if kind == "span" and op == "+" and other_kind in (*INSTANTS, "zoned"):
        return ("zoned" if other_kind == "zoned" else "naive"), x + y
    raise TypeError(f"no {kind} {op} {other_kind}")


# --------------------------------------------------------------------------------------------------------------------
# Predicates


def all_of(parts: list[bool | None]) -> bool | None:
    """AND in three-valued logic."""
    if False in parts:
        return False
    return None if None in parts else True


def any_of(parts: list[bool | None]) -> bool | None:
    """OR in three-valued logic."""
    if True in parts:
        return True
    return None if None in parts else False


def is_boolean(node: tuple[Any, ...]) -> bool:
    """Whether a node is a condition by its form (a bool column is a value that may stand as one)."""
    return node[0] in (*COMPARATORS, "same", "differ", "between", "in", "isnull", "and", "or", "not")


def sides_of(node: Any) -> set[str]:
    """Which sides' columns an expression reads."""
    if not isinstance(node, tuple) or node[0] in ("lit", "text"):
        return set()
    return {node[1]} if node[0] == "col" else set().union(*(sides_of(part) for part in node[1:]))


def expression(node: tuple[Any, ...]) -> Expression:
    """The value of an expression as a function of a left and a right row; of one row alone it is computed once."""
    value, sides = value_of(node), sides_of(node)
    if len(sides) == len(SIDES):
        return value
    known: dict[int, tuple[Row, Value]] = {}

    def of_one_row(left: Row, right: Row) -> Value:
        row = right if "right" in sides else left
        found = known.get(id(row))
        if found is None:
            if len(known) >= REMEMBERED:
                known.clear()
            found = known[id(row)] = row, value(left, right)
        return found[1]

    return of_one_row


def value_of(node: tuple[Any, ...]) -> Expression:
    """The same, computed for each pair."""
    form = node[0]
    if is_boolean(node):
        holds = condition(node)
        return lambda left, right: tagged(holds(left, right))
    if form == "col":
        return lambda left, right: tagged((left if node[1] == "left" else right)[node[2]])
    if form in ("lit", "text"):
        constant = literal(node[1]) if form == "lit" else tagged(node[1])
        return lambda _left, _right: constant
    if form in OPERATORS:
        one, two = expression(node[1]), expression(node[2])
        return lambda left, right: arithmetic(form, one(left, right), two(left, right))
    operand = expression(node[1])
    return lambda left, right: alone(form, operand(left, right))


def alone(form: str, operand: Value) -> Value:
    """An operation on one value."""
    if operand is None:
        return None
    kind, x = operand
    if form == "neg" and kind in (*NUMBERS, "span"):
        return kind, -x
    if form == "abs" and kind in (*NUMBERS, "span"):
        return kind, abs(x)
    if form == "double" and kind in NUMBERS:
        return "float", nearest_double(x)
    if form == "double" and kind == "bool":
        return "float", float(x)
    if form == "double" and kind == "text" and not any(map(str.isdigit, x)):
        return None  # no number; the law has no text that is one
    raise TypeError(f"no {form} of {kind}")


def condition(node: tuple[Any, ...]) -> Condition:
    """A condition as a function of a left and a right row: True, False or None (unknown)."""
    form = node[0]
    if form in COMPARATORS:
        one, two = expression(node[1]), expression(node[2])
        return lambda left, right: compare(form, one(left, right), two(left, right))
    if form in ("same", "differ"):
        one, two = expression(node[1]), expression(node[2])
        return lambda left, right: same(one(left, right), two(left, right)) == (form == "same")
    if form == "between":
        return condition(("and", (">=", node[1], node[2]), ("<=", node[1], node[3])))
    if form == "in":
        value, items = expression(node[1]), [literal(item) for item in node[2]]
        return lambda left, right: any_of([compare("=", value(left, right), item) for item in items])
    if form == "isnull":
        value = expression(node[1])
        return lambda left, right: value(left, right) is None
    if form in ("and", "or"):
        parts, together = [condition(part) for part in node[1:]], all_of if form == "and" else any_of
        return lambda left, right: together([part(left, right) for part in parts])
    if form == "not":
        inner = condition(node[1])
        return lambda left, right: negated(inner(left, right))
    value = expression(node)
    return lambda left, right: as_condition(value(left, right))


def negated(value: bool | None) -> bool | None:
    """NOT in three-valued logic."""
    return None if value is None else not value


def as_condition(value: Value) -> bool | None:
    """A value where a condition stands."""
    if value is None:
        return None
    if value[0] != "bool":
        raise TypeError(f"{value[0]} is not a condition")
    return bool(value[1])


def evaluate(node: tuple[Any, ...], left: Row, right: Row) -> Value:
    """The value of an expression on one pair of rows."""
    return expression(node)(left, right)


def truth(node: tuple[Any, ...], left: Row, right: Row) -> bool | None:
    """A condition on one pair of rows: True, False or None (unknown)."""
    return condition(node)(left, right)


# --------------------------------------------------------------------------------------------------------------------
# Windows and arrivals


@dataclass(frozen=True)
class CountScope:
    """The last `left` left rows and the last `right` right rows, leaving in blocks of `slide` ordinals."""

    left: int
    right: int
    slide: int = 1

    def first_visible(self, side: str, arrived: int) -> int:
        """The first ordinal of `side` that is still visible when `arrived` of its rows have come.

        >>> [CountScope(3, 3, slide=2).first_visible("left", n) for n in range(9)]
        [0, 0, 0, 0, 0, 2, 2, 4, 4]
        """
        size = self.left if side == "left" else self.right
        first = 0
        while first + self.slide - 1 < arrived - size:  # the last row of this block is outside the last `size`
            first += self.slide
        return first


@dataclass(frozen=True)
class TimeScope:
    """``r.ts - l.ts <= left`` and ``l.ts - r.ts <= right``; lengths and lateness in the unit of the times."""

    left: int
    right: int
    left_on: str
    right_on: str
    lateness: int = 0

    def time_of(self, side: str, row: Row) -> int | None:
        """The event time of a row: an int as it is, a timestamp or date in nanoseconds."""
        value = tagged(row[self.left_on if side == "left" else self.right_on])
        return None if value is None else value[1]

    def holds(self, left_time: int, right_time: int) -> bool:
        """Whether a pair with these event times is in scope."""
        return right_time - left_time <= self.left and left_time - right_time <= self.right


Scope = CountScope | TimeScope


@dataclass(frozen=True)
class Nearest:
    """The first `k` pairs of each left row, by the distance of two columns."""

    left: str
    right: str
    direction: str = "backward"
    k: int = 1

    def considers(self, left: Row, right: Row) -> bool:
        """Whether a pair is considered at all: not with NULL or NaN, nor on the other side."""
        one, two = tagged(left[self.left]), tagged(right[self.right])
        if self.direction == "nearest":
            return compare("<=", two, one) is not None
        return compare("<=" if self.direction == "backward" else ">=", two, one) is True

    def first(self, left: Row, partners: list[Kept]) -> list[Kept]:
        """The pairs that stay, in their order."""
        value = tagged(left[self.left])
        if value is None:
            return []

        def order(kept: Kept) -> tuple[Any, bool, Any, int]:
            other = tagged(kept.row[self.right])
            assert other is not None
            one, two = (comparable(number, beside) for number, beside in ((value, other), (other, value)))
            above = two > one
            # An infinity is at no distance from itself. Of values at an infinite distance on one side the one between
            # is nearer.
            apart = 0 if one == two else math.inf if math.inf in (abs(one), abs(two)) else abs(Fraction(one) - two)
            return apart, above, two if above else -two, -kept.ordinal

        return sorted(partners, key=order)[: self.k]


@dataclass(frozen=True)
class Aggregates:
    """Functions of the right rows of each left row's pairs: name to (function, column); no column counts pairs."""

    functions: dict[str, tuple[str, str | None]]

    def of(self, partners: list[Kept]) -> Row:
        """The aggregates over these right rows."""
        return {name: self._one(function, column, partners) for name, (function, column) in self.functions.items()}

    @staticmethod
    def _one(function: str, column: str | None, partners: list[Kept]) -> Any:
        if column is None:
            return len(partners)
        values = [kept.row[column] for kept in partners if kept.row[column] is not None]
        if function == "count":
            return len(values)
        if not values:
            return None
        if function in ("min", "max"):
            best = None
            for value in values:
                if value != value:  # NaN has no order
                    continue
                if best is None or compare("<" if function == "min" else ">", tagged(value), tagged(best)):
                    best = value
            return math.nan if best is None else best
        kind, total = "", 0
        for value in values:
            content: Any = tagged(value)
            kind, total = content[0], total + content[1]
        if function == "mean":
            return (
                nearest_double(total) / len(values)
                if isinstance(total, float)
                else nearest_double(Fraction(total) / len(values))
            )
        if kind == "int" and not -(2**63) <= total < 2**63:
            raise OverflowError(f"the sum {total} of {column} does not fit 64 bits")
        return Span(total) if kind == "span" else total


@dataclass
class Kept:
    """A row that has an ordinal on its side."""

    row: Row
    ordinal: int
    time: int  # 0 where the window counts rows
    matched: bool = False
    done: bool = False  # produced as unmatched or (semi) as matched
    partners: list[Kept] = field(default_factory=list)  # right rows of its pairs, where they are put out together


@dataclass
class Step:
    """What one arrival produced.

    ``rows`` has the output rows as (left row | None, right row | None), under ``order="strict"``: pairs, then the
    unmatched rows that became known. ``pairs`` is how many of them are pairs of the inner join.
    """

    side: str
    row: Row
    late: bool = False
    null_time: bool = False
    pairs: int = 0
    rows: list[Output] = field(default_factory=list)

    @property
    def counted(self) -> bool:
        """Whether the row has a line in the output of ``output="count"``."""
        return not (self.late or self.null_time)


def other(side: str) -> str:
    """The other side."""
    return "right" if side == "left" else "left"


def arrange(left: list[Row], right: list[Row], order_by: str | None = None) -> list[tuple[str, Row]]:
    """The arrivals of one push in their order."""
    arrivals = [("left", row) for row in left] + [("right", row) for row in right]
    if order_by is None:
        return arrivals
    for _, row in arrivals:
        value = tagged(row[order_by])
        if value is None or value[1] != value[1]:
            raise ValueError(f"order_by column {order_by!r} holds NULL or NaN")

    def by_column(a: tuple[str, Row], b: tuple[str, Row]) -> int:
        one, two = tagged(a[1][order_by]), tagged(b[1][order_by])
        assert one is not None
        assert two is not None
        if one[0] in NUMBERS and two[0] in NUMBERS:
            # A sort needs one total order, so even a decimal against a float is exact here: Python rounds neither.
            return int(one[1] > two[1]) - int(one[1] < two[1])
        return order_of(one, two) or 0

    return sorted(arrivals, key=cmp_to_key(by_column))  # stable: left rows stay first on ties


class Oracle:
    """The join itself, one arrival at a time."""

    def __init__(
        self,
        predicate: tuple[Any, ...],
        scope: Scope,
        how: str = "inner",
        *,
        self_join: bool = False,
        keep: Nearest | None = None,
        aggregates: Aggregates | None = None,
    ) -> None:
        self.holds = condition(predicate)
        self.scope = scope
        self.how = how
        self.self_join = self_join
        self.keep = keep
        self.aggregates = aggregates
        self.deferred = keep is not None or aggregates is not None
        self.kept: dict[str, list[Kept]] = {"left": [], "right": []}
        self.latest: dict[str, int | None] = {"left": None, "right": None}
        self.pairs = 0
        self.late_rows = 0
        self.null_time_rows = 0

    # -- embedded ----------------------------------------------------------------------------------------------------

    def push(self, left: Sequence[Row] = (), right: Sequence[Row] = (), order_by: str | None = None) -> list[Step]:
        """What each row of one push produces, in arrival order."""
        steps = []
        for side, row in arrange(list(left), list(right), order_by):
            step = self._arrive(side, row, self.watermark())
            if step.counted:
                step.rows += self._newly_unmatched(self.watermark())
            steps.append(step)
        return steps

    def finish(self) -> list[Output]:
        """The unmatched rows that are still pending."""
        return self._unmatched(lambda _side, _kept: True)

    def watermark(self) -> int | None:
        """The join's watermark; None for count windows and while a side has no row."""
        left, right = self.latest["left"], self.latest["right"]
        if not isinstance(self.scope, TimeScope) or left is None or right is None:
            return None
        return min(left, right) - self.scope.lateness

    # -- Spark -------------------------------------------------------------------------------------------------------

    def micro_batch(
        self, left: list[Row], right: list[Row], watermark: int | None, order_by: str | None = None
    ) -> list[Output]:
        """The output rows of one micro-batch under the watermark with which it began; a multiset."""
        scope = self.scope
        if order_by is None and isinstance(scope, TimeScope):
            arrivals = []
            for rank, (side, rows) in enumerate((("left", left), ("right", right))):
                for row in rows:
                    at = scope.time_of(side, row)
                    arrivals.append((0 if at is None else at, rank, side, row))
            arrivals.sort(key=lambda arrival: arrival[:2])
            ordered = [(side, row) for _, _, side, row in arrivals]
        else:
            ordered = arrange(left, right, order_by)
        output: list[Output] = []
        for side, row in ordered:
            output += self._arrive(side, row, watermark).rows
        return output + self._newly_unmatched(watermark)

    # -- one arrival -------------------------------------------------------------------------------------------------

    def _arrive(self, side: str, row: Row, watermark: int | None) -> Step:
        step = Step(side, row)
        roles = SIDES if self.self_join else (side,)
        times = dict.fromkeys(roles, 0)
        if isinstance(self.scope, TimeScope):
            for role in roles:
                at = self.scope.time_of(role, row)
                if at is None:
                    step.null_time = True
                    self.null_time_rows += 1
                    return step
                times[role] = at
            if watermark is not None and min(times.values()) < watermark:
                step.late = True
                self.late_rows += 1
                return step
        new = {role: Kept(row, len(self.kept[role]), times[role]) for role in roles}
        for role in roles:
            for stored in self._visible(other(role)):
                probe = new[role]
                left, right = (probe, stored) if role == "left" else (stored, probe)
                if isinstance(self.scope, TimeScope) and not self.scope.holds(left.time, right.time):
                    continue
                if self.holds(left.row, right.row) is not True:
                    continue
                if self.keep is not None and not self.keep.considers(left.row, right.row):
                    continue
                if self.deferred:
                    left.partners.append(right)
                    continue
                step.pairs += 1
                step.rows += self._of_pair(left, right)
                left.matched = right.matched = True
        for role in roles:
            self.kept[role].append(new[role])
            seen = self.latest[role]
            self.latest[role] = times[role] if seen is None else max(seen, times[role])
        self.pairs += step.pairs
        return step

    def _visible(self, side: str) -> list[Kept]:
        """The stored rows of a side that an arriving row of the other side sees, in arrival order."""
        rows = self.kept[side]
        if isinstance(self.scope, CountScope):
            return rows[self.scope.first_visible(side, len(rows)) :]
        return rows

    def _of_pair(self, left: Kept, right: Kept) -> list[Output]:
        """The output rows of a match."""
        if self.how == "left_anti":
            return []
        if self.how == "left_semi":
            if left.done:
                return []
            left.done = True
            return [(left.row, None)]
        return [(left.row, right.row)]

    def _newly_unmatched(self, watermark: int | None) -> list[Output]:
        """Rows that have just left the window without a match."""

        def gone(side: str, kept: Kept) -> bool:
            if isinstance(self.scope, CountScope):
                return kept.ordinal < self.scope.first_visible(side, len(self.kept[side]))
            length = self.scope.left if side == "left" else self.scope.right
            return watermark is not None and watermark > kept.time + length

        return self._unmatched(gone)

    def _answered(self, gone: Callable[[str, Kept], bool]) -> list[Output]:
        """What is put out of left rows that leave: their nearest pairs, or the aggregates over all of them."""
        rows: list[Output] = []
        for kept in self.kept["left"]:
            if kept.done or not gone("left", kept):
                continue
            kept.done = True
            if self.aggregates is not None:
                self.pairs += len(kept.partners)
                rows.append((kept.row, self.aggregates.of(kept.partners)))
                continue
            assert self.keep is not None
            first = self.keep.first(kept.row, kept.partners)
            self.pairs += len(first)
            rows += [(kept.row, partner.row) for partner in first]
            if not first and self.how == "left":
                rows.append((kept.row, None))
        return rows

    def _unmatched(self, gone: Callable[[str, Kept], bool]) -> list[Output]:
        if self.deferred:
            return self._answered(gone)
        sides = {"left": ("left",), "left_anti": ("left",), "right": ("right",), "full": SIDES}.get(self.how, ())
        rows: list[Output] = []
        for side in sides:
            for kept in self.kept[side]:
                if not kept.matched and not kept.done and gone(side, kept):
                    kept.done = True
                    rows.append((kept.row, None) if side == "left" else (None, kept.row))
        return rows
