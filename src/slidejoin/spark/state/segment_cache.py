"""A cache of sorted segments in files on the node: disposable, and verified before use.

A Python worker is not tied to a bucket and exits when it is idle, so sorted runs are stored in files next to the state,
one for each segment, and memory-mapped by the next worker that needs them. A segment's id is random and belongs to one
attempt, so a file can be unneeded but never out of date. Missing, truncated or altered files are rebuilt from the
state; failures to write are ignored.

The digest of a file is keyed by the random name of the bucket's state, which its manifest alone has: folders are named
after a hash of it. So a file is used only if someone wrote it who had the state, and not merely access to the folder.

Small segments stay open in the process: a micro-batch of few rows would take longer to open a dozen files than to join.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import shutil
import stat
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.errors import StateError
from slidejoin.plan.index_terms import IndexTerms
from slidejoin.rows.arrow_buffers import from_buffer
from slidejoin.runtime.own_folders import fault_of, make_own, own_folder
from slidejoin.spark.state.blocks import read_block, to_block
from slidejoin.spark.state.segments import NAME, Segment
from slidejoin.stored import StoredValue

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from slidejoin.index.part_format import PartFormat
    from slidejoin.spark.state.segments import Entry

__all__ = ["SegmentCache", "folder_of"]

log = logging.getLogger(__name__)

MAGIC = b"SLJCACH7"
ALIGN = 64
HEAD = np.dtype([("magic", "S8"), ("total", "<u8"), ("index", "<u8"), ("digest", "u1", 32)])
"""Before the index: the whole length, the index's length, and a digest of all that follows, keyed by the state."""

DAYS_KEPT = 7

ID = re.compile("[0-9a-f]{32}")
"""A name that `folder_of` makes; everything else is no folder of ours."""

FileSeen = tuple[int, int, int]
"""What changes with a file's bytes: its inode, the time of writing, and its size."""

_checked: dict[str, FileSeen] = {}
"""Files whose checksum this process has verified."""

KEPT_OPEN, SMALL = 512, 1 << 18
"""Segments that stay open in this process, and the bytes of the largest: what is deleted takes room on the disk as long
as it is open somewhere."""


class Opened(NamedTuple):
    """A segment that is open, and what has to be the same to use it."""

    file: FileSeen
    key: bytes
    parts_of: str | None
    schema: pa.Schema
    segment: Segment


_opened: OrderedDict[str, Opened] = OrderedDict()
"""By path, the one last used at the end."""


class SegmentCache:
    """The files of one bucket's state.

    Parameters
    ----------
    root : str
        The node's cache folder.
    origin : str
        The random name that the bucket's state got when it was begun, see `Manifest`: two joins never share it.
    """

    def __init__(self, root: str, origin: str) -> None:
        self._key = origin.encode()
        self.root = own_folder(Path(root))
        self.folder = self.root / "segments" / folder_of(origin)

    def read(self, entry: Entry, schema: pa.Schema, parts_of: PartFormat | None = None) -> Segment | None:
        """Return a segment, or None if there is no whole file of it.

        Its keys are mapped if they are sealed in that format; otherwise it has none, and `align` seals them again.
        """
        path = self._path(entry.id)
        if not self._trusted:
            return None
        try:
            file = _file(path)
            segment = self._open(path, file, entry, schema, parts_of) or self._mapped(
                path, file, entry, schema, parts_of
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            log.warning("the cache file %s cannot be read (%s); it is built again from the state", path, error)
            return None
        return None if segment is None else replace(segment, entry=entry)

    def _open(
        self, path: Path, file: FileSeen, entry: Entry, schema: pa.Schema, parts_of: PartFormat | None
    ) -> Segment | None:
        """Return a segment that is open in this process, None if it is not, or not as the file is now."""
        known = _opened.get(str(path))
        if known is None or known[:3] != (file, self._key, _name_of(parts_of)) or not known.schema.equals(schema):
            return None
        _opened.move_to_end(str(path))
        return known.segment if known.segment.entry.rows == entry.rows else None

    def _mapped(
        self, path: Path, file: FileSeen, entry: Entry, schema: pa.Schema, parts_of: PartFormat | None
    ) -> Segment | None:
        """Map a segment's file, None if it is damaged or another segment's."""
        data = pa.memory_map(str(path), "r").read_buffer()
        if not _is_whole(path, file, data, self._key):
            log.warning("the cache file %s is damaged; it is built again from the state", path)
            return None
        owner, payload, arrays, chosen, sealed_as = _laid_out(data, schema)
        if owner != entry.id or payload.num_rows != entry.rows:
            log.warning("the cache file %s holds other rows; it is built again from the state", path)
            return None
        own = parts_of if parts_of is not None and parts_of.name == sealed_as else None
        segment = Segment.from_arrays(entry, payload, arrays, chosen, own)
        if data.size <= SMALL:
            _opened[str(path)] = Opened(file, self._key, _name_of(parts_of), schema, segment)
            if len(_opened) > KEPT_OPEN:
                _opened.popitem(last=False)
        return segment

    def write(self, segment: Segment) -> None:
        """Write a segment to a file, atomically."""
        path = self._path(segment.entry.id)
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            make_own(self.root)
            if not self.folder.is_dir():
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _sweep(self.folder.parent)
            with part.open("wb") as file:
                file.writelines(_pieces(segment, self._key))
            part.replace(path)
        except OSError as error:
            log.warning("cannot write to cache folder %s (%s); the segment will be sorted again", self.folder, error)
            with suppress(OSError):
                part.unlink()

    def keep_only(self, ids: Collection[str]) -> None:
        """Delete the files of segments that are in none of the manifests still needed."""
        if not self._trusted:
            return
        try:
            paths = list(self.folder.iterdir())
        except OSError:
            return
        for path in paths:
            segment = path.name.split(".")[0]
            if NAME.fullmatch(segment) and path.suffix in {".segment", ".part"} and segment not in ids:
                with suppress(OSError):
                    path.unlink()
                _checked.pop(str(path), None)
                _opened.pop(str(path), None)

    def _path(self, segment: str) -> Path:
        return self.folder / f"{_name(segment)}.segment"

    @cached_property
    def _trusted(self) -> bool:
        """Whether nobody else can have written here: what is mapped reaches kernels."""
        fault = fault_of(self.root)
        if fault:
            log.warning("the cache folder %s is not used, as it %s; set spark.slidejoin.cacheDir", self.root, fault)
        return not fault


def _name_of(parts: PartFormat | None) -> str | None:
    return None if parts is None else parts.name


def _name(id_: str) -> str:
    """Return an id of the state as a part of a path.

    Raises
    ------
    StateError
        If it could be more than one part.
    """
    if not NAME.fullmatch(id_):
        msg = f"the state names a segment {id_[:60]!r}, not an id of letters, digits and dashes; it is damaged"
        raise StateError(msg)
    return id_


def folder_of(origin: str) -> str:
    """Return the name of the folder of a state."""
    return hashlib.sha256(origin.encode()).hexdigest()[:32]


def _sweep(root: Path) -> None:
    """Delete the files of queries that ended long ago; a live one would only have to sort again."""
    oldest = time.time() - DAYS_KEPT * 86_400
    for folder in root.iterdir():
        try:
            status = folder.lstat()
            if ID.fullmatch(folder.name) and stat.S_ISDIR(status.st_mode) and status.st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def _pieces(segment: Segment, key: bytes) -> list[Any]:
    parts: list[Any] = []
    index: dict[str, Any] = {}
    at = 0

    def add(name: str, data: Any, **described: Any) -> None:  # noqa: ANN401 - whatever has a buffer
        nonlocal at
        view = memoryview(data)
        # An empty buffer cannot be cast.
        view = view.cast("B") if view.nbytes else memoryview(b"")
        index[name] = {"at": at, "size": len(view), **described}
        parts.append(view)
        gap = -len(view) % ALIGN
        parts.append(bytes(gap))
        at += len(view) + gap

    add("payload", to_block(segment.payload))
    for name, array in segment.arrays().items():
        whole = np.ascontiguousarray(array)
        add(name, whole.reshape(-1).view(np.uint8), dtype=whole.dtype.str, shape=list(whole.shape))
    terms = None if segment.chosen is None else segment.chosen.to_json()
    text = json.dumps({"id": segment.entry.id, "terms": terms, "format": segment.format, "parts": index}).encode()
    text += b" " * (-(HEAD.itemsize + len(text)) % ALIGN)
    tag = hmac.new(key, text, "sha256")
    for part in parts:
        tag.update(part)
    digest = np.frombuffer(tag.digest(), np.uint8)
    head = np.array([(MAGIC, HEAD.itemsize + len(text) + at, len(text), digest)], HEAD)
    return [head.tobytes(), text, *parts]


def _file(path: Path) -> FileSeen:
    now = path.stat()
    return now.st_ino, now.st_mtime_ns, now.st_size


def _is_whole(path: Path, file: FileSeen, data: pa.Buffer, key: bytes) -> bool:
    if data.size < HEAD.itemsize:
        return False
    head = from_buffer(data, HEAD, 1)[0]
    if head["magic"] != MAGIC or head["total"] != data.size:
        return False
    if _checked.get(str(path)) != file:
        tag = hmac.new(key, memoryview(data)[HEAD.itemsize :], "sha256").digest()
        if not hmac.compare_digest(tag, head["digest"].tobytes()):
            return False
        _checked[str(path)] = file
    return True


def _laid_out(
    data: pa.Buffer, schema: pa.Schema
) -> tuple[str, pa.Table, dict[str, NDArray[Any]], IndexTerms | None, str]:
    size = int(from_buffer(data, HEAD, 1)[0]["index"])
    index = json.loads(memoryview(data)[HEAD.itemsize : HEAD.itemsize + size].tobytes())
    start = HEAD.itemsize + size
    arrays: dict[str, NDArray[Any]] = {}
    payload = None
    for name, place in index["parts"].items():
        piece = data.slice(start + place["at"], place["size"])
        if name == "payload":
            payload = pa.Table.from_batches([read_block(piece, schema)])
        else:
            arrays[name] = from_buffer(piece, np.dtype(place["dtype"])).reshape(place["shape"])
    if payload is None:
        raise KeyError("payload")
    chosen = StoredValue(index["terms"], "the index of a segment").or_none(IndexTerms.from_stored)
    return index["id"], payload, arrays, chosen, index["format"]
