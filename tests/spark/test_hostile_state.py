"""State of somebody else, whose checksums are right: it is refused, or a query goes on from it. Without Spark.

Mutants are tried in a process of their own, see `tests.spark.hostile`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import slidejoin as sj
from slidejoin.spark.state.bucket_state import Manifest
from slidejoin.spark.state.compact import from_compact, to_compact
from slidejoin.spark.state.lineage import idle_of
from slidejoin.spark.state.records import BEFORE_CHECKSUM, to_record
from slidejoin.spark.state.segments import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

NIGHTLY = int(os.environ.get("SLIDEJOIN_MUTANTS", "3000")) // 10


def tried(first: int, count: int, **environment: str) -> None:
    """Try mutants in another process; its last line says of what it died."""
    command = [sys.executable, "-m", "tests.spark.hostile", str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert done.returncode == 0, f"{done.stdout[-600:]}\n{done.stderr[-2500:]}"
    assert "were accepted, and worked" in done.stdout


def test_mutants_are_refused_or_go_through() -> None:
    tried(0, 1)


@pytest.mark.nightly
def test_many_mutants() -> None:
    tried(1000, NIGHTLY)


@pytest.mark.nightly
def test_many_mutants_without_compilation() -> None:
    tried(5000, NIGHTLY // 20, NUMBA_DISABLE_JIT="1")


def signed(plain: dict[str, Any]) -> bytes:
    """A record with a right checksum."""
    body = json.dumps(plain, separators=(",", ":")).encode()[:-1]
    return body + BEFORE_CHECKSUM + b"%d}" % zlib.crc32(body)


def first_of(plain: dict[str, Any], place: int, value: object) -> None:
    plain["left"][0][place] = value


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda it: first_of(it, 0, "../../x"), "item 0 of item 0 of left of .* should be the id of a segment"),
        (lambda it: first_of(it, 1, -1), "item 1 of item 0 of left of .* should be a whole number from 1 to"),
        (lambda it: first_of(it, 4, 1 << 63), "item 4 of item 0 of left of .* should be a whole number, got 92"),
        (lambda it: first_of(it, 5, 1 << 62), "item 5 of item 0 of left of .* should be a whole number from 0 to"),
        (lambda it: it["left"].append(it["left"][0]), "it lists a segment twice"),
        (lambda it: it["left"].append([]), "item 1 of left of .* should be a list of from 6 to 8 items"),
        (lambda it: it.update(origin="../../etc"), "origin of .* should be a name of letters and digits"),
        (lambda it: it.update(batch="1"), "batch of .* should be a whole number from -1"),
        (lambda it: it.update(watermark=0.5), "watermark of .* should be a whole number, got 0.5"),
        (lambda it: it.update(arrived=[1, 2]), "arrived of .* should be an object"),
        (lambda it: it.update(index=["bi_sort"]), "index of .* should be a list of 2 items"),
        (lambda it: it.update(streams=["left", 5]), "item 1 of streams of .* should be a text, got 5"),
        (lambda it: it.pop("right"), "the manifest of bucket 3 lacks right"),
    ],
)
def test_manifests_that_no_bucket_writes(change: Callable[[dict[str, Any]], None], text: str) -> None:
    manifest = Manifest("a1", 5, 7, {"left": [Entry("0-0-a", 3, 99, 0, 5, 80)], "right": []}, 3, 4)
    assert Manifest.from_bytes(manifest.to_bytes(), 3) == manifest
    plain = json.loads(manifest.to_bytes())
    del plain["crc"]
    change(plain)
    with pytest.raises(sj.StateError, match=f"the manifest of bucket 3 is damaged: .*{text}"):
        Manifest.from_bytes(signed(plain), 3)


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        ({"since": 1, "until": True}, "until of the record .* should be a whole number from 0"),
        ({"since": 1, "until": 2, "fired": {"x": 1}}, "the record of a state store's idle micro-batches is damaged"),
        ({"since": 1, "until": 2, "fired": {"1": -1}}, "1 of fired of the record .* should be a whole number from 0"),
    ],
)
def test_records_of_idle_stores(plain: dict[str, Any], text: str) -> None:
    with pytest.raises(sj.StateError, match=text):
        idle_of((to_record(plain),))


def test_a_record_that_is_nested_deeply() -> None:
    with pytest.raises(sj.StateError, match=r"the manifest of bucket 1 is damaged: .* is nested too deeply"):
        Manifest.from_bytes(b'{"format":3,"left":' + b"[" * 100_000, 1)


def test_segments_that_unpack_to_more_than_they_are() -> None:
    rows = pa.table({"x": pa.array([0] * 1000, pa.int64())})
    data = to_compact(rows)
    assert from_compact(data, rows.schema, 1000) == rows
    with pytest.raises(pa.ArrowInvalid, match="bytes with 1000 rows, expected 999"):
        from_compact(data, rows.schema, 999)
    sink = pa.BufferOutputStream()
    parquet.write_table(rows.rename_columns(["0"]), sink, compression="snappy")
    with pytest.raises(pa.ArrowInvalid, match="the rows are compressed, which no version of slidejoin does"):
        from_compact(sink.getvalue(), rows.schema, 1000)
