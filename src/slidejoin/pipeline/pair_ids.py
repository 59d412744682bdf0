"""A job's join with the ids of its pairs, see `slidejoin.plan.pair_ids`."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.pipeline.source import OnlySparkError
from slidejoin.plan.pair_ids import NUMBERS, PairIdColumn
from slidejoin.rows.arrow_buffers import array_of, buffer_of, empty_of, from_buffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from slidejoin.api.stream_join import StreamJoin
    from slidejoin.api.table_join import TableJoin
    from slidejoin.pipeline.job_join import JobJoin, LostCounts
    from slidejoin.pipeline.source import Rows

    Words = NDArray[np.uint64]

__all__ = ["PairIdJoin", "numbered", "numbered_schema"]

LETTERS = np.frombuffer(b"".join(f"{byte:02x}".encode() for byte in range(256)), "u2")
DIGITS = 32
"""Of an id."""

ESCAPES = {code: f"\\u{code:04X}" for code in range(32)} | {
    ord(sign): f"\\{letter}" for sign, letter in zip('\b\t\n\f\r"\\', 'btnfr"\\', strict=True)
}
"""Signs in texts, as Spark writes them in JSON."""


class PairIdJoin:
    """A `JobJoin` whose result has a column of ids.

    Parameters
    ----------
    column : PairIdColumn
    suffix : str
        Of right columns in the result.
    schemas : pair of pyarrow.Schema
        Of both sources: all their columns are in the ids.
    inner : JobJoin
        Made for `numbered_schema` of both, with the columns that `PairIdColumn.selected` says.
    """

    def __init__(self, column: PairIdColumn, suffix: str, schemas: tuple[pa.Schema, pa.Schema], inner: JobJoin) -> None:
        self._column, self._inner = column, inner
        self._numbers = column.numbers(suffix)
        self.needed = tuple(schemas[0].names), tuple(schemas[1].names)

    @property
    def join(self) -> StreamJoin | TableJoin:
        """What joins."""
        return self._inner.join

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        return self._made(empty_of(self._inner.schema)).schema

    def begin(self, state: bytes = b"") -> None:
        """Create the join, or restore it from a state.

        Raises
        ------
        PredicateError
            If the result has a column of the same name.
        """
        self._inner.begin(state)
        self._column.check_free([name for name in self._inner.schema.names if name not in self._numbers])

    def take(self, rows: Sequence[Rows]) -> Iterator[pa.Table]:
        """Take what a micro-batch has read of each source, and yield rows of the result."""
        return map(self._made, self._inner.take([numbered(one) for one in rows]))

    def take_all(self, rows: Sequence[Rows]) -> Iterator[pa.Table]:
        """Take all that there is, and yield rows of the result."""
        return map(self._made, self._inner.take_all([numbered(one) for one in rows]))

    def state(self) -> bytes:
        """Return what a later run continues from."""
        return self._inner.state()

    def counts(self) -> LostCounts:
        """Return how many rows were lost so far."""
        return self._inner.counts()

    def latest(self, rows: Sequence[Rows]) -> str | None:
        """Return the largest event time of rows in ISO 8601; None without one."""
        return self._inner.latest(rows)

    def explain(self) -> str:
        """Return the plan in words."""
        return self._inner.explain()

    def _made(self, table: pa.Table) -> pa.Table:
        """Return rows of the result with ids instead of the numbers of rows."""
        own = [table.column(name) for name in self._numbers if name in table.column_names]
        words = []
        for number in (1, 2):
            hashes = hash_int(number, seeds(table.num_rows))
            for column in own:
                hashes = hash_nulls(column, hash_values(column, hashes))
            words.append(hashes)
        shown = LETTERS[np.stack(words, axis=1).astype(">u8").view(np.uint8)].view(np.uint8)
        ends = np.arange(table.num_rows + 1, dtype=np.int32) * DIGITS
        texts = pa.Array.from_buffers(pa.string(), table.num_rows, [None, buffer_of(ends), buffer_of(shown)])
        names = [name for name in table.column_names if name not in self._numbers]
        return table.select(names).append_column(self._column.name, texts)


def numbered_schema(schema: pa.Schema, name: str) -> pa.Schema:
    """Return the schema of rows with their numbers; `name` is of their source.

    Raises
    ------
    OnlySparkError
        For a column whose hash only Spark knows.
    """
    for field in schema:
        if not can_hash(field.type) and not _has_text(field.type):
            msg = (
                f"join.pair_id: column {field.name!r} of the source {name} is {field.type}, whose ids are computed by "
                "Spark alone."
            )
            raise OnlySparkError(msg)
    return pa.schema([*schema, *(pa.field(number, pa.int64()) for number in NUMBERS)])


def numbered(rows: Rows) -> Rows:
    """Return rows with their numbers."""
    table = rows.table
    columns = [(_hashable(*one), one[1]) for one in zip(table.column_names, table.columns, strict=True)]
    for number, name in enumerate(NUMBERS, start=1):
        hashes = hash_int(number, seeds(table.num_rows))
        for values, column in columns:
            hashes = hash_nulls(column, hash_values(values, hashes))
        table = table.append_column(name, array_of(hashes.view(np.int64)))
    return replace(rows, table=table)


# -- nested values, which are hashed as the JSON that Spark's `to_json` makes of them ----------------------------------


def _has_text(kind: Any) -> bool:  # noqa: ANN401 - the stubs have no members
    """Tell whether a nested type has a text here: the digits of floats and decimals are Java's."""
    types = pa.types
    if types.is_struct(kind):
        return all(_has_text(kind.field(place).type) for place in range(kind.num_fields))
    if types.is_list(kind):
        return _has_text(kind.value_type)
    if types.is_map(kind):
        return (types.is_string(kind.key_type) or types.is_integer(kind.key_type)) and _has_text(kind.item_type)
    if types.is_timestamp(kind):
        return bool(kind.unit == "us")
    return any(
        test(kind) for test in (types.is_boolean, types.is_integer, types.is_string, types.is_binary, types.is_date32)
    )


def _hashable(name: str, column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    if not pa.types.is_nested(column.type):
        return column
    written = _writer(column.type)
    texts = [f"{{{_quoted(name)}:{written(value)}}}" for value in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _instant(value: datetime) -> str:
    return f'"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")}Z"'


def _quoted(text: str) -> str:
    return f'"{text.translate(ESCAPES)}"'


def _writer(kind: Any) -> Callable[[Any], str]:  # noqa: ANN401 - see _has_text
    """Return the function from a value to its JSON."""
    plain = _plain_writer(kind)
    return lambda value: "null" if value is None else plain(value)


def _plain_writer(kind: Any) -> Callable[[Any], str]:  # noqa: ANN401, PLR0911 - one case for each kind of type
    types = pa.types
    if types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        written = [(one.name, _quoted(one.name), _writer(one.type)) for one in fields]
        return lambda value: "{" + ",".join(f"{shown}:{write(value[name])}" for name, shown, write in written) + "}"
    if types.is_list(kind):
        write = _writer(kind.value_type)
        return lambda value: f"[{','.join(map(write, value))}]"
    if types.is_map(kind):
        write = _writer(kind.item_type)
        return lambda value: "{" + ",".join(f"{_quoted(str(key))}:{write(one)}" for key, one in value) + "}"
    if types.is_timestamp(kind):
        return _instant if kind.tz else lambda value: f'"{value.isoformat(timespec="microseconds")}"'
    if types.is_binary(kind):
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if types.is_date32(kind):
        return lambda value: f'"{value.isoformat()}"'
    if types.is_boolean(kind):
        return lambda value: str(value).lower()
    return _quoted if types.is_string(kind) else str


# -- the hash of Spark's function ``xxhash64`` -------------------------------------------------------------------------
#
# XXH64, with the hash before it as its seed. NULL leaves the hash as it was. Floats are hashed by their bits, all zeros
# and all NaNs being one; decimals of up to 18 digits as whole numbers, larger ones as the fewest bytes of their two's
# complement, the highest first.

SEED = np.uint64(42)
P1, P2, P3, P4, P5 = (
    np.uint64(one)
    for one in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
LANES = tuple(np.uint64(one % (1 << 64)) for one in (int(P1) + int(P2), int(P2), 0, -int(P1)))
STRIPE, WORD, HALF = 32, 8, 4
LONG_DIGITS = 18
"""Of decimals that Spark has in 64 bits."""

INTS = ("int8", "int16", "int32", "uint8", "uint16", "date32[day]")
"""Whole numbers that Spark has in 32 bits, or fewer."""


def seeds(rows: int) -> Words:
    """Return the hashes before any value."""
    return np.full(rows, SEED)


def _turned(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _stirred(hashes: Words) -> Words:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * P3
    return hashes ^ (hashes >> np.uint64(32))


def hash_int(values: Any, hashes: Words) -> Words:  # noqa: ANN401 - an array of uint32, or a number
    """Return the hashes after values of 32 bits."""
    hashes = (hashes + P5 + np.uint64(HALF)) ^ (np.asarray(values, np.uint64) * P1)
    return _stirred(_turned(hashes, 23) * P2 + P3)


def hash_long(values: Words, hashes: Words) -> Words:
    """Return the hashes after values of 64 bits."""
    hashes = (hashes + P5 + np.uint64(WORD)) ^ (_turned(values * P2, 31) * P1)
    return _stirred(_turned(hashes, 27) * P1 + P4)


def _hash_bytes(data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64], hashes: Words) -> Words:
    """Return the hashes after strings of bytes, string i being ``data[starts[i]:starts[i] + sizes[i]]``."""
    padded = np.concatenate([data, np.zeros(WORD, np.uint8)])
    words: Words = np.ndarray(data.size + 1, "<u8", padded.data, 0, (1,))
    shorts: NDArray[np.uint32] = np.ndarray(data.size + 1, "<u4", padded.data, 0, (1,))
    place, ends = starts.copy(), starts + sizes
    made = hashes + P5
    long = np.flatnonzero(sizes >= STRIPE)
    if long.size:
        made[long] = _stripes(words, place, ends, hashes, long)
    made += sizes.astype(np.uint64)
    active = np.flatnonzero(place + WORD <= ends)
    while active.size:
        word = words[place[active]]
        made[active] = _turned(made[active] ^ (_turned(word * P2, 31) * P1), 27) * P1 + P4
        place[active] += WORD
        active = active[place[active] + WORD <= ends[active]]
    active = np.flatnonzero(place + HALF <= ends)
    half = shorts[place[active]].astype(np.uint64)
    made[active] = _turned(made[active] ^ (half * P1), 23) * P2 + P3
    place[active] += HALF
    active = np.flatnonzero(place < ends)
    while active.size:
        letter = padded[place[active]].astype(np.uint64)
        made[active] = _turned(made[active] ^ (letter * P5), 11) * P1
        place[active] += 1
        active = active[place[active] < ends[active]]
    return _stirred(made)


def _stripes(
    words: Words, place: NDArray[np.int64], ends: NDArray[np.int64], hashes: Words, long: NDArray[np.int64]
) -> Words:
    """Return the hashes after all whole stripes of the strings at `long`, and move their places behind these."""
    lanes = [hashes[long] + one for one in LANES]
    active = np.arange(long.size)
    while active.size:
        at = place[long[active]]
        for number, lane in enumerate(lanes):
            lane[active] = _turned(lane[active] + words[at + WORD * number] * P2, 31) * P1
        place[long[active]] += STRIPE
        active = active[place[long[active]] + STRIPE <= ends[long[active]]]
    one, two, three, four = lanes
    made = _turned(one, 1) + _turned(two, 7) + _turned(three, 12) + _turned(four, 18)
    for lane in lanes:
        made = (made ^ (_turned(lane * P2, 31) * P1)) * P1 + P4
    return made


# -- columns of Arrow --------------------------------------------------------------------------------------------------


def can_hash(kind: pa.DataType) -> bool:
    """Tell whether values of a type have one hash: nested ones, and those that Spark has not, have none here."""
    types = pa.types
    return (
        (types.is_integer(kind) and kind != pa.uint64())
        or any(
            test(kind)
            for test in (types.is_boolean, types.is_float32, types.is_float64, types.is_decimal, types.is_date32)
        )
        or any(test(kind) for test in (types.is_timestamp, types.is_duration, types.is_time64))
        or any(test(kind) for test in (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary))
    )


def hash_values(column: pa.ChunkedArray[Any], hashes: Words) -> Words:
    """Return the hashes after the values of a column."""
    made = np.empty_like(hashes)
    first = 0
    for chunk in column.chunks:
        last = first + len(chunk)
        its = _hash_chunk(chunk, hashes[first:last])
        made[first:last] = np.where(_bits(chunk.is_null()), hashes[first:last], its) if chunk.null_count else its
        first = last
    return made


def hash_nulls(column: pa.ChunkedArray[Any], hashes: Words) -> Words:
    """Return the hashes after whether each value of a column is NULL."""
    nulls = [_bits(chunk.is_null()) for chunk in column.chunks if len(chunk)]
    return hash_int(np.concatenate(nulls), hashes) if nulls else hashes.copy()


def _bits(array: pa.Array[Any]) -> NDArray[np.bool_]:
    """Return truth values, none of which is NULL."""
    packed = from_buffer(array.buffers()[1], np.uint8)
    bits = np.unpackbits(packed, bitorder="little", count=array.offset + len(array))
    return bits[array.offset :].view(np.bool_)


def _hash_chunk(chunk: pa.Array[Any], hashes: Words) -> Words:  # noqa: PLR0911 - one case for each family of types
    kind, rows = chunk.type, len(chunk)
    if not rows:
        return hashes.copy()
    if pa.types.is_boolean(kind):
        return hash_int(_bits(chunk), hashes)
    if any(test(kind) for test in (pa.types.is_string, pa.types.is_binary)):
        return _hash_strings(chunk, np.dtype(np.int32), hashes)
    if any(test(kind) for test in (pa.types.is_large_string, pa.types.is_large_binary)):
        return _hash_strings(chunk, np.dtype(np.int64), hashes)
    if pa.types.is_decimal(kind):
        return _hash_decimals(chunk, hashes)
    if pa.types.is_floating(kind):
        return _hash_floats(chunk, hashes)
    values = _numbers(chunk)
    if str(kind) in INTS:
        return hash_int(values.astype(np.int32).view(np.uint32), hashes)
    return hash_long(values.astype(np.int64).view(np.uint64), hashes)


def _numbers(chunk: pa.Array[Any]) -> NDArray[Any]:
    kind: Any = chunk.type
    name = f"u{kind.bit_width // 8}" if pa.types.is_unsigned_integer(kind) else f"i{kind.bit_width // 8}"
    return from_buffer(chunk.buffers()[1], name, chunk.offset + len(chunk))[chunk.offset :]


def _hash_floats(chunk: pa.Array[Any], hashes: Words) -> Words:
    single = pa.types.is_float32(chunk.type)
    values = from_buffer(chunk.buffers()[1], "f4" if single else "f8", chunk.offset + len(chunk))[chunk.offset :]
    plain = np.where(values == 0, values.dtype.type(0), values)
    plain = np.where(np.isnan(plain), values.dtype.type(np.nan), plain)
    return hash_int(plain.view(np.uint32), hashes) if single else hash_long(plain.view(np.uint64), hashes)


def _hash_strings(chunk: pa.Array[Any], width: np.dtype[Any], hashes: Words) -> Words:
    _, offsets, data = chunk.buffers()
    ends = from_buffer(offsets, width, chunk.offset + len(chunk) + 1)[chunk.offset :].astype(np.int64)
    letters = from_buffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return _hash_bytes(letters, ends[:-1], np.diff(ends), hashes)


def _hash_decimals(chunk: pa.Array[Any], hashes: Words) -> Words:
    kind: Any = chunk.type
    if kind != pa.decimal128(kind.precision, kind.scale):
        chunk = pc.cast(chunk, pa.decimal128(kind.precision, kind.scale))
    rows = len(chunk)
    size = 2 * WORD
    data = from_buffer(chunk.buffers()[1], np.uint8, (chunk.offset + rows) * size)[chunk.offset * size :]
    if kind.precision <= LONG_DIGITS:
        return hash_long(data.view("<u8")[::2].astype(np.uint64), hashes)
    highest_first = np.ascontiguousarray(data.reshape(rows, size)[:, ::-1])
    one, two = highest_first[:, :-1], highest_first[:, 1:]
    # A byte that the next one's sign says too.
    spare = ((one == 0) & (two < 128)) | ((one == 255) & (two >= 128))  # noqa: PLR2004 - of a byte
    skipped = np.logical_and.accumulate(spare, axis=1).sum(axis=1)
    starts = np.arange(rows, dtype=np.int64) * size + skipped
    return _hash_bytes(highest_first.reshape(-1), starts, size - skipped, hashes)
