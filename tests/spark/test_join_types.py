"""What buckets output for each join type, micro-batch by micro-batch, is the law's, whatever the layout of buckets."""

from __future__ import annotations

import copy
import random
import shutil
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import StateError
from slidejoin.spark.state.bucket_state import Manifest
from slidejoin.spec.join_options import JoinType
from tests.oracle import CountScope, Oracle, TimeScope
from tests.spark.feeds import SECOND, Row, oracle_row
from tests.spark.stores import Query, apply_changes, changes, wire

if TYPE_CHECKING:
    from pathlib import Path

Batch = dict[str, list[Row]] | None
"""None: a micro-batch that brings no rows, by which Spark advances the watermark."""

L, R = ("col", "left", "x"), ("col", "right", "x")
NAMES = ("<>", ("col", "left", "name"), ("col", "right", "name"))
BAND = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
CASES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "hash": ("l.x = r.x AND l.name <> r.name", ("and", ("=", L, R), NAMES)),
    "cell": ("l.x BETWEEN r.x - 1 AND r.x + 1 AND l.name <> r.name", ("and", BAND, NAMES)),
    "grid": ("l.x < r.x AND r.x <> 2", ("and", ("<", L, R), ("<>", R, ("lit", 2)))),
    "broadcast": ("l.x < r.x AND l.x <> 1", ("and", ("<", L, R), ("<>", L, ("lit", 1)))),
}
CASES |= dict.fromkeys(["split", "sub_windows"], CASES["grid"])
LAYOUTS = [
    *[("hash", 3, 1), ("cell", 3, 1), ("broadcast", 3, 1)],
    *[("grid", 5, 1), ("hash", 5, 2), ("cell", 5, 2), ("split", 3, 1), ("sub_windows", 3, 1)],
]
"""Strategy, number of buckets, spread. All but the first three find a row's partners in several buckets."""
SCATTERED = LAYOUTS[3:]
HOWS = [how for how in get_args(JoinType) if how != "inner"]
INDEXES = sorted({*sj.algorithms()} - {"auto", "hash", "band_cells"})
"""Indexes that answer any predicate."""
LEFT_LENGTH, RIGHT_LENGTH, LATENESS = 6, 3, 2
"""Seconds."""

indexes = st.just("auto") | st.sampled_from(INDEXES)

cells = st.tuples(st.none() | st.integers(0, 4), st.sampled_from(["ann", "bob", None]), st.none() | st.integers(-12, 2))


@st.composite
def streams(draw: st.DrawFn) -> list[Batch]:
    batches: list[Batch] = []
    number = 0
    for batch in range(draw(st.integers(1, 7))):
        if draw(st.integers(0, 3)) == 0:
            batches.append(None)
            continue
        sides: dict[str, list[Row]] = {}
        for side in ("left", "right"):
            found = draw(st.lists(cells, max_size=5))
            sides[side] = [
                (number + place, x, name, None if at is None else (batch * 4 + at) * SECOND)
                for place, (x, name, at) in enumerate(found)
            ]
            number += 10
        batches.append(sides)
    return [*batches, None]


Found = list[tuple[int | None, int | None, int | None]]
"""Ids of the left and the right row, and the match time in microseconds."""


def told(rows: list[dict[str, Any]]) -> Found:
    found = []
    for row in rows:
        ids = [None if one != one or one is None else int(one) for one in (row.get("id"), row.get("id_right"))]
        at = row.get("match_time")
        found.append((ids[0], ids[1], None if at is None else round(at.timestamp() * 1e6)))
    return sorted(found, key=repr)


def law(batches: list[Batch], predicate: tuple[Any, ...], how: str, query: Query, *, self_join: bool) -> list[Found]:
    """The rows of each micro-batch, by the oracle; the watermark is that of a query that has seen the same."""
    scope = TimeScope(LEFT_LENGTH * SECOND * 1000, RIGHT_LENGTH * SECOND * 1000, "ts", "ts")
    oracle, inner = (Oracle(predicate, scope, one, self_join=self_join) for one in (how, "inner"))
    lengths = {"left": LEFT_LENGTH * SECOND, "right": RIGHT_LENGTH * SECOND}
    clock, found = copy.deepcopy(query.clock), []
    for batch in batches:
        sides = {side: [oracle_row(row) for row in (batch or {}).get(side, [])] for side in ("left", "right")}
        low = None if clock.watermark is None else clock.watermark * 1000
        first: dict[int, int] = {}
        for left, right in inner.micro_batch(sides["left"], sides["right"], low):
            assert left is not None
            assert right is not None
            at = max(left["ts"].ns, right["ts"].ns) // 1000
            first[left["id"]] = min(first.get(left["id"], at), at)
        rows: Found = []
        for left, right in oracle.micro_batch(sides["left"], sides["right"], low):
            ids = (left and left["id"], right and right["id"])
            times = [one["ts"].ns // 1000 for one in (left, right) if one]
            if len(times) == 2:
                at = max(times)
            elif how == "left_semi":
                at = first[ids[0]]
            else:
                at = times[0] + lengths["left" if left else "right"]
            rows.append((*ids, at))
        found.append(sorted(rows, key=repr))
        if batch is not None:
            clock.advance(batch)
    return found


def wired(cache: Path, strategy: str, partitions: int, spread: int, how: str, **options: Any) -> Any:
    window = options.pop("window", None) or sj.TimeWindow(
        left=f"{LEFT_LENGTH} seconds", right=f"{RIGHT_LENGTH} seconds", on="ts"
    )
    on = options.pop("on", CASES[strategy][0])
    return wire(cache, on, window, strategy, partitions, spread, how=how, **options)


def step(query: Query, batch: Batch) -> Found:
    query.rows = []
    query.idle() if batch is None else query.micro_batch(batch)
    return told(query.rows)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@given(
    batches=streams(),
    how=st.sampled_from(HOWS),
    self_join=st.booleans(),
    one_store=st.booleans(),
    restart=st.integers(0, 7),
    algorithm=indexes,
)
@settings(max_examples=8)
def test_agrees_with_the_law(
    tmp_path_factory: pytest.TempPathFactory,
    layout: tuple[str, int, int],
    batches: list[Batch],
    how: str,
    self_join: bool,
    one_store: bool,
    restart: int,
    algorithm: str,
) -> None:
    check_law(tmp_path_factory.mktemp("cache"), layout, batches, how, self_join, one_store, restart, algorithm)


@pytest.mark.parametrize("layout", SCATTERED, ids=str)
@given(batches=streams(), self_join=st.booleans(), one_store=st.booleans(), restart=st.integers(0, 7))
@settings(max_examples=12)
def test_semi_joins_of_several_buckets_output_a_row_once(
    tmp_path_factory: pytest.TempPathFactory,
    layout: tuple[str, int, int],
    batches: list[Batch],
    self_join: bool,
    one_store: bool,
    restart: int,
) -> None:
    """Several buckets find partners of a row, in one micro-batch or one after the other."""
    check_law(tmp_path_factory.mktemp("cache"), layout, batches, "left_semi", self_join, one_store, restart)


def check_law(
    cache: Path,
    layout: tuple[str, int, int],
    batches: list[Batch],
    how: str,
    self_join: bool,
    one_store: bool,
    restart: int,
    algorithm: str = "auto",
) -> None:
    spec = wired(cache, *layout, how, self_join=self_join, algorithm=algorithm)
    if self_join:
        batches = [None if batch is None else {"left": batch["left"]} for batch in batches]
    query = Query(spec, LATENESS * SECOND, one_store=one_store)
    query.mixes = True
    expected = law(batches, CASES[spec.strategy.name][1], how, query, self_join=self_join)
    for number, (batch, rows) in enumerate(zip(batches, expected, strict=True)):
        if number == restart:
            shutil.rmtree(cache, ignore_errors=True)
        assert step(query, batch) == rows


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@given(
    batches=streams(),
    how=st.sampled_from(HOWS),
    self_join=st.booleans(),
    left=st.integers(1, 5),
    right=st.integers(1, 5),
    slide=st.sampled_from([1, 1, 2]),
    algorithm=indexes,
)
@settings(max_examples=8)
def test_count_windows_agree_with_the_law(
    tmp_path_factory: pytest.TempPathFactory,
    layout: tuple[str, int, int],
    batches: list[Batch],
    how: str,
    self_join: bool,
    left: int,
    right: int,
    slide: int,
    algorithm: str,
) -> None:
    slide = min(slide, left, right)
    window = sj.CountWindow(left=left, right=right, slide=slide)
    options = {"self_join": self_join, "window": window, "order_by": "id", "algorithm": algorithm}
    spec = wired(tmp_path_factory.mktemp("cache"), *layout, how, **options)
    query, oracle = (
        Query(spec, tasks=2),
        Oracle(CASES[spec.strategy.name][1], CountScope(left, right, slide), how, self_join=self_join),
    )
    for batch in batches:
        # Ids in any order, so that rows of both sides arrive among each other.
        mixed = None
        if batch is not None:
            sides = ("left",) if self_join else ("left", "right")
            mixed = {side: [(row[0] * 37 % 101, *row[1:]) for row in batch[side]] for side in sides}
        rows = {side: [oracle_row(row) for row in (mixed or {}).get(side, [])] for side in ("left", "right")}
        found = oracle.micro_batch(rows["left"], rows["right"], None, "id")
        expected = sorted(((one and one["id"], two and two["id"], None) for one, two in found), key=repr)
        assert step(query, mixed) == expected


@pytest.mark.parametrize(
    ("how", "layout"),
    [("full", ("cell", 2, 1)), ("left_semi", ("cell", 2, 1)), ("left_semi", ("grid", 3, 1))],
    ids=["full", "semi", "semi in several buckets"],
)
def test_changes_of_different_attempts_fit_together(tmp_path: Path, how: str, layout: tuple[str, int, int]) -> None:
    """The state of one attempt, to which later changes of another are applied, has the same bits for the same rows."""
    draw = random.Random(how)
    spec = wired(tmp_path, *layout, how)
    query = Query(spec, LATENESS * SECOND)
    batches: list[Batch] = []
    for number in range(8):
        batch: dict[str, list[Row]] = {"left": [], "right": []}
        for place in range(24):
            row: Row = (number * 40 + place, draw.randrange(5), draw.choice("ab"), (number * 3 + place % 3) * SECOND)
            batch["left" if place % 2 else "right"].append(row)
        batches.append(batch)
    expected = law(batches, CASES[layout[0]][1], how, query, self_join=False)
    checkpoint = copy.deepcopy((query.state, query.homes))
    for number, (given_rows, rows) in enumerate(zip(batches, expected, strict=True)):
        if number in {3, 6}:
            query.state, query.homes = copy.deepcopy(checkpoint)
            shutil.rmtree(tmp_path)
        attempts = [copy.deepcopy(query), copy.deepcopy(query)]
        for one in attempts:
            one.mixes = True
            assert step(one, given_rows) == rows
        # What counts on the node is not what the checkpoint has, every second time.
        chosen = attempts[number % 2]
        for before, kept, after in zip(
            (query.state, query.homes), checkpoint, (chosen.state, chosen.homes), strict=True
        ):
            for bucket, its in after.items():
                apply_changes(changes(before[bucket].store, its.store), kept[bucket].store)
        query = attempts[0]


def at(query: Query, watermark_ms: int, batch: Batch = None) -> Found:
    query.clock.sides = dict.fromkeys(("left", "right"), watermark_ms * 1000)
    query.clock.value = watermark_ms * 1000
    return step(query, batch)


@pytest.mark.parametrize("idle", [True, False])
def test_a_row_is_output_as_soon_as_the_watermark_has_passed_its_length(tmp_path: Path, idle: bool) -> None:
    query = Query(wired(tmp_path, "hash", 1, 1, "left"))
    nothing: Batch = None if idle else {"left": [], "right": []}
    query.micro_batch({"left": [(1, 1, "ann", SECOND), (2, 1, "ann", SECOND + 1)], "right": []})
    end = 1000 + LEFT_LENGTH * 1000
    assert at(query, end, nothing) == []
    assert at(query, end + 1, nothing) == [(1, None, end * 1000), (2, None, end * 1000 + 1)]
    assert at(query, end + 9999, nothing) == []
    assert query.state[0].timers.kept == query.state[0].segments.kept == {}


def test_event_times_from_before_1970_wait_for_a_watermark(tmp_path: Path) -> None:
    query = Query(wired(tmp_path, "hash", 1, 1, "left"))
    query.micro_batch({"left": [(1, 1, "ann", -100 * SECOND)], "right": []})
    assert at(query, 0) == []
    assert at(query, 1) == [(1, None, (LEFT_LENGTH - 100) * SECOND)]


@pytest.mark.parametrize(("layout", "how"), [(LAYOUTS[1], "full"), (LAYOUTS[0], "left_semi")])
def test_state_stays_bounded(tmp_path: Path, layout: tuple[str, int, int], how: str) -> None:
    """Through a hundred lengths of the window: values of the state, rows, timers."""
    query = Query(wired(tmp_path, *layout, how))
    most = [0, 0, 0]
    for second in range(1, 100 * LEFT_LENGTH // 10):
        rows: list[Row] = [(second, second % 4, "ann", second * 10 * SECOND), (-second, 3, "bob", second * 10 * SECOND)]
        query.micro_batch({"left": rows, "right": rows[:1] if second % 7 else []})
        kept = [(len(one.segments.kept), len(one.timers.kept)) for one in query.state.values()]
        window = max(told["window_left"] + told["window_right"] for told in query.figures[-len(query.state) :])
        most = [max(pair) for pair in zip(most, (*map(max, zip(*kept, strict=True)), window), strict=True)]
    assert most[0] <= 2 * 2 * 4
    assert most[1] <= 1
    assert most[2] <= 24
    if how == "full":
        assert sum(told["unmatched"] for told in query.figures) > 20


def test_partners_that_a_filter_refuses_are_none_after_a_restart_too(tmp_path: Path) -> None:
    query = Query(wired(tmp_path, "hash", 2, 1, "full"))
    query.micro_batch({"left": [(1, 1, "ann", SECOND)], "right": [(11, 1, "ann", SECOND)]})
    shutil.rmtree(tmp_path)
    query.micro_batch({"left": [], "right": [(12, 1, "ann", 2 * SECOND)]})
    assert told(query.rows) == []
    assert at(query, 20_000) == [
        (1, None, (1 + LEFT_LENGTH) * SECOND),
        (None, 11, (1 + RIGHT_LENGTH) * SECOND),
        (None, 12, (2 + RIGHT_LENGTH) * SECOND),
    ]


@pytest.mark.parametrize(
    "options", [{"how": "left"}, {"keep": sj.Nearest("l.id", "r.id"), "how": "left"}], ids=["outer", "nearest"]
)
def test_keys_that_need_more_room_with_each_micro_batch(tmp_path: Path, options: dict[str, Any]) -> None:
    """Segments of the state are sorted anew then; which of their rows have matched stays."""
    window, on = sj.TimeWindow("100 seconds", on="ts"), "l.x = r.x AND l.id BETWEEN r.id - 5 AND r.id + 5"
    query = Query(wire(tmp_path, on, window, "hash", 1, **options))
    for number in range(6):
        key, second = 10 ** (3 * number), (number + 1) * SECOND
        query.micro_batch({"left": [(key + 1, key, "ann", second)], "right": [(key, key, "bob", second)]})
    query.micro_batch({"left": [(9, 9, "ann", 7 * SECOND)], "right": []})
    found = told(query.rows) + at(query, 1_000_000)
    expected = [(10 ** (3 * number) + 1, 10 ** (3 * number)) for number in range(6)]
    assert sorted((row[:2] for row in found), key=repr) == sorted([*expected, (9, None)], key=repr)


def test_auto_has_all_partners_of_a_semi_join_in_one_bucket(tmp_path: Path) -> None:
    spec = wire(tmp_path, "l.x < r.x", sj.TimeWindow("10 seconds", on="ts"), "auto", 9, how="left_semi")
    assert spec.strategy.name == "broadcast"
    assert not spec.once
    assert spec.strategy.why.endswith("but broadcast has all partners of a left row in one bucket, for how='left_semi'")


def ids_kept(query: Query) -> list[int]:
    """How many ids each home keeps."""
    manifests = [Manifest.from_bytes(one.manifest.kept[0], bucket) for bucket, one in query.homes.items()]
    return [sum(entry.rows for entry in manifest.entries["ids"]) for manifest in manifests]


@pytest.mark.nightly  # twenty seconds
def test_homes_keep_ids_until_the_rows_have_left(tmp_path: Path) -> None:
    """One more partner, in whichever bucket, does not output a row again; segments of ids are merged and expire."""
    query, most, rows = Query(wired(tmp_path, "grid", 5, 1, "left_semi"), one_store=True), [0, 0], 0
    for second in range(1, 60):
        left: list[Row] = [(second, 0, "ann", second * SECOND), (-second, 0, "bob", second * SECOND)]
        right: list[Row] = [(1000 * second + place, 4 + place, None, second * SECOND) for place in range(6)]
        query.rows = []
        query.micro_batch({"left": left, "right": right})
        rows += len(query.rows)
        most[0] = max(most[0], sum(ids_kept(query)))
        most[1] = max(most[1], *(len(one) for (name, _), one in query.homes[0].store.items() if name == "segments"))
    assert rows == 2 * 59
    assert LEFT_LENGTH * 2 <= most[0] <= 2 * (2 * LEFT_LENGTH + 4)
    assert most[1] <= 6
    at(query, 1_000_000, {"left": [], "right": []})
    at(query, 1_000_000, {"left": [], "right": []})
    assert set(ids_kept(query)) == {0}


def test_ids_of_homes_are_checked(tmp_path: Path) -> None:
    def refused(harm: Any, message: str) -> None:
        query = Query(wired(tmp_path, "grid", 3, 1, "left_semi"))
        rows: list[Row] = [(number, 0, "ann", SECOND) for number in range(40)]
        query.micro_batch({"left": rows, "right": [(99, 4, "ann", SECOND)]})
        assert len(query.rows) == 40
        harm(query.homes[0])
        partners: list[Row] = [(number, number, "ann", SECOND) for number in range(100, 108)]
        with pytest.raises(StateError, match=message):
            query.micro_batch({"left": [], "right": partners})

    refused(lambda home: home.segments.kept.clear(), "segment 0-0-[0-9a-f]{32} of the join's state is missing")
    refused(lambda home: home.store.clear(), "bucket 0 has no state, but micro-batch 1 must continue from the state")

    def flipped(home: Any) -> None:
        for key, (data,) in home.segments.kept.items():
            home.segments.kept[key] = (data[:-1] + bytes([data[-1] ^ 64]),)

    refused(flipped, "segment 0-0-[0-9a-f]{32} of the join's state is damaged")


def harmed(tmp_path: Path, harm: Any) -> None:
    query = Query(wired(tmp_path, "hash", 1, 1, "full"))
    query.micro_batch({"left": [(1, 1, "ann", SECOND)], "right": [(11, 1, "ann", SECOND)]})
    before = {key: value for key, value in query.state[0].segments.kept.items() if key[0].endswith("/matched")}
    query.micro_batch({"left": [], "right": [(12, 1, "bob", 2 * SECOND)]})
    harm(query.state[0], before)
    query.micro_batch({"left": [], "right": [(13, 1, "bob", 3 * SECOND)]})


def test_what_is_known_of_matches_is_checked(tmp_path: Path) -> None:
    def gone(state: Any, before: dict[Any, Any]) -> None:
        for key in before:
            del state.segments.kept[key]

    def older(state: Any, before: dict[Any, Any]) -> None:
        state.segments.kept.update(before)

    def flipped(state: Any, before: dict[Any, Any]) -> None:
        for key in before:
            data = bytearray(state.segments.kept[key][0])
            data[-1] ^= 64
            state.segments.kept[key] = (bytes(data),)

    what = r"the record of which rows of segment 0-0-[0-9a-f]{32} have matched"
    for harm, message in ((gone, "is missing"), (older, "is not that of the manifest"), (flipped, "is damaged")):
        with pytest.raises(StateError, match=f"{what} {message}"):
            harmed(tmp_path / message, harm)


def test_a_lost_timer_is_noticed(tmp_path: Path) -> None:
    query = Query(wired(tmp_path, "hash", 1, 1, "left"))
    query.micro_batch({"left": [(1, 1, "ann", SECOND)], "right": []})
    query.state[0].timers.kept.clear()
    assert at(query, 20_000) == []
    with pytest.raises(
        StateError, match="bucket 0 was to be called when the watermark is 7001 ms, and it was 20000 ms"
    ):
        at(query, 20_000, {"left": [], "right": []})


def test_ids_of_rows_that_are_stored_elsewhere_are_no_rows_of_the_window(tmp_path: Path) -> None:
    query = Query(wired(tmp_path, "split", 3, 1, "full"))
    query.micro_batch({"left": [(n, 1, "ann", SECOND) for n in range(9)], "right": []})
    query.micro_batch({"left": [], "right": [(20 + n, 3, "bob", SECOND) for n in range(9)]})
    last = query.figures[-3:]
    assert [sum(one[side] for one in last) for side in ("window_left", "window_right")] == [9, 9]
    assert sum(one["segments"] for one in last) > 6
