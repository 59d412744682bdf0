"""The oracle on examples computed by hand."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from tests.oracle import Clock, CountScope, Day, Instant, Oracle, Span, TimeScope, arrange, evaluate, truth

ALWAYS = ("=", ("lit", 1), ("lit", 1))


def rows(*values, name="a"):
    return [{"id": i, name: value} for i, value in enumerate(values)]


def timed(*times, start=0):
    return [{"id": start + i, "ts": at} for i, at in enumerate(times)]


def pairs(steps):
    return [[(left["id"], right["id"]) for left, right in step.rows] for step in steps]


def outcome(op, x, y):
    return truth((op, ("col", "left", "a"), ("col", "right", "a")), {"a": x}, {"a": y})


def value(op, x, y):
    got = evaluate((op, ("col", "left", "a"), ("col", "right", "a")), {"a": x}, {"a": y})
    return got and got[1]


@pytest.mark.parametrize(
    ("op", "x", "y", "expected"),
    [
        ("=", 1, 1, True),
        ("<", 1, None, None),
        ("=", None, None, None),
        ("=", math.nan, math.nan, None),
        ("<>", math.nan, 1.0, None),
        ("=", -0.0, 0.0, True),
        ("<", -math.inf, -1e308, True),
        ("=", math.inf, math.inf, True),
        ("<", 10**30, math.inf, True),
        # 2**53 + 1 has no double: rounding the int would make these equal
        ("=", 2**53 + 1, float(2**53), False),
        (">", 2**53 + 1, float(2**53), True),
        # a decimal that meets a float becomes the nearest double first
        ("=", Decimal("0.1"), 0.1, True),
        ("=", Decimal("0.10"), Decimal("0.1"), True),
        ("<", Decimal("0.1"), 1, True),
        ("=", "a", "a", True),
        ("<>", b"a", b"b", True),
        ("<", False, True, True),
        ("=", date(1970, 1, 2), datetime(1970, 1, 2), True),
        ("<", Day(0), Instant(1), True),
        ("=", Instant(10**9, zoned=True), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), True),
        ("=", Span(5_000), timedelta(microseconds=5), True),
        ("<", Clock(1), Clock(2), True),
        ("<", "Z", "a", True),
        ("<", "z", "\u00e9", True),
        ("<", "\uffff", "\U00010000", True),
        (">", b"\xff", b"a", True),
        ("same", None, None, True),
        ("same", 1, None, False),
        ("same", math.nan, math.nan, True),
        ("same", math.nan, None, False),
        ("same", 1, 1.0, True),
        ("differ", None, None, False),
        ("differ", "a", None, True),
    ],
)
def test_comparison(op, x, y, expected):
    assert outcome(op, x, y) is expected


@pytest.mark.parametrize(
    ("op", "x", "y"),
    [
        ("=", 1, "1"),
        ("=", Instant(0), Instant(0, zoned=True)),
        ("=", Day(0), Instant(0, zoned=True)),
        ("=", True, 1),
    ],
)
def test_kinds_that_do_not_compare(op, x, y):
    with pytest.raises(TypeError, match="does not compare"):
        outcome(op, x, y)


@pytest.mark.parametrize(
    ("op", "x", "y", "expected"),
    [
        ("+", 2**63 - 1, 1, 2**63),
        ("-", 0, 2**64, -(2**64)),
        ("*", 2**40, 2**40, 2**80),
        ("+", 0.1, 0.2, 0.30000000000000004),
        ("+", Decimal("0.1"), Decimal("0.2"), Decimal("0.3")),
        ("+", Decimal("0.1"), 0.2, 0.30000000000000004),
        # exact: 2**53 + 1 + 1.0 = 2**53 + 2; rounding the int first would give 2**53
        ("+", 2**53 + 1, 1.0, float(2**53 + 2)),
        ("/", 1, 3, 1 / 3),
        ("/", 1, 0, math.inf),
        ("/", -1, 0, -math.inf),
        ("/", 1.0, -0.0, -math.inf),
        ("%", 7, 3, 1),
        ("%", -7, 3, -1),
        ("%", 7, -3, 1),
        ("%", 7, 0, None),
        ("+", None, 1, None),
        ("-", Instant(7), Instant(2), 5),
        ("-", Day(1), Day(0), 86_400 * 10**9),
        ("+", Instant(7), Span(2), 9),
        ("*", Span(7), 2, 14),
    ],
)
def test_arithmetic(op, x, y, expected):
    assert value(op, x, y) == expected


def test_zero_over_zero_is_nan():
    assert math.isnan(value("/", 0, 0))
    assert math.isnan(value("/", 0.0, -0.0))


@pytest.mark.parametrize(("a", "b"), [(a, b) for a in (True, False, None) for b in (True, False, None)])
def test_three_valued_logic(a, b):
    left, right = {"a": a}, {"a": b}
    p, q = ("col", "left", "a"), ("col", "right", "a")
    both = {a, b}
    assert truth(("and", p, q), left, right) is (False if False in both else None if None in both else True)
    assert truth(("or", p, q), left, right) is (True if True in both else None if None in both else False)
    assert truth(("not", p), left, right) is (None if a is None else not a)
    assert truth(("isnull", p), left, right) is (a is None)


def test_a_literal_is_the_number_that_was_written():
    tenth = ("lit", 0.1)
    assert truth(("=", ("col", "left", "a"), tenth), {"a": Decimal("0.1")}, {})
    assert truth(("=", ("col", "left", "a"), tenth), {"a": 0.1}, {})
    assert truth(("in", ("col", "left", "a"), [1, 2]), {"a": 2}, {})
    assert truth(("in", ("col", "left", "a"), [1, None]), {"a": 2}, {}) is None
    assert truth(("between", ("col", "left", "a"), ("lit", 1), ("lit", None)), {"a": 0}, {}) is False


# left and right arrive in turn, each sees the last 2 of the other side
#
#   left   0   1   2   3
#   right    0   1   2   3
#
def test_count_window_sees_the_last_rows():
    oracle = Oracle(ALWAYS, CountScope(2, 2))
    got = []
    for i in range(4):
        got += pairs(oracle.push(left=[{"id": i}]))
        got += pairs(oracle.push(right=[{"id": i}]))
    assert got == [
        [],
        [(0, 0)],
        [(1, 0)],
        [(0, 1), (1, 1)],
        [(2, 0), (2, 1)],
        [(1, 2), (2, 2)],
        [(3, 1), (3, 2)],
        [(2, 3), (3, 3)],
    ]
    assert oracle.pairs == 12


# window 3, slide 2: with 5 left rows, 0 and 1 are outside the last 3 and leave together; with 4, only 0 is, and stays
def test_slide_lets_whole_blocks_leave():
    oracle = Oracle(ALWAYS, CountScope(3, 3, slide=2))
    oracle.push(left=[{"id": i} for i in range(4)])
    assert pairs(oracle.push(right=[{"id": 0}])) == [[(0, 0), (1, 0), (2, 0), (3, 0)]]
    oracle.push(left=[{"id": 4}])
    assert pairs(oracle.push(right=[{"id": 1}])) == [[(2, 1), (3, 1), (4, 1)]]


def test_sizes_are_per_side():
    oracle = Oracle(ALWAYS, CountScope(left=1, right=2))
    oracle.push(left=rows(1, 2), right=rows(1, 2, 3))
    assert pairs(oracle.push(left=[{"id": 9}])) == [[(9, 1), (9, 2)]]
    assert pairs(oracle.push(right=[{"id": 9}])) == [[(9, 9)]]


# left rows stay 2, right rows stay 1
#
#   time   0   1   2   3
#   left       0
#   right  0   1   2   3        in scope with left 0: 0 (1 later), 1 (same), 2 and 3 (1 and 2 after)
#
def test_time_window_has_both_ends_included():
    oracle = Oracle(ALWAYS, TimeScope(2, 1, "ts", "ts", lateness=100))
    oracle.push(left=timed(1))
    assert pairs(oracle.push(right=timed(-1, 0, 1, 2, 3, 4))) == [[], [(0, 1)], [(0, 2)], [(0, 3)], [(0, 4)], []]


# watermark = the smaller of both sides' largest times, minus lateness 1
#
#   left   5           4 (not late: watermark is 4)   3 (late)
#   right      9
#
def test_late_rows_have_no_place():
    oracle = Oracle(ALWAYS, TimeScope(9, 9, "ts", "ts", lateness=1))
    assert oracle.watermark() is None
    oracle.push(left=timed(5))
    assert oracle.watermark() is None
    oracle.push(right=timed(9))
    assert oracle.watermark() == 4
    steps = oracle.push(left=timed(4, 3, None, start=1))
    assert [(step.late, step.null_time, step.pairs) for step in steps] == [
        (False, False, 1),
        (True, False, 0),
        (False, True, 0),
    ]
    assert (oracle.late_rows, oracle.null_time_rows, len(oracle.kept["left"])) == (1, 1, 2)


def test_a_row_without_time_on_a_side_is_not_a_row_of_that_side():
    oracle = Oracle(ALWAYS, TimeScope(9, 9, "ts", "ts"))
    oracle.push(left=timed(5), right=timed(None))
    assert oracle.watermark() is None


def test_order_by_is_stable_with_left_first():
    left, right = timed(2, 1, 2), timed(1, 2)
    assert [(side, row["id"]) for side, row in arrange(left, right, "ts")] == [
        ("left", 1),
        ("right", 0),
        ("left", 0),
        ("left", 2),
        ("right", 1),
    ]
    assert [side for side, _ in arrange(left, right)] == ["left"] * 3 + ["right"] * 2
    for bad in (None, math.nan):
        with pytest.raises(ValueError, match="NULL or NaN"):
            arrange(timed(bad), [], "ts")


# each row meets the earlier ones, first as left, then as right, never itself
def test_self_join():
    less = ("<=", ("col", "left", "a"), ("col", "right", "a"))
    oracle = Oracle(less, CountScope(2, 2), self_join=True)
    assert pairs(oracle.push(left=rows(5, 5, 7, 6))) == [[], [(1, 0), (0, 1)], [(0, 2), (1, 2)], [(3, 2), (1, 3)]]


def test_filtered_rows_keep_their_place_in_the_window():
    odd = ("and", ALWAYS, ("=", ("col", "left", "a"), ("lit", 1)))
    oracle = Oracle(odd, CountScope(2, 2))
    oracle.push(left=rows(1, 0, 0))
    assert pairs(oracle.push(right=rows(9))) == [[]]


def outer(how, *, finish=True):
    equal = ("=", ("col", "left", "a"), ("col", "right", "a"))
    oracle = Oracle(equal, CountScope(1, 1), how)
    steps = oracle.push(left=rows(1, 2)) + oracle.push(right=rows(2, 3)) + oracle.push(left=[{"id": 2, "a": None}])
    shown = [[(left and left["id"], right and right["id"]) for left, right in step.rows] for step in steps]
    return (
        [*shown, [(left and left["id"], right and right["id"]) for left, right in oracle.finish()]] if finish else shown
    )


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [[], [], [(1, 0)], [], [], []]),
        ("left", [[], [(0, None)], [(1, 0)], [], [], [(2, None)]]),
        ("right", [[], [], [(1, 0)], [], [], [(None, 1)]]),
        ("full", [[], [(0, None)], [(1, 0)], [], [], [(2, None), (None, 1)]]),
        ("left_semi", [[], [], [(1, None)], [], [], []]),
        ("left_anti", [[], [(0, None)], [], [], [], [(2, None)]]),
    ],
)
def test_join_types(how, expected):
    assert outer(how) == expected


# left 0 stays until 5 + 2: the watermark passes 7 when both sides have seen 8
def test_unmatched_row_of_a_time_window_waits_for_the_watermark():
    equal = ("=", ("col", "left", "id"), ("col", "right", "id"))
    oracle = Oracle(equal, TimeScope(2, 2, "ts", "ts"), "left")
    oracle.push(left=timed(5))
    oracle.push(left=timed(8, start=1))
    assert oracle.push(right=timed(7, start=7))[0].rows == []
    assert [left["id"] for left, _ in oracle.push(right=timed(8, start=8))[0].rows] == [0]
    assert [left["id"] for left, _ in oracle.finish()] == [1]


# Spark: nothing is late before the first watermark; then what is below the one with which the micro-batch began
def test_micro_batches_have_their_watermark_given():
    oracle = Oracle(ALWAYS, TimeScope(5, 5, "ts", "ts"))
    assert len(oracle.micro_batch(timed(9, 1), timed(1), None)) == 1
    got = oracle.micro_batch(timed(4, 6, start=2), [], watermark=5)
    assert got == [({"id": 3, "ts": 6}, {"id": 0, "ts": 1})]
    assert oracle.late_rows == 1
