"""The bytes that a query writes to its checkpoint, by kind, also of files that are gone by the end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["KINDS", "CheckpointBytes"]

KINDS = ("changes", "snapshots", "logs")
"""Of files in a checkpoint: changes of the state in each micro-batch, the whole state now and then, and the rest."""


class CheckpointBytes:
    """Counts the files of a checkpoint after each micro-batch; `observe` is given to `run_query`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes: dict[str, int] = {}
        self._seen: dict[int, dict[str, int]] = {}

    def observe(self, batch: dict[str, Any]) -> None:
        """Count the files after a micro-batch."""
        self._seen[batch["batchId"]] = self.count()

    def count(self) -> dict[str, int]:
        """Return the bytes so far of each of `KINDS`."""
        for path, _, names in os.walk(self._folder):
            for name in names:
                whole = os.path.join(path, name)  # noqa: PTH118 - thousands of files, each looked at often
                try:
                    size = os.stat(whole).st_size  # noqa: PTH116
                except OSError:
                    continue  # gone meanwhile
                # A file under a temporary name counts under its final one.
                if ".tmp" not in name and (not name.startswith(".") or name.endswith(".crc")):
                    self._sizes[whole] = max(size, self._sizes.get(whole, 0))
        found = dict.fromkeys(KINDS, 0)
        for whole, size in self._sizes.items():
            found[_kind(os.path.relpath(whole, self._folder))] += size
        return found

    def written(self, batches: Sequence[dict[str, Any]], first: int) -> dict[str, int]:
        """Return the bytes that the micro-batches from `first` on have written, by kind.

        A micro-batch that was over between two observations gets the count of the next one.
        """
        last = self.count()
        before = dict.fromkeys(KINDS, 0)
        if first:
            later = [one["batchId"] for one in batches[first - 1 :] if one["batchId"] in self._seen]
            before = self._seen[later[0]] if later else last
        return {kind: size - before[kind] for kind, size in last.items()}


def _kind(path: str) -> str:
    """Return the kind of a file of a checkpoint.

    Examples
    --------
    >>> [_kind(path) for path in ("state/0/1/7_a.changelog", "state/0/1/SSTs/000009.sst", "offsets/12")]
    ['changes', 'snapshots', 'logs']
    """
    if not path.startswith("state"):
        return "logs"
    return "changes" if ".changelog" in path else "snapshots"
