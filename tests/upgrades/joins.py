"""Joins whose snapshots are fixtures: how each is made, the rows that it gets, and what the law says of them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import slidejoin as sj
from tests.multi_oracle import Last, MultiOracle, Within
from tests.oracle import Aggregates, CountScope, Nearest, Oracle, TimeScope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.oracle import Output, Row, Step

START = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
SECOND_NS = 10**9

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "k": pa.int64(),
        "x": pa.int64(),
        "low": pa.float64(),
        "name": pa.string(),
        "amount": pa.decimal128(9, 2),
        "ts": pa.timestamp("us", tz="UTC"),
    }
)

ROWS, PUSHES, BEFORE = 12, 6, 3
"""Rows of a push and side, pushes, and how many of them the snapshot has seen."""

Pushes = list[dict[str, list["Row"]]]
Results = list[list[list[Any]]]
"""For each push, and for the end, the output rows as plain values."""


def pushes_of(streams: Sequence[str], seed: int) -> Pushes:
    """Rows in tiny domains, so that they match; a tenth of the values is NULL, and some times are late."""
    draw = random.Random(seed)

    def value(one: Any) -> Any:
        return None if draw.random() < 0.1 else one

    def row(number: int, at: float) -> Row:
        return {
            "id": number,
            "k": value(draw.randrange(4)),
            "x": value(draw.randrange(-20, 20)),
            "low": value(draw.choice([-0.0, 0.5, 1.25, float("nan"), 7.0])),
            "name": value(draw.choice(["", "ann", "bob", "Zoë", "naïve and longer than a few bytes"])),
            "amount": value(Decimal(draw.randrange(-500, 500)) / 100),
            "ts": value(START + timedelta(seconds=round(at + draw.uniform(-2.5, 0), 3))),
        }

    pushes: Pushes = []
    for push in range(PUSHES):
        times = [4 * push + 4 * one / ROWS for one in range(ROWS)]
        pushes.append({stream: [row(100 * push + n, at) for n, at in enumerate(times)] for stream in streams})
    return pushes


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Decimal):
        return str(value.quantize(Decimal("0.01")))
    return value.isoformat() if isinstance(value, datetime) else value


def in_order(rows: list[list[Any]]) -> list[list[Any]]:
    """Rows of one push as a multiset: in which order they come is no part of a format."""
    return sorted(rows, key=repr)


def rows_of(table: pa.Table) -> list[list[Any]]:
    return in_order([[plain(value) for value in row.values()] for row in table.to_pylist()])


@dataclass(frozen=True)
class Case:
    """A join, its rows, and its law.

    Attributes
    ----------
    what : str
        What is special about its snapshot.
    make : function
        Returns a new join.
    streams : tuple of str
    law : function
        Returns the output rows of each push and of the end, given the pushes.
    """

    what: str
    make: Callable[[], Any]
    streams: tuple[str, ...]
    law: Callable[[Pushes], Results]
    seed: int
    alone: int = 0
    """Pushes of the first stream alone, at the beginning."""

    def pushes(self) -> Pushes:
        pushes = pushes_of(self.streams, self.seed)
        return [{self.streams[0]: push[self.streams[0]]} for push in pushes[: self.alone]] + pushes[self.alone :]

    @property
    def kind(self) -> str:
        return type(self.make()).__name__


def col(side: str, name: str) -> tuple[str, str, str]:
    return ("col", side, name)


def two(column: str, operation: str = "=", other: str | None = None) -> tuple[Any, ...]:
    """A comparison of a left and a right column."""
    return (operation, col("left", column), col("right", other or column))


L, R = "left", "right"
BAND = ("between", col(L, "x"), ("-", col(R, "x"), ("lit", 3)), ("+", col(R, "x"), ("lit", 3)))
TIMES = TimeScope(5 * SECOND_NS, 5 * SECOND_NS, "ts", "ts", SECOND_NS)
TIME_WINDOW = sj.TimeWindow("5 seconds", on="ts", lateness="1 second")
IDS = ["l.id", "r.id"]


def law_of(oracle: Callable[[], Oracle], shown: Callable[[Output], list[Any]]) -> Callable[[Pushes], Results]:
    """The output rows by the oracle for two streams; `shown` takes the selected values of one."""

    def rows(steps: list[Step]) -> list[list[Any]]:
        return in_order([shown(row) for step in steps for row in step.rows])

    def law(pushes: Pushes) -> Results:
        join = oracle()
        results = [rows(join.push(push[L], push.get(R, []))) for push in pushes]
        return [*results, in_order([shown(row) for row in join.finish()])]

    return law


def values(*names: tuple[int, str]) -> Callable[[Output], list[Any]]:
    """These columns of an output row: 0 for a left one, 1 for a right one, and its name."""

    def shown(row: Output) -> list[Any]:
        return [None if (one := row[side]) is None else plain(one[name]) for side, name in names]

    return shown


ids = values((0, "id"), (1, "id"))


def many_law(pushes: Pushes) -> Results:
    windows = {
        "a": Within(5 * SECOND_NS, "ts", SECOND_NS),
        "b": Within(5 * SECOND_NS, "ts", SECOND_NS),
        "c": Within(3 * SECOND_NS, "ts", SECOND_NS),
    }
    k = [("col", "left", f"{stream}.k") for stream in "abc"]
    x = [("col", "left", f"{stream}.x") for stream in "abc"]
    return many_rows(MultiOracle(windows, ("and", ("=", k[0], k[1]), ("<", x[1], x[2]))), pushes)


def counted_many_law(pushes: Pushes) -> Results:
    names = [("col", "left", f"{stream}.name") for stream in "abc"]
    predicate = ("and", ("=", names[0], names[1]), ("=", names[1], names[2]))
    return many_rows(MultiOracle({"a": Last(12), "b": Last(9), "c": Last(6)}, predicate), pushes)


def many_rows(oracle: MultiOracle, pushes: Pushes) -> Results:
    results = []
    for push in pushes:
        steps = oracle.push(push)
        results.append(in_order([[one["id"] for one in row] for step in steps for row in step.rows]))
    return [*results, []]


MANY_IDS = ["a.id", "b.id", "c.id"]

CASES: dict[str, Case] = {
    "count-window": Case(
        "a band over the last rows, which leave in blocks",
        lambda: sj.StreamJoin(
            on="l.x BETWEEN r.x - 3 AND r.x + 3", window=sj.CountWindow(left=30, right=20, slide=4), select=IDS
        ),
        (L, R),
        law_of(lambda: Oracle(BAND, CountScope(30, 20, 4)), ids),
        1,
    ),
    "time-window": Case(
        "an equality and a range over time, with late rows that wait to be taken",
        lambda: sj.StreamJoin(on="l.k = r.k AND l.x < r.x", window=TIME_WINDOW, select=IDS, late="emit"),
        (L, R),
        law_of(lambda: Oracle(("and", two("k"), two("x", "<")), TIMES), ids),
        2,
    ),
    "full-join": Case(
        "which rows have a match",
        lambda: sj.StreamJoin(on="l.k = r.k AND l.x < r.x", window=TIME_WINDOW, how="full", select=IDS),
        (L, R),
        law_of(lambda: Oracle(("and", two("k"), two("x", "<")), TIMES, "full"), ids),
        3,
    ),
    "anti-join": Case(
        "left rows without a match, counted",
        lambda: sj.StreamJoin(
            on="l.k = r.k AND l.x = r.x", window=sj.CountWindow(15), how="left_anti", select=["l.id"]
        ),
        (L, R),
        law_of(lambda: Oracle(("and", two("k"), two("x")), CountScope(15, 15), "left_anti"), values((0, "id"))),
        4,
    ),
    "nearest": Case(
        "left rows that wait for their two nearest matches",
        lambda: sj.StreamJoin(
            on="l.k = r.k", window=TIME_WINDOW, keep=sj.Nearest("l.amount", "r.amount", "nearest", k=2), select=IDS
        ),
        (L, R),
        law_of(lambda: Oracle(two("k"), TIMES, keep=Nearest("amount", "amount", "nearest", 2)), ids),
        5,
    ),
    "aggregate": Case(
        "left rows that wait for their aggregates",
        lambda: sj.StreamJoin(
            on="l.k = r.k",
            window=sj.CountWindow(20),
            output=sj.Aggregate(pairs="count", total="sum(r.amount)", first="min(r.name)"),
            select=["l.id"],
        ),
        (L, R),
        law_of(
            lambda: Oracle(
                two("k"),
                CountScope(20, 20),
                aggregates=Aggregates({"pairs": ("count", None), "total": ("sum", "amount"), "first": ("min", "name")}),
            ),
            lambda row: [row[0]["id"], *(money(row[1][name]) for name in ("pairs", "total", "first"))],
        ),
        6,
    ),
    "types": Case(
        "strings, decimals, floats and times with NULLs, as keys and as columns of the result",
        lambda: sj.StreamJoin(
            on="l.name >= r.name AND l.amount IS NOT DISTINCT FROM r.amount OR l.low < r.low AND l.ts = r.ts",
            window=sj.CountWindow(50),
            how="left",
            select=["l.id", "l.name", "l.amount", "r.id", "r.name", "r.ts"],
        ),
        (L, R),
        law_of(
            lambda: Oracle(
                (
                    "or",
                    ("and", two("name", ">="), two("amount", "same")),
                    ("and", two("low", "<"), two("ts")),
                ),
                CountScope(50, 50),
                "left",
            ),
            values((0, "id"), (0, "name"), (0, "amount"), (1, "id"), (1, "name"), (1, "ts")),
        ),
        7,
    ),
    "self-join": Case(
        "one stream, whose rows are on both sides",
        lambda: sj.StreamJoin(on="l.k = r.k AND l.x < r.x", window=TIME_WINDOW, self_join=True, select=IDS),
        (L,),
        law_of(lambda: Oracle(("and", two("k"), two("x", "<")), TIMES, self_join=True), ids),
        8,
    ),
    "one-side": Case(
        "rows of one side, before the columns of the other are known",
        lambda: sj.StreamJoin(on="l.k = r.k AND l.x <> r.x", window=sj.CountWindow(25), select=IDS),
        (L, R),
        law_of(lambda: Oracle(("and", two("k"), two("x", "<>")), CountScope(25, 25)), ids),
        11,
        alone=BEFORE,
    ),
    "many-streams": Case(
        "three streams over time",
        lambda: sj.MultiJoin(
            {"a": TIME_WINDOW, "b": TIME_WINDOW, "c": sj.TimeWindow("3 seconds", on="ts", lateness="1 second")},
            on="a.k = b.k AND b.x < c.x",
            select=MANY_IDS,
        ),
        ("a", "b", "c"),
        many_law,
        9,
    ),
    "many-streams-counted": Case(
        "three streams over rows",
        lambda: sj.MultiJoin(
            {"a": sj.CountWindow(12), "b": sj.CountWindow(9), "c": sj.CountWindow(6)},
            on="a.name = b.name AND b.name = c.name",
            select=MANY_IDS,
        ),
        ("a", "b", "c"),
        counted_many_law,
        10,
    ),
}


def money(value: Any) -> Any:
    """An aggregate as JSON has it: exact sums of decimals are fractions in the oracle."""
    return plain(Decimal(value.numerator) / value.denominator) if isinstance(value, Fraction) else value


def late_rows(join: Any) -> dict[str, list[int]]:
    """The ids of the late rows that a join has stored; it has none if it drops them."""
    try:
        late = join.late_rows()
    except (sj.ArgumentError, AttributeError):
        return {}
    return {side: getattr(late, side).column("id").to_pylist() for side in (L, R)}


def pushed(join: Any, push: dict[str, list[Row]] | dict[str, pa.Table]) -> list[list[Any]]:
    """The output rows of one push."""
    tables = {name: rows if isinstance(rows, pa.Table) else table_of(rows) for name, rows in push.items()}
    return rows_of(join.push(**tables))
