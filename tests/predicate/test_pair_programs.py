"""Filters as programs: they hold for what evaluation finds, value by value, or give up."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.predicate.bind import BoundFilter, bind
from slidejoin.predicate.kernels.instructions import BLOCK
from slidejoin.predicate.sql_text.sql import parse
from tests.narrow import tune
from tests.predicate.pairs import check_program, chosen

LARGE, SMALL = 2**63 - 1, -(2**63)

NUMBERS = pa.table(
    {
        "i": pa.array([0, 1, -1, 7, -7, None, 1 << 40, -3], pa.int64()),
        "j": pa.array([2, 0, -1, 3, -2, 5, None, 1], pa.int32()),
        "u": pa.array([0, 255, 7, None, 1, 2, 3, 4], pa.uint8()),
        "f": pa.array([0.0, -0.0, float("nan"), None, float("inf"), 1.5, -2.25, float("-inf")], pa.float64()),
        "g": pa.array([0.5, None, 1e30, -0.0, float("nan"), 3.0, 0.1, -8.0], pa.float32()),
        "p": pa.array([True, False, None, True, False, None, True, False], pa.bool_()),
        "t": pa.array([datetime(2024, 1, day) for day in range(1, 8)] + [None], pa.timestamp("us")),
        "s": pa.array(
            [datetime(2024, 1, 3), None, *(datetime(1969, 12, day) for day in range(10, 16))], pa.timestamp("s")
        ),
        "d": pa.array(
            [date(2024, 1, 3), None, date(1960, 2, 29), *(date(2024, 1, day) for day in range(1, 6))], pa.date32()
        ),
        "e": pa.array([timedelta(days=day) for day in range(-3, 4)] + [None], pa.duration("ms")),
        "n": pa.array(["a", "b", None, "ab", "", "a", "b", "c"], pa.string()),
        "m": pa.array(
            ["fifteen letters", "fifteen letter", "a", None, "sixteen letters.", "sixteen letters!", "é", "a"]
        ),
        "w": pa.array([f"{'long ' * 9}{end}" for end in "abcabc"] + ["long " * 9, None], pa.large_string()),
        "b": pa.array([b"a", b"ab", None, b"", b"a\x00", b"\xff", b"b", b"a"], pa.binary()),
    }
)

WHOLE = [
    "(l.i + r.j) % 3 = 1",
    "(l.i - r.i) % r.j = 0",
    "l.i // r.j > r.u OR r.i // l.j = -1",
    "abs(l.i) - r.j < l.u OR -l.j = r.j",
    "l.i * r.j > 5 OR l.u * r.u = 7",
    "l.i = r.j OR l.j <> r.i",
    "NOT (l.i < r.i OR l.i > r.i)",
    "l.f < r.f OR l.f >= r.g",
    "l.f + r.g > l.i OR r.i - l.f < 0",
    "l.f * 2 = r.f OR l.f / r.f > 1",
    "l.i / r.j > 0.5 OR l.i / r.j < -0.5",
    "1 / (l.i / r.j) < 0 OR l.p",
    "l.f % r.g > 0 OR l.i % r.f < 0",
    "abs(l.f) <= abs(r.f) AND -l.f >= r.f",
    "CAST(l.i AS DOUBLE) / 7 < r.f OR r.i IS NULL",
    "l.f IS NOT DISTINCT FROM r.f",
    "l.i IS DISTINCT FROM r.j AND l.j IS NOT DISTINCT FROM r.j",
    "l.f IS NOT DISTINCT FROM r.i OR l.p IS NOT DISTINCT FROM r.p",
    "(l.i < r.i) IS NULL OR (l.f < r.f) IS NULL",
    "l.p = r.p OR (l.p OR r.p) IS NULL",
    "l.p AND NOT r.p OR l.i IS NULL AND r.j IS NOT NULL",
    "l.i IN (1, 7, NULL) OR r.j NOT IN (2, 3)",
    "l.t < r.s OR l.d = r.t",
    "l.t - r.t > INTERVAL '2' DAY OR r.e + l.e = INTERVAL '0' SECOND",
    "l.d - r.s BETWEEN l.e AND r.e OR l.s + r.e > r.d",
    "l.e * r.j < INTERVAL '2' DAY OR l.t > TIMESTAMP '2024-01-03 12:00:00'",
    "l.i + 0.5 > r.j OR l.i * 1.25 = r.i - 0.75",
    "l.n <> r.n",
    "l.n = r.m OR l.m = r.m",
    "l.m < r.n OR l.n >= r.w",
    "l.w <= r.w AND NOT l.w = r.w",
    "l.w > r.m OR l.m > r.w",
    "l.b < r.b OR l.b = r.b",
    "(l.n = 'a' OR r.m = 'sixteen letters.') AND l.n <> r.n",
    "l.n < 'ab' OR r.w = 'long long long long long long long long long b'",
    "l.n IN ('a', 'c') OR r.m IS NULL AND l.i > r.j",
]


def filter_of(on: str, left: pa.Table, right: pa.Table) -> BoundFilter:
    """All of a predicate as a filter."""
    what = bind(parse(on), left.schema, right.schema)
    found = what.filter_on(set(what.conjuncts))
    assert found is not None
    return found


def holding(condition: BoundFilter, left: pa.Table, right: pa.Table) -> Any:
    """What evaluation finds for every pair, (n * m,) bool."""
    n, m = left.num_rows, right.num_rows
    rows = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
    return condition.holds(chosen(left, rows[0]), chosen(right, rows[1]), n * m)


@pytest.mark.nojit
@pytest.mark.parametrize("on", WHOLE)
def test_all_of_it(on: str) -> None:
    condition = filter_of(on, NUMBERS, NUMBERS)
    assert condition.program is not None
    assert condition.rest is None
    holds = holding(condition, NUMBERS, NUMBERS)
    assert holds.any()
    assert not holds.all()
    assert check_program(condition, NUMBERS, NUMBERS, holds)


@pytest.mark.parametrize(
    "on",
    [
        "l.n LIKE 'a%' OR r.i > 3",
        "upper(l.n) < r.n",
        "l.n IS NOT DISTINCT FROM r.n",
        "sqrt(l.f) < r.f",
        "l.i = 10000000000000000000 - r.i",
    ],
)
def test_what_has_no_instruction_is_evaluated(on: str) -> None:
    condition = filter_of(on, NUMBERS, NUMBERS)
    assert condition.program is None
    assert condition.rest is not None
    assert condition.rest.node == condition.node


def test_only_the_rest_is_evaluated() -> None:
    condition = filter_of("(l.i + r.j) % 3 = 1 AND (l.n LIKE r.n OR r.f > 0) AND l.f < r.g", NUMBERS, NUMBERS)
    assert condition.program is not None
    assert condition.rest is not None
    assert condition.rest.columns("left") == ("n",)
    assert condition.rest.columns("right") == ("n", "f")
    assert check_program(condition, NUMBERS, NUMBERS, holding(condition, NUMBERS, NUMBERS))


def column(values: list[Any], kind: pa.DataType) -> pa.Table:
    return pa.table({"a": pa.array(values, kind)})


LATE = column([date(9999, 12, 31)], pa.date32())


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("on", "left", "right", "fits"),
    [
        ("l.a + r.a > 5", column([1, LARGE - 3], pa.int64()), column([2, 3], pa.int64()), True),
        ("l.a + r.a > 5", column([1, LARGE - 3], pa.int64()), column([2, 4], pa.int64()), False),
        ("l.a - r.a > 5", column([-2, SMALL], pa.int64()), column([0, 1], pa.int64()), False),
        ("l.a * r.a > 5", column([1 << 31], pa.int64()), column([1 << 31], pa.int64()), True),
        ("l.a * r.a > 5", column([1 << 32], pa.int64()), column([1 << 31], pa.int64()), False),
        ("-l.a > r.a", column([SMALL], pa.int64()), column([1], pa.int64()), False),
        ("abs(l.a) > r.a", column([SMALL], pa.int64()), column([1], pa.int64()), False),
        ("abs(l.a) > r.a", column([SMALL + 1], pa.int64()), column([1], pa.int64()), True),
        ("l.a // r.a > 0", column([SMALL], pa.int64()), column([-1], pa.int64()), False),
        ("l.a % r.a = 0", column([SMALL, 3], pa.int64()), column([-1, SMALL], pa.int64()), True),
        ("l.a > r.a", column([2**63 + 1], pa.uint64()), column([-1], pa.int64()), False),
        ("l.a > r.a", column([2**63 - 1], pa.uint64()), column([-1], pa.int64()), True),
        ("l.a < r.a", column([2**53 + 1], pa.int64()), column([2.0**53], pa.float64()), False),
        ("l.a < r.a", column([2**53], pa.int64()), column([2.0**53], pa.float64()), True),
        ("l.a + INTERVAL '1' DAY < r.a", LATE, column([datetime(2024, 1, 1)], pa.timestamp("us")), True),
        ("l.a + INTERVAL '1' DAY < r.a", LATE, column([datetime(2024, 1, 1)], pa.timestamp("ns")), False),
    ],
)  # fmt: skip
def test_it_gives_up_where_a_value_does_not_fit(on: str, left: pa.Table, right: pa.Table, fits: bool) -> None:
    condition = filter_of(on, left, right)
    assert condition.program is not None
    assert check_program(condition, left, right, holding(condition, left, right)) == fits


def test_other_types_are_evaluated() -> None:
    for kind, value in ((pa.decimal128(9, 2), 3), (pa.float16(), np.float16(1.5)), (pa.date64(), date(2024, 1, 1))):
        table = column([value, None], kind)
        condition = filter_of("l.a <= r.a OR l.a IS NULL", table, table)
        assert not check_program(condition, table, table, holding(condition, table, table))


@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=3 * BLOCK // 10),
    st.lists(st.integers(-9, 9) | st.none(), min_size=1, max_size=40),
)
def test_blocks_of_any_length(lefts: list[int], rights: list[int | None]) -> None:
    left, right = column(lefts, pa.int64()), column(rights, pa.int16())
    condition = filter_of("(l.a + r.a) % 4 = 1", left, right)
    assert check_program(condition, left, right, holding(condition, left, right))


# --------------------------------------------------------------------------------------------------------------------
# Through joins

KEYED = "l.k BETWEEN r.k - 3 AND r.k + 3"
FILTERS = {
    "a program": "(l.v + r.v) % 3 <> 1",
    "a program and the rest": "(l.v + r.v) % 3 <> 1 AND (lower(l.n) < r.n OR l.v * r.v > 20)",
    "texts": "l.n < r.n",
    "too large at times": "(l.v * 4000000000000000000 + r.v) % 3 <> 1",
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("algorithm", ["band_cells", "bi_sort", "pim_tree"])
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize(
    "options", [{}, {"order": "strict"}, {"how": "full"}, {"output": "count"}, {"self_join": True}]
)
def test_a_program_changes_no_result(
    name: str, algorithm: str, threads: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows as without programs, in the same order."""
    tune(monkeypatch, condition_spread=16)
    tune(monkeypatch, filter_spread=16)
    random = np.random.Generator(np.random.Philox(7))
    batches = [
        [
            pa.table(
                {
                    "k": random.integers(0, 40, rows),
                    "v": pa.array(random.integers(-1, 9, rows), mask=random.random(rows) < 0.1),
                    "n": random.integers(0, 99, rows).astype(str),
                }
            )
            for _ in range(2)
        ]
        for rows in (1, 60, 7, 90, 40)
    ]

    def run() -> list[pa.Table]:
        join = sj.StreamJoin(
            on=f"{KEYED} AND {FILTERS[name]}",
            window=sj.CountWindow(50),
            algorithm=algorithm,
            threads=threads,
            **options,
        )
        sides = [batch[:1] if options.get("self_join") else batch for batch in batches]
        return [*(join.push(*batch) for batch in sides), join.finish()]

    found = run()
    with monkeypatch.context() as patch:
        patch.setattr(BoundFilter, "program", None)
        assert all(one.equals(other) for one, other in zip(found, run(), strict=True))
    assert sum(table.num_rows for table in found) > 100
