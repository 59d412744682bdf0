"""The files of sorted segments: whole or not there, each for one segment only, gone once nobody needs them."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from slidejoin.errors import StateError
from slidejoin.index.factory import part_format
from slidejoin.plan.plan import Plan, make_plan
from slidejoin.spark.state import segment_cache
from slidejoin.spark.state.segment_cache import DAYS_KEPT, KEPT_OPEN, SegmentCache, folder_of
from slidejoin.spark.state.segments import Entry, Sealing, align, build_segment, new_id
from slidejoin.spec.join_spec import make_join_spec
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from pathlib import Path

    from slidejoin.spark.state.segments import Segment

ORIGIN = new_id()
RUNS = part_format(["bi_sort"], None)
SCHEMA = pa.schema([("x", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])


@pytest.fixture(scope="module")
def plan() -> Plan:
    config = make_join_spec(on="abs(l.x - r.x) <= 1", window=TimeWindow("10 seconds", on="ts"), threads=1)
    return make_plan(config, SCHEMA, SCHEMA)


def segment(plan: Plan, rows: int = 5) -> Segment:
    payload = pa.table([list(range(rows))[::-1], list(range(rows))], schema=SCHEMA)
    return build_segment(plan, "left", payload, Entry(new_id(), rows, 100, 0, rows - 1, 50), Sealing(plan.sealed_terms))


@pytest.mark.parametrize("rows", [1, 5, 1000])
def test_what_is_written_is_read(plan: Plan, tmp_path: Path, rows: int) -> None:
    cache, made = SegmentCache(str(tmp_path), ORIGIN), segment(plan, rows)
    cache.write(made)
    found = cache.read(made.entry, SCHEMA, RUNS)
    assert found is not None
    assert found.chosen == made.chosen
    assert found.payload == made.payload
    for name in ("keys", "offsets", "aux", "aux_min", "aux_max"):
        np.testing.assert_array_equal(getattr(found.parts["left"], name), getattr(made.parts["left"], name))
    assert not list(tmp_path.rglob("*.part"))


def test_missing_file_is_no_matter_for_a_warning(plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert SegmentCache(str(tmp_path), ORIGIN).read(segment(plan).entry, SCHEMA) is None
    assert not caplog.records


def test_altered_file_is_found_out_after_it_was_read_once(
    plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache, made = SegmentCache(str(tmp_path), ORIGIN), segment(plan)
    cache.write(made)
    assert cache.read(made.entry, SCHEMA) is not None
    (path,) = tmp_path.rglob("*.segment")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.unlink()
    path.write_bytes(data)
    assert cache.read(made.entry, SCHEMA) is None
    assert "is damaged; it is built again from the state" in caplog.text


def test_small_segments_stay_open(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same arrays, for the same state and schema, until the file is gone; no more than a number of them."""
    kept: OrderedDict[str, Any] = OrderedDict.fromkeys(map(str, range(KEPT_OPEN - 3)))
    monkeypatch.setattr(segment_cache, "_opened", kept)
    cache, made = SegmentCache(str(tmp_path), ORIGIN), [segment(plan) for _ in range(4)]
    for one in made:
        cache.write(one)
    first, again = (cache.read(replace(made[0].entry, level=level), SCHEMA) for level in (0, 3))
    assert first is not None
    assert again is not None
    assert again.payload is first.payload
    assert again.entry.level == 3
    assert cache.read(replace(made[0].entry, rows=4), SCHEMA) is None
    other = pa.schema([("x", pa.int64()), ("ts", pa.timestamp("ns", tz="UTC"))])
    assert (found := cache.read(made[0].entry, other)) is None or found.payload is not first.payload
    for one in made:
        cache.read(one.entry, SCHEMA)
    assert len(kept) == KEPT_OPEN
    assert "0" not in kept
    cache.keep_only([made[3].entry.id])
    assert [path.rpartition("/")[2] for path in kept if "/" in path] == [f"{made[3].entry.id}.segment"]
    assert cache.read(made[2].entry, SCHEMA) is None


def test_file_of_another_segment_is_refused(plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache, made, other = SegmentCache(str(tmp_path), ORIGIN), segment(plan), segment(plan)
    cache.write(made)
    (path,) = tmp_path.rglob("*.segment")
    path.rename(path.with_name(f"{other.entry.id}.segment"))
    assert cache.read(other.entry, SCHEMA) is None
    assert "holds other rows" in caplog.text


def test_ids_as_a_state_makes_them(plan: Plan, tmp_path: Path) -> None:
    """Which have the micro-batch in them, and are kept and deleted like others."""
    cache, made = SegmentCache(str(tmp_path), ORIGIN), segment(plan)
    made = replace(made, entry=replace(made.entry, id=f"12-0-{made.entry.id}"))
    cache.write(made)
    assert cache.read(made.entry, SCHEMA) is not None
    cache.keep_only([])
    assert cache.read(made.entry, SCHEMA) is None


def test_only_needed_files_are_kept(plan: Plan, tmp_path: Path) -> None:
    cache, segments = SegmentCache(str(tmp_path), ORIGIN), [segment(plan) for _ in range(3)]
    for one in segments:
        cache.write(one)
    cache.keep_only([segments[1].entry.id])
    assert [path.stem for path in tmp_path.rglob("*.segment")] == [segments[1].entry.id]


def test_what_old_queries_left_goes_when_a_new_one_begins(plan: Plan, tmp_path: Path) -> None:
    root, (old, living, new) = tmp_path / "segments", (new_id() for _ in range(3))
    for origin in (old, living):
        SegmentCache(str(tmp_path), origin).write(segment(plan))
    long_ago = time.time() - (DAYS_KEPT + 1) * 86_400
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (root / "ours").mkdir()  # no id: not made here
    (root / new_id()).symlink_to(elsewhere)
    for folder in (root / folder_of(old), root / "ours", elsewhere):
        os.utime(folder, (long_ago, long_ago))
    links = [path.name for path in root.iterdir() if path.is_symlink()]
    SegmentCache(str(tmp_path), new).write(segment(plan))
    assert sorted(path.name for path in root.iterdir()) == sorted([folder_of(living), folder_of(new), "ours", *links])
    assert elsewhere.is_dir()


@pytest.mark.parametrize("origin", ["../../etc", "", "a" * 81, "/", "a.b"])
def test_ids_are_checked_before_they_are_paths(plan: Plan, tmp_path: Path, origin: str) -> None:
    cache, made = SegmentCache(str(tmp_path), origin), segment(plan)
    assert cache.folder.parent == tmp_path / "segments"
    with pytest.raises(StateError, match=r"names a segment '.*', not an id of letters, digits and dashes"):
        cache.read(replace(made.entry, id=origin), SCHEMA)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_others_can_write_is_not_read(
    plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache, made = SegmentCache(str(tmp_path), ORIGIN), segment(plan)
    cache.write(made)
    tmp_path.chmod(0o777)
    shared = SegmentCache(str(tmp_path), ORIGIN)
    assert shared.read(made.entry, SCHEMA) is None
    assert "which can be written by other users; set spark.slidejoin.cacheDir" in caplog.text
    shared.write(made)
    shared.keep_only([])
    assert len(list(tmp_path.rglob("*.segment"))) == 1
    tmp_path.chmod(0o700)
    assert cache.read(made.entry, SCHEMA) is not None


def test_a_file_of_another_state_is_refused(plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its checksum is right, but whoever wrote it did not have the random name of this state."""
    cache, foreign, made = SegmentCache(str(tmp_path), "origin"), SegmentCache(str(tmp_path), "guessed"), segment(plan)
    foreign.write(made)
    foreign.folder.rename(cache.folder)
    assert cache.read(made.entry, SCHEMA) is None
    assert "is damaged; it is built again from the state" in caplog.text
    assert "origin" not in str(cache.folder)


def test_keys_sealed_in_another_form_are_not_mapped(plan: Plan, tmp_path: Path) -> None:
    """The rows are there, and are sealed again as the join wants them now."""
    cache, made = SegmentCache(str(tmp_path), ORIGIN), segment(plan)
    cache.write(made)
    for other in (None, part_format(["planar"], None), part_format(["po_join"], None)):
        found = cache.read(made.entry, SCHEMA, other)
        assert found is not None
        assert (found.payload, found.parts, found.chosen) == (made.payload, {}, None)
        (again,) = align(plan, "left", [found], Sealing(plan.sealed_terms))
        assert again.payload == made.payload
        for name, array in made.parts["left"].arrays().items():
            np.testing.assert_array_equal(again.parts["left"].arrays()[name], array)


def test_arrays_that_do_not_fit_are_made_again(
    plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has the state can write what is no part of that form: what reaches kernels is checked."""
    config = make_join_spec(on="l.x < r.x", window=TimeWindow("10 seconds", on="ts"), threads=1, algorithm="po_join")
    plan = make_plan(config, SCHEMA, SCHEMA)
    cache, made = SegmentCache(str(tmp_path), ORIGIN), segment(plan)
    assert made.format == "po_join"
    parts = made.parts["left"].arrays()
    for name, array in {"ordinals": parts["ordinals"][1:], "permutation": parts["permutation"].view("u4")}.items():
        with monkeypatch.context() as patch:
            patch.setattr(type(made.parts["left"]), "arrays", lambda _, name=name, array=array: parts | {name: array})
            cache.write(made)
        assert cache.read(made.entry, SCHEMA, part_format(["po_join"], None)) is None
        assert f"the array {name} of a sealed part is" in caplog.text
    cache.write(made)
    assert cache.read(made.entry, SCHEMA, part_format(["po_join"], None)) is not None
