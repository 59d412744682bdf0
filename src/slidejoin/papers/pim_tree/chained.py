"""Chained index: the window as a chain of sub-indexes by arrival (PIM-Tree, sections 2.2.2 and 5.1).

Rows are inserted into the newest sub-index, the *active* one, until it holds its share of the window. It is then
*archived*, and an empty one becomes active. No row is deleted: an archived sub-index is dropped as a whole when all its
rows have expired, and until then probes skip the rows that they do not see. Every probe searches every sub-index.

A chain of length n is an active sub-index and n - 1 archived ones that hold a window, so each holds an (n - 1)-th of
the window, and the shortest chain has two: that is how we read the paper, which does not say whether its n counts the
active one. Rows of one push, up to `AT_FIRST`, are not spread over two sub-indexes. How many rows a time window
holds is not known before its first row expires: until then all are inserted into one.

Archived sub-indexes stay the B+-trees that they are (B-chain), or become immutable CSS-trees (section 3.1, IB-chain),
which are smaller and faster to search and scan; the B+-tree is then emptied for the rows that follow.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, cast

import numpy as np

from slidejoin.papers.pim_tree.bplus_tree import MutableTree, SearchedTree
from slidejoin.papers.pim_tree.css_tree import FAN_OUT, CssTree, nodes_of, width
from slidejoin.papers.pim_tree.links import WOVEN_AT_ONCE, ArchivedTree, css_format, walk_links
from slidejoin.papers.pim_tree.options import ChainedBPlusTree, ChainedCssTree
from slidejoin.papers.structure import AT_FIRST, Structure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.part_format import PartFormat
    from slidejoin.index.probe import Probes
    from slidejoin.spec.options import Options

__all__ = ["ChainedBPlusTreeIndex", "ChainedCssTreeIndex", "ChainedIndex"]


class ChainedIndex(Structure):
    """The index of one side's window; see `Structure`. O(chain_length log(rows)) for a range, O(log(rows)) to insert.

    Attributes
    ----------
    active : MutableTree
        The newest sub-index.
    archived : deque of (SearchedTree, int)
        The others, the oldest first, each with the ordinal behind its newest row.
    seconds : dict of str to float
        Time by step: ``insert``, ``delete`` (of whole sub-indexes), ``search``, ``scan`` (with merging the results),
        ``merge`` (making an active sub-index an archived one).
    """

    def __init__(self, options: ChainedBPlusTree | ChainedCssTree, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        self.chain_length, self.fan_out = options.chain_length, options.fan_out
        self.seconds = dict.fromkeys(("insert", "delete", "search", "scan", "merge"), 0.0)
        self.active = self._new_tree()
        self.archived: deque[tuple[SearchedTree, int]] = deque()
        self._first = self._begin = first
        # Probes of all sub-indexes before results are merged: twice as many as had room the last time.
        self._together = WOVEN_AT_ONCE

    def _new_tree(self) -> MutableTree:
        return MutableTree(self.fan_out, self.rows_at_first, self.seconds)

    @abstractmethod
    def archive(self) -> SearchedTree:
        """Return the active sub-index as an archived one, and make an empty one active."""

    @abstractmethod
    def drop(self, link: SearchedTree) -> None:
        """Free an archived sub-index, or keep its memory for reuse."""

    @abstractmethod
    def begun_growth(self, sizes: list[int]) -> int:
        """Return the bytes that sub-indexes of so many rows take at most: the first is archived, the others begun."""

    def _share(self, past: int) -> int | None:
        """Return the ordinals of a sub-index when rows before `past` have come, None for no end."""
        if self.rows is None and self.floor == self._begin:
            return None
        return -(-(self.rows or past - self.floor) // (self.chain_length - 1))

    def insert_keys(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Insert the rows into the active sub-index, and into others when it has its share."""
        done = 0
        while done < keys.size:
            here, share = int(ordinals[done]), self._share(int(ordinals[-1]) + 1)
            if share is not None and here - self._first >= share:
                if self.active.rows:
                    self.archived.append((self.archive(), here))
                self._first = here
            last = keys.size
            if share is not None:
                room = max(share - (here - self._first), AT_FIRST)
                last = int(np.searchsorted(ordinals, here + room))
            self.active.insert(keys[done:last], ordinals[done:last])
            done = last

    def leave(self, ordinal: int) -> None:
        """Drop the sub-indexes whose rows have all expired."""
        while self.archived and self.archived[0][1] <= ordinal:
            self.drop(self.archived.popleft()[0])
        if self.active.rows and self.next <= ordinal:
            self.active.clear()

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Search all sub-indexes, and merge their results for each probe, see `Structure.walk`."""
        links: list[SearchedTree] = [*(link for link, _ in self.archived), self.active]
        if len(links) == 1:
            return self.active.walk(probes, begin, end, counts, ordinals)
        done, total, self._together = walk_links(links, probes, begin, end, counts, ordinals, self._together)
        return done, total

    @property
    def count(self) -> int:
        """Stored rows, including expired ones whose sub-index has not expired."""
        return self.active.rows + sum(link.rows for link, _ in self.archived)

    @property
    def held_bytes(self) -> int:
        """Bytes of all sub-indexes."""
        return self.active.nbytes + sum(link.nbytes for link, _ in self.archived)

    def held_growth(self, rows: int) -> int:
        """Return the bytes of a larger active sub-index, and of all new ones that the rows may need."""
        past = self.next + rows
        share = self._share(past)
        growth = self.active.growth(rows)
        if share is None or past - self._first < share:
            return growth
        each = max(share, AT_FIRST)
        return growth + self.begun_growth([self.active.rows + min(rows, each)] + [min(rows, each)] * (2 + rows // each))


class ChainedBPlusTreeIndex(ChainedIndex):
    """The chain whose archived sub-indexes stay B+-trees; see `ChainedIndex`."""

    name = "chained_bplus_tree"
    takes = ChainedBPlusTree

    def __init__(self, options: ChainedBPlusTree, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        # Memory of the last sub-index that was dropped; the next active one fills it again.
        self._spare: MutableTree | None = None

    def archive(self) -> SearchedTree:
        """Leave the active sub-index as it is, and begin another."""
        archived, self.active, self._spare = self.active, self._spare or self._new_tree(), None
        return archived

    def drop(self, link: SearchedTree) -> None:
        """Keep the nodes for the next active sub-index."""
        start = perf_counter()
        self._spare = cast("MutableTree", link)
        self._spare.clear()
        self.seconds["delete"] += perf_counter() - start

    @property
    def held_bytes(self) -> int:
        """Bytes of all sub-indexes, and of the one that is there for reuse."""
        return super().held_bytes + (self._spare.nbytes if self._spare else 0)

    def begun_growth(self, sizes: list[int]) -> int:
        """Return the bytes of all trees that are begun."""
        return sum(MutableTree.most_bytes(self.fan_out, self.rows_at_first, rows) for rows in sizes[1:])


class ChainedCssTreeIndex(ChainedIndex):
    """The chain whose archived sub-indexes become CSS-trees; see `ChainedIndex`."""

    name = "chained_css_tree"
    takes = ChainedCssTree

    @classmethod
    def part_format(cls, options: Options) -> PartFormat:  # noqa: ARG003 - none changes archived trees
        """Return how a segment's rows are sealed: as an archived sub-index."""
        return css_format(FAN_OUT)

    def attach_rows(self, own: CssTree, first: int, end: int) -> None:
        """Link a sealed sub-index behind the others; the active one is archived before."""
        if self.active.rows:
            self.archived.append((self.archive(), first))
        self.archived.append((ArchivedTree(own, self.seconds, first), end))
        self._first = end

    def archive(self) -> SearchedTree:
        """Make a CSS-tree of the active sub-index, and empty that."""
        start = perf_counter()
        archived = ArchivedTree(CssTree.built(*self.active.entries()), self.seconds)
        self.active.clear()
        self.seconds["merge"] += perf_counter() - start
        return archived

    def drop(self, link: SearchedTree) -> None:
        """Do nothing: its memory is freed with the last reference."""

    def begun_growth(self, sizes: list[int]) -> int:
        """Return the bytes of all CSS-trees; the B+-tree is used again."""
        inner = width(FAN_OUT) * 8
        return sum(16 * rows + inner * (sum(nodes_of(rows, FAN_OUT)) + 4) for rows in sizes)
