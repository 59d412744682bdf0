"""Null-safe equalities that are written out, and ends that may be NULL, are ranges: the pairs are those of the text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.predicate.expression.expr import And
from slidejoin.predicate.truth.resolve import conjuncts
from tests.law.checks import ORDERS, assert_counts, assert_groups, assert_pairs, examples, lines, pair_lines
from tests.render import to_python
from tests.strategies import FAMILIES, TIME_FAMILIES, Case, count_windows, pushes, tables, time_windows

if TYPE_CHECKING:
    from tests.strategies import Node

ALGORITHMS = ("auto", "auto", "bi_sort", "planar", "po_join", "nested_loop")
orders, algorithms = st.sampled_from(ORDERS), st.sampled_from(ALGORITHMS)


def both(draw: st.DrawFn, name: str) -> tuple[Node, Node]:
    one, two = ("col", "left", name), ("col", "right", name)
    return (one, two) if draw(st.booleans()) else (two, one)


@st.composite
def null_safe(draw: st.DrawFn, name: str) -> Node:
    """A null-safe equality as it is written, or something that looks like one."""
    one, two = both(draw, name)
    first, second = ("isnull", one), ("isnull", two)
    equal, nulls = ("=", *draw(st.sampled_from([(one, two), (two, one)]))), ("and", first, second)
    return draw(
        st.sampled_from(
            [
                ("or", equal, nulls),
                ("or", nulls, equal),
                ("not", ("and", ("<>", one, two), ("or", ("not", first), ("not", second)))),
                ("or", ("and", equal, ("not", first), ("not", second)), nulls),
                ("not", ("differ", one, two)),
                ("or", ("not", ("or", ("<>", one, two), first, second)), nulls),
                ("or", equal, nulls, ("col", "left", "flag")),
                ("or", equal, ("and", nulls, ("col", "left", "flag"))),
                ("or", equal, ("and", first, first)),
                ("or", equal, nulls, ("and", ("same", one, two), ("col", "left", "flag"))),
                ("same", ("lit", True), ("or", equal, nulls)),
                ("not", ("or", equal, nulls)),
            ]
        )
    )


@st.composite
def ends(draw: st.DrawFn, name: str, offsets: tuple[Any, ...]) -> Node:
    """A comparison of which one operand, or each, is an open end if it is NULL."""
    one, two = both(draw, name)
    op = draw(st.sampled_from(["<", "<=", ">", ">="]))
    second: Node = two
    if offsets and draw(st.booleans()):
        second = (draw(st.sampled_from("+-")), two, ("lit", draw(st.sampled_from(offsets))))
    compared: Node = (op, one, second)
    if draw(st.booleans()):
        compared = ("not", ({"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[op], one, second))
    missing: list[Node] = draw(
        st.sampled_from([[("isnull", two)], [("isnull", one)], [("isnull", one), ("isnull", two)]])
    )
    parts = draw(st.permutations([*missing, compared]))
    if draw(st.integers(0, 3)) == 0:
        return ("not", ("and", *(("not", part) for part in parts)))
    return ("or", *parts)


@st.composite
def cases(draw: st.DrawFn, *, self_join: bool = False, most: int = 12) -> Case:
    families = {
        name: FAMILIES[draw(st.sampled_from(["int", "number", "float", "naive", "text", *FAMILIES]))] for name in "ab"
    }
    timed = draw(st.sampled_from(["int", "naive"]))
    domains = {name: family.domains for name, family in families.items()} | {"ts": TIME_FAMILIES[timed]}
    kinds = []
    for _ in ("left", "right"):
        kind_of = {name: draw(st.sampled_from(list(choices))) for name, choices in domains.items()}
        kinds.append({name: (kind, domains[name][kind]) for name, kind in kind_of.items()})
    left = draw(tables(kinds[0], most, ordered=True))
    right = left if self_join else draw(tables(kinds[1], most, ordered=True))
    parts: list[Node] = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from("ab"))
        form = draw(st.sampled_from(["ends", "ends", "safe", "safe", "plain"]))
        if form == "ends":
            parts.append(draw(ends(name, families[name].offsets)))
        elif form == "safe":
            parts.append(draw(null_safe(name)))
        else:
            parts.append((draw(st.sampled_from(["=", "<", ">="])), *both(draw, name)))
    predicate: Node = parts[0] if len(parts) == 1 else (draw(st.sampled_from(["and", "and", "and", "or"])), *parts)
    if len(parts) == 3 and draw(st.booleans()):
        predicate = ("or", ("and", parts[0], parts[1]), ("and", parts[0], parts[2]))
    window = draw(count_windows() if draw(st.booleans()) else time_windows(timed))
    case = Case(predicate, window, left, right, self_join=self_join, as_text=draw(st.booleans()))
    case.pushes = draw(pushes(left, right))
    return case


@examples(150)
@given(case=cases(), algorithm=algorithms, order=orders, threads=st.integers(1, 2))
def test_pairs(case: Case, algorithm: str, order: str, threads: int) -> None:
    assert_pairs(case, order, algorithm=algorithm, threads=threads)


@examples(25)
@given(case=cases(self_join=True), algorithm=algorithms)
def test_pairs_of_self_joins(case: Case, algorithm: str) -> None:
    assert_pairs(case, "strict", algorithm=algorithm)


@examples(40)
@given(case=cases(), algorithm=algorithms)
def test_counts(case: Case, algorithm: str) -> None:
    assert_counts(case, algorithm=algorithm)


@examples(25)
@given(case=cases(), data=st.data(), order=orders)
def test_restart_between_pushes(case: Case, data: st.DataObject, order: str) -> None:
    join = case.join(order=order)
    for push, steps in zip(case.pushes, case.steps(case.oracle()), strict=True):
        if data.draw(st.booleans()):
            join = sj.StreamJoin.restore(join.snapshot(), algorithm=data.draw(st.sampled_from(["auto", "bi_sort"])))
        assert_groups(lines(join.push(**push.arguments())), pair_lines(steps), order)


SCHEMA = pa.schema([*((name, pa.int64()) for name in "abcdefxs"), ("v", pa.float64()), ("t", pa.string())])
WRITTEN = "(l.{0} = r.{0} OR (l.{0} IS NULL AND r.{0} IS NULL))"


def plan(on: str) -> str:
    return str(sj.StreamJoin(on, sj.CountWindow(9), schemas=(SCHEMA, SCHEMA)).explain())


def test_null_safe_equalities_are_one_key() -> None:
    told = plan(" AND ".join(WRITTEN.format(name) for name in "abcdefxs"))
    assert "indexed: l.a IS NOT DISTINCT FROM r.a (equality)" in told
    assert told.count("indexed with it: ") == 7


@pytest.mark.parametrize(
    "on",
    [
        "l.a = r.a OR (l.a IS NULL AND r.a IS NULL)",
        "(r.a IS NULL AND l.a IS NULL) OR r.a = l.a",
        "l.a <=> r.a",
        "NOT (l.a IS DISTINCT FROM r.a)",
        "NOT (l.a <> r.a OR l.a IS NULL OR r.a IS NULL) OR (l.a IS NULL AND r.a IS NULL)",
        "NOT (l.a <> r.a AND (l.a IS NOT NULL OR r.a IS NOT NULL))",
        "coalesce(l.a = r.a, l.a IS NULL AND r.a IS NULL)",
        "coalesce(l.a = r.a, l.a IS NULL AND r.a IS NULL, FALSE)",
        "coalesce(l.a = r.a, FALSE) OR (l.a IS NULL AND r.a IS NULL)",
        "CASE WHEN l.a = r.a OR (l.a IS NULL AND r.a IS NULL) THEN TRUE ELSE FALSE END",
        "(l.a = r.a OR (l.a IS NULL AND r.a IS NULL)) IS TRUE",
        "l.a + 1 = r.a * 2 OR (l.a + 1 IS NULL AND r.a * 2 IS NULL)",
        "(l.b < r.b AND l.a = r.a) OR (l.b < r.b AND l.a IS NULL AND r.a IS NULL)",
        "(l.a = r.a OR l.a IS NULL AND r.a IS NULL) OR (l.a IS NOT DISTINCT FROM r.a AND l.b = 1)",
        "(l.a = r.a AND l.b > 1) OR (l.a <=> r.a AND r.b = 1) OR (l.a IS NULL AND r.a IS NULL AND l.b > 1)",
        "TRUE IS NOT DISTINCT FROM (l.a = r.a OR (l.a IS NULL AND r.a IS NULL))",
        "coalesce(l.a <=> r.a, FALSE) = TRUE",
    ],
)
def test_spellings_of_null_safe_equality(on: str) -> None:
    told = plan(on)
    assert " IS NOT DISTINCT FROM " in told
    assert "(equality)" in told
    rows: dict[str, list[Any]] = {"a": [None, None, 1, 2, 0], "b": [1, 2, 3, 4, 5]}
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    tables_of = [pa.table({name: part[start:] for name, part in rows.items()}, schema=schema) for start in (0, 1)]
    join = sj.StreamJoin(on, sj.CountWindow(99), output="positions")
    found = join.push(left=tables_of[0], right=tables_of[1])
    # As a filter behind OR that no index answers, nothing is planned with it.
    plain = sj.StreamJoin(f"NOT NOT ({on}) AND l.a * r.a IS NOT NULL OR NOT NOT ({on}) AND l.a * r.a IS NULL",
                          sj.CountWindow(99), output="positions")  # fmt: skip
    expected = plain.push(left=tables_of[0], right=tables_of[1])
    assert found.num_rows > 0
    assert sorted(map(tuple, zip(*found.to_pydict().values(), strict=True))) == sorted(
        map(tuple, zip(*expected.to_pydict().values(), strict=True))
    )


@pytest.mark.parametrize(
    "on",
    [
        "coalesce(l.a = r.a, FALSE) IS TRUE",
        "TRUE IS NOT DISTINCT FROM (l.a = r.a)",
        "TRUE = (l.a = r.a)",
        "(l.a <> r.a) IS FALSE",
        "FALSE = coalesce(l.a <> r.a, TRUE)",
        "CASE WHEN l.a = r.a THEN TRUE ELSE FALSE END IS TRUE",
        "(CASE WHEN l.a = r.a THEN TRUE END = TRUE) IS TRUE",
    ],
)
def test_spellings_of_a_condition_that_must_be_true(on: str) -> None:
    assert "indexed: l.a = r.a (equality)" in plan(on)
    table = pa.table({"a": [1, None, 2, 1]})
    found = [
        sj.StreamJoin(text, sj.CountWindow(9), output="positions", order="strict").push(left=table, right=table)
        for text in (on, "l.a = r.a")
    ]
    assert found[0].equals(found[1])


@examples(100)
@given(case=cases())
def test_the_normal_form_is_its_own(case: Case) -> None:
    schemas: Any = {"left": case.left.schema, "right": case.right.schema}
    parts = conjuncts(to_python(case.predicate).node, schemas)
    again = conjuncts(parts[0] if len(parts) == 1 else And(parts), schemas)
    assert again == parts


def test_doubles_that_are_nan_are_equal_in_one_spelling_only() -> None:
    table = pa.table({"v": [float("nan"), None, 1.0]})
    found = {}
    for on in ("l.v = r.v OR (l.v IS NULL AND r.v IS NULL)", "l.v IS NOT DISTINCT FROM r.v"):
        join = sj.StreamJoin(on, sj.CountWindow(9), output="positions", order="strict")
        found[on] = join.push(left=table, right=table)["left"].to_pylist()
        assert "(equality)" in str(join.explain())
    assert list(found.values()) == [[1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("on", "indexed"),
    [
        ("l.x >= r.s AND (r.e IS NULL OR l.x <= r.e)", "r.e IS NULL OR l.x <= r.e (open-ended range)"),
        ("l.x >= r.s AND NOT (r.e IS NOT NULL AND l.x > r.e)", "r.e IS NULL OR l.x <= r.e (open-ended range)"),
        (
            "(l.x >= r.s AND r.e IS NULL) OR (l.x >= r.s AND l.x <= r.e)",
            "r.e IS NULL OR l.x <= r.e (open-ended range)",
        ),
        ("(r.s IS NULL OR r.s <= l.x) AND (r.e IS NULL OR l.x < r.e)", "r.s IS NULL OR r.s <= l.x (open-ended range)"),
        ("(l.e IS NULL OR r.x - 5 <= l.e) AND r.x > l.s", "l.e IS NULL OR r.x - 5 <= l.e (open-ended range)"),
        ("l.t = r.t AND (l.e IS NULL OR r.e IS NULL OR l.e < r.e)", "l.e IS NULL OR r.e IS NULL OR l.e < r.e"),
        ("l.x > r.s AND (r.v IS NULL OR l.v < r.v)", "r.v IS NULL OR l.v < r.v (open-ended range)"),
    ],
)
def test_ends_that_may_be_null_are_ranges(on: str, indexed: str) -> None:
    told = plan(on)
    assert indexed in told
    assert "filter on candidate pairs" not in told


def test_the_normal_form_of_joins_of_many_streams() -> None:
    windows = {name: sj.CountWindow(20) for name in "abc"}
    written = "(a.k = b.k OR a.k IS NULL AND b.k IS NULL) AND (c.e IS NULL OR a.x <= c.e) AND a.x >= c.s"
    spelled = "a.k <=> b.k AND a.x <= coalesce(c.e, 1000) AND a.x >= c.s"
    given: dict[str, Any] = {
        "a": {"k": [1, None, 2], "x": [5, 6, 7]},
        "b": {"k": [None, 1, 3]},
        "c": {"s": [5, 1, 6], "e": pa.array([None, 5, 6], pa.int64())},
    }
    given["a"]["k"], given["b"]["k"] = (pa.array(given[name]["k"], pa.int64()) for name in "ab")
    joins = [sj.MultiJoin(windows, on=on, output="positions") for on in (written, spelled)]
    found, expected = (
        join.push(**{name: pa.table(columns_of) for name, columns_of in given.items()}) for join in joins
    )
    assert found.num_rows > 0
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
    assert "a.k IS NOT DISTINCT FROM b.k" in str(joins[0].explain())
