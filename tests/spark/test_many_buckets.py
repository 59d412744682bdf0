"""What a bucket does with micro-batches of many streams: the law, segments in the state, and what is refused."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import StateError
from slidejoin.plan.multiway.multi_plan import make_multi_plan
from slidejoin.spark.job.key_classes import classes_of
from slidejoin.spark.job.streams_spec import StreamsSpec
from slidejoin.spark.route.pack import places_of
from slidejoin.spec.multi_spec import make_multi_spec
from tests.multi_oracle import Last, MultiOracle
from tests.spark.feeds import SECOND, Row
from tests.spark.many import CASES, Batch, ManyQuery, col, law, micro_batches, windows, wire_many

if TYPE_CHECKING:
    from pathlib import Path

NAMES, ON, PREDICATE = CASES["one"]


@st.composite
def streams(draw: st.DrawFn) -> list[Batch]:
    cell = st.tuples(
        st.none() | st.integers(0, 2), st.sampled_from(["ann", "bob", None]), st.none() | st.integers(-12, 2)
    )
    batches, number = [], 0
    for at in range(draw(st.integers(1, 8))):
        batch: Batch = {}
        for name in NAMES:
            cells = draw(st.lists(cell, max_size=4))
            batch[name] = [
                (number + place, x, text, None if time is None else (at * 4 + time) * SECOND)
                for place, (x, text, time) in enumerate(cells)
            ]
            number += len(cells)
        batches.append(batch)
    return batches


def everywhere(rows: list[Row]) -> Batch:
    """These rows in all streams."""
    return dict.fromkeys(NAMES, rows)


@given(batches=streams(), partitions=st.sampled_from([1, 3]), tasks=st.sampled_from([1, 2]))
@settings(max_examples=12)
def test_agrees_with_the_law(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Batch], partitions: int, tasks: int
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    query = ManyQuery(wire_many(cache, NAMES, ON, windows(NAMES), partitions=partitions), tasks)
    counting = ManyQuery(wire_many(cache, NAMES, ON, windows(NAMES), partitions=partitions, output="count"), tasks)
    for batch in batches:
        query.micro_batch(batch)
        counting.micro_batch(batch)
    expected, counts = law(batches, NAMES, PREDICATE)
    assert query.combinations() == expected
    assert counting.counts() == counts
    assert sum(told.pairs for told in counting.figures) == len(expected)


@given(data=st.data(), slide=st.sampled_from([1, 2]), tasks=st.sampled_from([1, 2]))
@settings(max_examples=12)
def test_count_windows_see_the_last_rows_of_whole_streams(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, slide: int, tasks: int
) -> None:
    sizes = {name: data.draw(st.integers(2, 6), label=name) for name in NAMES}
    counted = {name: sj.CountWindow(size, slide=slide) for name, size in sizes.items()}
    on, predicate = (
        "a.x = b.x AND a.x <= c.x",
        ("and", ("=", col("a", "x"), col("b", "x")), ("<=", col("a", "x"), col("c", "x"))),
    )
    query = ManyQuery(wire_many(tmp_path_factory.mktemp("cache"), NAMES, on, counted, order_by="id"), tasks)
    oracle = MultiOracle({name: Last(size, slide) for name, size in sizes.items()}, predicate)
    expected = []
    for batch in data.draw(streams()):
        # Ids in any order, and ties of several streams.
        mixed = {name: [(row[0] * 7 % 5, *row[1:]) for row in rows] for name, rows in batch.items()}
        query.micro_batch(mixed)
        plain = {
            name: [dict(zip(("id", "x", "name", "ts"), row, strict=True)) for row in rows]
            for name, rows in mixed.items()
        }
        for step in oracle.push(plain, "id"):
            expected += [tuple(one["id"] for one in rows) for rows in step.rows]
    assert query.combinations() == sorted(expected)


def test_small_segments_are_merged_and_old_ones_leave(tmp_path: Path) -> None:
    query = ManyQuery(wire_many(tmp_path, NAMES, "a.x = b.x AND b.x = c.x", windows(NAMES), partitions=1))
    for second in range(1, 60):
        row: Row = (second, 1, None, second * SECOND)
        query.micro_batch(everywhere([row]))
    bucket = query.state[query.spec.buckets[0]]
    assert len({key[0].split("/")[0] for key in bucket.segments.kept}) <= 3 * 9
    assert query.figures[-1].window_left + query.figures[-1].window_right <= (10 + 4 + 7 + 3 * 8) * 2
    late: Row = (1000, None, None, 1000 * SECOND)
    query.micro_batch(everywhere([late]))
    query.micro_batch(everywhere([]))
    assert not bucket.segments.kept
    assert not list(tmp_path.rglob("*.part"))


def test_cache_is_not_needed_and_tasks_come_in_any_order(tmp_path: Path) -> None:
    batches = [{name: batch[name] for name in NAMES} for batch in micro_batches("abcd")]
    query = ManyQuery(wire_many(tmp_path, NAMES, ON, windows(NAMES)), tasks=3)
    for batch in batches:
        for path in tmp_path.rglob("*.segment"):
            if random.Random(path.name).random() < 0.5:
                path.unlink()
        query.micro_batch(batch)
    assert query.combinations() == law(batches, NAMES, PREDICATE)[0]
    assert sum(told.rebuilt for told in query.figures) > 0


def test_state_of_another_join_is_refused(tmp_path: Path) -> None:
    row: Row = (1, 1, None, SECOND)
    query = ManyQuery(wire_many(tmp_path, NAMES, ON, windows(NAMES)))
    query.micro_batch(everywhere([row]))
    query.spec = wire_many(tmp_path, NAMES, ON, windows(NAMES) | {"b": sj.TimeWindow("9 seconds", on="ts")})
    with pytest.raises(StateError, match=r"window of b was .*'4 seconds'.* and is now .*'9 seconds'"):
        query.micro_batch(everywhere([row]))


def test_lost_state_is_noticed(tmp_path: Path) -> None:
    row: Row = (1, 1, None, SECOND)
    query = ManyQuery(wire_many(tmp_path, NAMES, ON, windows(NAMES)))
    query.micro_batch(everywhere([row]))
    query.number += 1
    with pytest.raises(StateError, match="the checkpoint has lost state"):
        query.micro_batch(everywhere([row]))


WHOLE, FLOAT, DECIMAL = pa.int64(), pa.float64(), pa.decimal128(18, 2)
KINDS = [
    (WHOLE, WHOLE, WHOLE),
    (WHOLE, FLOAT, DECIMAL),
    (FLOAT, DECIMAL, WHOLE),
    (DECIMAL, DECIMAL, WHOLE),
    (pa.int32(), WHOLE, pa.float32()),
]


@pytest.mark.parametrize("kinds", KINDS)
def test_equal_keys_meet_whatever_their_types(kinds: tuple[pa.DataType, ...]) -> None:
    numbers = [-(2**23), -3, 0, 1, 7, 2**20, 2**23, None]
    times = dict.fromkeys(NAMES, sj.TimeWindow(5, on="ts"))
    config = make_multi_spec(times, on="a.k = b.k AND c.k = b.k AND a.k > -100", select=["a.k"])
    schemas = tuple(pa.schema([pa.field("k", kind), pa.field("ts", WHOLE)]) for kind in kinds)
    classes, _ = classes_of(make_multi_plan(config, schemas))
    assert list(map(str, classes)) == ["a.k = b.k = c.k"]
    spec = StreamsSpec(config, schemas, classes, tuple(range(1000)), ("k",), (0,), (), True, None)
    found = []
    for stream, schema in enumerate(schemas):
        table = pa.table({"k": numbers, "ts": numbers}, schema=schema)
        rows, buckets = places_of(spec, stream, table)
        found.append(dict(zip(rows.tolist(), buckets.tolist(), strict=True)))
    # Of a the first row is left out, because it is below -100; the last one has no key.
    assert [sorted(places) for places in found] == [[1, 2, 3, 4, 5, 6], [*range(7)], [*range(7)]]
    assert found[1] == found[2] == found[1] | found[0]
    assert len(set(found[1].values())) > 4


@pytest.mark.parametrize(
    ("on", "why"),
    [
        ("a.k = b.k AND b.ts = c.k", "no equality holds between all streams"),
        ("a.k = b.k OR b.k = c.k", "no equality holds between all streams"),
        ("a.k = b.k AND b.k IS NOT DISTINCT FROM c.k", "no equality holds between all streams"),
        ("a.k = b.k + c.k", "no equality holds between all streams"),
        ("a.k = b.k AND c.k + 1 = b.k", ""),
        ("a.k = b.k AND b.k = c.k AND a.k = a.ts", ""),
    ],
)
def test_which_predicates_have_a_key_of_all_streams(on: str, why: str) -> None:
    schema = pa.schema([pa.field("k", WHOLE), pa.field("ts", WHOLE)])
    config = make_multi_spec(dict.fromkeys(NAMES, sj.TimeWindow(5, on="ts")), on=on)
    classes, told = classes_of(make_multi_plan(config, [schema] * 3))
    assert bool(classes) == (not why)
    assert told.startswith(why)


def test_keys_whose_numbers_would_depend_on_the_other_stream_are_for_a_chain() -> None:
    schemas = [pa.schema([pa.field("k", kind), pa.field("ts", WHOLE)]) for kind in (DECIMAL, WHOLE, FLOAT)]
    config = make_multi_spec(dict.fromkeys(NAMES, sj.TimeWindow(5, on="ts")), on="a.k = b.k AND c.k = b.k")
    classes, why = classes_of(make_multi_plan(config, schemas))
    assert (classes, why) == ((), "the keys of a.k = b.k = c.k are of different kinds; cast them to one type")
