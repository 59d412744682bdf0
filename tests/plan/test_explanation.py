"""What `explain` says of each part of a predicate, and that its advice helps and changes no answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj

NAMES = ("price", "bid", "ask", "start", "end", "key", "x", "id", "ts")
WHOLE = pa.schema([(name, pa.int64()) for name in NAMES])
DOUBLE = pa.schema([(name, pa.float64()) for name in NAMES[:-1]] + [("ts", pa.int64())])
COUNT, TIME = sj.CountWindow(1000), sj.TimeWindow(60, on="ts")

TWO_COLUMNS = "l.price is bounded by two columns, r.bid - 5 and r.ask + 5, but the index has one key. If r.ask + 5"
ONE_END = (
    "One comparison is indexed, and all are open-ended. If left values are known to be near right ones, add a band of"
)
NO_INDEX = (
    "If matching rows allow it, add a comparison that an index can use: an equality such as l.key = r.key, or a band"
)


def lines(on: str, window: Any = COUNT, schema: pa.Schema = WHOLE, **options: Any) -> list[str]:
    return sj.StreamJoin(on=on, window=window, schemas=(schema, schema), **options).explain().splitlines()


@pytest.mark.parametrize("schema", [WHOLE, DOUBLE])
def test_each_part_is_said_to_be_indexed_or_not(schema: pa.Schema) -> None:
    on = "l.key = r.key AND l.x < r.x AND l.id <> r.id AND l.x * r.x > 5 AND l.bid > 1 AND r.ask < 2"
    assert lines(on, TIME, schema)[5:] == [
        "indexed: l.key = r.key (equality)",
        "indexed with it: l.x < r.x (open-ended range)",
        "not indexed, checked row by row: the window, 60 on ts",
        "not indexed, checked row by row: l.id <> r.id (inequality, all values but one)",
        "filter on left rows, before the index: l.bid > 1",
        "filter on right rows, before the index: r.ask < 2",
        "filter on candidate pairs: l.x * r.x > 5",
    ]


@pytest.mark.parametrize(
    ("on", "window", "part"),
    [
        ("l.x BETWEEN r.x - 5 AND r.x + 5", COUNT, "l.x >= r.x - 5 AND l.x <= r.x + 5 (band of fixed width)"),
        ("abs(l.x - r.x) <= 5", TIME, "abs(l.x - r.x) <= 5 (band of fixed width)"),
        ("l.x = r.x OR l.x = r.x + 5", COUNT, "l.x = r.x OR l.x = r.x + 5 (up to 2 ranges)"),
        ("l.x = r.x", TIME, "l.x = r.x (equality)"),
    ],
)
def test_narrow_terms_are_not_warned_of(on: str, window: Any, part: str) -> None:
    told = lines(on, window)
    assert f"indexed: {part}" in told
    assert "warning" not in "".join(told)


@pytest.mark.parametrize(
    ("on", "window", "share", "hint"),
    [
        ("l.price BETWEEN r.bid - 5 AND r.ask + 5", COUNT, "about half of the window", TWO_COLUMNS),
        ("l.price BETWEEN r.bid - 5 AND r.ask + 5", TIME, "all rows within the time window", TWO_COLUMNS),
        ("r.bid - 5 <= l.price AND r.ask + 5 >= l.price", COUNT, "about half of the window", TWO_COLUMNS),
        ("l.x < r.x AND l.id > r.id", COUNT, "about half of the window", ONE_END),
        ("l.start <= r.end AND r.start <= l.end", COUNT, "about half of the window", ONE_END),
        ("l.x < r.x AND l.x * r.x > 5", COUNT, "about half of the window", NO_INDEX),
        ("l.x < r.x", TIME, "all rows within the time window", NO_INDEX),
        ("l.x <> r.x AND l.x * r.x > 5", COUNT, "nearly all rows of the window", NO_INDEX),
        ("l.x * r.x > 5", COUNT, "all rows of the window", NO_INDEX),
    ],
)
def test_slow_predicates_are_warned_of(on: str, window: Any, share: str, hint: str) -> None:
    warning = lines(on, window, algorithm="bi_sort")[-1]
    assert warning.startswith(f"warning: each row is expected to be compared with {share}. {hint}")


@pytest.mark.parametrize("window", [COUNT, TIME])
def test_two_ranges_are_indexed_together(window: Any) -> None:
    told = lines("l.x <> r.x AND l.price >= r.bid AND l.price <= r.ask AND l.id > r.id", window)
    assert told[3:7] == [
        "index: runs sorted by one key with bounds of another, for two ranges",
        "because two comparisons are ranges, both of which are indexed: a probe costs what it finds",
        "indexed: l.price >= r.bid (open-ended range)",
        "indexed with it: l.price <= r.ask (open-ended range)",
    ]
    assert "not indexed, checked row by row: l.id > r.id (open-ended range)" in told
    assert "not indexed, checked row by row: l.x <> r.x (inequality, all values but one)" in told
    assert "warning" not in "".join(told)


def test_the_sides_have_the_users_names() -> None:
    told = lines("o.price >= q.bid AND o.price <= q.ask", aliases=("o", "q"), algorithm="bi_sort")
    assert "indexed: o.price >= q.bid (open-ended range)" in told
    assert "bounded by two columns, q.bid and q.ask, " in told[-1]
    assert "add AND o.price <= q.bid + N, replacing N" in told[-1]
    assert "such as o.x BETWEEN q.x - 5 AND q.x + 5" in lines("o.x * q.x = 4", aliases=("o", "q"))[-1]


@pytest.mark.parametrize(("on", "window"), [("l.x < r.x", COUNT), ("l.x <> r.x", COUNT), ("1 = 1", TIME)])
def test_many_results_are_warned_of_unless_they_are_counted(on: str, window: Any) -> None:
    warning = lines(on, window)[-1]
    assert "and all these pairs are output; output='count' counts them without enumerating them" in warning
    assert "warning" not in "".join(lines(on, window, output="count"))


def test_nothing_is_said_of_speed_where_nothing_matches() -> None:
    told = lines("l.x < r.x AND l.id > r.id AND 1 = 2")
    assert told[-1] == "a constant part of the predicate is never true: no pair can match"


def test_the_advice_changes_the_plan_and_no_pair() -> None:
    """Asks are at most 20 above bids, so that their ends are at most 30 apart."""
    random = np.random.default_rng(4)
    slow = "l.price BETWEEN r.bid - 5 AND r.ask + 5"
    quick = f"{slow} AND l.price <= r.bid - 5 + 30"
    told = lines(quick, algorithm="bi_sort")
    assert "indexed: l.price >= r.bid - 5 AND l.price <= r.bid - 5 + 30 (band of fixed width)" in told
    assert "warning" not in "".join(told)
    joins = [sj.StreamJoin(on=on, window=COUNT, order="strict", threads=1) for on in (slow, quick)]
    for _ in range(4):
        bid = random.integers(0, 2000, 500)
        left = {"price": random.integers(0, 2000, 500)}
        right = {"bid": bid, "ask": bid + random.integers(0, 21, 500)}
        one, other = (join.push(left, right) for join in joins)
        assert one.num_rows > 100
        assert one.equals(other)


@pytest.mark.filterwarnings("error::slidejoin.NoIndexWarning")
class TestWithoutIndex:
    """A join that compares each row with every row of its window says so once."""

    schemas = (pa.schema([("a", pa.int64()), ("ts", pa.int64())]),) * 2

    def test_the_warning_says_what_to_add_and_stands_at_the_users_line(self) -> None:
        with pytest.warns(sj.NoIndexWarning, match="an equality such as l.key = r.key, or a band") as seen:
            join = sj.StreamJoin(on="(l.a + r.a) % 2 = 0", window=sj.CountWindow(9), schemas=self.schemas)
        assert [one.filename for one in seen] == [__file__]
        assert "each row is compared with every row of the window" in str(seen[0].message)
        assert "indexed: nothing" in join.explain()

    def test_it_is_said_once_when_the_schemas_become_known(self) -> None:
        join = sj.StreamJoin(on="(l.a + r.a) % 2 = 0", window=sj.CountWindow(9))
        rows = pa.table({"a": [1], "ts": [1]})
        join.push(left=rows)
        with pytest.warns(sj.NoIndexWarning):
            join.push(right=rows)
        join.push(left=rows, right=rows)
        sj.StreamJoin.restore(join.snapshot())

    @pytest.mark.parametrize(
        ("on", "window"),
        [
            ("l.a = r.a AND (l.a + r.a) % 2 = 0", sj.CountWindow(9)),
            ("l.a IS NOT NULL", sj.CountWindow(9)),  # all pairs were asked for
            ("(l.a + r.a) % 2 = 0 AND FALSE", sj.CountWindow(9)),
            ("(l.a + r.a) % 2 = 0", sj.TimeWindow(5, on="ts")),  # rows near in time are found by an index
        ],
    )
    def test_nothing_is_said_where_an_index_helps_or_nothing_is_filtered(self, on: str, window: object) -> None:
        sj.StreamJoin(on=on, window=window, schemas=self.schemas)
