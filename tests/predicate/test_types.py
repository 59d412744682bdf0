"""What every Arrow type means in a predicate, as docs/types.md says it."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slidejoin.errors import PredicateError
from slidejoin.predicate.bind import bind
from slidejoin.predicate.sql_text.sql import parse
from tests.predicate.pairs import check, columns


def table(**arrays: Any) -> pa.Table:
    return pa.table(dict(arrays))


def matches(on: str, left: pa.Array[Any], right: pa.Array[Any]) -> list[tuple[int, int]]:
    """Row numbers of the pairs that match, found pair by pair and by ranges from both sides."""
    sides = pa.table({"a": left}), pa.table({"a": right})
    found = bind(parse(on), sides[0].schema, sides[1].schema)
    tests = found.filter(range(len(found.terms)))
    kept = [found.prefilter(side, columns(one)) for side, one in zip(("left", "right"), sides, strict=True)]
    pairs = []
    for i in range(len(left)):
        for j in range(len(right)):
            passes = all(mask is None or mask[row] for mask, row in zip(kept, (i, j), strict=True))
            rows = {"a": left.slice(i, 1)}, {"a": right.slice(j, 1)}
            if passes and not found.never and (tests is None or tests.holds(*rows, 1)[0]):
                pairs.append((i, j))
    for term in found.terms:
        for probe, stored in (("left", "right"), ("right", "left")):
            here, there = (0, 1) if probe == "left" else (1, 0)
            keys, ranges = term.key(stored, columns(sides[there])), term.ranges(probe, columns(sides[here]))
            for pair in pairs:
                key = keys.values[pair[there]]
                inside = (ranges.lo[:, pair[here]] <= key) & (key <= ranges.hi[:, pair[here]])
                assert inside.sum() == 1
    return pairs


def refused(on: str, left: pa.DataType, right: pa.DataType, message: str) -> None:
    with pytest.raises(PredicateError, match=re.escape(message)):
        bind(parse(on), pa.schema([("a", left)]), pa.schema([("a", right)]))


INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize("left", INTS, ids=str)
@pytest.mark.parametrize("right", INTS, ids=str)
def test_integers_of_all_widths(left, right):
    assert matches("l.a < r.a", pa.array([1, 2, None], left), pa.array([2, 127], right)) == [(0, 0), (0, 1), (1, 1)]
    assert matches("l.a = r.a", pa.array([1, 2, None], left), pa.array([2, None], right)) == [(1, 0)]


def test_narrow_integers_do_not_wrap():
    assert matches("l.a + 1 > r.a", pa.array([127], pa.int8()), pa.array([127, -128], pa.int8())) == [(0, 0), (0, 1)]
    assert matches("-l.a > r.a", pa.array([-128], pa.int8()), pa.array([127], pa.int8())) == [(0, 0)]


def test_unsigned_above_the_signed_range():
    big = pa.array([2**64 - 1, 2**63, 2**63 - 1], pa.uint64())
    assert matches("l.a = r.a", big, big) == [(0, 0), (1, 1), (2, 2)]
    assert matches("l.a = r.a", big, pa.array([2**63 - 1, -1], pa.int64())) == [(2, 0)]
    assert matches("l.a - 1 <= r.a", big, pa.array([2**63 - 1], pa.int64())) == [(1, 0), (2, 0)]
    assert matches("l.a > r.a", big, pa.array([2.0**63], pa.float64())) == [(0, 0)]


def test_integer_arithmetic_is_unbounded():
    ends = pa.array([2**63 - 1, -(2**63)], pa.int64())
    assert matches("l.a + 1 > r.a", ends, ends) == [(0, 0), (0, 1), (1, 1)]
    assert matches("l.a * l.a = r.a * r.a", ends, ends) == [(0, 0), (1, 1)]
    assert matches("abs(l.a) > r.a", ends, ends) == [(0, 1), (1, 0), (1, 1)]


def test_integer_division_gives_doubles():
    assert matches("l.a / 2 = r.a", pa.array([1, 2]), pa.array([0.5, 1.0])) == [(0, 0), (1, 1)]
    assert matches("l.a / 0 > r.a", pa.array([1, 0, -1]), pa.array([1e308])) == [(0, 0)]


def test_remainder_has_the_sign_of_the_dividend():
    assert matches("l.a % 3 = r.a", pa.array([-4, 4]), pa.array([-1, 1])) == [(0, 0), (1, 1)]
    assert matches("l.a % 0 = r.a", pa.array([1]), pa.array([0, 1])) == []


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_floats(kind):
    numbers = pa.array([-math.inf, -0.0, 0.0, 1.5, math.inf, math.nan, None], kind)
    assert matches("l.a = r.a", numbers, numbers) == [(0, 0), (1, 1), (1, 2), (2, 1), (2, 2), (3, 3), (4, 4)]
    assert matches("l.a < r.a", numbers, pa.array([0.0], kind)) == [(0, 0)]
    assert matches("l.a <> r.a", numbers, pa.array([math.nan, None], kind)) == []


def test_float32_widens_exactly():
    assert matches("l.a = r.a", pa.array([0.1], pa.float32()), pa.array([0.1], pa.float64())) == []
    assert matches("l.a > r.a", pa.array([0.1], pa.float32()), pa.array([0.1], pa.float64())) == [(0, 0)]


def test_nan_is_not_null():
    numbers = pa.array([math.nan, None, 1.0])
    assert matches("l.a IS NULL AND r.a = 1", numbers, numbers) == [(1, 2)]
    assert matches("l.a IS NOT NULL AND r.a = 1", numbers, numbers) == [(0, 2), (2, 2)]


def test_integers_compare_with_floats_without_rounding():
    assert matches("l.a = r.a", pa.array([2**53 + 1, 2**53]), pa.array([2.0**53])) == [(1, 0)]
    assert matches("l.a > r.a", pa.array([2**53 + 1, 2**53]), pa.array([2.0**53])) == [(0, 0)]
    assert matches("l.a < r.a", pa.array([2**63 - 1]), pa.array([2.0**63, math.inf])) == [(0, 0), (0, 1)]


def test_integer_and_float_arithmetic_rounds_once():
    assert matches("l.a + 0.0e0 = r.a", pa.array([2**53 + 1]), pa.array([2**53 + 1])) == [(0, 0)]
    assert matches("l.a - r.a = 1", pa.array([2**53 + 1]), pa.array([2.0**53])) == [(0, 0)]


@pytest.mark.parametrize(
    "kind", [pa.decimal128(5, 2), pa.decimal256(18, 2), pa.decimal32(5, 2), pa.decimal64(18, 2)], ids=str
)
def test_decimals(kind):
    amounts = pa.array([Decimal("1.10"), Decimal("-1.00"), None], kind)
    assert matches("l.a = r.a", amounts, pa.array([Decimal("1.1")], pa.decimal128(2, 1))) == [(0, 0)]
    assert matches("l.a < r.a", amounts, pa.array([0])) == [(1, 0)]
    assert matches("l.a = 1.1 AND r.a = 0", amounts, pa.array([0])) == [(0, 0)]


def test_decimal_arithmetic_is_exact():
    amounts = pa.array([Decimal("0.1"), Decimal("0.2"), Decimal("0.3")], pa.decimal128(3, 1))
    assert matches("l.a + 0.1 = r.a", amounts, amounts) == [(0, 1), (1, 2)]
    assert matches("l.a * l.a = 0.01 AND r.a = 0.1", amounts, amounts) == [(0, 0)]
    wide = pa.array([Decimal(10) ** 18 - 1], pa.decimal128(18, 0))
    assert matches("l.a * 0.000001 < r.a * r.a", wide, wide) == [(0, 0)]


def test_decimals_become_the_nearest_double_beside_floats():
    assert matches("l.a = r.a", pa.array([Decimal("0.1")], pa.decimal128(2, 1)), pa.array([0.1])) == [(0, 0)]
    assert matches("l.a = 0.1 AND r.a = 0.1", pa.array([0.1]), pa.array([Decimal("0.1")], pa.decimal128(2, 1))) == [
        (0, 0)
    ]


def test_decimals_of_negative_scale():
    for kind in (pa.decimal128(3, -30), pa.decimal128(38, -30)):
        assert matches("l.a = r.a", pa.array([Decimal(0), None], kind), pa.array([0, 1])) == [(0, 0)]
    hundreds = pa.array([Decimal(1200)], pa.decimal128(3, -2))
    assert matches("l.a = r.a", hundreds, pa.array([1200, 12])) == [(0, 0)]


WIDE = [pa.decimal128(38, 18), pa.decimal128(19, 2), pa.decimal256(38, 2), pa.decimal128(38, 0)]


@pytest.mark.parametrize("kind", WIDE, ids=str)
def test_decimals_of_two_words(kind):
    one, far = Decimal(12), Decimal(10) ** (kind.precision - kind.scale - 1)
    amounts = pa.array([one, far, -far, None, Decimal(int(far) - 1)], kind)
    assert matches("l.a = r.a", amounts, amounts) == [(0, 0), (1, 1), (2, 2), (4, 4)]
    assert matches("l.a < r.a", amounts, amounts) == [(0, 1), (0, 4), (2, 0), (2, 1), (2, 4), (4, 1)]
    assert matches("l.a BETWEEN r.a - 0.5 AND r.a + 1", amounts, amounts) == [(0, 0), (1, 1), (1, 4), (2, 2), (4, 4)]
    assert matches("l.a = r.a", amounts, pa.array([12, 13])) == [(0, 0)]
    assert matches("l.a * l.a + r.a > 1", amounts, pa.array([0])) == [(0, 0), (1, 0), (2, 0), (4, 0)]
    assert matches("l.a IS NOT DISTINCT FROM r.a", amounts, amounts)[3] == (3, 3)
    assert matches("l.a IN (12, 13) AND r.a = 1", amounts, pa.array([1])) == [(0, 0)]
    for encoded in (amounts.dictionary_encode(), pc.run_end_encode(amounts)):  # type: ignore[attr-defined]  # the stubs are of pyarrow 20
        assert matches("l.a = r.a", encoded, amounts.slice(0, 3)) == [(0, 0), (1, 1), (2, 2)]


def test_decimals_whose_doubles_are_equal_are_not():
    near = pa.array([Decimal(10**37), Decimal(10**37 + 1)], pa.decimal128(38, 0))
    assert matches("l.a = r.a", near, near) == [(0, 0), (1, 1)]
    assert matches("l.a < r.a", near, near) == [(0, 1)]
    assert matches("CAST(l.a AS DECIMAL(38, 0)) - 1 = r.a", near, near) == [(1, 0)]


def test_decimals_beyond_38_digits_are_payload_only():
    said = "column 'a' of the left batch is decimal256(60, 2), which can be selected and tested with IS NULL"
    refused("l.a = r.a", pa.decimal256(60, 2), pa.int64(), said)
    refused("l.a = r.a", pa.int64(), pa.decimal256(39, 2), "column 'a' of the right batch is decimal256(39, 2)")
    refused("l.a = r.a", pa.decimal256(39, 2), pa.int64(), "numbers (decimals to 38 digits)")
    refused("l.a + 1 = r.a", pa.decimal256(39, 2), pa.int64(), "there is no decimal256(39, 2) + integer in l.a + 1")
    refused("round(l.a) = r.a", pa.decimal256(39, 2), pa.int64(), "cannot use l.a of type decimal256(39, 2) in round")
    refused("CAST(l.a AS INT) = r.a", pa.decimal256(39, 2), pa.int64(), "cannot cast l.a of type decimal256(39, 2)")


def test_lists_of_decimals_of_any_scale():
    far = pa.list_(pa.decimal128(38, 38)), pa.list_(pa.decimal128(38, 18))
    unscaled = pa.array([10**37, 0], pa.decimal128(38, 0))
    numbers = pa.Array.from_buffers(pa.decimal128(38, -30), 2, unscaled.buffers())
    ones = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), numbers)
    assert matches("l.a = r.a", ones, pa.array([[Decimal(0)], [Decimal("0.1")]], far[0])) == [(1, 0)]
    halves = pa.array([[Decimal("12.5"), None], [Decimal(10**19)], None], far[1])
    assert matches("l.a = r.a", halves, halves) == [(0, 0), (1, 1)]
    assert matches("l.a = r.a", halves, pa.array([[10**19 - 1], [1]], pa.list_(pa.uint64()))) == []


def test_literals_beyond_every_column():
    numbers = pa.array([1, -1])
    assert matches("l.a < 99999999999999999999 AND r.a > l.a", numbers, numbers) == [(1, 0)]
    assert matches("l.a + 99999999999999999999 < r.a", numbers, numbers) == []


def test_booleans():
    flags = pa.array([True, False, None])
    assert matches("l.a > r.a", flags, flags) == [(0, 1)]
    assert matches("l.a = r.a", flags, flags) == [(0, 0), (1, 1)]
    assert matches("l.a AND NOT r.a", flags, flags) == [(0, 1)]


UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.mark.parametrize("left", UNITS)
@pytest.mark.parametrize("right", UNITS)
def test_timestamps_of_mixed_units(left, right):
    one = pa.array([5 * UNITS[left], -UNITS[left], None], pa.timestamp(left))
    two = pa.array([5 * UNITS[right], 6 * UNITS[right]], pa.timestamp(right))
    assert matches("l.a = r.a", one, two) == [(0, 0)]
    assert matches("r.a - l.a <= INTERVAL '1' SECOND", one, two) == [(0, 0), (0, 1)]
    assert matches("l.a + INTERVAL '1' SECOND < r.a", one, two) == [(1, 0), (1, 1)]


def test_timestamps_finer_than_the_other_side():
    seconds, nanos = pa.array([1], pa.timestamp("s")), pa.array([10**9, 10**9 + 1], pa.timestamp("ns"))
    assert matches("l.a = r.a", seconds, nanos) == [(0, 0)]
    assert matches("l.a < r.a", seconds, nanos) == [(0, 1)]


def test_timestamps_far_away():
    far = pa.array([2**62], pa.timestamp("s"))
    assert matches("l.a > r.a", far, pa.array([2**63 - 1], pa.timestamp("ns"))) == [(0, 0)]


def test_zoned_timestamps_compare_as_instants():
    utc = pa.array([datetime(2024, 1, 1, 12, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    india = utc.cast(pa.timestamp("ms", "Asia/Kolkata"))
    assert matches("l.a = r.a", utc, india) == [(0, 0)]
    assert matches("l.a = '2024-01-01 12:00' AND r.a = '2024-01-01T17:30+05:30'", utc, india) == [(0, 0)]


def test_naive_and_zoned_times_do_not_mix():
    message = "give both a time zone or neither"
    refused("l.a = r.a", pa.timestamp("us"), pa.timestamp("us", "UTC"), message)
    refused("l.a = r.a", pa.date32(), pa.timestamp("us", "UTC"), message)
    refused("l.a - r.a < INTERVAL '1' SECOND", pa.timestamp("us"), pa.timestamp("us", "UTC"), message)
    refused("l.a = r.a AND l.a < '2024-01-01T00:00Z'", pa.date32(), pa.date32(), "leave out the offset")


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_dates(kind):
    days = pa.array([date(2024, 1, 1), date(1969, 12, 31), None], kind)
    assert matches("l.a < r.a", days, days) == [(1, 0)]
    assert matches("l.a - r.a = INTERVAL '19724' DAY", days, days) == [(0, 1)]


def test_a_date_is_its_midnight_among_timestamps():
    days = pa.array([date(2024, 1, 1)], pa.date32())
    times = pa.array([datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 1)], pa.timestamp("ms"))
    assert matches("l.a = r.a", days, times) == [(0, 0)]
    assert matches("l.a + INTERVAL '1' SECOND = r.a", days, times) == [(0, 1)]


def test_times_as_text():
    days = pa.array([date(2024, 1, 1), date(2024, 1, 2)], pa.date32())
    assert matches("l.a = '2024-01-01' AND r.a = l.a", days, days) == [(0, 0)]
    assert matches("l.a > '2024-01-01 00:00:00.000000001' AND r.a = l.a", days, days) == [(1, 1)]
    refused("l.a = 'yesterday' AND l.a = r.a", pa.date32(), pa.date32(), "cannot read 'yesterday'")
    refused("l.a = '25:00' AND l.a = r.a", pa.time32("s"), pa.time32("s"), "write it in ISO 8601, for example '17:30")


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str)
def test_times_of_day(kind):
    clock = pa.array([time(0), time(17, 30), None], kind)
    assert matches("l.a < r.a", clock, pa.array([time(17, 30)], pa.time64("ns"))) == [(0, 0)]
    assert matches("l.a = '17:30:00' AND r.a = l.a", clock, clock) == [(1, 1)]
    refused("l.a - r.a > 0", kind, kind, "there is no time of day - time of day")


@pytest.mark.parametrize("unit", UNITS)
def test_durations(unit):
    spans = pa.array([timedelta(seconds=1), timedelta(seconds=-2), None], pa.duration(unit))
    assert matches("l.a > r.a", spans, spans) == [(0, 1)]
    assert matches("l.a * 2 = abs(r.a)", spans, spans) == [(0, 1)]
    assert matches("-l.a - r.a = INTERVAL '1' SECOND", spans, spans) == [(0, 1), (1, 0)]
    refused("l.a > 5 AND r.a = l.a", pa.duration(unit), pa.duration(unit), "cannot compare duration with integer")


TEXT = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]


def made(values: list[Any], kind: pa.DataType) -> pa.Array[Any]:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


@pytest.mark.parametrize("left", TEXT, ids=str)
@pytest.mark.parametrize("right", TEXT, ids=str)
def test_strings_of_every_layout(left, right):
    one, two = made(["a", "", "naïve", None], left), made(["naïve", "a", None], right)
    assert matches("l.a = r.a", one, two) == [(0, 1), (2, 0)]
    assert matches("l.a <> r.a AND r.a = 'a'", one, two) == [(1, 1), (2, 1)]


@pytest.mark.parametrize("left", TEXT, ids=str)
@pytest.mark.parametrize("right", TEXT, ids=str)
def test_strings_order_by_their_bytes(left, right):
    one, two = made(["Z", "é", "2024-01-05", None], left), made(["a", "2024-01-05", "2024-01-050"], right)
    assert matches("l.a < r.a", one, two) == [(0, 0), (2, 0), (2, 2)]
    assert matches("l.a >= r.a", one, two) == [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 1)]


BYTES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2), pa.dictionary(pa.int16(), pa.binary())]


@pytest.mark.parametrize("left", BYTES, ids=str)
@pytest.mark.parametrize("right", BYTES, ids=str)
def test_binary_of_every_layout(left, right):
    one, two = made([b"a\x00", b"\xff\xff", None], left), made([b"\xff\xff", b"ab"], right)
    assert matches("l.a = r.a", one, two) == [(1, 0)]
    assert matches("l.a <> r.a", one, two) == [(0, 0), (0, 1), (1, 1)]


def test_strings_and_binary_do_not_mix():
    refused("l.a = r.a", pa.string(), pa.binary(), "cannot compare string with binary")


def test_dictionaries_act_as_their_values():
    numbers = pa.array([5, 1, None]).dictionary_encode()
    assert matches("l.a > r.a", numbers, pa.array([1.5])) == [(0, 0)]
    inner_null = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["x", None]))
    assert matches("l.a = r.a", inner_null, pa.array(["x"])) == [(0, 0)]
    assert matches("l.a IS NULL AND r.a = 'x'", inner_null, pa.array(["x"])) == [(1, 0), (2, 0)]


PAYLOAD = [
    pa.list_(pa.struct([("x", pa.int64())])),
    pa.struct([("x", pa.int64())]),
    pa.map_(pa.string(), pa.int64()),
    pa.null(),
    pa.month_day_nano_interval(),
]


@pytest.mark.parametrize("kind", PAYLOAD, ids=str)
def test_payload_only(kind):
    refused("l.a = r.a", kind, pa.int64(), "can be selected and tested with IS NULL, but not compared")
    refused("l.a = NULL AND r.a = 1", kind, pa.int64(), "can be selected and tested with IS NULL, but not compared")
    assert matches("l.a IS NULL AND r.a = 1", pa.array([None], kind), pa.array([1, 2])) == [(0, 0)]


LISTS = [pa.list_(pa.int64()), pa.large_list(pa.int8()), pa.list_(pa.decimal128(5, 1)), pa.list_(pa.int64(), 2)]


@pytest.mark.parametrize("left", LISTS, ids=str)
@pytest.mark.parametrize("right", LISTS, ids=str)
def test_lists_compare_as_wholes(left, right):
    one = made([[1, 2], [2, 1], None, [1, None]], left)
    two = made([[9, 9], [1, None], [1, 2], None], right)[1:]
    assert matches("l.a = r.a", one, two) == [(0, 1), (3, 0)]
    assert matches("l.a <> r.a", one, two) == [(0, 0), (1, 0), (1, 1), (3, 1)]
    assert matches("l.a IS NOT DISTINCT FROM r.a", one, two) == [(0, 1), (2, 2), (3, 0)]
    assert matches("l.a = [1, 2] AND r.a = [1.0, NULL]", one, two) == [(0, 0)]


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (pa.string(), ["", "a"], ["a", ""]),
        (pa.string(), ["ab", "c"], ["a", "bc"]),
        (pa.binary(), [b"a", None], [b"a", b""]),
        (pa.float64(), [float("nan"), -0.0], [float("nan"), 1.0]),
        (pa.bool_(), [True, None], [True, False]),
        (pa.uint64(), [2**64 - 1, 1], [2**63, 1]),
        (pa.date32(), [1, 2], [2, 1]),
        (pa.list_(pa.int32()), [[1], [2]], [[1, 2], []]),
        (pa.timestamp("ns", "UTC"), [1, None], [None, 1]),
    ],
    ids=str,
)
def test_lists_of_every_kind(kind, one, other):
    lists = pa.array([one, other, [], None, one[:1]], pa.list_(kind))
    for sliced in (lists, pa.concat_arrays([lists, lists]).slice(5)):
        assert matches("l.a = r.a", sliced, lists) == [(0, 0), (1, 1), (2, 2), (4, 4)]


def test_lists_have_no_order():
    refused("l.a < r.a", pa.list_(pa.int8()), pa.list_(pa.int8()), "cannot order lists with <")
    refused("l.a = r.a", pa.list_(pa.int8()), pa.list_(pa.float64()), "give both elements of one type")
    refused("l.a = r.a", pa.list_(pa.int8()), pa.list_(pa.string()), "cannot compare integer with string")
    refused("l.a = r.a", pa.list_(pa.int8()), pa.int8(), "cannot compare list of integer values with integer")


def test_remainders_of_decimals_and_floats():
    decimals = pa.array([Decimal("5.5"), Decimal("-5.5"), None], pa.decimal128(3, 1))
    tenths = pa.array([Decimal("0.10"), Decimal("-0.10")], pa.decimal128(5, 2))
    assert matches("l.a % 0.3 = r.a", decimals, tenths) == [(0, 0), (1, 1)]
    assert matches("l.a % 0 IS NULL AND r.a > 0", decimals, tenths) == [(0, 0), (1, 0), (2, 0)]
    assert matches("l.a % 2 = r.a", pa.array([-5.5, 5.5]), pa.array([1.5, -1.5])) == [(0, 1), (1, 0)]
    assert matches("l.a % 0 = r.a OR l.a % 0 IS NULL", pa.array([5.5]), pa.array([0.0])) == []


def test_whole_quotients_are_cut_off():
    numbers = pa.array([7, -7, -(2**63), None])
    assert matches("l.a // 2 = r.a", numbers, pa.array([3, -3, -4, -(2**62)])) == [(0, 0), (1, 1), (2, 3)]
    assert matches("l.a // -1 > r.a", numbers, pa.array([2**63 - 1])) == [(2, 0)]
    assert matches("l.a // 0 IS NULL AND r.a = 1", numbers, pa.array([1])) == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_distinct_from_counts_nulls():
    one, two = pa.array([1.0, float("nan"), None]), pa.array([None, 1, 2])
    assert matches("l.a IS NOT DISTINCT FROM r.a", one, two) == [(0, 1), (2, 0)]
    assert matches("l.a <=> r.a", one, pa.array([float("nan"), None])) == [(1, 0), (2, 1)]
    assert matches("l.a IS DISTINCT FROM r.a", one, two) == [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)]
    assert matches("l.a IS DISTINCT FROM NULL AND r.a = 1", one, two) == [(0, 1), (1, 1)]


def test_null_literals_are_unknown():
    numbers = pa.array([1, None])
    assert matches("l.a = NULL OR r.a = 1", numbers, numbers) == [(0, 0), (1, 0)]
    found = bind(parse("l.a + NULL < r.a"), pa.schema([("a", pa.int64())]), pa.schema([("a", pa.int64())]))
    assert found.never


def test_kinds_do_not_mix():
    refused("l.a = r.a", pa.int64(), pa.string(), "cannot compare integer with string in l.a = r.a")
    refused("l.a = r.a", pa.bool_(), pa.int8(), "cannot compare boolean with integer")
    refused("l.a = r.a", pa.timestamp("s"), pa.int64(), "cannot compare timestamp without time zone with integer")
    refused("l.a + 1 = r.a", pa.date32(), pa.date32(), "for example INTERVAL '5' MINUTE")
    refused("l.a + 1 = r.a", pa.string(), pa.string(), "arithmetic is for numbers")
    refused("l.a // 2 = r.a", pa.float64(), pa.float64(), "// takes integers only, since engines differ on others")
    refused("-l.a = r.a", pa.date32(), pa.date32(), "it takes numbers and durations")
    refused("CAST(l.a AS DOUBLE) = 1 AND r.a = l.a", pa.date32(), pa.date32(), "cannot cast l.a of type date to DOUBLE")
    refused("l.a AND r.a = 1", pa.int64(), pa.int64(), "l.a is not a condition, its type is integer: compare it")


def test_unknown_columns_name_the_nearest():
    schema = pa.schema([("distance", pa.int64()), ("air_time", pa.int64())])
    with pytest.raises(PredicateError, match=r"the left side has no column 'distnce'\. Did you mean 'distance'\?"):
        bind(parse("l.distnce > r.distance"), schema, schema)
    twice = pa.schema([("a", pa.int64()), ("a", pa.int64())])
    with pytest.raises(PredicateError, match="the right side has more than one column 'a'"):
        bind(parse("l.distance > r.a"), schema, twice)


def test_sliced_and_chunked_columns():
    sliced = pa.array([9, 9, 1, None, 3]).slice(2)
    chunks = pa.chunked_array([pa.array([1]), pa.array([], pa.int64()), pa.array([3])])
    left, right = table(a=sliced), table(a=chunks)
    what = check(("=", ("col", "left", "a"), ("col", "right", "a")), left, right)
    assert what.terms[0].key("left", columns(left)).values.tolist() == [1, 0, 3]
    words = pa.table({"a": pa.array(["zz", "a", "bb"]).slice(1)}), pa.table({"a": pa.chunked_array([["bb"], ["a"]])})
    check(("=", ("col", "left", "a"), ("col", "right", "a")), *words)
