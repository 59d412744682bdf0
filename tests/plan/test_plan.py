"""What is indexed, what is kept, and what identifies a plan."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.plan.plan import Plan, make_plan
from slidejoin.spec.join_spec import make_join_spec

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.string()), ("ts", pa.int64()), ("big", pa.binary())])


def plan(on: str = "l.a = r.a", window: Any = None, **options: Any) -> Plan:
    left, right = options.pop("schemas", (SCHEMA, SCHEMA))
    return make_plan(make_join_spec(on=on, window=window or sj.CountWindow(9), **options), left, right)


@pytest.mark.parametrize(
    ("on", "window", "shapes"),
    [
        ("l.a < r.b AND l.a = r.a", None, ["equality", "ranges"]),
        ("l.a <> r.b AND l.b < r.b AND l.c = r.c", None, ["equality", "ranges", "not-equal"]),
        ("l.a < r.a AND l.b BETWEEN r.b - 1 AND r.b + 1", None, ["band", "ranges"]),
        ("l.a < r.a", sj.TimeWindow(5, on="ts"), ["scope", "ranges"]),
        ("l.a + r.a = 5 OR l.b = 3", None, ["all"]),
        ("l.a = 1", None, ["all"]),
    ],
)
def test_the_narrowest_term_is_indexed(on: str, window: Any, shapes: list[str]) -> None:
    assert [term.shape for term in plan(on, window).terms] == shapes


def test_only_columns_that_are_put_out_or_compared_are_kept() -> None:
    narrow = plan("l.a < r.b", select=["r.c"])
    assert (narrow.kept_schema("left").names, narrow.kept_schema("right").names) == (["a"], ["b", "c"])
    timed = plan("l.a < r.b", sj.TimeWindow(5, left_on="ts", right_on="a"), select=[])
    assert (timed.kept_schema("left").names, timed.kept_schema("right").names) == (["a", "ts"], ["a", "b"])
    nothing = plan("1 = 1", select=[])
    assert nothing.kept_schema("left").names == ["a"]
    itself = plan("l.a < r.b", select=["r.c"], self_join=True)
    assert itself.kept_schema("left").names == itself.kept_schema("right").names == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("on", "lines"),
    [
        ("l.a = r.a", ["inner join on ", "window: the last 9 rows", "indexed: l.a = r.a (equality)"]),
        (
            "l.a = r.a AND l.b < r.b",
            ["indexed: l.a = r.a (equality)", "indexed with it: l.b < r.b (open-ended range)"],
        ),
        (
            "l.a + r.a > 5 OR l.b = 1",
            ["indexed: nothing; no comparison has only left columns on one side and only right columns on"],
        ),
        ("l.a = r.a AND l.b > 1", ["filter on left rows, before the index: l.b > 1"]),
        ("l.a = r.a AND 1 = 2", ["a constant part of the predicate is never true: no pair can match"]),
        ("l.a = r.a AND l.b * r.b = 4", ["filter on candidate pairs: l.b * r.b = 4"]),
    ],
)
def test_explain(on: str, lines: list[str]) -> None:
    text = plan(on).explain()
    for line in lines:
        assert line in text, text


@pytest.mark.parametrize(
    ("on", "keys"),
    [
        ("l.a < r.a", [((), 0)]),
        ("l.a = r.a AND l.b < r.b", [((0,), 1)]),
        ("l.a = r.a OR l.b = r.b AND l.a < r.b", [((), 0), ((0,), 1)]),
    ],
)
def test_a_plan_is_a_tuple_of_branches_each_with_a_key_of_one_term_or_more(
    on: str, keys: list[tuple[tuple[int, ...], int]]
) -> None:
    """One class for one index and for several: the layout has as many branches, and a plain key is of one term."""
    made = plan(on)
    assert [(branch.key.equal, branch.key.range) for branch in made.branches] == keys
    layout = made.key_layout("left", made.index_terms(made.algorithm))
    assert [own.of.plain for own in layout.branches] == [len(equal) == 0 for equal, _ in keys]
    assert made.is_union == (len(keys) > 1)
    assert len(plan(" OR ".join(f"l.a = r.a + {n} AND l.b > r.b" for n in range(9))).branches) == 1
