"""What one bucket does with its micro-batches: the law, segments in the state, the cache, and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import StateError
from tests.spark.feeds import SECOND, Row, expected, expected_counts
from tests.spark.scenarios import LATENESS, LENGTH, rich_batches
from tests.spark.stores import Query, wire

if TYPE_CHECKING:
    from typing import Any

L, R = ("col", "left", "x"), ("col", "right", "x")
BAND = ("between", L, ("-", R, ("lit", 1)), ("+", R, ("lit", 1)))
CASES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "hash": ("l.x = r.x + 1", ("=", L, ("+", R, ("lit", 1)))),
    "cell": ("l.x BETWEEN r.x - 1 AND r.x + 1", BAND),
    "grid": ("l.x < r.x", ("<", L, R)),
    "broadcast": ("l.x < r.x", ("<", L, R)),
    "split": ("l.x < r.x", ("<", L, R)),
    "sub_windows": ("l.x <> r.x", ("<>", L, R)),
}
LAYOUTS = [*((strategy, 3, 1) for strategy in CASES), ("hash", 5, 2), ("cell", 5, 2)]
"""Strategy, number of buckets, spread."""
WINDOW = sj.TimeWindow("10 seconds", on="ts")


def rows_of(draw: st.DrawFn, first: int, batch: int) -> list[Row]:
    cells = draw(st.lists(st.tuples(st.none() | st.integers(0, 4), st.none() | st.integers(-12, 2)), max_size=5))
    return [
        (first + place, x, None, None if at is None else (batch * 4 + at) * SECOND)
        for place, (x, at) in enumerate(cells)
    ]


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, list[Row]]]:
    return [
        {"left": rows_of(draw, batch * 20, batch), "right": rows_of(draw, batch * 20 + 10, batch)}
        for batch in range(draw(st.integers(1, 8)))
    ]


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize(("strategy", "partitions", "spread"), LAYOUTS)
@given(batches=streams())
@settings(max_examples=7)
def test_agrees_with_the_law(
    tmp_path_factory: pytest.TempPathFactory,
    strategy: str,
    partitions: int,
    spread: int,
    self_join: bool,
    batches: list[dict[str, list[Row]]],
) -> None:
    on, predicate = CASES[strategy]
    cache = tmp_path_factory.mktemp("cache")
    query = Query(wire(cache, on, WINDOW, strategy, partitions, spread, self_join=self_join), LATENESS)
    if self_join:
        batches = [{"left": batch["left"]} for batch in batches]
    for batch in batches:
        query.micro_batch(batch)
    assert query.pairs() == expected(batches, predicate, LENGTH, LATENESS, self_join=self_join)


@pytest.mark.parametrize("self_join", [False, True])
@pytest.mark.parametrize(("strategy", "partitions", "spread"), LAYOUTS)
@given(batches=streams())
@settings(max_examples=7)
def test_counts_are_whole(
    tmp_path_factory: pytest.TempPathFactory,
    strategy: str,
    partitions: int,
    spread: int,
    self_join: bool,
    batches: list[dict[str, list[Row]]],
) -> None:
    on, predicate = CASES[strategy]
    cache = tmp_path_factory.mktemp("cache")
    spec = wire(cache, on, WINDOW, strategy, partitions, spread, self_join=self_join, output="count")
    query = Query(spec, LATENESS)
    assert query.spec.homes == (strategy == "cell" and spread == 1 and not self_join)
    assert query.spec.partial == ((self_join or strategy != "hash" or spread > 1) and not query.spec.homes)
    if self_join:
        batches = [{"left": without_ties(batch["left"])} for batch in batches]
    for batch in batches:
        query.micro_batch(batch)
    got = sorted(
        (row["side"], int(row["id" if row["side"] == "left" else "id_right"]), row["match_count"]) for row in query.rows
    )
    assert got == expected_counts(batches, predicate, LENGTH, LATENESS, self_join=self_join)


def without_ties(rows: list[Row]) -> list[Row]:
    """Which of two rows of one time arrives first is not for the oracle to say."""
    return list({row[3]: row for row in rows}.values())


def full_runs(cache: Path) -> tuple[Query, list[dict[str, list[Row]]]]:
    on, _ = CASES["cell"]
    return Query(wire(cache, on, WINDOW, "cell", partitions=2), LATENESS), rich_batches()


def test_cache_is_not_needed(tmp_path: Path) -> None:
    with_cache, batches = full_runs(tmp_path / "kept")
    without, _ = full_runs(tmp_path / "deleted")
    for batch in batches:
        with_cache.micro_batch(batch)
        shutil.rmtree(tmp_path / "deleted", ignore_errors=True)
        without.micro_batch(batch)
    assert with_cache.pairs() == without.pairs() == expected(batches, CASES["cell"][1], LENGTH, LATENESS)


@pytest.mark.parametrize("harm", ["cut", "altered", "empty", "swapped"])
def test_damaged_cache_is_built_again(tmp_path: Path, harm: str) -> None:
    query, batches = full_runs(tmp_path)
    for batch in batches:
        query.micro_batch(batch)
        files = sorted(tmp_path.rglob("*.segment"))
        before = [path.read_bytes() for path in files]
        for place, path in enumerate(files):
            data = before[place]
            # a new file, as a mapped one must not be cut short under its readers
            path.unlink()
            match harm:
                case "cut":
                    path.write_bytes(data[: len(data) // 2])
                case "altered":
                    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
                case "empty":
                    path.write_bytes(b"")
                case _:
                    path.write_bytes(before[place - 1])
    assert query.pairs() == expected(batches, CASES["cell"][1], LENGTH, LATENESS)


def test_cache_folder_that_cannot_be_written_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    query, batches = full_runs(tmp_path / "file" / "cache")
    for batch in batches:
        query.micro_batch(batch)
    assert query.pairs() == expected(batches, CASES["cell"][1], LENGTH, LATENESS)
    assert "cannot write to" in caplog.text


def test_small_segments_are_merged_and_old_ones_leave(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, "l.x = r.x", sj.TimeWindow("60 seconds", on="ts"), "hash", partitions=1))
    most = 0
    for second in range(100):
        row: Row = (second, 1, None, (second + 1) * SECOND)
        query.micro_batch({"left": [row], "right": [row]})
        most = max(most, *query.segments().values())
    assert most <= 2 * 10
    assert query.pairs() == sorted((a, b) for a in range(100) for b in range(100) if abs(a - b) <= 60)


def test_state_is_empty_once_the_window_has_passed(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, "l.x = r.x", WINDOW, "hash", partitions=1))
    first: Row = (1, 1, None, 1 * SECOND)
    last: Row = (2, None, None, 100 * SECOND)
    query.micro_batch({"left": [first], "right": [first]})
    query.micro_batch({"left": [last], "right": [last]})
    assert sum(query.segments().values()) > 0
    query.micro_batch({"left": [], "right": []})
    assert query.segments() == {0: 0}
    assert not list(tmp_path.rglob("*.part"))


def test_row_at_the_end_of_its_stay_still_matches(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, "l.x = r.x", WINDOW, "hash", partitions=1))
    query.micro_batch({"left": [(1, 1, None, 5 * SECOND)], "right": [(9, 0, None, 15 * SECOND)]})
    query.micro_batch({"left": [(2, 0, None, 15 * SECOND)], "right": []})
    assert query.clock.value == 15 * SECOND
    query.micro_batch({"left": [], "right": [(3, 1, None, 15 * SECOND), (4, 1, None, 15 * SECOND - 1)]})
    assert (1, 3) in query.pairs()
    assert (1, 4) not in query.pairs()


def two_batches(tmp_path: Path, on: str, partitions: int, then: str, partitions_then: int) -> Query:
    batch: dict[str, list[Row]] = {"left": [(1, 1, None, SECOND)], "right": [(2, 1, None, SECOND)]}
    query = Query(wire(tmp_path, on, WINDOW, "broadcast", partitions=partitions))
    query.micro_batch(batch)
    query.spec = wire(tmp_path, then, WINDOW, "broadcast", partitions=partitions_then)
    query.micro_batch(batch)
    return query


def test_state_of_another_join_is_refused(tmp_path: Path) -> None:
    message = r"the checkpoint holds the state of another join: on was 'l\.x < r\.x' and is now 'l\.x <= r\.x'"
    with pytest.raises(StateError, match=message):
        two_batches(tmp_path, "l.x < r.x", 2, "l.x <= r.x", 2)


def test_state_of_another_window_is_refused(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, "l.x = r.x", WINDOW, "hash"))
    query.micro_batch({"left": [], "right": []})
    query.spec = wire(tmp_path, "l.x = r.x", sj.TimeWindow("9 seconds", on="ts"), "hash")
    with pytest.raises(StateError, match=r"window was .TimeWindow\(left='10 seconds'.* and is now .*left='9 seconds'"):
        query.micro_batch({"left": [], "right": []})


def test_other_names_of_the_sides_are_the_same_join(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, "l.x = r.x", WINDOW, "hash"))
    query.micro_batch({"left": [(1, 1, None, SECOND)], "right": []})
    query.spec = wire(tmp_path, "a.x = b.x", WINDOW, "hash", aliases=("a", "b"))
    query.micro_batch({"left": [], "right": [(2, 1, None, SECOND)]})
    assert query.pairs() == [(1, 2)]


def test_other_number_of_partitions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="partitions was 2 and is now 5"):
        two_batches(tmp_path, "l.x < r.x", 2, "l.x < r.x", 5)


def damaged(tmp_path: Path, harm: Any) -> None:
    query = Query(wire(tmp_path, "l.x = r.x", WINDOW, "hash", partitions=1))
    batch: dict[str, list[Row]] = {"left": [(1, 1, None, SECOND)], "right": [(2, 1, None, SECOND)]}
    query.micro_batch(batch)
    shutil.rmtree(tmp_path / "segments")
    harm(query.state[0])
    query.micro_batch(batch)


def test_damaged_segment_is_named(tmp_path: Path) -> None:
    def flip(state: Any) -> None:
        key, (data,) = next(iter(state.segments.kept.items()))
        state.segments.kept[key] = (data[:-1] + bytes([data[-1] ^ 1]),)

    with pytest.raises(StateError, match=r"segment 0-0-[0-9a-f]{32} of the join's state is damaged"):
        damaged(tmp_path, flip)


def test_missing_segment_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"segment 0-0-[0-9a-f]{32} of the join's state is missing: part 0 of 1"):
        damaged(tmp_path, lambda state: state.segments.kept.clear())


def test_unknown_format_is_refused(tmp_path: Path) -> None:
    def newer(state: Any) -> None:
        state.manifest.kept = (state.manifest.kept[0].replace(b'"format":3', b'"format":99'),)

    message = "the manifest of bucket 0 has format 99, slidejoin .* reads formats 2 and 3"
    with pytest.raises(StateError, match=message):
        damaged(tmp_path, newer)


def test_damaged_manifest_is_refused(tmp_path: Path) -> None:
    def cut(state: Any) -> None:
        state.manifest.kept = (state.manifest.kept[0][:20],)

    with pytest.raises(StateError, match="the manifest of bucket 0 is damaged"):
        damaged(tmp_path, cut)


CALLED = """
import sys
from pathlib import Path
from slidejoin.jit.registry import KERNELS
from slidejoin.spark.job.workers import OF_NO_BUCKET, ready
ready(sys.argv[1])
from tests.spark import test_operator as here
for strategy, (on, _) in here.CASES.items():
    for told in ({}, {"output": "count"}, {"self_join": True}):
        wiring = here.wire(Path(sys.argv[1]) / strategy / str(len(told)), on, here.WINDOW, strategy, **told)
        query = here.Query(wiring, here.LATENESS)
        for batch in here.rich_batches():
            query.micro_batch({"left": batch["left"]} if "self_join" in told else batch)
        assert query.rows
called = {kernel.__module__.rpartition(".")[2] for kernel, _ in KERNELS if kernel.overloads}
assert called, "nothing was called"
print(sorted(called & set(OF_NO_BUCKET)))
"""


def test_kernels_that_workers_do_not_compile_are_not_called(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "NUMBA_DISABLE_JIT": "0"}
    command = [sys.executable, "-c", CALLED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "[]\n", done.stderr
