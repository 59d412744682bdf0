"""Small records of the state: JSON text followed by a checksum.

This module imports nothing heavy, since a worker reads records also in micro-batches without rows.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from slidejoin import __version__
from slidejoin.errors import StateError
from slidejoin.stored import MOST_ROWS, StoredValue, parsed

__all__ = ["FORMAT", "WHAT_TO_DO", "counts_of", "crc_of", "from_record", "to_record"]

FORMAT = 3
"""Number of the layout of the state; docs/upgrades.md lists which versions read which."""

WITHOUT_CHECKSUM = 2
"""The previous format, whose records had no checksum."""

BEFORE_CHECKSUM = b',"crc":'

WHAT_TO_DO = "No query can continue from it: restore the checkpoint from a copy, or start the query with a new one"


def to_record(plain: dict[str, Any]) -> bytes:
    """Write a record of this format.

    Examples
    --------
    >>> to_record({"since": 3})
    b'{"format":3,"since":3,"crc":2423344875}'
    """
    body = json.dumps({"format": FORMAT, **plain}, separators=(",", ":")).encode()[:-1]
    return _signed(body)


def from_record(data: bytes, what: str, *names: str) -> dict[str, Any]:
    """Read what `to_record` wrote, or a record of the previous format, which has ``"format": 2``.

    Parameters
    ----------
    what : str
        Its name in errors.
    names : str
        The fields of a record of this kind in either format.

    Raises
    ------
    StateError
        If it is not what was written, of another kind, or of an unknown format.
    """
    data = bytes(data)
    try:
        stored = parsed(data, what)
        plain, known = stored.object(), stored["format"].whole()
    except StateError as error:
        msg = f"{what} is damaged: {error}. {WHAT_TO_DO}"
        raise StateError(msg) from error
    if known == FORMAT and data != _signed(data.rpartition(BEFORE_CHECKSUM)[0]):
        msg = f"{what} is damaged: its checksum does not match its {len(data)} bytes. {WHAT_TO_DO}"
        raise StateError(msg)
    # The numbers of the two formats differ in one bit.
    if known == WITHOUT_CHECKSUM and "crc" in plain:
        msg = f"{what} is damaged: it says format {known}, which has no checksum, but it has one. {WHAT_TO_DO}"
        raise StateError(msg)
    if known not in {FORMAT, WITHOUT_CHECKSUM}:
        msg = (
            f"{what} has format {known}, slidejoin {__version__} reads formats {WITHOUT_CHECKSUM} and {FORMAT}. Use "
            "the version of slidejoin that wrote it, or a newer one: docs/upgrades.md says which version reads which "
            "format"
        )
        raise StateError(msg)
    if not plain.keys() >= set(names):
        msg = f"{what} is damaged: it has {', '.join(plain)}; expected {', '.join(names)}. {WHAT_TO_DO}"
        raise StateError(msg)
    return plain


def crc_of(stored: StoredValue) -> int:
    """Return a checksum that a record has of something else."""
    return stored.whole(0, (1 << 32) - 1)


def counts_of(stored: StoredValue) -> dict[str, int]:
    """Return how many rows of some streams have come."""
    return {name: one.whole(0, MOST_ROWS) for name, one in stored.fields.items()}


def _signed(body: bytes) -> bytes:
    return body + BEFORE_CHECKSUM + b"%d}" % zlib.crc32(body)
