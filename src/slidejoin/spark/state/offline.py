"""Segments of a checkpoint that no query runs on: written out as files by Spark's tasks, and read one by one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from slidejoin.spark.state.variables import Variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["KeptVariables", "write_out"]


def write_out(folder: str) -> Callable[[Iterable[Any]], None]:
    """Return the function by which tasks write parts of segments: rows of bucket, part and bytes."""

    def written(rows: Iterable[Any]) -> None:
        for bucket, part, data in rows:
            file = _file(Path(folder), bucket, part)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes(data))

    return written


def _file(folder: Path, bucket: int, part: str) -> Path:
    return folder / str(bucket) / part.replace("/", ".")


class KeptVariables(Variables):
    """The segments of one bucket in such files, as a bucket's state reads them; nothing else is there."""

    def __init__(self, folder: Path, bucket: int) -> None:
        self.segments: Any = PartFiles(folder, bucket)


class PartFiles:
    def __init__(self, folder: Path, bucket: int) -> None:
        self._folder, self._bucket = folder, bucket

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:  # noqa: N802 - Spark's name
        """Return a part, None if it is missing."""
        file = _file(self._folder, self._bucket, key[0])
        return (file.read_bytes(),) if file.exists() else None
