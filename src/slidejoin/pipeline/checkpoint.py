"""The checkpoint of a job in one process: which micro-batches were planned and committed, and snapshots of the join.

::

    checkpoint/embedded.json      the engine, the format, the version that made it, a random id
    checkpoint/batches/12         what micro-batch 12 reads: written before it runs
    checkpoint/committed/12       what its sink has made ready: from here on its results count
    checkpoint/snapshots/12       the join after micro-batch 12, and what sources had planned by then

Every file is written under another name, synced, and renamed. A job that starts again loads the last snapshot, replays
the micro-batches up to the last committed one without output, runs those that were planned after it as they were
planned, and then plans new ones. What is older than the last snapshot but one is removed.
"""

from __future__ import annotations

import json
import os
import struct
import uuid
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from slidejoin import __version__
from slidejoin.errors import ConfigError, StateError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["Checkpoint", "Snapshot", "durable_write", "is_embedded", "sync_folder"]

ENGINE_FILE = "embedded.json"
FORMAT = 1

BATCHES, COMMITTED, SNAPSHOTS = "batches", "committed", "snapshots"

TEMPORARY = ".new"

MAGIC = b"SLJP\x01"
KIND = 4
"""Bytes of it that say what the file is; the rest is the format."""

LENGTHS = struct.Struct("<QQI")
"""Bytes of the sources' state and of the join's, and the checksum of both."""

SPARE = 2

SPARK = ("metadata", "offsets", "commits")
"""What a checkpoint of Spark has."""


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def durable_write(path: Path, *parts: bytes) -> None:
    """Write a file whole or not at all: under another name, synced, and renamed."""
    new = path.with_name(path.name + TEMPORARY)
    with new.open("wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def is_embedded(folder: Path) -> bool:
    """Tell whether a folder is the checkpoint of a job in one process."""
    return (folder / ENGINE_FILE).exists()


class Snapshot(NamedTuple):
    """What a job continues from.

    Attributes
    ----------
    number : int
        The last micro-batch in it; -1 at the beginning.
    sources : dict
        What each source had planned by then, and perhaps later.
    join : bytes
        The state of the join; empty at the beginning.
    """

    number: int
    sources: dict[str, Any]
    join: bytes


class Checkpoint:
    """A checkpoint on a disk of this machine, which one process uses at a time.

    Parameters
    ----------
    folder : Path
    described : dict
        What must be the same for its state to be used again: names and texts.

    Raises
    ------
    ConfigError
        If it is a checkpoint of Spark, or of another join.
    StateError
        If it is damaged, or of an unknown format.
    """

    def __init__(self, folder: Path, described: dict[str, str]) -> None:
        self._folder = folder
        for name in (BATCHES, COMMITTED, SNAPSHOTS):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.id = self._identified(described)
        self.planned = max(self._numbers(BATCHES), default=-1)
        self.committed = max(self._numbers(COMMITTED), default=-1)

    @staticmethod
    def check_engine(folder: Path) -> None:
        """Refuse a checkpoint that Spark has written.

        Raises
        ------
        ConfigError
            If it is one.
        """
        if not is_embedded(folder) and any((folder / name).exists() for name in SPARK):
            msg = (
                f"sink.checkpoint: {folder} is a checkpoint of Spark, which a job in one process cannot read; write "
                'engine = "spark", or give another checkpoint and another path for the results.'
            )
            raise ConfigError(msg)

    def _identified(self, described: dict[str, str]) -> str:
        file = self._folder / ENGINE_FILE
        self.check_engine(self._folder)
        if not file.exists():
            made = {
                "engine": "embedded", "format": FORMAT, "slidejoin": __version__, "id": uuid.uuid4().hex,
                "join": described,
            }  # fmt: skip
            durable_write(file, json.dumps(made).encode())
            return str(made["id"])
        written = _json(file)
        if written.get("format") != FORMAT:
            raise _unknown(f"{file}: this checkpoint", written.get("format"), written.get("slidejoin"))
        if not isinstance(written.get("id"), str):
            raise _damaged(file)
        was = written.get("join", {})
        differing = [key for key, value in described.items() if key in was and was[key] != value]
        if differing:
            said = "; ".join(f"{key} was {was[key]} and is now {described[key]}" for key in differing)
            msg = (
                f"sink.checkpoint: {self._folder} has the state of another join: {said}. Write in the job file what it "
                "was, or give another checkpoint and another path for the results."
            )
            raise ConfigError(msg)
        return str(written["id"])

    def _path(self, kind: str, number: int) -> Path:
        return self._folder / kind / str(number)

    def _numbers(self, kind: str) -> list[int]:
        return sorted(int(entry.name) for entry in (self._folder / kind).iterdir() if entry.name.isdecimal())

    # -- micro-batches -------------------------------------------------------------------------------------------------

    def plan(self, number: int, sources: dict[str, Any]) -> None:
        """Write down what a micro-batch reads of each source."""
        durable_write(self._path(BATCHES, number), json.dumps(sources).encode())
        self.planned = max(self.planned, number)

    def planned_from(self, number: int) -> Iterable[tuple[int, dict[str, Any]]]:
        """Yield the micro-batches from that number on that were planned, and what they read.

        Raises
        ------
        StateError
            If one is missing or damaged.
        """
        for one in range(number, self.planned + 1):
            yield one, _json(self._path(BATCHES, one))

    def commit(self, number: int, ready: dict[str, Any]) -> None:
        """Write down what the sink has made ready of a micro-batch, from which on its results count."""
        durable_write(self._path(COMMITTED, number), json.dumps(ready).encode())
        self.committed = max(self.committed, number)

    def ready(self, number: int) -> dict[str, Any]:
        """Return what the sink had made ready of a committed micro-batch."""
        return _json(self._path(COMMITTED, number))

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def save(self, snapshot: Snapshot) -> None:
        """Store a snapshot, and remove what no restart needs any more."""
        sources = zlib.compress(json.dumps(snapshot.sources).encode(), 1)
        checksum = zlib.crc32(snapshot.join, zlib.crc32(sources))
        head = MAGIC + LENGTHS.pack(len(sources), len(snapshot.join), checksum)
        durable_write(self._path(SNAPSHOTS, snapshot.number), head, sources, snapshot.join)
        numbers = self._numbers(SNAPSHOTS)
        if len(numbers) < SPARE:
            return
        oldest = numbers[-SPARE]
        # The last committed micro-batch says where a job continues.
        for kind, end in ((SNAPSHOTS, oldest), (BATCHES, oldest + 1), (COMMITTED, oldest)):
            for number in self._numbers(kind):
                if number < end:
                    with suppress(OSError):
                        self._path(kind, number).unlink()

    def latest(self) -> Snapshot:
        """Return the last snapshot.

        Raises
        ------
        StateError
            If it is damaged.
        """
        numbers = self._numbers(SNAPSHOTS)
        if not numbers:
            return Snapshot(-1, {}, b"")
        path = self._path(SNAPSHOTS, numbers[-1])
        data = path.read_bytes()
        start = len(MAGIC) + LENGTHS.size
        if len(data) < start or data[:KIND] != MAGIC[:KIND]:
            raise _damaged(path)
        if data[KIND] != MAGIC[KIND]:
            raise _unknown(f"{path}: this snapshot", data[KIND], None)
        of_sources, of_join, checksum = LENGTHS.unpack_from(data, len(MAGIC))
        sources, join = data[start : start + of_sources], data[start + of_sources :]
        if len(join) != of_join or zlib.crc32(join, zlib.crc32(sources)) != checksum:
            raise _damaged(path)
        return Snapshot(numbers[-1], json.loads(zlib.decompress(sources)), join)


def _unknown(what: str, known: object, written_by: object) -> StateError:
    """Return the error for a format that this version does not read; release 0.1 did not write down its own number."""
    wrote, use = "", "the version that wrote it"
    if isinstance(written_by, str):
        wrote, use = f", which slidejoin {written_by} wrote", f"slidejoin {written_by}"
    return StateError(
        f"{what} has format {known!r}{wrote}; slidejoin {__version__} reads format {FORMAT}. Use {use} or a newer one: "
        "docs/upgrades.md says which version reads which format"
    )


def _damaged(path: Path) -> StateError:
    return StateError(
        f"{path} is damaged; restore the checkpoint from a copy, or give another checkpoint and another path for the "
        "results"
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        written = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _damaged(path) from error
    if not isinstance(written, dict):
        raise _damaged(path)
    return written
