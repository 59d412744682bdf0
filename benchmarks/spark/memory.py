"""Memory of a local Spark: what its Java machine holds, and its Python workers.

The resident size of a Java machine grows up to what its heap may have, whether anything leaks or not. So what its heap
has in use is asked for just after a collection, and what the process has beside the heap (RocksDB, threads, compiled
code) is what is resident in all other parts of its memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["OVER", "Held", "Trend", "held", "resident_beside"]

OVER = 200
"""Micro-batches that a growth is told for."""

PART = re.compile(r"([0-9a-f]+)-([0-9a-f]+) [-r]")
"""A part of a process's memory in ``smaps``: where it begins and ends."""

APART = 4
"""Slopes are taken between samples that lie a part of the run apart, at least one in so many: others are noise."""


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes at one moment.

    Attributes
    ----------
    heap : int
        In use in the Java machine's heap after a collection.
    beside : int
        Resident in the Java machine beside its heap.
    workers : int
        Of all Python workers; pages that several share count once.
    """

    heap: int
    beside: int
    workers: int


@dataclass(frozen=True, slots=True)
class Trend:
    """How something goes over many micro-batches.

    Attributes
    ----------
    median : float
        Of all samples.
    growth : float
        Over `OVER` micro-batches: the median slope between samples that lie apart.
    low, high : float
        The middle half of those slopes.
    """

    median: float
    growth: float
    low: float
    high: float

    @staticmethod
    def of(places: Sequence[int], values: Sequence[float]) -> Trend:
        """Find the trend of values at some micro-batches; a jump here and there changes little.

        Examples
        --------
        >>> Trend.of(range(0, 200, 10), [100 + place / 100 for place in range(0, 200, 10)]).growth
        2.0
        """
        at, found = np.array(places, float), np.array(values, float)
        early, late = np.triu_indices(len(at), max(1, len(at) // APART))
        slopes = (found[late] - found[early]) / (at[late] - at[early]) * OVER
        low, middle, high = (round(float(slope), 6) for slope in np.quantile(slopes, [0.25, 0.5, 0.75]))
        return Trend(float(np.median(found)), middle, low, high)

    @property
    def times(self) -> float:
        """What the median would be multiplied with over so many micro-batches."""
        return 1 + self.growth / self.median


def held(spark: Any) -> Held:  # noqa: ANN401 - a session, through which its Java machine is asked
    """Collect the garbage of a local Spark's Java machine, and return what it and the Python workers hold."""
    java = spark.sparkContext._jvm.java.lang  # noqa: SLF001 - there is no other way to it
    java.System.gc()
    heap, machine = java.Runtime.getRuntime(), java.ProcessHandle.current().pid()
    used = heap.totalMemory() - heap.freeMemory()
    beside = resident_beside(_lines(machine, "smaps"), heap.maxMemory())
    return Held(used, beside, sum(map(_shared_once, _below(machine))))


def resident_beside(maps: Iterable[str], heap: int) -> int:
    """Return the resident bytes of a process outside its heap.

    Parameters
    ----------
    maps : iterable of str
        The lines of the system's ``smaps``; of an empty one it is 0.
    heap : int
        Bytes of addresses that the heap takes: parts of memory that follow each other and come to that.
    """
    parts: list[tuple[int, int, int]] = []
    for line in maps:
        if found := PART.match(line):
            parts.append((int(found[1], 16), int(found[2], 16), 0))
        elif line.startswith("Rss:") and parts:
            parts[-1] = (*parts[-1][:2], int(line.split()[1]) * 1024)
    inside = 0
    for number, (start, _, _) in enumerate(parts):
        ends, size = start, 0
        for first, last, held in parts[number:]:
            if first != ends or last - start > heap:
                break
            ends, size = last, size + held
        if ends - start == heap:
            inside = size
            break
    return sum(size for _, _, size in parts) - inside


def _lines(process: int, name: str) -> list[str]:
    try:
        return Path(f"/proc/{process}/{name}").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []  # it has ended, or the system does not say


def _shared_once(process: int) -> int:
    lines = _lines(process, "smaps_rollup")
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _below(process: int) -> list[int]:
    """Return all processes that come from one."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
        children.setdefault(parent, []).append(int(folder.name))
    found, todo = [], [process]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found
