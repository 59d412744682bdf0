"""The block that a state is written as."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.api import snapshot_format as snapshot
from slidejoin.api.snapshot_format import read_snapshot, table_to_bytes, write_snapshot
from slidejoin.rows.stored_tables import table_from_bytes


def test_round_trip() -> None:
    header, parts = {"a": [1, None, "x"]}, [b"", b"abc", bytes(1000)]
    block = write_snapshot(header, parts)
    for data in (block, bytearray(block), memoryview(block)):
        assert read_snapshot(data) == ({"slidejoin": sj.__version__, **header}, parts)
    assert write_snapshot(header, parts) == block


def test_tables_with_several_chunks_and_dictionaries() -> None:
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c"]).dictionary_encode()]
    table = pa.table({"d": pa.chunked_array(chunks), "n": [1, 2, 3]}).replace_schema_metadata({"k": "v"})
    back = table_from_bytes(table_to_bytes(table))
    assert back.to_pylist() == table.to_pylist()
    assert back.schema.equals(table.schema, check_metadata=True)


def resealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("text", "a snapshot is bytes, got str; give what snapshot\\(\\) returned"),
        (b"", "these 0 bytes are not a slidejoin snapshot, or only the beginning of one"),
        (snapshot.MAGIC, "these 19 bytes are not a slidejoin snapshot"),
        (write_snapshot({}, [])[:-1], "the snapshot is damaged: its checksum does not match; nothing was loaded"),
        (
            resealed(snapshot.MAGIC + snapshot.HEAD.pack(99, 0)),
            f"the snapshot has format 99; slidejoin {sj.__version__} reads formats 1, 2 and 3. Use a newer slidejoin: ",
        ),
    ],
    ids=["type", "empty", "short", "damaged", "newer"],
)
def test_what_is_no_snapshot(state: object, text: str) -> None:
    with pytest.raises(sj.StateError, match=text):
        read_snapshot(state)
