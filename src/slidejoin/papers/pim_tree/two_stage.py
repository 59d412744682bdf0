"""IM-Tree, and the base of PIM-Tree: an immutable tree with B+-trees for new rows (PIM-Tree, sections 3.2 and 3.3).

Rows are inserted into the mutable part. Once that holds a certain share of the window, the merge ratio, both parts are
merged into a new immutable tree. Expired rows are dropped by the merge, and until then filtered out by ordinal.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.jit.vectors.sorting import sorted_order
from slidejoin.papers.pim_tree.css_tree import CssTree, room
from slidejoin.papers.pim_tree.kernels.css_tree import LANES
from slidejoin.papers.pim_tree.kernels.im_merging import LEAF, MERGE, OUT, PLACE, merge_some
from slidejoin.papers.pim_tree.kernels.im_tree import walk_both
from slidejoin.papers.pim_tree.kernels.subindexes import NOTHING
from slidejoin.papers.pim_tree.links import WOVEN_AT_ONCE, ArchivedTree, css_format, walk_links
from slidejoin.papers.pim_tree.options import IMTree, PIMTree
from slidejoin.papers.pim_tree.subindexes import SubIndexes
from slidejoin.papers.structure import Structure, walk_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.part_format import PartFormat
    from slidejoin.index.probe import Probes
    from slidejoin.papers.kernels.walking import ProbeRanges, WalkMatches
    from slidejoin.papers.pim_tree.links import Link
    from slidejoin.spec.options import Options

__all__ = ["IMTreeIndex", "Merging", "TwoStage"]

STEPS = ("insert", "search", "scan", "merge")


class TwoStage(Structure):
    """The index of one side's window, in two stages; see `Structure`.

    Attributes
    ----------
    seconds : dict of str to float
        Spent on each step so far, of all threads together: ``insert``, ``search``, ``scan``, and ``merge``, which
        deletes, too.
    merges : int
        How often all rows were put into a new immutable tree.
    """

    def __init__(self, options: IMTree | PIMTree, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        depth, threads = (options.insertion_depth, options.threads) if isinstance(options, PIMTree) else (-1, 1)
        self.seconds = dict.fromkeys(STEPS, 0.0)
        self.merges = 0
        self._lock = Lock()
        self._fan_out, self._stable_fan_out = options.fan_out, options.immutable_fan_out
        self._depth, self._ratio = depth, options.merge_ratio
        self._stable = CssTree.built(np.empty(0, np.int64), np.empty(0, np.int64), options.immutable_fan_out)
        self._active = SubIndexes(options.fan_out, self._stable, depth, threads)
        self._pools: tuple[SubIndexes, ...] = (self._active,)
        # Trees of sealed rows, the oldest first, each with the ordinal behind its newest row; they are not merged.
        self._sealed: deque[tuple[ArchivedTree, int]] = deque()
        self._together = WOVEN_AT_ONCE
        # The memory for the next merge: the arrays of the tree before the present one.
        self._spare = room(0, options.immutable_fan_out)

    @property
    def threshold(self) -> int:
        """Rows of the mutable part from which on it is merged."""
        window = self.next - self.floor if self.rows is None else self.rows
        return max(1, round(self._ratio * window))

    def insert_keys(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Insert the rows into the mutable part, by ascending key, and merge when it is full."""
        start = perf_counter()
        order = sorted_order(keys)
        self._put(keys[order], ordinals[order])
        self._spent("insert", start)
        start = perf_counter()
        self._merge(keys.size)
        self._spent("merge", start)

    def _put(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        self._active.insert(keys, ordinals)

    @abstractmethod
    def _merge(self, inserted: int) -> None:
        """Merge, or do a part of a merge, if due; so many rows have just been inserted."""

    @classmethod
    def part_format(cls, options: Options) -> PartFormat:
        """Return how a segment's rows are sealed: as an immutable tree."""
        assert isinstance(options, IMTree | PIMTree)  # noqa: S101 - the factory gives its own
        return css_format(options.immutable_fan_out)

    def attach_rows(self, own: CssTree, first: int, end: int) -> None:
        """Take a sealed tree, which is probed next to both parts."""
        self._sealed.append((ArchivedTree(own, self.seconds, first), end))

    def leave(self, ordinal: int) -> None:
        """Drop sealed trees whose rows have all expired; other expired rows are dropped by the next merge."""
        while self._sealed and self._sealed[0][1] <= ordinal:
            self._sealed.popleft()

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Search all that there is, and join the matches of sealed trees and of the others, see `Structure.walk`."""
        if not self._sealed:
            return self._walk_own(probes, begin, end, counts, ordinals)
        links: list[Link] = [*(link for link, _ in self._sealed), _Own(self)]
        done, total, self._together = walk_links(links, probes, begin, end, counts, ordinals, self._together)
        return done, total

    def _walk_own(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Search the immutable tree and its B+-trees, then scan both."""
        ranges, matches = walk_groups(probes, begin, counts, ordinals)
        spent = self._walk(ranges, matches, end)
        with self._lock:
            for step, nanoseconds in zip(("search", "scan"), spent.tolist(), strict=True):
                self.seconds[step] += nanoseconds / 1e9
        return int(matches.done[0]), int(matches.done[1])

    def _walk(self, ranges: ProbeRanges, matches: WalkMatches, end: int) -> NDArray[np.int64]:
        """Answer probes up to `end`; return what searches and scans took, (2,) int64 in nanoseconds."""
        spent = np.zeros(2, np.int64)
        walk_both(self._stable.words, self._active.depth, self._pool_words(), *ranges, end, *matches, spent)
        return spent

    def _pool_words(self) -> NDArray[np.int64]:
        """Return the B+-trees, words of `HUNG_POOL`."""
        each = [pool.hung_words(self._stable) for pool in self._pools]
        return each[0] if len(each) == 1 else np.concatenate(each)

    def _spent(self, step: str, start: float) -> None:
        with self._lock:
            self.seconds[step] += perf_counter() - start

    @property
    def count(self) -> int:
        """Stored rows, including those that have expired since the last merge."""
        return self._own_count + sum(link.rows for link, _ in self._sealed)

    @property
    def _own_count(self) -> int:
        """Those of them that were inserted."""
        return self._stable.size + sum(pool.rows for pool in self._pools)

    @property
    def held_bytes(self) -> int:
        """Bytes of both parts, and of the memory for the next merge."""
        sealed = sum(link.nbytes for link, _ in self._sealed)
        return sealed + self._stable.nbytes + sum(array.nbytes for array in self._spare) + self._active.nbytes

    def held_growth(self, rows: int) -> int:
        """Return the bytes of more nodes, and of the larger trees of a merge."""
        most = self._own_count + rows
        merged = CssTree.bytes_of(most, self._stable_fan_out)
        hung = SubIndexes.bytes_of(most, self._fan_out, self._stable_fan_out, self._depth)
        return self._active.growth(rows) + 2 * merged + hung


class _Own:
    """What was inserted into a structure, as one link of several."""

    def __init__(self, structure: TwoStage) -> None:
        self.walk = structure._walk_own  # noqa: SLF001 - a part of it


class IMTreeIndex(TwoStage):
    """The index of one side's window, with one B+-tree for new rows, merged all at once; see `Structure`.

    O(log(rows)) for each insert and range, and 1 / merge_ratio more for each row's share of the merges.
    """

    name = "im_tree"
    takes = IMTree

    def _merge(self, inserted: int) -> None:  # noqa: ARG002 - what is due follows from the rows that are there
        """Merge all at once when the mutable part is full."""
        if self._active.rows < self.threshold:
            return
        old = self._stable
        self._stable = Merging(old, self._active, self.floor, self._spare).finish()
        self._spare = (old.keys, old.values)
        self._active.hang(self._stable, self._depth)
        self.merges += 1


class Merging:
    """A running merge: rows of an immutable tree and of its B+-trees, written by ascending key.

    Parameters
    ----------
    stable, frozen : CssTree, SubIndexes
        What is merged; neither may change meanwhile.
    floor : int
        Rows with ordinals below are dropped.
    spare : pair of int64 arrays
        To write into, if they are large enough.
    """

    def __init__(
        self,
        stable: CssTree,
        frozen: SubIndexes,
        floor: int,
        spare: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> None:
        self.stable, self.frozen, self._floor = stable, frozen, floor
        self._rows = stable.size + frozen.rows
        enough = spare[1].size >= self._rows + LANES and spare[0].size >= self._rows + LANES + 2 * stable.width
        self._given = spare
        self._into = spare if enough else room(self._rows + self._rows // 8, stable.fan_out)
        self._state = np.zeros(MERGE, np.int64)
        self.made: CssTree | None = None
        self._leaves = 0

    def work(self, steps: int) -> bool:
        """Do so much of it, a row each; return whether it is done, and `made` a tree."""
        made = self.made
        if made is None:
            merge_some(
                self.stable.words, self.frozen.words, self._floor, steps, *self._into, state=self._state,
            )  # fmt: skip
            if self._state[LEAF] != NOTHING or self._state[PLACE] < self.stable.size:
                return False
            self.made = made = CssTree(int(self._state[OUT]), self.stable.fan_out, self._into)
        first, self._leaves = self._leaves, min(made.leaves, self._leaves + steps)
        made.fill(first, self._leaves)
        return self._leaves == made.leaves

    @property
    def nbytes(self) -> int:
        """Bytes that are written into, if they were made for it."""
        return 0 if self._into is self._given else sum(array.nbytes for array in self._into)

    def finish(self) -> CssTree:
        """Do the rest of the merge, and return the new tree."""
        while not self.work(self._rows + 1):
            pass
        assert self.made is not None  # noqa: S101 - it is done
        return self.made
