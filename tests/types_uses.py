"""What can be done with a column: each use as a small program that takes any kind of column, see `tests.types_table`.

A use works (its result is compared with plain loops), or is refused by an error of slidejoin's, or fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import localcontext
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import slidejoin as sj
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.types_table import Kind

__all__ = ["USES", "Outcome", "Use", "outcome_of"]

Numbers = list[int | None]
Hold = "Callable[[int, int, int | None, int | None], bool]"

LEFT: Numbers = [0, 1, None, 2, 0]
RIGHT: Numbers = [1, None, 0, 2]
LEFT_IDS, RIGHT_IDS = [0, 1, 2, 3, 4], [10, 11, 12, 13]
LEFT_KEYS, RIGHT_KEYS = [1, 2, 3, 1, 2], [2, 1, 3, 2]
WINDOW = sj.CountWindow(100)
SHED = 90
"""Rows of a side that a feed is given, some of which it drops."""


class WrongError(AssertionError):
    """A result is not what was expected."""


def equal(got: Any, expected: Any, what: str) -> None:
    if got != expected:
        msg = f"{what}: expected {expected}, got {got}"
        raise WrongError(msg)


def left_batch(kind: Kind, numbers: Numbers = LEFT) -> Any:
    return kind.batch({"id": LEFT_IDS[: len(numbers)], "k": LEFT_KEYS[: len(numbers)]}, v=numbers)


def right_batch(kind: Kind, numbers: Numbers = RIGHT) -> Any:
    return kind.batch({"id": RIGHT_IDS[: len(numbers)], "k": RIGHT_KEYS[: len(numbers)]}, v=numbers)


def schemas(kind: Kind) -> tuple[pa.Schema, pa.Schema]:
    schema = kind.schema("id", "k")
    return schema, schema


def pairs_of(kind: Kind, hold: Any, left: Numbers = LEFT, right: Numbers = RIGHT) -> list[tuple[int, int]]:
    """The pairs of ids whose keys and values ``hold``."""
    return [
        (LEFT_IDS[i], RIGHT_IDS[j])
        for i, one in enumerate(left)
        for j, two in enumerate(right)
        if hold(LEFT_KEYS[i], RIGHT_KEYS[j], kind.canon(one), kind.canon(two))
    ]


def by_key(one: int, two: int, _v: int | None, _w: int | None) -> bool:
    return one == two


def by_value(_k: int, _l: int, one: int | None, two: int | None) -> bool:
    return one is not None and one == two


def check(
    kind: Kind, out: pa.Table, expected: list[tuple[int, int]], left: Numbers = LEFT, right: Numbers = RIGHT
) -> None:
    """Compare pairs and their columns, which have the type that they came with."""
    got = list(zip(out["id"].to_pylist(), out["id_right"].to_pylist(), strict=True))
    equal(sorted(got), sorted(expected), "pairs")
    for name in ("v", "v_right"):
        if out.schema.field(name).type != kind.type:
            msg = f"column {name} is {out.schema.field(name).type}, came as {kind.type}"
            raise WrongError(msg)
    out.validate(full=True)
    for name, ids, of_rows, numbers in (("v", "id", LEFT_IDS, left), ("v_right", "id_right", RIGHT_IDS, right)):
        wanted = [None if one is None else kind.canon(numbers[of_rows.index(one)]) for one in out[ids].to_pylist()]
        equal(kind.read(out[name]), wanted, f"column {name}")


def join_of(kind: Kind, on: Any, **options: Any) -> sj.StreamJoin:
    return sj.StreamJoin(on=on, window=options.pop("window", WINDOW), schemas=schemas(kind), order="strict", **options)


def run(kind: Kind, on: Any, hold: Any, **options: Any) -> None:
    """Push all rows, the left ones first, and the other way round."""
    for swapped in (False, True):
        join = join_of(kind, on, **options)
        if swapped:
            first = join.push(right=right_batch(kind))
            out = join.push(left=left_batch(kind))
        else:
            first = join.push(left=left_batch(kind))
            out = join.push(right=right_batch(kind))
        equal(first.num_rows, 0, "rows of one side alone")
        check(kind, out, pairs_of(kind, hold))


# -- in predicates -----------------------------------------------------------------------------------------------------


def equality(kind: Kind) -> None:
    run(kind, "l.v = r.v", by_value)


def inequality(kind: Kind) -> None:
    run(
        kind,
        "l.v <> r.v AND l.k = r.k",
        lambda k, j, one, two: k == j and None not in (one, two) and one != two,
    )


def distinct(kind: Kind) -> None:
    run(kind, "l.v IS NOT DISTINCT FROM r.v", lambda _k, _l, one, two: one == two)


def order(kind: Kind) -> None:
    run(kind, "l.v < r.v", lambda _k, _l, one, two: None not in (one, two) and one < two)


def band(kind: Kind) -> None:
    lows: Numbers = [0, None, 1, 0]
    highs: Numbers = [1, 2, 0, 2]
    right = kind.batch({"id": RIGHT_IDS}, v=lows, w=highs)
    wide = kind.schema("id", columns=("v", "w"))
    join = sj.StreamJoin(on="l.v BETWEEN r.v AND r.w", window=WINDOW, schemas=(kind.schema("id", "k"), wide))
    join.push(left=left_batch(kind))
    out = join.push(right=right)
    c = kind.canon
    expected = [
        (LEFT_IDS[i], RIGHT_IDS[j])
        for i, v in enumerate(LEFT)
        for j in range(4)
        if None not in (v, lows[j], highs[j]) and c(lows[j]) <= c(v) <= c(highs[j])
    ]
    equal(sorted(zip(out["id"].to_pylist(), out["id_right"].to_pylist(), strict=True)), sorted(expected), "pairs")


def arithmetic(kind: Kind) -> None:
    # A step is less than the distance of two values.
    run(kind, f"l.v + {kind.step} > r.v", lambda _k, _l, one, two: None not in (one, two) and one >= two)


def constant(kind: Kind) -> None:
    last = len(kind.values) - 1
    on: Any = f"l.v = {kind.literal} AND l.k = r.k"
    if kind.literal is None:
        on = (sj.left["v"] == kind.values[-1]) & (sj.left["k"] == sj.right["k"])
    run(kind, on, lambda k, j, one, _w: k == j and one is not None and one == last)


def is_null(kind: Kind) -> None:
    run(kind, "l.v IS NULL AND l.k = r.k", lambda k, j, one, _w: k == j and one is None)


def function(kind: Kind) -> None:
    run(kind, kind.function, by_value)


def nearest(kind: Kind) -> None:
    for direction in ("backward", "forward", "nearest"):
        keep = sj.Nearest("l.v", "r.v", direction=direction)
        join = sj.StreamJoin(on="l.k >= 0 AND r.k >= 0", window=WINDOW, keep=keep, schemas=schemas(kind))
        join.push(right=right_batch(kind))
        tables = [join.push(left=left_batch(kind)), join.finish()]
        out = pa.concat_tables(tables)
        # Each value of the left side has its equal on the right side.
        expected = [(i, 10 + RIGHT.index(one)) for i, one in zip(LEFT_IDS, LEFT, strict=True) if one is not None]
        check(kind, out, expected)


def nearest_payload(kind: Kind) -> None:
    keep = sj.Nearest("l.k", "r.k", direction="backward")
    join = sj.StreamJoin(on="l.id < r.id", window=WINDOW, keep=keep, how="left", schemas=schemas(kind))
    join.push(right=right_batch(kind))
    out = pa.concat_tables([join.push(left=left_batch(kind)), join.finish()])
    check(kind, out, [(0, 11), (1, 13), (2, 12), (3, 11), (4, 13)])


# -- aggregates --------------------------------------------------------------------------------------------------------


def aggregated(kind: Kind, name: str) -> list[Any]:
    """The aggregate over right rows with the keys of each left row."""
    output = sj.Aggregate(x=f"{name}(r.v)")
    join = sj.StreamJoin(on="l.k = r.k", window=WINDOW, output=output, schemas=schemas(kind))
    # Key 1 has a value, key 2 has two and NULL beside them, key 3 has only NULL.
    right = kind.batch({"id": [10, 11, 12, 13, 14], "k": [1, 2, 2, 2, 3]}, v=[1, 0, None, 2, None])
    join.push(right=right)
    out = pa.concat_tables([join.push(left=left_batch(kind)), join.finish()])
    equal(kind.read(out["v"]), [kind.canon(one) for one in LEFT], "left columns")
    found = dict(zip(out["k"].to_pylist(), out["x"].combine_chunks().slice(0), strict=True))
    return [found[key].as_py() if name not in ("min", "max") else found[key] for key in (1, 2, 3)]


def count(kind: Kind) -> None:
    equal(aggregated(kind, "count"), [1, 2, 0] if kind.values else [0, 0, 0], "counts")


def extreme(kind: Kind, name: str, second: int) -> None:
    got = [one.as_py() for one in aggregated(kind, name)]
    plain = kind.arrow([1, second, None])
    equal(got, plain.to_pylist(), name)


def least(kind: Kind) -> None:
    extreme(kind, "min", 0)


def largest(kind: Kind) -> None:
    extreme(kind, "max", 2)


def summed(kind: Kind) -> None:
    got = aggregated(kind, "sum")
    one, two, three = (kind.values[kind.canon(number) or 0] for number in range(3))
    with localcontext(prec=80):
        equal(got, [two, one + three, None], "sums")


def mean(kind: Kind) -> None:
    got = aggregated(kind, "mean")
    one, two, three = (Fraction(kind.values[kind.canon(number) or 0]) for number in range(3))
    equal(got, [float(two), float((one + three) / 2), None], "means")


# -- time and order ----------------------------------------------------------------------------------------------------


def order_by(kind: Kind) -> None:
    lefts: Numbers = [2, 0, 1, 0]
    rights: Numbers = [1, 0, 2]
    join = join_of(kind, "l.k = r.k", output="count", select=["l.id", "r.id"])
    out = join.push(left=left_batch(kind, lefts), right=right_batch(kind, rights), order_by="v")
    got = [
        one if one is not None else two
        for one, two in zip(out["id"].to_pylist(), out["id_right"].to_pylist(), strict=True)
    ]
    arrivals = [(kind.canon(v), 0, i) for i, v in zip(LEFT_IDS, lefts, strict=False)]
    arrivals += [(kind.canon(v), 1, i) for i, v in zip(RIGHT_IDS, rights, strict=False)]
    if not kind.values:
        msg = "rows without a value were ordered"
        raise WrongError(msg)
    equal(got, [one[2] for one in sorted(arrivals, key=lambda one: one[:2])], "arrival order")


def event_time(kind: Kind) -> None:
    lateness = 1000 if isinstance(kind.length, int) else "1000 days"
    window = sj.TimeWindow(kind.length, on="v", lateness=lateness)
    run(kind, "l.id < r.id", by_value, window=window)


def late_rows(kind: Kind) -> None:
    schema = kind.schema("t", "k")
    window = sj.TimeWindow(5, on="t")
    join = sj.StreamJoin(on="l.k = r.k", window=window, late="emit", schemas=(schema, schema))
    new = kind.batch({"t": [100, 100], "k": [1, 2]}, v=[0, None])
    late = kind.batch({"t": [1, 2, 3, 4], "k": [1, 2, 3, 4]}, v=[2, None, 1, 0])
    join.push(left=new, right=new)
    join.push(left=late, right=late)
    rows = join.late_rows()
    for table in rows:
        equal(table.schema.field("v").type, kind.type, "type")
        equal(kind.read(table["v"]), [kind.canon(one) for one in (2, None, 1, 0)], "late rows")


# -- outputs -----------------------------------------------------------------------------------------------------------


def selected(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    run(kind, on, hold)
    join = join_of(kind, on, select=["r.v", "l.id", "r.id"])
    out = pa.concat_tables([join.push(left=left_batch(kind)), join.push(right=right_batch(kind))])
    expected = pairs_of(kind, hold)
    equal(sorted(zip(out["id"].to_pylist(), out["id_right"].to_pylist(), strict=True)), sorted(expected), "pairs")
    wanted = [kind.canon(RIGHT[RIGHT_IDS.index(one)]) for one in out["id_right"].to_pylist()]
    equal(kind.read(out["v_right"]), wanted, "a selected column")


def counted(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    join = join_of(kind, on, output="count")
    join.push(left=left_batch(kind))
    out = join.push(right=right_batch(kind))
    expected = pairs_of(kind, hold)
    equal(out["match_count"].to_pylist(), [sum(two == one for _, two in expected) for one in RIGHT_IDS], "counts")
    equal(kind.read(out["v_right"]), [kind.canon(one) for one in RIGHT], "column v_right")
    equal(kind.read(out["v"]), [None] * 4, "column v")


def positions(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    join = join_of(kind, on, output="positions")
    join.push(left=left_batch(kind))
    out = join.push(right=right_batch(kind))
    got = sorted(zip(out["left"].to_pylist(), (10 + one for one in out["right"].to_pylist()), strict=True))
    equal(got, sorted(pairs_of(kind, hold)), "positions")


def self_join(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    join = join_of(kind, on, self_join=True)
    out = join.push(left_batch(kind))
    expected = [
        (i, j)
        for i in LEFT_IDS
        for j in LEFT_IDS
        if i != j and hold(LEFT_KEYS[i], LEFT_KEYS[j], kind.canon(LEFT[i]), kind.canon(LEFT[j]))
    ]
    equal(sorted(zip(out["id"].to_pylist(), out["id_right"].to_pylist(), strict=True)), sorted(expected), "pairs")
    equal(kind.read(out["v_right"]), [kind.canon(LEFT[one]) for one in out["id_right"].to_pylist()], "column v_right")


def outer(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    join = join_of(kind, on, how="full")
    some = [0, 1, None]
    tables = [join.push(left=left_batch(kind)), join.push(right=right_batch(kind, some)), join.finish()]
    pairs = pairs_of(kind, hold, right=some)
    expected: list[Any] = list(pairs)
    expected += [(one, None) for one in LEFT_IDS if one not in [left for left, _ in pairs]]
    expected += [(None, one) for one in RIGHT_IDS[:3] if one not in [right for _, right in pairs]]
    out = pa.concat_tables(tables)
    got = list(zip(out["id"].to_pylist(), out["id_right"].to_pylist(), strict=True))
    equal(sorted(got, key=str), sorted(expected, key=str), "rows")
    check_values(kind, out, some)


def check_values(kind: Kind, out: pa.Table, right: Numbers) -> None:
    for name, ids, of_rows, numbers in (("v", "id", LEFT_IDS, LEFT), ("v_right", "id_right", RIGHT_IDS, right)):
        wanted = [None if one is None else kind.canon(numbers[of_rows.index(one)]) for one in out[ids].to_pylist()]
        equal(kind.read(out[name]), wanted, f"column {name}")


def anti(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    for how, wanted in (("left_semi", True), ("left_anti", False)):
        join = join_of(kind, on, how=how)
        some = [0, 1]
        out = pa.concat_tables(
            [join.push(left=left_batch(kind)), join.push(right=right_batch(kind, some)), join.finish()]
        )
        matched = {left for left, _ in pairs_of(kind, hold, right=some)}
        equal(sorted(out["id"].to_pylist()), [one for one in LEFT_IDS if (one in matched) == wanted], how)
        equal(kind.read(out["v"]), [kind.canon(LEFT[one]) for one in out["id"].to_pylist()], "column v")


def iterated(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    join = join_of(kind, on)
    tables = list(join.push_iter(left=left_batch(kind), right=right_batch(kind)))
    check(kind, pa.concat_tables(tables), pairs_of(kind, hold))


def without_schemas(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    join = sj.StreamJoin(on=on, window=WINDOW)
    join.push(left=left_batch(kind))
    check(kind, join.push(right=right_batch(kind)), pairs_of(kind, hold))


def restored(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    for join in (join_of(kind, on), sj.StreamJoin(on=on, window=WINDOW)):
        join.push(left=left_batch(kind))
        again = sj.StreamJoin.restore(join.snapshot())
        check(kind, again.push(right=right_batch(kind)), pairs_of(kind, hold))


def limited(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    join = join_of(kind, on, memory_limit=1 << 24)
    tables = [join.push(left=left_batch(kind)), join.push(right=right_batch(kind))]
    check(kind, pa.concat_tables(tables), pairs_of(kind, hold))
    small = join_of(kind, on, memory_limit=1)
    try:
        small.push(left=left_batch(kind))
    except sj.MemoryLimitError:
        return
    msg = "one byte of memory was enough"
    raise WrongError(msg)


def expired(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    """A window that slides over many small pushes."""
    join = join_of(kind, on, window=sj.CountWindow(3))
    for _ in range(4):
        join.push(left=left_batch(kind))
    out = join.push(right=right_batch(kind))
    expected = [(one, two) for one, two in pairs_of(kind, hold) if one >= 2]
    check(kind, out, expected)


def sliced(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    """Slices that do not begin at a byte's first bit, in several chunks, an empty one among them."""
    if kind.frame == "arrow":
        padded = pa.chunked_array(
            [kind.column([1, 0, *LEFT[:3]]).slice(2), kind.column([]), kind.column([0, *LEFT[3:]]).slice(1)]
        )
        left = pa.table({"id": LEFT_IDS, "k": LEFT_KEYS, "v": padded})
        right = pa.table({"id": RIGHT_IDS, "k": RIGHT_KEYS, "v": kind.column([2, *RIGHT, 0]).slice(1, 4)})
    else:
        left, right = left_batch(kind)[0:5], right_batch(kind)[0:4]
    join = join_of(kind, on)
    join.push(left=left)
    check(kind, join.push(right=right), pairs_of(kind, hold))
    join = join_of(kind, on)
    join.push(right=right)
    check(kind, join.push(left=left), pairs_of(kind, hold))


def empty(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    join = join_of(kind, on)
    join.push(left=left_batch(kind, []), right=right_batch(kind, []))
    join.push(left=left_batch(kind))
    check(kind, join.push(left=left_batch(kind, []), right=right_batch(kind)), pairs_of(kind, hold))


def all_null(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    lefts, rights = [None] * 5, [None] * 4
    join = join_of(kind, on)
    join.push(left=left_batch(kind, lefts))
    out = join.push(right=right_batch(kind, rights))
    check(kind, out, pairs_of(kind, hold, lefts, rights), lefts, rights)


def shed(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    del hold  # every key is there once on each side
    for policy in ("random", "oldest", "least_likely"):
        schema = kind.schema("id", "k")
        select = ["l.id", "r.id", "l.v", "r.v"]
        join = sj.StreamJoin(
            on=f"{on} AND l.id = r.id", window=sj.CountWindow(2 * SHED), schemas=(schema, schema), select=select
        )
        feed = sj.Feed(join, capacity=SHED, overload="shed", shed=policy, seed=1)
        numbers: Numbers = [0, 1, 2] * (SHED // 3)
        batch = kind.batch({"id": list(range(SHED)), "k": numbers}, v=numbers)
        feed.put(left=batch, right=batch)
        feed.close()
        tables = list(feed)
        dropped = feed.stats.dropped_left + feed.stats.dropped_right
        equal(dropped, SHED, f"rows dropped by {policy}")
        out = pa.concat_tables(tables) if tables else None
        for name in ("v", "v_right") if out is not None else ():
            assert out is not None
            equal(kind.read(out[name]), [kind.canon(one % 3) for one in out["id"].to_pylist()], f"column {name}")


def fed(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    feed = sj.Feed(join_of(kind, on))
    feed.put(left=left_batch(kind))
    feed.put(right=right_batch(kind))
    feed.close()
    tables = list(feed)
    equal(bool(tables), bool(pairs_of(kind, hold)), "results")
    if tables:
        check(kind, pa.concat_tables(tables), pairs_of(kind, hold))


def many(kind: Kind, on: str = "l.k = r.k", hold: Any = by_key) -> None:
    windows = dict.fromkeys("lrx", sj.CountWindow(100))
    schema, third = kind.schema("id", "k"), pa.schema([("x", pa.int64())])
    for output in ("pairs", "count"):
        join = sj.MultiJoin(
            windows, on=f"{on} AND x.x = r.id - 10", output=output, schemas={"l": schema, "r": schema, "x": third}
        )
        join.push(l=left_batch(kind), r=right_batch(kind))
        out = join.push(x={"x": [0, 1, 2, 3]})
        expected = pairs_of(kind, hold)
        if output == "count":
            equal(
                out["match_count"].to_pylist(), [sum(two == one for _, two in expected) for one in RIGHT_IDS], "counts"
            )
            continue
        out = out.rename_columns([{"id_r": "id_right", "v_r": "v_right"}.get(name, name) for name in out.column_names])
        check(kind, out, expected)
        again = sj.MultiJoin.restore(join.snapshot())
        equal(again.push(x={"x": [0, 1, 2, 3]}).num_rows, len(expected), "rows after a restart")


def beside_plain(kind: Kind) -> None:
    """Against the same values of the type without dictionary, view or runs."""
    if kind.plain is None:
        return
    values = [None if one is None else kind.values[kind.canon(one) or 0] for one in RIGHT]
    right = pa.table({"id": RIGHT_IDS, "v": pa.array(values, kind.plain)})
    join = sj.StreamJoin(on="l.v = r.v", window=WINDOW, schemas=(kind.schema("id", "k"), right.schema))
    join.push(left=left_batch(kind))
    out = join.push(right=right)
    got = sorted(zip(out["id"].to_pylist(), out["id_right"].to_pylist(), strict=True))
    equal(got, sorted(pairs_of(kind, by_value)), "pairs")


# -- the table ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Use:
    """A use, the column of the page that it belongs to, and its program."""

    name: str
    page: str
    run: Callable[[Kind], None]


@cache
def _is_key(kind: Kind) -> bool:
    try:
        join_of(kind, "l.v = r.v")
    except sj.PredicateError:
        return False
    return True


def _by_any_key(run_: Any) -> Any:
    """A use of joins by the column itself where it can be a key, by another column where it cannot."""
    return lambda kind: run_(kind, "l.v = r.v", by_value) if _is_key(kind) else run_(kind)


ROWS = {
    "selected": selected,
    "count output": counted,
    "positions output": positions,
    "self-join": self_join,
    "outer join": outer,
    "semi and anti join": anti,
    "push_iter": iterated,
    "without schemas": without_schemas,
    "restore": restored,
    "memory_limit": limited,
    "expiry": expired,
    "slices": sliced,
    "empty batches": empty,
    "all NULL": all_null,
    "shedding": shed,
    "Feed": fed,
    "MultiJoin": many,
}

USES = [
    *(Use(name, "output", _by_any_key(run_)) for name, run_ in ROWS.items()),
    Use("late rows", "output", late_rows),
    Use("nearest rows of", "output", nearest_payload),
    Use("IS NULL", "output", is_null),
    Use("=", "=", equality),
    Use("<>", "=", inequality),
    Use("IS NOT DISTINCT FROM", "=", distinct),
    Use("constant", "constant", constant),
    Use("beside plain", "=", beside_plain),
    Use("<", "<", order),
    Use("BETWEEN", "<", band),
    Use("+", "+", arithmetic),
    Use("function", "function", function),
    Use("nearest", "Nearest", nearest),
    Use("count", "count", count),
    Use("min", "min, max", least),
    Use("max", "min, max", largest),
    Use("sum", "sum", summed),
    Use("mean", "mean", mean),
    Use("order_by", "order_by", order_by),
    Use("event time", "event time", event_time),
]


@dataclass(frozen=True)
class Outcome:
    """What a use of a kind comes to: it works, is refused with a message, or fails."""

    works: bool
    message: str = ""
    error: str = ""


@cache
def _outcome(use: int, kind: Kind) -> Outcome:
    try:
        USES[use].run(kind)
    except SlideJoinError as error:
        return Outcome(False, str(error), type(error).__name__)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no refusal
        return Outcome(False, f"{type(error).__name__}: {error}", "failure")
    return Outcome(True)


def outcome_of(use: Use, kind: Kind) -> Outcome:
    """Run a use of a kind."""
    return _outcome(USES.index(use), kind)
