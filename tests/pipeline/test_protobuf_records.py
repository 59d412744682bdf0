"""Messages of Protobuf as rows, and rows as messages."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.pipeline.protobuf_records import protobuf_rows
from slidejoin.pipeline.source import MISSING
from tests.pipeline.messages import LOOP, ORDER, REQUIRED, descriptor_set

NOW, OLD = datetime(2026, 1, 1, 1, 2, 3, 456789, UTC), datetime(1960, 2, 3, 4, 5, 6, 7, UTC)
WHOLE: dict[str, Any] = {
    "id": -5, "price": 0.5, "ts": NOW, "note": "", "side": "SELL", "tags": ["a", "ü"],
    "items": [{"k": 1, "at": OLD}, {"k": 0, "at": None}], "best": {"k": 7, "at": NOW},
    "counts": [("a", Decimal(2**64 - 1)), ("b", Decimal(0))], "raw": b"\xff", "small": 2**32 - 1, "yes": True,
}  # fmt: skip
UNSET: dict[str, Any] = {
    "id": 0, "price": 0.0, "ts": None, "note": None, "side": "BUY", "tags": [], "items": [], "best": None, "counts": [],
    "raw": b"", "small": 0, "yes": False,
}  # fmt: skip


def test_every_kind_of_field_is_a_column():
    rows = protobuf_rows(descriptor_set(), ORDER)
    given = pa.Table.from_pylist([WHOLE, dict.fromkeys(WHOLE), WHOLE | {"side": "BUY"}], schema=rows.schema)
    messages = rows.write(given)
    back, bad = rows.read(messages)
    assert bad == {}
    assert back.schema == rows.schema
    found = back.to_pylist()
    assert [sorted(row.pop("counts")) for row in found] == [sorted(row["counts"]) for row in (WHOLE, UNSET, WHOLE)]
    assert found == [
        {name: value for name, value in row.items() if name != "counts"}
        for row in (WHOLE, UNSET, WHOLE | {"side": "BUY"})
    ]
    assert rows.read([])[0].num_rows == 0


def test_what_cannot_be_read_has_a_reason():
    rows = protobuf_rows(descriptor_set(), ORDER)
    (whole,) = rows.write(pa.Table.from_pylist([WHOLE], schema=rows.schema))
    table, bad = rows.read([whole, None, b"\x08", whole + b"\xff", whole])
    no = "not a message of the schema"
    assert (table.num_rows, bad) == (2, {1: MISSING, 2: no, 3: no})
    far = bytes([0x1A, 10, 8, *([0xFF] * 7), 0x7F])  # a time billions of years from now
    assert rows.read([far, whole])[1] == {0: no}
    table, bad = rows.read([b"\0\0\0\0\7\0" + whole, b"\0\0\0\0\7\4\2\2" + whole, whole, b"\0\0"], registry=True)
    no = "it does not begin with the bytes of a registry"
    assert (table.num_rows, bad) == (2, {2: no, 3: no})
    assert protobuf_rows(descriptor_set(), REQUIRED).read([b"\x08\x07", b""])[1] == {1: "it has no id"}


def test_a_number_without_a_name_is_its_own():
    rows = protobuf_rows(descriptor_set(), ORDER)
    table, _ = rows.read([b"\x28\x07"])
    assert table["side"].to_pylist() == ["7"]


def test_errors():
    with pytest.raises(ConfigError, match=r"a\.value\.descriptor: no descriptor set.*protoc --include_imports"):
        protobuf_rows(b"zz", ORDER, "a.value")
    with pytest.raises(
        ConfigError, match=r"value\.message: the descriptor set has no message 'Order'; it has .*shop.O"
    ):
        protobuf_rows(descriptor_set(), "Order")
    with pytest.raises(ConfigError, match=r"the field shop.Loop.next contains its own message, which no column can"):
        protobuf_rows(descriptor_set(), LOOP)
    rows = protobuf_rows(descriptor_set(), ORDER)
    with pytest.raises(
        ConfigError, match=r"sink.value.message: shop.Order has the field 'price', and the result has no"
    ):
        rows.check([name for name in rows.schema.names if name != "price"], "sink.value")
    rows.check([*rows.schema.names, "match_time"], "sink.value")
    others = pa.Table.from_pylist([WHOLE | {"side": "HOLD"}], schema=rows.schema)
    with pytest.raises(SlideJoinError, match=r"column side does not fit.*got 'HOLD', expected one of BUY, SELL"):
        rows.write(others)
    texts = others.set_column(0, "id", pa.array(["one"]))
    with pytest.raises(SlideJoinError, match=r"the column id does not fit the message shop.Order: Failed to parse"):
        rows.write(texts)
