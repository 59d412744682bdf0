"""Messages of Protobuf, one with a field of each kind, as ``protoc --include_imports`` describes them."""

from __future__ import annotations

from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

ORDER = "shop.Order"
REQUIRED = "shop.Required"
LOOP = "shop.Loop"
PAIR = "shop.Pair"


def descriptor_set() -> bytes:
    """Return the descriptor set of a file ``shop.proto``."""
    one, many = Field.LABEL_OPTIONAL, Field.LABEL_REPEATED
    shop = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    shop.dependency.append("google/protobuf/timestamp.proto")
    order = shop.message_type.add(name=ORDER.removeprefix("shop."))
    time, item = ".google.protobuf.Timestamp", f".{ORDER}.Item"
    fields = [
        ("id", Field.TYPE_INT64, one, None), ("price", Field.TYPE_DOUBLE, one, None),
        ("ts", Field.TYPE_MESSAGE, one, time), ("note", Field.TYPE_STRING, one, None),
        ("side", Field.TYPE_ENUM, one, ".shop.Side"), ("tags", Field.TYPE_STRING, many, None),
        ("items", Field.TYPE_MESSAGE, many, item), ("best", Field.TYPE_MESSAGE, one, item),
        ("counts", Field.TYPE_MESSAGE, many, f".{ORDER}.CountsEntry"), ("raw", Field.TYPE_BYTES, one, None),
        ("small", Field.TYPE_UINT32, one, None), ("yes", Field.TYPE_BOOL, one, None),
    ]  # fmt: skip
    for number, (name, kind, label, type_name) in enumerate(fields, 1):
        order.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)
    order.field[3].proto3_optional, order.field[3].oneof_index = True, 0
    order.oneof_decl.add(name="_note")
    side = shop.enum_type.add(name="Side")
    side.value.add(name="BUY", number=0)
    side.value.add(name="SELL", number=1)
    nested = order.nested_type.add(name="Item")
    nested.field.add(name="k", number=1, type=Field.TYPE_INT32, label=one)
    nested.field.add(name="at", number=2, type=Field.TYPE_MESSAGE, label=one, type_name=time)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=one)
    entry.field.add(name="value", number=2, type=Field.TYPE_UINT64, label=one)
    loop = shop.message_type.add(name="Loop")
    loop.field.add(name="next", number=1, type=Field.TYPE_MESSAGE, label=one, type_name=f".{LOOP}")
    pair = shop.message_type.add(name="Pair")
    for number, name in enumerate(("id", "id_right"), 1):
        pair.field.add(name=name, number=number, type=Field.TYPE_INT64, label=one)
    pair.field.add(name="match_time", number=3, type=Field.TYPE_MESSAGE, label=one, type_name=time)
    old = FileDescriptorProto(name="old.proto", package="shop")
    required = old.message_type.add(name="Required")
    required.field.add(name="id", number=1, type=Field.TYPE_INT64, label=Field.LABEL_REQUIRED)
    times = FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    return FileDescriptorSet(file=[times, shop, old]).SerializeToString()
