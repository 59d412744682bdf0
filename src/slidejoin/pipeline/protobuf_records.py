"""Protobuf messages as rows and rows as messages, by a descriptor set of ``protoc`` and Google's package.

Columns are built field by field, from all messages of a block. The types are those of Spark's ``from_protobuf``, but
numbers without a sign get a type that holds all of them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.errors import ConfigError, MissingPackageError, SlideJoinError
from slidejoin.pipeline.source import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ProtobufRows", "protobuf_rows"]

TIMESTAMP = "google.protobuf.Timestamp"
INSTANT = pa.timestamp("us", "UTC")

KINDS: dict[str, pa.DataType] = {
    "BOOL": pa.bool_(), "STRING": pa.string(), "BYTES": pa.binary(), "ENUM": pa.string(), "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(), "INT32": pa.int32(), "SINT32": pa.int32(), "SFIXED32": pa.int32(), "INT64": pa.int64(),
    "SINT64": pa.int64(), "SFIXED64": pa.int64(), "UINT32": pa.int64(), "FIXED32": pa.int64(),
    "UINT64": pa.decimal128(20, 0), "FIXED64": pa.decimal128(20, 0),
}  # fmt: skip
"""Types of columns by those of fields."""


@lru_cache(maxsize=16)
def protobuf_rows(descriptors: bytes, message: str, where: str = "value") -> ProtobufRows:
    """Return what reads and writes a message.

    Parameters
    ----------
    descriptors : bytes
        A descriptor set: what ``protoc --include_imports --descriptor_set_out`` writes.
    message : str
        The full name of the message.
    where : str
        The key of the job file, for errors.

    Raises
    ------
    ConfigError
        If there is no such message, or it has a field that cannot be a column.
    MissingPackageError
        If the package ``protobuf`` is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415 - an extra
        from google.protobuf.message import DecodeError  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        msg = f'{where}: Protobuf needs the package protobuf. Install it: pip install "slidejoin[pipeline]"'
        raise MissingPackageError(msg) from error
    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
        for file in files.file:
            pool.Add(file)
        descriptor = pool.FindMessageTypeByName(message)
    except (DecodeError, TypeError) as error:
        msg = (
            f"{where}.descriptor: no descriptor set, or one without what its files import: {error}. Write it by "
            "protoc --include_imports --descriptor_set_out=FILE"
        )
        raise ConfigError(msg) from error
    except KeyError as error:
        names = [f"{file.package}.{one.name}".lstrip(".") for file in files.file for one in file.message_type]
        msg = f"{where}.message: the descriptor set has no message {message!r}; it has {', '.join(sorted(names))}."
        raise ConfigError(msg) from error
    return ProtobufRows(descriptor, message_factory.GetMessageClass(descriptor), where)


class ProtobufRows:
    """Reads and writes one kind of message.

    Attributes
    ----------
    schema : pyarrow.Schema
        A column for each field.
    """

    def __init__(self, descriptor: Any, kind: Any, where: str) -> None:  # noqa: ANN401 - of another package
        self.schema = pa.schema([(one.name, _type(one, where, ())) for one in descriptor.fields])
        self._descriptor, self._kind = descriptor, kind
        self._checked = _has_required(descriptor, ())

    def read(self, values: Sequence[bytes | None], *, registry: bool = False) -> tuple[pa.Table, dict[int, str]]:
        """Return the rows of messages, and why some cannot be read, by their places; these have no row.

        Parameters
        ----------
        values : sequence of bytes or None
        registry : bool
            Whether each begins with the five bytes of a schema registry and the place of the message.
        """
        parse = self._kind.FromString
        try:
            if registry or self._checked:
                raise ValueError  # noqa: TRY301 - one by one
            return self._table(list(map(parse, values))), {}
        except Exception:  # noqa: BLE001 - of another package, and said below
            messages, bad = [], {}
            for place, value in enumerate(values):
                try:
                    message = self._one(value, registry=registry)
                    self._table([message])  # a time may be beyond all that a column holds
                    messages.append(message)
                except Exception as error:  # noqa: BLE001 - as above
                    bad[place] = str(error) if isinstance(error, _UnreadError) else "not a message of the schema"
            return self._table(messages), bad

    def _one(self, value: bytes | None, *, registry: bool) -> Any:  # noqa: ANN401 - of another package
        if value is None:
            raise _UnreadError(MISSING)
        message = self._kind.FromString(_behind_registry(value) if registry else value)
        if self._checked and not message.IsInitialized():
            raise _UnreadError(f"it has no {', '.join(message.FindInitializationErrors())}")
        return message

    def _table(self, messages: list[Any]) -> pa.Table:
        fields = self._descriptor.fields
        columns = [_column(field, messages, one.type) for field, one in zip(fields, self.schema, strict=True)]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def check(self, columns: Sequence[str], where: str) -> None:
        """Refuse a result of which a field has no column; `where` is the key of the job file.

        Raises
        ------
        ConfigError
            If a field has no column of its name; columns without a field are not written.
        """
        missing = [name for name in self.schema.names if name not in columns]
        if missing:
            msg = (
                f"{where}.message: {self._descriptor.full_name} has the field {missing[0]!r}, and the result has "
                f"no such column; it has {', '.join(columns)}."
            )
            raise ConfigError(msg)

    def write(self, rows: pa.Table) -> list[bytes]:
        """Return rows as messages; a NULL is a field that is not set.

        Raises
        ------
        SlideJoinError
            If a value does not fit its field.
        """
        made = [self._kind() for _ in range(rows.num_rows)]
        for field, one in zip(self._descriptor.fields, self.schema, strict=True):
            try:
                column = rows.column(one.name)
                values = (column if column.type == one.type else column.cast(one.type)).to_pylist()
                for message, value in zip(made, values, strict=True):
                    if value is not None:
                        _set(message, field, value)
            except (pa.ArrowException, TypeError, ValueError) as error:
                msg = f"the column {one.name} does not fit the message {self._descriptor.full_name}: {error}"
                raise SlideJoinError(msg) from error
        return [message.SerializeToString() for message in made]


class _UnreadError(Exception):
    """A message that cannot be read, and why."""


def _behind_registry(value: bytes) -> bytes:
    """Return a message without the five bytes of a registry and the place of its type among those of the schema."""
    if len(value) < 6 or value[0] != 0:  # noqa: PLR2004 - see above
        raise _UnreadError("it does not begin with the bytes of a registry")
    count, at = _varint(value, 5)
    for _ in range(count >> 1):
        _, at = _varint(value, at)
    return value[at:]


def _varint(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (value[at] & 127) << shift
        shift += 7
        at += 1
        if value[at - 1] < 128:  # noqa: PLR2004 - the last byte of a number
            return number, at


def _has_required(descriptor: Any, above: tuple[str, ...]) -> bool:  # noqa: ANN401 - of another package
    if descriptor.full_name in above:
        return False
    return any(
        one.is_required or (one.message_type and _has_required(one.message_type, (*above, descriptor.full_name)))
        for one in descriptor.fields
    )


def _kind_of(field: Any) -> str:  # noqa: ANN401 - of another package
    """Return the name of a field's type, such as INT32."""
    return next(name for name in KINDS if field.type == getattr(field, f"TYPE_{name}"))


def _is_map(field: Any) -> bool:  # noqa: ANN401 - of another package
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _type(field: Any, where: str, above: tuple[str, ...]) -> pa.DataType:  # noqa: ANN401 - of another package
    """Return the type of a field's column."""
    if _is_map(field):
        key, value = field.message_type.fields
        return pa.map_(_single_type(key, where, above), _single_type(value, where, above))
    single = _single_type(field, where, above)
    return pa.list_(single) if field.is_repeated else single


def _single_type(field: Any, where: str, above: tuple[str, ...]) -> pa.DataType:  # noqa: ANN401 - as above
    message = field.message_type
    if message is None:
        return KINDS[_kind_of(field)]
    if message.full_name == TIMESTAMP:
        return INSTANT
    if message.full_name in above or message.full_name == field.containing_type.full_name:
        msg = f"{where}.message: the field {field.full_name} contains its own message, which no column can."
        raise ConfigError(msg)
    if not message.fields:
        msg = f"{where}.message: the field {field.full_name} is a message without fields, which no column can be."
        raise ConfigError(msg)
    inner = (*above, message.full_name)
    return pa.struct([(one.name, _type(one, where, inner)) for one in message.fields])


def _column(field: Any, messages: list[Any], kind: pa.DataType) -> pa.Array[Any]:  # noqa: ANN401 - as above
    """Return a field of all messages as a column."""
    name = field.name
    if not field.is_repeated:
        if field.has_presence:
            return _array(field, [getattr(one, name) if one.HasField(name) else None for one in messages], kind)
        return _array(field, [getattr(one, name) for one in messages], kind)
    lists = [getattr(one, name) for one in messages]
    ends = [0]
    for one in lists:
        ends.append(ends[-1] + len(one))
    offsets = pa.array(ends, pa.int32())
    if _is_map(field):
        key, value = field.message_type.fields
        keys = _array(key, [one for entries in lists for one in entries], kind.key_type)  # type: ignore[attr-defined]
        items = _array(value, [entries[one] for entries in lists for one in entries], kind.item_type)  # type: ignore[attr-defined]
        made: pa.Array[Any] = pa.MapArray.from_arrays(offsets, keys, items)  # type: ignore[call-overload]  # so are they
        return made
    flat = [value for one in lists for value in one]
    return pa.ListArray.from_arrays(offsets, _array(field, flat, kind.value_type))  # type: ignore[attr-defined]


def _array(field: Any, values: list[Any], kind: pa.DataType) -> pa.Array[Any]:  # noqa: ANN401 - as above
    """Return values of a field, some of which may be None, as an array."""
    message = field.message_type
    if message is None:
        if field.enum_type is not None:
            names = {number: one.name for number, one in field.enum_type.values_by_number.items()}
            values = [None if value is None else names.get(value, str(value)) for value in values]
        return pa.array(values, kind)
    if message.full_name == TIMESTAMP:
        ticks = [None if one is None else one.seconds * 1_000_000 + one.nanos // 1000 for one in values]
        return pa.array(ticks, pa.int64()).cast(kind)
    absent = [one is None for one in values]
    if any(absent):
        empty = _empty(message)
        values = [empty if one is None else one for one in values]
    fields = [kind.field(number) for number in range(kind.num_fields)]
    columns = [_column(one, values, its.type) for one, its in zip(message.fields, fields, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(absent, pa.bool_()))


def _empty(descriptor: Any) -> Any:  # noqa: ANN401 - as above
    from google.protobuf import message_factory  # noqa: PLC0415 - an extra

    return message_factory.GetMessageClass(descriptor)()


def _set(message: Any, field: Any, value: Any) -> None:  # noqa: ANN401 - as above
    """Set a field of a message."""
    if _is_map(field):
        its = getattr(message, field.name)
        of = field.message_type.fields[1]
        for key, one in value:
            if of.message_type is None:
                its[key] = _plain(of, one)
            else:
                _fill(its[key], of.message_type, one)
    elif field.is_repeated:
        its = getattr(message, field.name)
        for one in value:
            if field.message_type is None:
                its.append(_plain(field, one))
            else:
                _fill(its.add(), field.message_type, one)
    elif field.message_type is None:
        setattr(message, field.name, _plain(field, value))
    else:
        its = getattr(message, field.name)
        its.SetInParent()
        _fill(its, field.message_type, value)


def _plain(field: Any, value: Any) -> Any:  # noqa: ANN401 - as above
    if field.enum_type is not None:
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            names = ", ".join(field.enum_type.values_by_name)
            msg = f"got {value!r}, expected one of {names}"
            raise ValueError(msg)
        return known.number
    return int(value) if pa.types.is_decimal(KINDS[_kind_of(field)]) else value


def _fill(message: Any, descriptor: Any, value: Any) -> None:  # noqa: ANN401 - as above
    if descriptor.full_name == TIMESTAMP:
        passed = value - datetime.fromtimestamp(0, UTC)
        message.seconds = passed.days * 86_400 + passed.seconds
        message.nanos = passed.microseconds * 1000
        return
    for field in descriptor.fields:
        if value.get(field.name) is not None:
            _set(message, field, value[field.name])
