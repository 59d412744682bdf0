"""The state of a bucket in Spark's state store: a manifest, and segments of rows in parts of at most 4 MiB.

Which rows of a segment have matched is a value next to the segment: a bit for each row in each role. It is small, so
that a micro-batch in which old rows match rewrites it and not the rows. Bits are in the order of the segment's rows,
which all attempts at a micro-batch write in one order: blocks are sorted before they are joined.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.errors import StateError
from slidejoin.plan.index_terms import IndexTerms
from slidejoin.sides import SIDES
from slidejoin.spark.state.blocks import open_sealed, seal, unsealed
from slidejoin.spark.state.compact import to_compact
from slidejoin.spark.state.lineage import NEVER, STORE, Idle, check_follows, idle_of
from slidejoin.spark.state.records import FORMAT, WHAT_TO_DO, counts_of, crc_of, from_record, to_record
from slidejoin.spark.state.segments import NAME, Entry, new_id
from slidejoin.stored import StoredValue, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.spark.state.variables import Variables

__all__ = ["ID_STREAMS", "BucketState", "Manifest", "check_join", "digest"]

PATIENCE = 1 << 8, 1 << 18
"""Rows between two checks whether another index would be cheaper: at first, and while it stays; they double."""

PART_BYTES = 4 << 20

ID_STREAMS: dict[Side, str] = {"left": "ids of left rows", "right": "ids of right rows"}
"""Names in a manifest: ids of rows that have a match in the bucket and are stored elsewhere, by their role."""

BITS = "matched"
"""Instead of the number of a part: which rows of the segment have matched."""


def _nothing() -> dict[str, list[Entry]]:
    return {"left": [], "right": []}


def _field(stream: str) -> str:
    """Return the field of a record that has the segments of a stream; streams may be called like other fields."""
    return stream if stream in SIDES else f"rows of {stream}"


@dataclass(slots=True)
class Manifest:
    """The contents of a bucket after a micro-batch: a complete list of what the state must have of it.

    Attributes
    ----------
    origin : str
        Random name of this bucket's state.
    version : int
        Micro-batches that have called it.
    watermark : int or None
        Milliseconds, of the last of them.
    entries : dict from str to list of Entry
        Segments of each stream, left and right or the names of many, oldest first.
    bucket : int
        Its id.
    batch : int or None
        Number of the last micro-batch that called it; `NEVER` before the first one. None in format 2, which lacks it
        and the next two.
    join : int or None
        `digest` of the description of the join.
    arrived : dict from str to int, or None
        Of count windows: rows of each stream that had arrived after that micro-batch.
    timer : int or None
        The time, in milliseconds, at which Spark is to call the bucket if nothing else does.
    chosen : IndexTerms or None
        The index that segments are sealed for, and its terms; None for those that the predicate alone suggests.
    lost : float
        What staying with them has cost, see `slidejoin.operator.advisors.PairAdvisor.lost`.
    unchecked : int
        Rows since it was last checked whether another index would be cheaper.
    patience : int
        Rows after which it is checked again.
    """

    origin: str = field(default_factory=new_id)
    version: int = 0
    watermark: int | None = None
    entries: dict[str, list[Entry]] = field(default_factory=_nothing)
    bucket: int = 0
    batch: int | None = NEVER
    join: int | None = None
    arrived: Mapping[str, int] | None = None
    timer: int | None = None
    chosen: IndexTerms | None = None
    lost: float = 0.0
    unchecked: int = 0
    patience: int = PATIENCE[0]

    @property
    def ids(self) -> list[str]:
        """Ids of all segments."""
        return [entry.id for entries in self.entries.values() for entry in entries]

    @property
    def rows(self) -> list[int]:
        """How many rows of each stream there are; ids of rows that are stored elsewhere are no rows of a window."""
        return [
            sum(entry.rows for entry in its) for name, its in self.entries.items() if name not in ID_STREAMS.values()
        ]

    def to_bytes(self) -> bytes:
        """Return the manifest as a record of the state."""
        plain: dict[str, Any] = {
            "origin": self.origin,
            "bucket": self.bucket,
            "batch": self.batch,
            "version": self.version,
            "watermark": self.watermark,
            "join": self.join,
            "arrived": self.arrived,
        }
        if self.timer is not None:
            plain["timer"] = self.timer
        if self.chosen is not None or self.lost:
            plain["index"] = [None if self.chosen is None else self.chosen.to_json(), round(self.lost)]
        if self.unchecked or self.patience > PATIENCE[0]:
            plain["unchecked"] = [self.unchecked, self.patience]
        if tuple(self.entries) != SIDES:
            plain["streams"] = list(self.entries)
        plain |= {_field(one): [entry.to_json() for entry in entries] for one, entries in self.entries.items()}
        return to_record(plain)

    @staticmethod
    def from_bytes(data: bytes, bucket: int) -> Manifest:
        """Read what `to_bytes` wrote for a bucket.

        Raises
        ------
        StateError
            If it is damaged, another bucket's, or of a format that this version does not know.
        """
        what = f"the manifest of bucket {bucket}"
        plain = from_record(data, what, "origin", "version", "watermark")
        try:
            manifest = Manifest._from_stored(StoredValue(plain, what), bucket)
        except StateError as error:
            msg = f"{what} is damaged: {error}. {WHAT_TO_DO}"
            raise StateError(msg) from error
        if manifest.bucket != bucket:
            msg = f"{what} is that of bucket {manifest.bucket}: the checkpoint's state is damaged. {WHAT_TO_DO}"
            raise StateError(msg)
        return manifest

    @staticmethod
    def _from_stored(stored: StoredValue, bucket: int) -> Manifest:
        named = stored.get("streams")
        streams = list(SIDES) if named is None else [one.text() for one in named]
        entries = {one: [Entry.from_stored(entry) for entry in stored[_field(one)]] for one in streams}
        origin = stored["origin"]
        if NAME.fullmatch(origin.text()) is None:
            raise origin.refuse("a name of letters and digits")
        version, watermark = stored["version"].whole(0), stored["watermark"].or_none(StoredValue.whole)
        manifest = Manifest(origin.text(), version, watermark, entries, bucket, None)
        if len(set(manifest.ids)) < len(manifest.ids):
            msg = "it lists a segment twice"
            raise StateError(msg)
        if stored["format"].value != FORMAT:
            return manifest
        manifest.bucket, manifest.batch = stored["bucket"].whole(0), stored["batch"].or_none(lambda it: it.whole(NEVER))
        manifest.join, manifest.arrived = stored["join"].or_none(crc_of), stored["arrived"].or_none(counts_of)
        timer, index = stored.get("timer"), stored.get("index")
        manifest.timer = None if timer is None else timer.whole()
        if index is not None:
            chosen, lost = index.items(2, 2)
            manifest.chosen, manifest.lost = chosen.or_none(IndexTerms.from_stored), lost.number(0)
        unchecked = stored.get("unchecked")
        if unchecked is not None:
            rows, patience = unchecked.items(2, 2)
            manifest.unchecked, manifest.patience = rows.whole(0), patience.whole(*PATIENCE)
        return manifest

    def check_due(self, rows: int) -> bool:
        """Tell whether it is time to check the index, with so many more rows: a check takes some milliseconds."""
        self.unchecked += rows
        return self.unchecked >= self.patience

    def checked(self, *, changed: bool) -> None:
        """Note that the index was checked, and perhaps changed."""
        self.patience = PATIENCE[0] if changed else min(2 * max(self.patience, self.unchecked), PATIENCE[1])
        self.unchecked = 0

    def check_arrived(self, before: Mapping[Side, int]) -> None:
        """Check how many rows the sequencer of a count window says had arrived before this micro-batch.

        Raises
        ------
        StateError
            If this bucket got another number from the last one.
        """
        if self.batch is None:
            return
        known: Mapping[str, int] = self.arrived or dict.fromkeys(SIDES, 0)
        numbered: Mapping[str, int] = dict(before.items())
        if known != numbered:
            counts = [" and ".join(f"{total[side]} {side}" for side in SIDES) for total in (numbered, known)]
            msg = (
                f"the sequencer has numbered {counts[0]} rows before this micro-batch, but bucket {self.bucket} has "
                f"received {counts[1]}: the checkpoint has lost state. {WHAT_TO_DO}"
            )
            raise StateError(msg)


class BucketState:
    """The state of the bucket that is being joined.

    Two attempts at one micro-batch may both write it: a speculative one, or one that outlives its driver. Spark then
    keeps the last version and may apply later changes to the other one. So the writes of all attempts must be
    compatible: both use the same keys, made of the manifest's version and a number, for the same rows, if perhaps in
    another order. Only in the cache, where nothing is overwritten, a segment's name belongs to one attempt.

    Parameters
    ----------
    batch : int
        Number of the micro-batch.
    streams : sequence of str
        Whose rows are stored.
    """

    def __init__(self, variables: Variables, bucket: int, batch: int, streams: Sequence[str] = SIDES) -> None:
        self._variables = variables
        self._segments = variables.segments
        self._bucket, self._batch, self._streams = bucket, batch, streams
        self._join = self._version = self._written = 0

    def manifest(self, described: dict[str, Any]) -> Manifest:
        """Return the manifest, an empty one at the beginning.

        Raises
        ------
        StateError
            If the state is damaged or is not that of the micro-batch before, or if it belongs to another join than the
            one described; the message says what differs.
        """
        stored, join_text = self._variables.manifest.get(), self._variables.join.get()
        if stored is None:
            text = self._begun(described)
            manifest = Manifest(bucket=self._bucket, entries={stream: [] for stream in self._streams})
        else:
            manifest = Manifest.from_bytes(stored[0], self._bucket)
            if set(manifest.entries) != set(self._streams):
                msg = (
                    f"the manifest of bucket {self._bucket} has rows of {', '.join(manifest.entries)}, the join has "
                    f"{', '.join(self._streams)}. {WHAT_TO_DO}"
                )
                raise StateError(msg)
            text = check_join(join_text, described, manifest.join, f"bucket {self._bucket}")
            if manifest.batch is not None:
                check_follows(self._bucket, manifest.batch, self._batch, self._idle, manifest.timer)
        self._join, self._version = digest(text), manifest.version
        return manifest

    def _begun(self, described: dict[str, Any]) -> str:
        """Return the description of the join for a new bucket, if the bucket may be new."""
        text = json.dumps(described, sort_keys=True)
        self._variables.point_at(STORE)
        stores_own = self._variables.join
        join_text = stores_own.get()
        if join_text is None:
            stores_own.update((text,))
        else:
            # With another number of buckets some are new, and must not be taken for lost ones.
            check_join(join_text, described, None, "a state store")
        self._variables.point_at(self._bucket)
        check_follows(self._bucket, NEVER, self._batch, self._idle)
        self._variables.join.update((text,))
        return text

    def _idle(self) -> Idle | None:
        self._variables.point_at(STORE)
        stored = self._variables.manifest.get()
        self._variables.point_at(self._bucket)
        return idle_of(stored)

    def read(self, entry: Entry, stream: str, schema: pa.Schema) -> pa.Table:
        """Return the rows of one stream's segment.

        Raises
        ------
        StateError
            If it is missing or damaged, naming it.
        """
        what = f"segment {entry.id} of the join's state"
        return open_sealed(self._parts(entry, what), schema, what, self._owner(stream, entry.id), entry.rows)

    def matched(self, entry: Entry, stream: str, roles: Sequence[Side]) -> dict[Side, NDArray[np.bool_]]:
        """Return which rows of a segment have matched, in each of the roles that are known of its stream.

        Raises
        ------
        StateError
            If that is missing or damaged, or not what was written together with the manifest.
        """
        what = f"the record of which rows of segment {entry.id} have matched"
        value = self._segments.getValue((_key(entry, BITS),))
        if value is None:
            msg = f"{what} is missing. {WHAT_TO_DO}"
            raise StateError(msg)
        body = unsealed([bytes(value[0])], what, self._owner(stream, entry.id))
        if zlib.crc32(body) != entry.matched:
            msg = f"{what} is not that of the manifest, but an older or newer one. {WHAT_TO_DO}"
            raise StateError(msg)
        return unpacked_bits(body, entry.rows, roles, what)

    def update_matched(self, entry: Entry, stream: str, matched: Mapping[Side, NDArray[np.bool_]]) -> Entry:
        """Store which rows of a segment have matched, if that has changed, and return its line in the manifest."""
        bits = packed_bits(matched)
        crc = zlib.crc32(bits)
        if crc == entry.matched:
            return entry
        self._segments.updateValue((_key(entry, BITS),), (seal(bits, self._owner(stream, entry.id)),))
        return replace(entry, matched=crc)

    def _parts(self, entry: Entry, what: str) -> Iterator[bytes]:
        for part in range(_parts_of(entry.stored)):
            value = self._segments.getValue((_key(entry, part),))
            if value is None:
                msg = f"{what} is missing: part {part} of {_parts_of(entry.stored)}. {WHAT_TO_DO}"
                raise StateError(msg)
            yield bytes(value[0])

    def write(self, table: pa.Table, stream: str, level: int, time_max: int) -> Entry:
        """Put rows of one stream into the state as a new segment."""
        name = f"{self._version}-{self._written}-{new_id()}"
        data = seal(to_compact(table), self._owner(stream, name))
        self._written += 1
        entry = Entry(name, table.num_rows, table.nbytes, level, time_max, len(data))
        for part in range(_parts_of(len(data))):
            value = data[part * PART_BYTES : (part + 1) * PART_BYTES]
            self._segments.updateValue((_key(entry, part),), (value,))
        return entry

    def remove(self, entry: Entry) -> None:
        """Take a segment out of the state."""
        for part in range(_parts_of(entry.stored)):
            self._segments.removeKey((_key(entry, part),))
        if entry.matched is not None:
            self._segments.removeKey((_key(entry, BITS),))

    def update(self, manifest: Manifest, batch: int | None = None) -> None:
        """Store a manifest as that of this micro-batch, or of another one: of the query that a bucket is made for."""
        manifest.version += 1
        manifest.batch, manifest.join = self._batch if batch is None else batch, self._join
        self._variables.manifest.update((manifest.to_bytes(),))

    def _owner(self, stream: str, segment: str) -> bytes:
        """Return the owner that a segment is sealed with: its bucket, stream and version."""
        return f"{self._bucket}/{stream}/{_place(segment)}".encode()


def _place(segment: str) -> str:
    """Return a segment's name without the part that belongs to one attempt."""
    place, _, own = segment.rpartition("-")
    return place or own


def _key(entry: Entry, part: int | str) -> str:
    """Return the key of a part of a segment in the state: the same for all attempts, see `BucketState`."""
    return f"{_place(entry.id)}/{part}"


def _parts_of(size: int) -> int:
    return max(1, -(-size // PART_BYTES))


def digest(description: str) -> int:
    """Return the checksum of a join's description, for the records that go with it."""
    return zlib.crc32(description.encode())


def check_join(stored: tuple[Any, ...] | None, described: dict[str, Any], expected: int | None, whose: str) -> str:
    """Compare the join of a state with the one that continues from it; return the former's text.

    Parameters
    ----------
    stored : tuple of str, or None
        The description as the state has it.
    expected : int or None
        Its `digest`, as far as that is known.

    Raises
    ------
    StateError
        If it is missing or damaged, or if the two are not the same; the message says what differs.
    """
    if stored is None:
        msg = f"the description of the join is missing from the state of {whose}. {WHAT_TO_DO}"
        raise StateError(msg)
    text = str(stored[0])
    try:
        known: Any = parsed(text, "the description").value
    except StateError:
        known = None
    if not isinstance(known, dict) or expected not in {None, digest(text)}:
        msg = f"the description of the join in the state of {whose} is damaged: {text[:200]!r}. {WHAT_TO_DO}"
        raise StateError(msg)
    differing = differences(known, described)
    if differing is not None:
        msg = f"the checkpoint holds the state of another join: {differing}"
        raise StateError(msg)
    return text


COLUMN = re.compile(r",\s+(?![^<\[(]*[>\])])")
"""Between two columns of a description; types have commas inside of brackets."""

ADVICE = {
    "partitions": "set partitions={was} (for another number see slidejoin state --repartition)",
    "strategy": "set strategy= and spread= as they were: {was}",
    "window": "give the window that it was",
    "order_by": "set order_by={was!r}",
    "output": "set output={was!r}",
    "how": "set how={was!r}",
    "keep": "set keep={was}",
    "planned": "go on with the version of slidejoin that wrote the state",
}


def differences(known: Mapping[str, Any], described: Mapping[str, Any]) -> str | None:
    """Return what differs, and what to do about it, as sentences; None if nothing does.

    Examples
    --------
    >>> known = {"partitions": 8, "left columns": "k int64"}
    >>> print(differences(known, {"partitions": 4, "left columns": "k int64, s string"}))
    left columns: the state lacks s string; partitions was 8 and is now 4. Leave columns that the state lacks out of
    select= and the predicate, set partitions=8 (for another number see slidejoin state --repartition), or start the
    query with a new checkpoint
    """
    lines, advice = [], []
    for name in sorted({*known, *described}):
        was, now = known.get(name), described.get(name)
        if was == now:
            continue
        if "columns" in name and isinstance(was, str) and isinstance(now, str):
            lacking, more = (list(_missing(*pair)) for pair in ((now, was), (was, now)))
            parts = ([f"the state lacks {', '.join(lacking)}"] if lacking else []) + (
                [f"the state also has {', '.join(more)}"] if more else []
            )
            lines.append(f"{name}: {' and '.join(parts) or f'they were {was} and are now {now}'}")
            todo = ["leave columns that the state lacks out of select= and the predicate"] if lacking else []
            todo += [f"name {', '.join(more)} in select= again"] if more else []
            todo += [] if parts else ["give the inputs their columns in the order of the state"]
            advice += [one for one in todo if one not in advice]
        else:
            lines.append(f"{name} was {was!r} and is now {now!r}")
            advice.append(ADVICE.get(name, f"give {name} as it was").format(was=was))
    if not lines:
        return None
    steps = ", ".join(advice)
    return f"{'; '.join(lines)}. {steps[0].upper()}{steps[1:]}, or start the query with a new checkpoint"


def _missing(of: str, among: str) -> Iterator[str]:
    """Yield the columns of one description that another one has not."""
    there = set(COLUMN.split(among))
    yield from (column for column in COLUMN.split(of) if column and column not in there)


def packed_bits(matched: Mapping[Side, NDArray[np.bool_]]) -> bytes:
    r"""Write the bits of all roles, one role after the other.

    Examples
    --------
    >>> packed_bits({"left": np.array([True, False, True])})
    b'\xa0'
    """
    return b"".join(np.packbits(bits).tobytes() for bits in matched.values())


def unpacked_bits(data: memoryview, rows: int, roles: Sequence[Side], what: str) -> dict[Side, NDArray[np.bool_]]:
    """Read what `packed_bits` wrote for so many rows in these roles.

    Raises
    ------
    StateError
        If there are bits for another number of rows; `what` names them.
    """
    size = -(-rows // 8)
    if len(data) != size * len(roles):
        msg = f"{what} has {len(data)} bytes, expected {size * len(roles)} for {rows} rows. {WHAT_TO_DO}"
        raise StateError(msg)
    bits = np.unpackbits(np.frombuffer(data, np.uint8).reshape(len(roles), size), axis=1, count=rows)
    return dict(zip(roles, bits.astype(np.bool_), strict=True))
