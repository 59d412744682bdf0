"""The files of sorted segments: whole or not there, each for one segment only, gone once nobody needs them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from slidejoin.plan.plan import Plan, make_plan
from slidejoin.spark.state.segment_cache import DAYS_KEPT, SegmentCache, folder_of
from slidejoin.spark.state.segments import Entry, Sealing, build_segment, new_id
from slidejoin.spec.join_spec import make_join_spec
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from pathlib import Path

    from slidejoin.spark.state.segments import Segment

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
    cache, made = SegmentCache(str(tmp_path), "origin"), segment(plan, rows)
    cache.write(made)
    found = cache.read(made.entry, SCHEMA)
    assert found is not None
    assert found.payload == made.payload
    for name in ("keys", "offsets", "aux", "aux_min", "aux_max"):
        np.testing.assert_array_equal(getattr(found.parts["left"], name), getattr(made.parts["left"], name))
    assert not list(tmp_path.rglob("*.part"))


def test_missing_file_is_no_matter_for_a_warning(plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert SegmentCache(str(tmp_path), "origin").read(segment(plan).entry, SCHEMA) is None
    assert not caplog.records


def test_altered_file_is_found_out_after_it_was_read_once(
    plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache, made = SegmentCache(str(tmp_path), "origin"), segment(plan)
    cache.write(made)
    assert cache.read(made.entry, SCHEMA) is not None
    (path,) = tmp_path.rglob("*.segment")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.unlink()
    path.write_bytes(data)
    assert cache.read(made.entry, SCHEMA) is None
    assert "is damaged; it is built again from the state" in caplog.text


def test_file_of_another_segment_is_refused(plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache, made, other = SegmentCache(str(tmp_path), "origin"), segment(plan), segment(plan)
    cache.write(made)
    (path,) = tmp_path.rglob("*.segment")
    path.rename(path.with_name(f"{other.entry.id}.segment"))
    assert cache.read(other.entry, SCHEMA) is None
    assert "holds other rows" in caplog.text


def test_only_needed_files_are_kept(plan: Plan, tmp_path: Path) -> None:
    cache, segments = SegmentCache(str(tmp_path), "origin"), [segment(plan) for _ in range(3)]
    for one in segments:
        cache.write(one)
    cache.keep_only([segments[1].entry.id])
    assert [path.stem for path in tmp_path.rglob("*.segment")] == [segments[1].entry.id]


def test_what_old_queries_left_goes_when_a_new_one_begins(plan: Plan, tmp_path: Path) -> None:
    SegmentCache(str(tmp_path), "old").write(segment(plan))
    SegmentCache(str(tmp_path), "living").write(segment(plan))
    long_ago = time.time() - (DAYS_KEPT + 1) * 86_400
    os.utime(tmp_path / "segments" / folder_of("old"), (long_ago, long_ago))
    SegmentCache(str(tmp_path), "new").write(segment(plan))
    assert {path.name for path in (tmp_path / "segments").iterdir()} == {folder_of("living"), folder_of("new")}


def test_a_file_of_another_state_is_refused(plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its checksum is right, but whoever wrote it did not have the random name of this state."""
    cache, foreign, made = SegmentCache(str(tmp_path), "origin"), SegmentCache(str(tmp_path), "guessed"), segment(plan)
    foreign.write(made)
    foreign.folder.rename(cache.folder)
    assert cache.read(made.entry, SCHEMA) is None
    assert "is damaged; it is built again from the state" in caplog.text
    assert "origin" not in str(cache.folder)
