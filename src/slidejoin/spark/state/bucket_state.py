"""What a bucket keeps in Spark's state store: a manifest, and segments of rows in parts of at most 4 MiB."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slidejoin.errors import StateError
from slidejoin.spark.state.blocks import open_sealed, seal
from slidejoin.spark.state.compact import to_compact
from slidejoin.spark.state.segments import Entry, new_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from slidejoin.sides import Side
    from slidejoin.spark.state.variables import Variables

__all__ = ["FORMAT", "BucketState", "Manifest", "check_same_join"]

FORMAT = 2
"""Number of the layout described above; the changelog lists which versions read which."""

PART_BYTES = 4 << 20


def _nothing() -> dict[Side, list[Entry]]:
    return {"left": [], "right": []}


@dataclass(slots=True)
class Manifest:
    """Which segments a bucket has.

    Attributes
    ----------
    origin : str
        Random name of this bucket's state.
    version : int
        Micro-batches that changed it.
    watermark : int or None
        Milliseconds, of the last change.
    entries : dict from side to list of Entry
        Segments of each stream, oldest first.
    """

    origin: str = field(default_factory=new_id)
    version: int = 0
    watermark: int | None = None
    entries: dict[Side, list[Entry]] = field(default_factory=_nothing)

    @property
    def ids(self) -> list[str]:
        """Ids of all segments."""
        return [entry.id for entries in self.entries.values() for entry in entries]

    def to_bytes(self) -> bytes:
        """Return the manifest as JSON."""
        plain: dict[str, Any] = {
            "format": FORMAT,
            "origin": self.origin,
            "version": self.version,
            "watermark": self.watermark,
        }
        plain |= {side: [entry.to_json() for entry in entries] for side, entries in self.entries.items()}
        return json.dumps(plain, separators=(",", ":")).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Manifest:
        """Read what `to_bytes` wrote.

        Raises
        ------
        StateError
            If it is damaged or of a format that this version does not know.
        """
        try:
            plain: dict[str, Any] = json.loads(bytes(data))
            known = plain["format"]
            if known == FORMAT:
                sides: tuple[Side, ...] = ("left", "right")
                return Manifest(
                    plain["origin"],
                    plain["version"],
                    plain["watermark"],
                    {side: [Entry(*entry) for entry in plain[side]] for side in sides},
                )
        except (KeyError, TypeError, ValueError) as error:
            msg = f"the manifest of a bucket's state is damaged: {error!r}"
            raise StateError(msg) from error
        msg = (
            f"the state has format {known}, this version of slidejoin reads format {FORMAT}; "
            "the changelog says which version reads it"
        )
        raise StateError(msg)


class BucketState:
    """The state of the bucket that is at work.

    Two attempts at one micro-batch may both write it: a speculative one, or one that outlives its driver. Spark then
    keeps the version that came last and may go on with changes to the other one. So what an attempt writes must fit
    what any other wrote: both use the same keys, made of the manifest's version and a number, for the same rows, if
    perhaps in another order. Only in the cache, where nothing is written over, a segment's name is the attempt's own.
    """

    def __init__(self, variables: Variables) -> None:
        self._join = variables.join
        self._manifest = variables.manifest
        self._segments = variables.segments
        self._version = self._written = 0

    def manifest(self, described: dict[str, Any]) -> Manifest:
        """Return the manifest, an empty one at the beginning.

        Raises
        ------
        StateError
            If the state belongs to another join than the one described; the message says what differs.
        """
        found = self._manifest.get()
        if found is None:
            self._join.update((json.dumps(described, sort_keys=True),))
            return Manifest()
        kept = self._join.get()
        check_same_join(json.loads(kept[0]) if kept else {}, described)
        manifest = Manifest.from_bytes(found[0])
        self._version = manifest.version
        return manifest

    def read(self, entry: Entry, schema: pa.Schema) -> pa.Table:
        """Return a segment's rows.

        Raises
        ------
        StateError
            If it is missing or damaged, naming it.
        """
        what = f"segment {entry.id} of the join's state"
        table = open_sealed(self._parts(entry, what), schema, what)
        if table.num_rows != entry.rows:
            msg = f"{what} has {table.num_rows} rows, its manifest says {entry.rows}"
            raise StateError(msg)
        return table

    def _parts(self, entry: Entry, what: str) -> Iterator[bytes]:
        for part in range(_parts_of(entry.stored)):
            value = self._segments.getValue((_key(entry, part),))
            if value is None:
                msg = f"{what} is missing: part {part} of {_parts_of(entry.stored)}"
                raise StateError(msg)
            yield bytes(value[0])

    def write(self, table: pa.Table, level: int, time_max: int) -> Entry:
        """Put rows into the state as a new segment."""
        data = seal(to_compact(table))
        name = f"{self._version}-{self._written}-{new_id()}"
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

    def update(self, manifest: Manifest) -> None:
        """Make a manifest the one that counts."""
        self._manifest.update((manifest.to_bytes(),))


def _key(entry: Entry, part: int) -> str:
    """Return where a part of a segment lies in the state: the same for all attempts, see `BucketState`."""
    place, _, own = entry.id.rpartition("-")
    return f"{place or own}/{part}"


def _parts_of(size: int) -> int:
    return max(1, -(-size // PART_BYTES))


def check_same_join(kept: dict[str, Any], described: dict[str, Any]) -> None:
    """Compare the join that a state was made by with the one that is to go on with it.

    Raises
    ------
    StateError
        If they are not the same; the message says what differs.
    """
    differing = sorted(name for name in {*kept, *described} if kept.get(name) != described.get(name))
    if differing:
        told = "; ".join(f"{name} was {kept.get(name)!r} and is now {described.get(name)!r}" for name in differing)
        msg = (
            f"the checkpoint holds the state of another join: {told}. Start the query with what it had, or on a new "
            "checkpoint"
        )
        raise StateError(msg)
