r"""The snapshot file format: a JSON header, rows as Arrow streams, a digest over everything. Nothing is pickled.

Layout, integers little-endian::

    b"slidejoin-snapshot\\n"  format u16  parts u16  { length u64, bytes }…  SHA-256 of all before

The first part is the header. Keys and runs are not stored: they are computed again from the rows. Ordinals are stored,
as ranges of consecutive ones, since rows of a time window may expire from the middle. Format 1 stored the first ordinal
alone. Stored late rows come behind the schemas. Of nearest matches and aggregates there are tables of what rows
that wait have seen, see `operator.deferred`. Of joins that are not inner the last parts are bits: which rows of a side
have a match. Formats 1 and 2 had none of these.

The header also names the version that wrote the snapshot, so that a version that does not know its format can say which
one does. Later formats keep the layout above.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin import __version__
from slidejoin.errors import StateError
from slidejoin.rows.stored_tables import table_from_bytes
from slidejoin.stored import MOST_ROWS, StoredValue, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "FORMAT",
    "check_schema",
    "check_times",
    "ordinals_of",
    "read_snapshot",
    "table_to_bytes",
    "tables_of",
    "whole_or_refused",
    "write_snapshot",
]

MAGIC = b"slidejoin-snapshot\n"
FORMAT = 3
READ = (1, 2, 3)
"""The formats that this version reads; docs/upgrades.md says which version writes and reads which."""

WRITTEN_BY = "slidejoin"
"""In the header: the version that wrote it. Release 0.1 did not say so."""

HEAD = struct.Struct("<HH")
LENGTH = struct.Struct("<Q")
DIGEST = hashlib.sha256().digest_size


def write_snapshot(header: dict[str, Any], parts: Sequence[bytes]) -> bytes:
    """Return header and parts as one checksummed block."""
    blocks = [json.dumps({WRITTEN_BY: __version__, **header}, sort_keys=True).encode(), *parts]
    body = MAGIC + HEAD.pack(FORMAT, len(blocks)) + b"".join(LENGTH.pack(len(block)) + block for block in blocks)
    return body + hashlib.sha256(body).digest()


def read_snapshot(state: object) -> tuple[dict[str, Any], list[bytes]]:
    """Read what `write_snapshot` wrote: header and parts.

    Raises
    ------
    StateError
        If the bytes are no snapshot, are damaged or cut short, or have a format that this version does not know.
    """
    if not isinstance(state, (bytes, bytearray, memoryview)):
        msg = f"a snapshot is bytes, got {type(state).__name__}; give what snapshot() returned"
        raise StateError(msg)
    data = bytes(state)
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + HEAD.size + DIGEST:
        msg = f"these {len(data)} bytes are not a slidejoin snapshot, or only the beginning of one"
        raise StateError(msg)
    version, count = HEAD.unpack_from(data, len(MAGIC))
    body = memoryview(data)[:-DIGEST]
    whole = hashlib.sha256(body).digest() == data[-DIGEST:]
    if version not in READ and whole:
        raise _unknown(version, body, count)
    if not whole:
        msg = "the snapshot is damaged: its checksum does not match; nothing was loaded"
        raise StateError(msg)
    try:
        header, *parts = _blocks(body, count)
    except (struct.error, ValueError) as error:
        msg = f"the snapshot has a right checksum but was not written by slidejoin: {error}"
        raise StateError(msg) from error
    return dict(parsed(header, "the snapshot").object()), parts


def _unknown(version: int, body: memoryview, count: int) -> StateError:
    """Return the error for a format that this version does not read, with the version that wrote it if it says so."""
    written = None
    with suppress(struct.error, ValueError, IndexError):
        header = json.loads(_blocks(body, count)[0])
        written = header.get(WRITTEN_BY) if isinstance(header, dict) else None
    known = f"{', '.join(map(str, READ[:-1]))} and {READ[-1]}"
    what, use = "", "a newer slidejoin"
    if isinstance(written, str) and re.fullmatch(r"[0-9][0-9a-z.+]{0,40}", written):
        what, use = f", which slidejoin {written} wrote", f"slidejoin {written} or newer"
    return StateError(
        f"the snapshot has format {version}{what}; slidejoin {__version__} reads formats {known}. Use {use}: "
        "docs/upgrades.md says which version reads which format"
    )


def _blocks(body: memoryview, count: int) -> list[bytes]:
    at, blocks = len(MAGIC) + HEAD.size, []
    for number in range(count):
        (length,) = LENGTH.unpack_from(body, at)
        at += LENGTH.size
        if at + length > len(body):
            msg = f"part {number} extends beyond the end"
            raise ValueError(msg)
        blocks.append(bytes(body[at : at + length]))
        at += length
    if at != len(body):
        msg = f"{len(body) - at} bytes follow the last part"
        raise ValueError(msg)
    return blocks


def table_to_bytes(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@contextmanager
def whole_or_refused(mine: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn whatever fails while a snapshot with a right checksum is loaded into a `StateError`.

    Whoever wrote it may have put anything into it. Errors that are `mine` are the caller's, and stay as they are.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (StateError, MemoryError, *mine)):
            raise
        msg = f"the snapshot is whole but cannot be read by this version: {error}"
        raise StateError(msg) from error


def tables_of(parts: Sequence[bytes]) -> list[pa.Table]:
    """Read what `table_to_bytes` wrote, part by part.

    Raises
    ------
    StateError
        If a part is no table, or has values that are none.
    """
    return [table_from_bytes(part, f"part {number} of the snapshot") for number, part in enumerate(parts, 1)]


def ordinals_of(stretches: StoredValue, seen: StoredValue, rows: int, what: str) -> tuple[list[tuple[int, int]], int]:
    """Return the first ordinal and the number of each stretch of rows, and how many rows had come.

    Parameters
    ----------
    rows : int
        How many there are.
    what : str
        Whose rows they are.

    Raises
    ------
    StateError
        If rows cannot have these ordinals.
    """
    ranges = [
        (first.whole(0, MOST_ROWS), count.whole(1, MOST_ROWS))
        for first, count in (one.items(2, 2) for one in stretches)
    ]
    end = seen.whole(0, MOST_ROWS)
    check_ordinals(f"{rows} {what}", rows, ranges, end)
    return ranges, end


def check_ordinals(what: str, rows: int, ranges: Sequence[tuple[int, int]], seen: int) -> None:
    """Check that so many rows can have these ordinals: the first and the number of each stretch, out of `seen`.

    Raises
    ------
    StateError
        If they cannot; `what` names the rows.
    """
    ends, starts = [0, *(first + count for first, count in ranges)], [*(first for first, _ in ranges), seen]
    known = sum(count for _, count in ranges) == rows
    if not known or any(end > start for end, start in zip(ends, starts, strict=True)):
        shown = f"{ranges[:3]}{' …' if len(ranges) > 3 else ''}"  # noqa: PLR2004 - enough to recognise them
        msg = f"{what} cannot have the ordinals {shown} out of {seen}"
        raise StateError(msg)


def check_schema(what: str, table: pa.Table, schema: pa.Schema) -> None:
    """Check that a table of a snapshot has the columns that the join says.

    Raises
    ------
    StateError
        If it has others; `what` names its rows.
    """
    if table.schema != schema:
        msg = f"the schema of the {what} differs from the join's"
        raise StateError(msg)


def check_times(table: pa.Table, name: str, what: str) -> None:
    """Check that rows in a window have event times: those that have none are never in one.

    Raises
    ------
    StateError
        If some have none; `what` names the rows.
    """
    if missing := table.column(name).null_count:
        msg = f"{missing} of the {what} have no event time in {name!r}"
        raise StateError(msg)
