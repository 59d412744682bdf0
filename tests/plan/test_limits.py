"""Planning is bounded: what a predicate costs follows from its length, and limits say what they are.

Costs are numbers of calls of Python functions, which are the same on every machine.
"""

from __future__ import annotations

import random
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.plan.disjunction import MOST_BRANCHES, branches_of
from slidejoin.plan.multiway.multi_plan import make_multi_plan
from slidejoin.plan.plan import make_plan
from slidejoin.predicate.bind import bind
from slidejoin.predicate.expression.build import MAX_DEPTH, MAX_NODES
from slidejoin.predicate.expression.expr import And, Arithmetic, Column, Compare, Expr, IsNull, Literal, Not, Or, walk
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.predicate.sql_text.sql import parse
from slidejoin.spec.join_spec import make_join_spec
from slidejoin.spec.multi_spec import make_multi_spec
from tests.law.checks import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from slidejoin.predicate.ranges.pieces import Ranges
    from slidejoin.sides import Side

SCHEMA = pa.schema([*((name, pa.int64()) for name in "abc"), ("v", pa.float64())])

CALLS_A_NODE, CALLS_AT_ALL = 1_000, 600_000
"""Of planning and explaining; each OR that is distributed costs up to the limit of the search."""


def calls(do: Callable[[], Any]) -> tuple[int, Any]:
    """How many Python functions a call calls, and what it returns."""
    count = 0

    def seen(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        result = do()
    finally:
        sys.setprofile(before)
    return count, result


def planned(on: Any) -> Any:
    """A plan, with its explanation made."""
    plan = make_plan(make_join_spec(on=on, window=sj.CountWindow(9)), SCHEMA, SCHEMA)
    plan.explain()
    return plan


def ors(count: int, name: str = "l.a = r.a + {} OR l.v < r.v + {}") -> str:
    return " AND ".join(f"({name.replace('{}', str(number))})" for number in range(count))


def sizes(expr: Expr) -> int:
    return sum(1 for _ in walk(expr))


@pytest.mark.parametrize(
    "name", ["l.a = r.a + {} OR l.v < r.v + {}", "l.a = r.a + {} OR l.b = r.c + {}", "l.a <> r.b + {} OR l.b IS NULL"]
)
def test_a_conjunction_of_ors_costs_no_more_than_its_length(name: str) -> None:
    planned(ors(2, name))  # loads what is loaded once
    for count in (10, 60):
        text = ors(count, name)
        used, plan = calls(partial(planned, text))
        assert used < CALLS_AT_ALL + CALLS_A_NODE * sizes(plan.config.on)
        assert len(plan.branches) <= MOST_BRANCHES


def test_the_search_for_branches_says_that_it_met_its_limit() -> None:
    plan = planned(ors(10))
    assert "limit: the search for branches of OR ended after 10,000 columns, constants and operators" in plan.explain()
    assert planned(ors(2)).limit is None


def test_what_is_left_of_a_search_is_a_filter_and_a_warning() -> None:
    text = ors(40, "l.a * r.b = {} OR l.c * r.a < {}")
    left = {"a": [1, 2], "b": [1, 2], "c": [1, 2], "v": [1.0, 2.0]}
    join = sj.StreamJoin(on=text, window=sj.CountWindow(9), threads=1)
    with pytest.warns(sj.NoIndexWarning, match="can use an index: each row is compared with every row of the window"):
        join.push(left=left, right=left)
    assert "filter on candidate pairs" in join.explain()


@pytest.mark.parametrize("count", [4, 7, 12])
def test_pairs_are_those_of_the_predicate_whatever_is_distributed(count: int) -> None:
    text = ors(count, "l.a = r.a + {} OR l.b < r.b + {}") + " AND (l.c = r.c OR l.v <= r.v)"
    left: dict[str, list[Any]] = {
        name: [(place * step) % 7 - 2 for place in range(30)] for name, step in zip("abc", (1, 3, 5), strict=True)
    }
    left["v"] = [number / 2 for number in left["a"]]
    join = sj.StreamJoin(on=text, window=sj.CountWindow(100), threads=1, output="positions")
    table = pa.table(left, schema=SCHEMA)
    found = join.push(left=table, right=table)
    expected = {
        (one, two)
        for one in range(30)
        for two in range(30)
        if all(
            left["a"][one] == left["a"][two] + number or left["b"][one] < left["b"][two] + number
            for number in range(count)
        )
        and (left["c"][one] == left["c"][two] or left["v"][one] <= left["v"][two])
    }
    assert sorted(zip(found["left"].to_pylist(), found["right"].to_pylist(), strict=True)) == sorted(expected)


@st.composite
def large(draw: st.DrawFn) -> Expr:
    """A predicate of hundreds of parts, from a few shapes that are repeated with other constants."""

    def comparison() -> Expr:
        one, two = (Column(side, draw(st.sampled_from("abcv"))) for side in ("left", "right"))
        op: Any = draw(st.sampled_from(["=", "<", ">=", "<>", "IS NOT DISTINCT FROM"]))
        shifted = Arithmetic(draw(st.sampled_from("+-*%")), two, Literal(draw(st.integers(1, 9))))
        return draw(
            st.sampled_from([Compare(op, one, shifted), Compare(op, shifted, one), IsNull(one), Compare(op, one, one)])
        )

    def grown(depth: int) -> Expr:
        if depth == 0:
            return comparison()
        parts = tuple(grown(depth - 1) for _ in range(draw(st.integers(2, 4))))
        made = And(parts) if draw(st.booleans()) else Or(parts)
        return Not(made) if draw(st.integers(0, 4)) == 0 else made

    whole = grown(draw(st.integers(1, 3)))
    beside = [grown(2) for _ in range(draw(st.integers(0, 12)))]
    return And((whole, *beside)) if beside else whole


@examples(10)
@given(on=large())
def test_large_predicates_cost_no_more_than_their_length(on: Expr) -> None:
    used, plan = calls(partial(planned, on))
    assert used < CALLS_AT_ALL + CALLS_A_NODE * sizes(on)
    assert len(plan.branches) <= MOST_BRANCHES


@pytest.mark.parametrize("joined", [And, Or])
def test_long_chains_cost_no_more_than_their_length(joined: type[And | Or]) -> None:
    def chain(count: int) -> Expr:
        names = "abcv"
        return joined(
            tuple(
                Compare("<", Column("left", names[n % 4]), Arithmetic("+", Column("right", names[n % 4]), Literal(n)))
                for n in range(count)
            )
        )

    planned(chain(10))
    few, many = (calls(partial(planned, chain(count)))[0] for count in (50, 400))
    assert many < 16 * few  # eight times as long


def listed(count: int, seed: int = 1) -> str:
    chosen = random.Random(seed)
    return ", ".join(str(chosen.randrange(10**9)) for _ in range(count))


@pytest.mark.parametrize(
    "form",
    [
        "l.a - r.b IN ({0})",
        "l.a - r.b NOT IN ({0})",
        "abs(l.a - r.b) IN ({0})",
        "l.a - r.b IN ({0}) AND l.a - r.b IN ({1}) AND l.a + r.b IN ({2})",
        "l.a - r.b IN ({0}) OR 2 * l.a - r.b IN ({1}) OR l.a + r.b IN ({2})",
        "l.a - r.b IN ({0}) OR l.b = r.a",
        "l.v - r.v IN ({0})",
    ],
)
def test_long_lists_of_both_sides_cost_little_a_constant(form: str) -> None:
    def plan(count: int) -> Any:
        on = parse(form.format(*(listed(count, seed) for seed in range(3))))
        return calls(partial(planned, on))

    plan(100)
    (few, short), (many, long) = plan(1000), plan(6000)
    assert many - few < 200 * 5000
    assert long.limit is short.limit is None


def test_sets_of_ranges_that_must_both_hold_are_not_crossed() -> None:
    text = f"l.a - r.b IN ({listed(100)}) AND l.a + r.b IN ({listed(90, 2)})"
    (term,) = planned(text).terms
    assert term.pieces == 90
    assert not term.exact
    assert len(term.conjuncts) == 2


def test_many_exclusions_are_put_together_by_halves() -> None:
    def plan(count: int) -> int:
        on = parse(" AND ".join(f"l.a - r.b <> {7 * number}" for number in range(count)))
        return calls(partial(planned, on))[0]

    plan(10)
    few, many = plan(100), plan(800)
    assert many < 16 * few  # eight times as long


@pytest.mark.parametrize("rest", ["l.b = r.a", "l.v < r.v AND l.c = r.c"])
@pytest.mark.parametrize(
    "one", ["l.a - r.b IN ({})", " OR ".join(f"l.a - r.b = {n * n}" for n in range(60)),
            " OR ".join(f"l.a = r.b + {n * n}" for n in range(200))]
)  # fmt: skip
def test_many_values_of_one_operand_are_one_branch(one: str, rest: str) -> None:
    plan = planned(f"{one.format(listed(100))} OR {rest}")
    assert plan.limit is None
    assert len(plan.branches) == 2


def test_no_more_ranges_than_a_few_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    plain = RangeTerm.ranges

    def seen(term: RangeTerm, side: Side, columns: Any) -> Ranges:
        found = plain(term, side, columns)
        counts.append(found.lo.size)
        return found

    monkeypatch.setattr(RangeTerm, "ranges", seen)
    spread = ", ".join(str(n * n) for n in range(-70, 70))
    rows = {name: [(n * step) % 997 for n in range(300)] for name, step in zip("ab", (7, 31), strict=True)}
    sides = {
        name: pa.table({"k": rows["a"], "a": rows[one], "i": range(300)}) for name, one in zip("lr", "ab", strict=True)
    }
    for on in (f"l.a - r.a IN ({spread})", f"l.a - r.a IN ({spread}) OR l.k = r.a"):
        tables = []
        for most in (1 << 22, 4000):
            monkeypatch.setattr("slidejoin.plan.plan.RANGES_AT_ONCE", most)
            counts.clear()
            join = sj.StreamJoin(on, sj.CountWindow(200), threads=1, output="positions", order="strict")
            tables.append(join.push(left=sides["l"], right=sides["r"], order_by="i"))
            assert max(counts) <= most
            many = sj.MultiJoin(dict.fromkeys("lr", sj.CountWindow(200)), on=on, threads=1, order="strict")
            counts.clear()
            tables.append(many.push(l=sides["l"], r=sides["r"], order_by="i"))
            assert max(counts) <= most
        assert tables[0].num_rows > 0
        assert tables[0].equals(tables[2])
        assert tables[1].equals(tables[3])


def test_joins_of_many_streams_are_bounded_alike() -> None:
    text = " AND ".join(f"(a.a = b.a + {n} OR a.v < b.v + {n} OR b.b = c.b + {n})" for n in range(12))
    windows = {name: sj.CountWindow(5) for name in "abc"}
    spec = make_multi_spec(windows, on=text)
    used, _ = calls(partial(make_multi_plan, spec, [SCHEMA] * 3))
    assert used < 3 * CALLS_AT_ALL


def test_a_predicate_of_too_many_parts_is_refused() -> None:
    many = Or(tuple(Compare("=", Column("left", "a"), Column("right", "a")) for _ in range(MAX_NODES)))
    with pytest.raises(
        sj.PredicateError, match="more than 20,000 columns, constants and operators, which is the limit"
    ):
        sj.StreamJoin(on=many, window=sj.CountWindow(5))
    doubled = sj.left.a == sj.right.a
    for _ in range(60):
        doubled = doubled == doubled  # 2**60 nodes, were they written
    with pytest.raises(sj.PredicateError, match="more than 20,000 columns"):
        sj.StreamJoin(on=doubled, window=sj.CountWindow(5))
    assert repr(doubled) == "Expression('an expression of more than 1000 columns, constants and operators')"
    with pytest.raises(sj.PredicateError, match="an expression of more than 1000 columns"):
        bool(doubled)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "l.a = r.a" + ")" * 5000,
        "NOT " * 5000 + "l.a = r.a",
        "l.a = " + "- " * 5000 + "r.a",
        "l.a = " + "abs(" * 5000 + "r.a" + ")" * 5000,
        "l.a = r.a" + " + 1" * 5000,
        "l.a = " + "CASE WHEN l.b = 1 THEN " * 1000 + "r.a" + " END" * 1000,
        "l.a = r.a" + " AND (l.b = 1 OR l.c = 2" * 1000 + ")" * 1000,
        "(" * 5000,
    ],
)
def test_deep_texts_are_refused(text: str) -> None:
    with pytest.raises(sj.PredicateError, match=r"nested (too deeply to be read|more than 100 levels deep)"):
        parse(text)


def test_deep_expressions_are_refused() -> None:
    deep = sj.left.a == sj.right.a
    for _ in range(MAX_DEPTH):
        deep = ~deep
    with pytest.raises(sj.PredicateError, match="nested more than 100 levels deep"):
        sj.StreamJoin(on=deep, window=sj.CountWindow(5))


def test_bound_predicates_are_the_same_with_and_without_the_search() -> None:
    on = parse("(l.a = r.a OR l.b = r.b) AND l.c <= r.c")
    branches = branches_of(on, SCHEMA, SCHEMA)
    assert branches.limit is None
    assert [len(bind(part, SCHEMA, SCHEMA).terms) for part in branches.parts] == [2, 2]
