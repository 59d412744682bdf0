"""Aggregates of matches: one row for each left row, put out as the row leaves, against the law."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.tuning import Tuning
from tests.law.checks import ORDERS, assert_stats, examples, line
from tests.narrow import tune
from tests.oracle import Aggregates, Oracle
from tests.strategies import Case, cases
from tests.tables import rows_of

if TYPE_CHECKING:
    from tests.law.checks import Line
    from tests.oracle import Output

SUMMED = ("int", "number", "float", "decimal")


@dataclass(frozen=True)
class Chosen:
    """Aggregates as slidejoin and as the oracle take them."""

    given: sj.Aggregate
    law: Aggregates


@st.composite
def aggregate_cases(draw: st.DrawFn, *, self_join: bool = False, most: int = 12) -> tuple[Case, Chosen]:
    """A join and aggregates of its right columns."""
    family = draw(st.sampled_from([*SUMMED, *SUMMED, "naive", "span", "text", "binary", "bool", "clock"]))
    case = draw(cases(family=family, self_join=self_join, most=most))
    kind = (case.left if self_join else case.right).schema.field("a").type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    functions = ["count", "min", "max"]
    if family in SUMMED:
        functions += ["sum", "sum", "mean", "mean"]
    if family == "span":
        functions += ["sum"]
    if pa.types.is_decimal256(plain) and plain.precision > 38:
        functions = ["count", "min", "max"]
    chosen = draw(st.lists(st.sampled_from(functions), min_size=1, max_size=3))
    law: dict[str, tuple[str, str | None]] = {"n": ("count", None)}
    law |= {f"f{number}": (function, "a") for number, function in enumerate(chosen)}
    law["last"] = ("max", "id")
    given_ = {
        name: f"{function}({'*' if column is None else 'r.' + column})" for name, (function, column) in law.items()
    }
    return case, Chosen(sj.Aggregate(**given_), Aggregates(law))


def settled(value: Any) -> Any:
    """A value in a form that compares: zeros alike, floats to 12 digits, where sums may be rounded in another order."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return repr(value)
        return repr(round(value, 12 - len(f"{abs(value):.0f}")) + 0.0) if abs(value) < 1e15 else f"{value:.12e}"
    if isinstance(value, Decimal):
        return repr(Fraction(value))
    if isinstance(value, Fraction):
        return repr(value)
    return value


def law_lines(rows: list[Output]) -> list[Line]:
    return [
        line({name: settled(value) for name, value in ((left or {}) | (found or {})).items()}) for left, found in rows
    ]


def got_lines(table: pa.Table) -> list[Line]:
    return [line({name: settled(value) for name, value in row.items()}) for row in rows_of(table)]


def assert_aggregates(case: Case, chosen: Chosen, *, restart: bool = False, **options: Any) -> None:
    """Assert the law's rows for every push and the end, or its refusal of a sum that has no room."""
    join = case.join(output=chosen.given, **options)
    oracle = Oracle(case.predicate, case.window.scope, self_join=case.self_join, aggregates=chosen.law)
    for push in case.pushes:
        right = [] if push.right is None or case.self_join else rows_of(push.right)
        try:
            steps = oracle.push([] if push.left is None else rows_of(push.left), right, push.order_by)
        except OverflowError:
            with pytest.raises(sj.AggregateOverflowError, match=r"of left row .* does not fit its type"):
                join.push(**push.arguments(self_join=case.self_join))
            return
        if restart:
            join = sj.StreamJoin.restore(join.snapshot())
        table = join.push(**push.arguments(self_join=case.self_join))
        table.validate(full=True)
        assert table.schema.names == [*case.left.schema.names, *chosen.law.functions]
        assert got_lines(table) == law_lines([row for step in steps for row in step.rows])
    if restart:
        join = sj.StreamJoin.restore(join.snapshot())
    try:
        rest = oracle.finish()
    except OverflowError:
        with pytest.raises(sj.AggregateOverflowError, match="cast the column to a decimal or a float"):
            join.finish()
        return
    assert got_lines(join.finish()) == law_lines(rest)
    assert_stats(join, oracle)


@examples(150)
@given(drawn=aggregate_cases())
def test_every_push_gives_what_the_law_says(drawn: tuple[Case, Chosen]) -> None:
    assert_aggregates(*drawn)


@examples(50)
@given(drawn=aggregate_cases(self_join=True))
def test_self_join(drawn: tuple[Case, Chosen]) -> None:
    assert_aggregates(*drawn)


@examples(50)
@given(drawn=aggregate_cases(), order=st.sampled_from(ORDERS), threads=st.sampled_from([1, 2]))
def test_rows_fold_whenever_right_rows_pile_up(drawn: tuple[Case, Chosen], order: str, threads: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, unfolded_rows=0, folded_from=0)
        assert_aggregates(*drawn, order=order, threads=threads)


@pytest.mark.parametrize("folding", [False, True])
@examples(40)
@given(drawn=aggregate_cases(most=14))
def test_restart_between_pushes(folding: bool, drawn: tuple[Case, Chosen]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if folding:
            tune(patch, unfolded_rows=0, folded_from=0)
        assert_aggregates(*drawn, restart=True)


@examples(30)
@given(drawn=aggregate_cases(), algorithm=st.sampled_from(["bi_sort", "planar", "pim_tree", "nested_loop"]))
def test_any_index(drawn: tuple[Case, Chosen], algorithm: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, halved_from=1)
        assert_aggregates(*drawn, algorithm=algorithm)


SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def join_of(kind: pa.DataType | None = None, **functions: str) -> sj.StreamJoin:
    right = SCHEMA if kind is None else pa.schema([("k", pa.int64()), ("v", kind)])
    return sj.StreamJoin(
        on="l.k = r.k", window=sj.CountWindow(9), output=sj.Aggregate(**functions), schemas=(SCHEMA, right),
        select=["l.v"],
    )  # fmt: skip


def test_select_narrows_the_left_columns() -> None:
    join = join_of(n="count", total="SUM(r.v)", average="mean( r.v )")
    join.push(left={"k": [1, 2], "v": [7, 8]}, right={"k": [1, 1], "v": [2, 5]})
    assert join.finish().to_pylist() == [
        {"v": 7, "n": 2, "total": 7, "average": 3.5},
        {"v": 8, "n": 0, "total": None, "average": None},
    ]


@pytest.mark.parametrize(
    ("given_", "function", "out"),
    [
        (pa.int8(), "sum", pa.int64()),
        (pa.uint64(), "sum", pa.int64()),
        (pa.float32(), "sum", pa.float64()),
        (pa.decimal128(5, 2), "sum", pa.decimal128(38, 2)),
        (pa.duration("ms"), "sum", pa.duration("ms")),
        (pa.int8(), "mean", pa.float64()),
        (pa.decimal128(5, 2), "mean", pa.float64()),
        (pa.string(), "min", pa.string()),
        (pa.string_view(), "min", pa.string_view()),
        (pa.dictionary(pa.int8(), pa.string()), "max", pa.string()),
        (pa.float16(), "max", pa.float16()),
        (pa.list_(pa.int8()), "count", pa.int64()),
    ],
    ids=str,
)
def test_types_of_results(given_: pa.DataType, function: str, out: pa.DataType) -> None:
    join = join_of(given_, found=f"{function}(r.v)")
    join.push(left={"k": [1], "v": [7]})
    assert join.finish().schema.field("found").type == out


def test_a_sum_on_the_way_may_pass_64_bits() -> None:
    large = 2**63 - 1
    join = join_of(total="sum(r.v)", average="mean(r.v)")
    join.push(left={"k": [1], "v": [7]}, right={"k": [1] * 5, "v": [large, large, -large, -large, 5]})
    assert join.finish().to_pylist() == [{"v": 7, "total": 5, "average": 1.0}]


def test_a_sum_without_room_names_row_and_column() -> None:
    large = 2**63 - 1
    join = join_of(total="sum(r.v)", average="mean(r.v)")
    join.push(left={"k": [0, 1], "v": [6, 7]}, right={"k": [1] * 2, "v": [large, 1]})
    with pytest.raises(
        sj.AggregateOverflowError,
        match=r"Aggregate total=sum\(r.v\) of left row 1 \(counted from 0\) is 9223372036854775808, which does not fit",
    ):
        join.finish()
    wide = Decimal(10**38 - 1)
    join = join_of(pa.decimal128(38, 0), total="sum(r.v)")
    right = pa.table({"k": [1, 1], "v": pa.array([wide, Decimal(1)], pa.decimal128(38, 0))})
    join.push(left={"k": [1], "v": [6]}, right=right)
    with pytest.raises(sj.AggregateOverflowError, match=f"is {10**38}, which does not fit"):
        join.finish()


def test_right_rows_that_pile_up_are_folded_and_memory_stays_flat() -> None:
    join = sj.StreamJoin(
        on="l.k = r.k", window=sj.CountWindow(100), schemas=(SCHEMA, SCHEMA),
        output=sj.Aggregate(n="count", total="sum(r.v)", low="min(r.v)"),
    )  # fmt: skip
    join.push(left={"k": [0, 1, 2], "v": [10, 20, 30]})
    sizes = []
    for at in range(40):
        rows = range(at * 1000, (at + 1) * 1000)
        join.push(right={"k": [row % 3 for row in rows], "v": [row * 7919 % 100_003 for row in rows]})
        sizes.append(join.stats.window_right)
    assert max(sizes) <= 3 * Tuning().unfolded_rows
    values = {key: [row * 7919 % 100_003 for row in range(40_000) if row % 3 == key] for key in range(3)}
    assert join.finish().to_pydict() == {
        "k": [0, 1, 2],
        "v": [10, 20, 30],
        "n": [len(values[key]) for key in range(3)],
        "total": [sum(values[key]) for key in range(3)],
        "low": [min(values[key]) for key in range(3)],
    }


def test_left_rows_from_before_the_right_schema() -> None:
    def join() -> sj.StreamJoin:
        return sj.StreamJoin(
            on="l.k = r.k", window=sj.CountWindow(2), output=sj.Aggregate(n="count", total="sum(r.v)"), select=["l.v"]
        )

    late, rows = join(), {"k": [1] * 3, "v": [1, 2, 3]}
    assert late.push(left=rows).schema.names == ["v", "n", "total"]
    assert late.push(right={"k": [1], "v": [9]}).to_pylist() == [{"v": 1, "n": 0, "total": None}]
    assert late.finish().to_pylist() == [{"v": 2, "n": 1, "total": 9}, {"v": 3, "n": 1, "total": 9}]
    alone = join()
    alone.push(left=rows)
    assert alone.finish().to_pylist() == [{"v": at, "n": 0, "total": None} for at in (1, 2, 3)]


@pytest.mark.parametrize("column", [pa.int64(), pa.float64()], ids=str)
def test_a_limit_of_memory_counts_sums_beside_the_rows(column: pa.DataType) -> None:
    right = pa.schema([("k", pa.int64()), ("v", column)])
    join = sj.StreamJoin(
        on="l.k <= r.k", window=sj.CountWindow(3000), schemas=(SCHEMA, right), memory_limit=1_500_000,
        output=sj.Aggregate(n="count", total="sum(r.v)", low="min(r.v)"), algorithm="bi_sort",
    )  # fmt: skip
    rows = pa.table({"k": range(400), "v": range(400)})
    answered = 0
    with pytest.raises(sj.MemoryLimitError, match="memory_limit is 1500000 bytes"):  # noqa: PT012 - until it is full
        while True:
            answered += join.push(rows, rows.cast(right)).num_rows
            assert join.stats.window_bytes <= 1_500_000
    assert answered


def test_explain_tells_what_is_put_out() -> None:
    join = join_of(n="count", low="min(r.v)")
    assert "output: Aggregate(n='count(*)', low='min(r.v)') of each left row, as the row leaves" in join.explain()
    assert "output=Aggregate(n='count(*)', low='min(r.v)')" in repr(join)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({}, "Aggregate needs at least one function"),
        ({"n": 5}, r"Aggregate n must be text such as 'sum\(r.qty\)', got 5"),
        ({"n": "median(r.v)"}, r"Aggregate n='median\(r.v\)' is none of count, sum, min, max, mean"),
        ({"n": "summ(r.v)"}, "Did you mean 'sum'"),
        ({"n": "sum"}, "Aggregate n='sum' needs a right column"),
        ({"n": "sum(*)"}, r"needs a right column, such as 'sum\(r.qty\)'"),
        ({"n": "sum(l.v)"}, r"must be a right column, written r\.name; got 'l.v'"),
        ({"n": "sum(r.v + 1)"}, "names 'v \\+ 1', which is no column of the right side; .* plain columns"),
        ({"v": "count"}, "output columns 'v' would appear twice"),
    ],
)
def test_wrong_functions_are_refused(functions: dict[str, Any], message: str) -> None:
    with pytest.raises(sj.SlideJoinError, match=message):
        join_of(**functions)


@pytest.mark.parametrize("function", ["sum", "mean", "min"])
def test_columns_of_other_types_are_refused(function: str) -> None:
    needs = "needs values with an order" if function == "min" else r"needs numbers \(integers, floats, decimals"
    with pytest.raises(sj.PredicateError, match=needs):
        join_of(pa.list_(pa.int8()), found=f"{function}(r.v)")
    if function != "min":
        with pytest.raises(sj.PredicateError, match="Cast it in the stream before"):
            join_of(pa.string(), found=f"{function}(r.v)")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "full"}, "emits each left row once, with or without pairs; leave how out"),
        ({"topology": "cell_join"}, "output=sj.Aggregate needs topology='auto'"),
        ({"select": ["r.v"]}, "select= names 'r.v', which is not a column; use one of l.k, l.v"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sj.SlideJoinError, match=message):
        sj.StreamJoin(
            on="l.k = r.k",
            window=sj.CountWindow(9),
            schemas=(SCHEMA, SCHEMA),
            output=sj.Aggregate(n="count"),
            **options,
        )
