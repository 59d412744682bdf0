"""CellJoin's window: columns of keys in basic windows, each worker scans its own (sections 3 to 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.papers.cell_join.basic_windows.cost_model import best_unit_blocks
from slidejoin.papers.cell_join.basic_windows.divided import DividedList
from slidejoin.papers.cell_join.basic_windows.pointers import Pointers
from slidejoin.papers.cell_join.nested_loop import NestedLoopIndex
from slidejoin.papers.found_rows import FoundByPosition
from slidejoin.papers.kernels.comparing import UNIT_BLOCK
from slidejoin.papers.kernels.word_lanes import WORDS_AT_ONCE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.index.answer import Found
    from slidejoin.index.ordinal_ring import OrdinalRing
    from slidejoin.index.probe import ProbeBatch, Probes
    from slidejoin.index.protocol import Request
    from slidejoin.papers.cell_join.options import NestedLoop, ScanCosts

__all__ = ["ScannedWindow"]


class ScannedWindow(DividedList, NestedLoopIndex):
    """The index of one side's window, see `DividedIndex` and `NestedLoopIndex`.

    Parameters
    ----------
    options : NestedLoop
    dims : int
        Further dimensions of each row.
    rows : int or None
        Rows that the window holds; None for a time window.
    first : int
        Ordinal of the first row to come.
    workers : int
    costs : ScanCosts or None
        What the size of basic windows follows from, where `options` has none; None to measure it.
    """

    def __init__(
        self, options: NestedLoop, dims: int, rows: int | None, first: int, workers: int, costs: ScanCosts | None
    ) -> None:
        self.pointers = Pointers(workers)
        self._costs = costs
        super().__init__(options, dims, rows, first)

    def _layout(self, rows: int) -> tuple[int, int]:
        """Return how many rows a basic window has in a window of so many, and how many places there are."""
        blocks = self._blocks or best_unit_blocks(rows, self.pointers.workers, self._costs)
        size = -(-blocks * UNIT_BLOCK // WORDS_AT_ONCE) * WORDS_AT_ONCE
        return size, (-(-rows // size) + 2) * size

    @property
    def basic_windows(self) -> int:
        """How many basic windows there are now; the newest may have few rows."""
        return -(-self.count // self.size)

    def ask(self, worker: int, batch: ProbeBatch, request: Request) -> Found:  # noqa: ARG002 - see DividedIndex
        """Compare a batch with the basic windows of one worker, see `DividedIndex`."""
        numbers = self.pointers.of(worker)
        oldest = self._begin + (numbers.start - self.pointers.first) * self.size
        newest = min(oldest + len(numbers) * self.size, self._end)
        return FoundByPosition(_Stretch(self, oldest, newest), batch.probes.seeing_from(self.floor))

    def nanoseconds(self, probes: int) -> float:
        """Estimate how long so many probes take all workers together."""
        return NANOSECONDS * probes * self.count

    def explain(self) -> str | None:
        """Return how large basic windows are and why, and who has how many, in words."""
        self.divide()
        pointers, blocks = self.pointers, self.size // UNIT_BLOCK
        because = "as set" if self._blocks else "by the cost model"
        return (
            f"basic windows: {pointers.windows:,} of {blocks:,} unit blocks ({because}), "
            f"{', '.join(map(str, pointers.counts))} for each worker"
        )


NANOSECONDS = 0.025
"""Of one comparison in a scan, measured: see benchmarks/notes/2026-11-scans.md."""


class _Stretch:
    """The basic windows of one worker, see `slidejoin.papers.found_rows.Walked`."""

    __slots__ = ("_index", "_newest", "_oldest")

    def __init__(self, index: ScannedWindow, oldest: int, newest: int) -> None:
        self._index, self._oldest, self._newest = index, oldest, newest

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], found: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Compare the probes with its basic windows, see `slidejoin.papers.structure.Structure.walk`."""
        return self._index.walk_rows(self._oldest, self._newest, probes, begin, end, counts, found)

    @property
    def stored(self) -> OrdinalRing:
        """The further dimensions."""
        return self._index.stored
