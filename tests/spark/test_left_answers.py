"""Nearest matches and aggregates of buckets, micro-batch by micro-batch, are the law's, whatever the layout."""

from __future__ import annotations

import copy
import random
import shutil
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import StateError
from slidejoin.spark.bucket.left_answers import answered as put_together
from tests.oracle import Aggregates, CountScope, Instant, Nearest, Oracle, TimeScope
from tests.spark.feeds import SECOND, Row, oracle_row
from tests.spark.stores import Query, apply_changes, changes, wire
from tests.spark.test_join_types import CASES, LATENESS, LEFT_LENGTH, RIGHT_LENGTH, Batch, indexes, streams

if TYPE_CHECKING:
    from pathlib import Path

Layout = tuple[str, int, int]
SCATTERED: list[Layout] = [("grid", 5, 1), ("hash", 5, 2), ("cell", 5, 2), ("split", 3, 1), ("sub_windows", 3, 1)]
LAYOUTS: list[Layout] = [("hash", 3, 1), ("cell", 3, 1), ("broadcast", 3, 1), ("grid", 1, 1), *SCATTERED]
"""Strategy, number of buckets, spread. Those of `SCATTERED` find a row's partners in several buckets."""

FUNCTIONS = {
    "n": "count",
    "xs": "count(r.x)",
    "total": "sum(r.x)",
    "low": "min(r.name)",
    "last": "max(r.ts)",
    "mean": "mean(r.x)",
}
AGGREGATES = Aggregates(
    {"n": ("count", None), "xs": ("count", "x"), "total": ("sum", "x"), "low": ("min", "name"), "last": ("max", "ts"),
     "mean": ("mean", "x")}
)  # fmt: skip
SCOPE = TimeScope(LEFT_LENGTH * SECOND * 1000, RIGHT_LENGTH * SECOND * 1000, "ts", "ts")

Answer = tuple[Any, ...]


@st.composite
def rules(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a join is asked for, as slidejoin and as the law take it."""
    if draw(st.booleans()):
        return {"output": sj.Aggregate(**FUNCTIONS)}, {"aggregates": AGGREGATES}
    column = draw(st.sampled_from(["ts", "ts", "x", "id"]))
    direction, k = draw(st.sampled_from(["backward", "forward", "nearest"])), draw(st.sampled_from([1, 1, 2, 9]))
    how = draw(st.sampled_from(["inner", "left"]))
    keep = sj.Nearest(f"l.{column}", f"r.{column}", direction, k)
    return {"keep": keep, "how": how}, {"keep": Nearest(column, column, direction, k), "how": how}


def plain(value: Any) -> Any:
    """A value of either kind of row: NULL is None, a time its microseconds, a number that is whole an int."""
    if value is None or value != value or str(value) == "<NA>":
        return None
    if isinstance(value, Instant):
        return value.ns // 1000
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1e6)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def told(rows: list[dict[str, Any]]) -> list[Answer]:
    names = list(FUNCTIONS) if rows and "n" in rows[0] else ["id_right"]
    return sorted((tuple(plain(row.get(name)) for name in ("id", *names, "match_time")) for row in rows), key=repr)


def law(oracle: Oracle, batch: Batch, low: int | None, order_by: str | None = None) -> list[Answer]:
    """The rows of the next micro-batch; those of one event time arrive by their values, of which the id comes first."""
    given_rows: dict[str, list[Row]] = batch or {}
    rows = {
        side: [oracle_row(row) for row in sorted(given_rows.get(side, []), key=lambda row: row[0])]
        for side in ("left", "right")
    }
    found = []
    for left, right in oracle.micro_batch(rows["left"], rows["right"], low, order_by):
        assert left is not None
        over = None if order_by else left["ts"].ns // 1000 + LEFT_LENGTH * SECOND
        values = [right and right["id"]] if oracle.keep is not None else [(right or {})[name] for name in FUNCTIONS]
        found.append((left["id"], *map(plain, values), over))
    return sorted(found, key=repr)


def wired(cache: Path, layout: Layout, **options: Any) -> Any:
    window = options.pop("window", None) or sj.TimeWindow(
        left=f"{LEFT_LENGTH} seconds", right=f"{RIGHT_LENGTH} seconds", on="ts"
    )
    return wire(cache, CASES[layout[0]][0], window, *layout, **options)


def step(query: Query, batch: Batch) -> list[Answer]:
    query.rows = []
    query.idle() if batch is None else query.micro_batch(batch)
    return told(query.rows)


def at(query: Query, watermark_ms: int, batch: Batch = None) -> list[Answer]:
    query.clock.sides = dict.fromkeys(("left", "right"), watermark_ms * 1000)
    query.clock.value = watermark_ms * 1000
    return step(query, batch)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@given(
    batches=streams(),
    rule=rules(),
    self_join=st.booleans(),
    one_store=st.booleans(),
    restart=st.integers(0, 7),
    algorithm=indexes,
)
@settings(max_examples=8)
def test_agrees_with_the_law(
    tmp_path_factory: pytest.TempPathFactory,
    layout: Layout,
    batches: list[Batch],
    rule: tuple[dict[str, Any], dict[str, Any]],
    self_join: bool,
    one_store: bool,
    restart: int,
    algorithm: str,
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    spec = wired(cache, layout, self_join=self_join, algorithm=algorithm, **rule[0])
    query = Query(spec, LATENESS * SECOND, one_store=one_store)
    query.mixes = True
    if self_join:
        batches = [None if batch is None else {"left": batch["left"]} for batch in batches]
    oracle, clock = Oracle(CASES[layout[0]][1], SCOPE, self_join=self_join, **rule[1]), copy.deepcopy(query.clock)
    for number, batch in enumerate(batches):
        if number == restart:
            shutil.rmtree(cache, ignore_errors=True)
        low = None if clock.watermark is None else clock.watermark * 1000
        assert step(query, batch) == law(oracle, batch, low)
        if batch is not None:
            clock.advance(batch)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@given(
    batches=streams(),
    rule=rules(),
    self_join=st.booleans(),
    left=st.integers(1, 5),
    right=st.integers(1, 5),
    slide=st.sampled_from([1, 1, 2]),
    algorithm=indexes,
)
@settings(max_examples=8)
def test_count_windows_agree_with_the_law(
    tmp_path_factory: pytest.TempPathFactory,
    layout: Layout,
    batches: list[Batch],
    rule: tuple[dict[str, Any], dict[str, Any]],
    self_join: bool,
    left: int,
    right: int,
    slide: int,
    algorithm: str,
) -> None:
    slide = min(slide, left, right)
    window = sj.CountWindow(left=left, right=right, slide=slide)
    options = {"self_join": self_join, "window": window, "order_by": "id", "algorithm": algorithm}
    query = Query(wired(tmp_path_factory.mktemp("cache"), layout, **options, **rule[0]), tasks=2)
    oracle = Oracle(CASES[layout[0]][1], CountScope(left, right, slide), self_join=self_join, **rule[1])
    for batch in batches:
        # Ids in any order, so that rows of both sides arrive among each other.
        mixed = None
        if batch is not None:
            sides = ("left",) if self_join else ("left", "right")
            mixed = {side: [(row[0] * 37 % 101, *row[1:]) for row in batch[side]] for side in sides}
        assert step(query, mixed) == law(oracle, mixed, None, "id")


@pytest.mark.parametrize("layout", [("cell", 2, 1), ("cell", 5, 2)], ids=str)
def test_changes_of_different_attempts_fit_together(tmp_path: Path, layout: Layout) -> None:
    """The state of one attempt, to which later changes of another are applied, answers the same left rows alike."""
    draw, oracle = random.Random(3), Oracle(CASES["cell"][1], SCOPE, "left", keep=Nearest("ts", "ts", "nearest", 2))
    query = Query(
        wired(tmp_path, layout, keep=sj.Nearest("l.ts", "r.ts", "nearest", k=2), how="left"), LATENESS * SECOND
    )
    checkpoint, answered = copy.deepcopy(query.state), 0
    for number in range(9):
        batch: dict[str, list[Row]] = {"left": [], "right": []}
        for place in range(24):
            row: Row = (number * 40 + place, draw.randrange(5), draw.choice("ab"), (number * 3 + place % 3) * SECOND)
            batch["left" if place % 2 else "right"].append(row)
        low = None if query.clock.watermark is None else query.clock.watermark * 1000
        expected = law(oracle, batch, low)
        answered += len(expected)
        if number in {3, 6}:
            query.state = copy.deepcopy(checkpoint)
            shutil.rmtree(tmp_path)
        attempts = [copy.deepcopy(query), copy.deepcopy(query)]
        for one in attempts:
            one.mixes = True
            assert step(one, batch) == expected
        # What counts on the node is not what the checkpoint has, every second time.
        for bucket, after in attempts[number % 2].state.items():
            apply_changes(changes(query.state[bucket].store, after.store), checkpoint[bucket].store)
        query = attempts[0]
    assert answered > 20


@pytest.mark.parametrize("output", [{"keep": sj.Nearest("l.ts", "r.ts")}, {"output": sj.Aggregate(n="count")}], ids=str)
def test_static_frames_are_answered_at_their_end(tmp_path: Path, output: dict[str, Any]) -> None:
    query = Query(wired(tmp_path, ("hash", 2, 1), streaming=False, **output))
    left: list[Row] = [(1, 1, "ann", SECOND), (2, 1, "ann", 90 * SECOND), (3, None, "ann", SECOND)]
    query.micro_batch({"left": left, "right": [(11, 1, "bob", 0), (12, 1, "bob", SECOND), (13, 1, "bob", 2 * SECOND)]})
    if "keep" in output:
        assert [(row["id"], row["id_right"]) for row in query.rows] == [(1, 12)]
    else:
        assert sorted((row["id"], row["n"]) for row in query.rows) == [(1, 3), (2, 0), (3, 0)]


@pytest.mark.parametrize("idle", [True, False])
def test_a_left_row_is_answered_as_soon_as_the_watermark_has_passed_its_length(tmp_path: Path, idle: bool) -> None:
    query = Query(wired(tmp_path, ("hash", 1, 1), keep=sj.Nearest("l.ts", "r.ts", "forward"), how="left"))
    nothing: Batch = None if idle else {"left": [], "right": []}
    query.micro_batch(
        {"left": [(1, 1, "ann", SECOND), (2, 1, "ann", SECOND + 1)], "right": [(11, 1, "bob", 2 * SECOND)]}
    )
    assert query.rows == []
    end = 1000 + LEFT_LENGTH * 1000
    assert at(query, end, nothing) == []
    query.rows = []
    shutil.rmtree(tmp_path)
    assert [row[:2] for row in at(query, end + 1, nothing)] == [(1, 11), (2, 11)]
    assert at(query, end + 9999, nothing) == []
    assert query.state[0].timers.kept == {}
    assert at(query, 100_000, {"left": [], "right": []}) == []
    assert query.state[0].segments.kept == {}


def test_right_rows_stay_as_long_as_a_left_row_may_meet_them(tmp_path: Path) -> None:
    """Longer than in other joins, where a right row that the watermark has passed by its length meets no new row."""
    query = Query(wired(tmp_path, ("hash", 1, 1), output=sj.Aggregate(n="count")))
    query.micro_batch({"left": [(1, 1, "ann", 12 * SECOND)], "right": []})
    query.micro_batch({"left": [], "right": [(11, 1, "bob", 9 * SECOND), (12, 1, "bob", 8 * SECOND)]})
    for watermark in range(10, 19):
        assert at(query, watermark * 1000, {"left": [(watermark, 1, "bob", 40 * SECOND)], "right": []}) == []
    at(query, 18_001)
    assert [(row["id"], row["n"]) for row in query.rows] == [(1, 1)]


@pytest.mark.parametrize("layout", [("hash", 3, 1), ("hash", 5, 2)], ids=str)
def test_nearest_of_rows_at_one_time_are_decided_by_their_values(tmp_path: Path, layout: Layout) -> None:
    """Not by the order in which blocks come, which is another one if a micro-batch is run again."""
    right: list[Row] = [(number, 1, "bob", SECOND) for number in range(11, 19)]
    for turn in range(4):
        query = Query(wired(tmp_path / str(turn), layout, keep=sj.Nearest("l.ts", "r.ts")), tasks=3)
        query.mixes = True
        query.micro_batch({"left": [(1, 1, "ann", 2 * SECOND)], "right": right[turn:] + right[:turn]})
        assert [row[:2] for row in at(query, 100_000)] == [(1, 18)]


@pytest.mark.parametrize("layout", [("hash", 3, 1), ("hash", 5, 2)], ids=str)
def test_state_stays_bounded(tmp_path: Path, layout: Layout) -> None:
    """Through ten lengths of the window, whose segments are merged: values of the state, rows, timers."""
    query = Query(wired(tmp_path, layout, keep=sj.Nearest("l.ts", "r.ts"), how="left"))
    most, answered = [0, 0, 0], 0
    for second in range(1, 60):
        rows: list[Row] = [(second, second % 4, "ann", second * SECOND), (-second, 3, "bob", second * SECOND)]
        query.micro_batch({"left": rows, "right": rows[:1] if second % 7 else []})
        kept = [(len(one.segments.kept), len(one.timers.kept)) for one in query.state.values()]
        window = max(told["window_left"] + told["window_right"] for told in query.figures[-len(query.state) :])
        most = [max(pair) for pair in zip(most, (*map(max, zip(*kept, strict=True)), window), strict=True)]
        answered += len(query.rows)
        query.rows = []
    assert most[0] <= 2 * 2 * 4, most
    assert most[1] <= 1
    assert most[2] <= 40
    assert answered == 2 * (58 - LEFT_LENGTH - 1)
    assert sum(told["unmatched"] for told in query.figures) > 20


@pytest.mark.parametrize(
    ("select", "names"), [(["l.id", "r.id"], ["id", "id_right"]), (["r.name", "l.id"], ["name_right", "id"])], ids=str
)
def test_columns_that_are_not_output_decide_in_several_buckets_too(
    tmp_path: Path, select: list[str], names: list[str]
) -> None:
    """The values of nearest matches, and by what right rows arrived."""
    right: list[Row] = [(number, number % 3 + 2, "abcdefg"[number % 7], SECOND) for number in range(11, 41)]
    left: list[Row] = [(number, 1, None, 2 * SECOND) for number in range(6)]
    found = {}
    for buckets in (1, 7):
        spec = wired(tmp_path / str(buckets), ("grid", buckets, 1), keep=sj.Nearest("l.ts", "r.ts", k=3), select=select)
        assert spec.scattered == (buckets > 1)
        query = Query(spec, tasks=2)
        query.micro_batch({"left": left, "right": right})
        at(query, 100_000)
        assert list(query.rows[0]) == [*names, "match_time"]
        found[buckets] = sorted(tuple(row.values()) for row in query.rows)
    assert len(found[1]) == 18
    assert found[7] == found[1]


def test_sums_of_several_buckets_are_exact(tmp_path: Path) -> None:
    """Also where that of one bucket has no room in its type; the sum of all is an error if it has none."""
    most, window = 2**63 - 1, sj.TimeWindow("10 seconds", on="ts")
    values = [most - number for number in range(8)] + [number - most for number in range(8)]
    right: list[Row] = [(value, 4 + place, "bob", SECOND) for place, value in enumerate(values)]
    spec = wire(tmp_path, "l.x < r.x", window, "grid", 5, output=sj.Aggregate(total="sum(r.id)"))
    query = Query(spec)
    query.micro_batch({"left": [(1, 1, "ann", SECOND)], "right": right})
    at(query, 100_000)
    assert [row["total"] for row in query.rows] == [0]
    query = Query(spec)
    query.micro_batch({"left": [(1, 1, "ann", SECOND)], "right": right[:8]})
    message = f"total=sum\\(r.id\\) of a left row is {sum(values[:8])}, which does not fit its type"
    with pytest.raises(sj.AggregateOverflowError, match=message):
        at(query, 100_000)


def test_an_answer_without_that_of_its_home_is_lost_state(tmp_path: Path) -> None:
    query = Query(wired(tmp_path, ("grid", 5, 1), output=sj.Aggregate(n="count"), streaming=False))
    right: list[Row] = [(10 + place, 4 + place, "bob", SECOND) for place in range(9)]
    packed = [
        batch.to_pandas()
        for side, rows in (("left", [(1, 1, "ann", SECOND)]), ("right", right))
        for batch in query._packed(side, rows)
    ]
    buckets = pd.concat(packed, ignore_index=True).groupby("bucket")
    frames: list[pd.DataFrame] = [one for key, blocks in buckets for one in query._bucket(int(str(key)), blocks)]
    sent = pd.concat(frames)
    assert set(sent["kind"]) == {0, 1}

    def answers(blocks: pd.DataFrame) -> list[dict[str, Any]]:
        batches = pa.Table.from_pandas(blocks, preserve_index=False).to_batches()
        return [row for part in put_together(query.spec, iter(batches)) for row in part.to_pylist()]

    assert [row["n"] for row in answers(sent)] == [9]
    message = "1 left rows were answered by some of their buckets, but not by that of their home"
    with pytest.raises(StateError, match=message):
        answers(sent[sent["kind"] == 1])


@pytest.mark.parametrize("rule", [{"keep": sj.Nearest("l.ts", "r.ts")}, {"output": sj.Aggregate(n="count")}], ids=str)
def test_no_answers_at_all(tmp_path: Path, rule: dict[str, Any]) -> None:
    spec = wired(tmp_path, ("grid", 5, 1), **rule)
    assert sum(batch.num_rows for batch in put_together(spec, iter(()))) == 0


def test_auto_takes_a_strategy_that_serves(tmp_path: Path) -> None:
    window, keep = sj.TimeWindow("10 seconds", on="ts"), sj.Nearest("l.ts", "r.ts")
    spec = wire(tmp_path, "l.name <> r.name", window, "auto", 9, keep=keep)
    assert spec.strategy.name == "broadcast"
    assert spec.strategy.why.endswith("but broadcast has all partners of a left row in one bucket, for keep=")
    assert wire(tmp_path, "l.x = r.x", window, "auto", 9, keep=keep).strategy.name == "hash"
    # The tolerance and the direction make a band together.
    assert wire(tmp_path, "l.x - r.x <= 5", window, "auto", 9, keep=sj.Nearest("l.x", "r.x")).strategy.name == "cell"


def test_another_rule_is_another_join(tmp_path: Path) -> None:
    query = Query(wired(tmp_path, ("hash", 1, 1), keep=sj.Nearest("l.ts", "r.ts")))
    query.micro_batch({"left": [(1, 1, "ann", SECOND)], "right": []})
    query.spec = wired(tmp_path, ("hash", 1, 1), keep=sj.Nearest("l.ts", "r.ts", k=2))
    with pytest.raises(StateError, match=r'keep was "Nearest.*k=1.*" and is now .*k=2'):
        query.micro_batch({"left": [(2, 1, "ann", SECOND)], "right": []})


@pytest.mark.parametrize(
    "rules",
    [
        ({"keep": sj.Nearest("l.ts", "r.ts")}, {"keep": sj.Nearest("a.ts", "b.ts"), "aliases": ("a", "b")}),
        ({"output": sj.Aggregate(n="sum(r.x)")}, {"output": sj.Aggregate(n="sum(b.x)"), "aliases": ("a", "b")}),
    ],
    ids=["keep", "output"],
)
def test_other_names_for_the_sides_make_no_other_join(tmp_path: Path, rules: tuple[dict[str, Any], ...]) -> None:
    window, found = sj.TimeWindow("10 seconds", on="ts"), []
    for rule in rules:
        one, two = rule.get("aliases", ("l", "r"))
        found.append(wire(tmp_path, f"{one}.x = {two}.x", window, "hash", 1, **rule).described())
    assert found[0] == found[1]


def test_a_sum_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    query = Query(wired(tmp_path, ("hash", 1, 1), output=sj.Aggregate(total="sum(r.id)")))
    most = 2**63 - 1
    query.micro_batch(
        {"left": [(1, 1, "ann", SECOND)], "right": [(most, 1, "bob", SECOND), (most - 1, 1, "bob", SECOND)]}
    )
    with pytest.raises(
        sj.AggregateOverflowError, match=f"total=sum\\(r.id\\) .* is {2 * most - 1}, which does not fit"
    ):
        at(query, 100_000)
