"""The history of a job: its documents, one a line, in a folder of its checkpoint.

::

    checkpoint/slidejoin-metrics/metrics.jsonl      the newest documents
    checkpoint/slidejoin-metrics/metrics.1.jsonl    those before, once the file was full

A line is written by one call that appends, so lines are whole; only a machine that stops may leave part of the last
one, which is skipped. Both files together are bounded.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from slidejoin.errors import StateError
from slidejoin.watch.document import Document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["FOLDER", "History", "history_folder", "newest_document", "read_history"]

FOLDER, FILE, OLDER = "slidejoin-metrics", "metrics.jsonl", "metrics.1.jsonl"

MOST_BYTES = 16 << 20
"""Of a file; a document has 5 to 15 kB, so that both files have an hour at one a second."""

TAIL = 1 << 20
"""Bytes from the end of a file in which the newest document is looked for first."""


def history_folder(checkpoint: Path) -> Path:
    """Return where the history of a job with this checkpoint is.

    Examples
    --------
    >>> from pathlib import Path
    >>> history_folder(Path("checkpoint")).as_posix()
    'checkpoint/slidejoin-metrics'
    """
    return checkpoint / FOLDER


class History:
    """Appends documents. One process writes at a time; others may read meanwhile.

    Parameters
    ----------
    checkpoint : Path
        The job's checkpoint; its folder for the history is made with the first document.
    most_bytes : int
        Of a file, before it becomes the older one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from slidejoin.watch.document import JobFacts
    >>> from slidejoin.watch.reading import Reading
    >>> folder = Path(tempfile.mkdtemp())
    >>> facts = JobFacts("job", "embedded", 0.0, "l.a = r.a", "10 rows", "cells", ("left", "right"))
    >>> History(folder).append(Document(facts, Reading(7.0)))
    >>> [document.time for document in read_history(folder)]
    [7.0]
    """

    def __init__(self, checkpoint: Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder = history_folder(checkpoint)
        self._most = most_bytes

    def append(self, document: Document) -> None:
        """Append a document.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        line = json.dumps(document.to_json(), separators=(",", ":"), allow_nan=False).encode() + b"\n"
        path = self.folder / FILE
        self.folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if path.stat().st_size + len(line) > self._most:
                path.replace(self.folder / OLDER)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":  # the rest of a line that was torn
                line = b"\n" + line
            written = os.write(handle, line)
        finally:
            os.close(handle)
        if written != len(line):
            msg = f"{path}: {written} of {len(line)} bytes were written; the disk may be full"
            raise OSError(msg)


def read_history(checkpoint: Path) -> Iterator[Document]:
    """Yield the documents of a job, oldest first; lines that are torn or of a later version are skipped.

    Parameters
    ----------
    checkpoint : Path
        The job's checkpoint. Nothing is yielded if it has no history.
    """
    for name in (OLDER, FILE):
        with suppress(FileNotFoundError), (history_folder(checkpoint) / name).open("rb") as file:
            for line in file:
                document = _document(line)
                if document is not None:
                    yield document


def newest_document(checkpoint: Path) -> Document | None:
    """Return the newest document of a job, without reading all of its history; None if there is none."""
    for name in (FILE, OLDER):
        path = history_folder(checkpoint) / name
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            continue
        for length in (min(TAIL, size), size):
            with path.open("rb") as file:
                file.seek(size - length)
                lines = file.read(length).split(b"\n")
            for line in reversed(lines):
                document = _document(line)
                if document is not None:
                    return document
    return None


def _document(line: bytes) -> Document | None:
    try:
        return Document.from_json(json.loads(line))
    except (ValueError, RecursionError, StateError):
        return None
