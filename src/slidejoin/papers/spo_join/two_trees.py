"""Rows with a tree for each term: both ranges become sets of rows, which are intersected (SPO-Join, section 4.1).

The mutable part has B+-trees, into which rows are inserted one by one. The paper's immutable baseline has CSS-trees,
which are evaluated likewise (section 6.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.index.part_format import checked
from slidejoin.jit.vectors.sorting import sorted_order
from slidejoin.papers.kernels.walking import WalkMatches
from slidejoin.papers.pim_tree.bplus_tree import MutableTree
from slidejoin.papers.pim_tree.css_tree import CssTree
from slidejoin.papers.pim_tree.kernels.bplus_nodes import NOTHING
from slidejoin.papers.spo_join.kernels.sets import TreeRanges, intersect_bit_sets, intersect_hash_sets
from slidejoin.papers.spo_join.part import bounds_of
from slidejoin.papers.structure import AT_FIRST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.papers.spo_join.part import Part, ProbeBoxes

    Leaves = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], int]

__all__ = ["CssTrees", "MutableRows", "TwoTrees"]

HIGHEST = np.iinfo(np.int64).max
WORD, HALF = 64, 32

TOGETHER = 1 << 10
"""Probes whose ranges are looked up before their rows are read: the places stay in the cache."""


class TwoTrees(ABC):
    """Some rows of the window, see `slidejoin.papers.spo_join.part.Part`.

    Parameters
    ----------
    hashed : bool
        Whether rows are collected in hash sets, instead of bit sets.
    """

    base = 0
    """Added to the ordinals: those of sealed rows count from 0."""

    def __init__(self, *, hashed: bool) -> None:
        self._hashed = hashed
        self.bounds: NDArray[np.int64] | None = None

    @property
    @abstractmethod
    def ordinals(self) -> NDArray[np.int64]:
        """Ordinals (n,) int64 by number: by arrival."""

    @abstractmethod
    def leaves(self, term: int) -> Leaves:
        """Return the leaves of the tree of term 0 or 1: values, sizes, following and fan-out of `TreeRanges`."""

    @abstractmethod
    def starts(self, term: int, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return leaf and place of the first entry with a key not below each bound, (k, m) int64 each."""

    @property
    def rows(self) -> int:
        """How many."""
        return self.ordinals.size

    @property
    def oldest(self) -> int:
        """Ordinal of the oldest row."""
        return self.base + int(self.ordinals[0])

    @property
    def newest(self) -> int:
        """Ordinal of the newest row."""
        return self.base + int(self.ordinals[-1])

    def _tree(self, term: int, lo: NDArray[np.int64], hi: NDArray[np.int64]) -> TreeRanges:
        """Return the leaves of a term's tree and where ranges are in them."""
        if not lo.shape[0]:
            nothing = np.empty((0, lo.shape[1]), np.int64)
            return TreeRanges(*self.leaves(0), nothing, nothing, nothing, nothing)
        first, places = self.starts(term, np.ascontiguousarray(lo))
        open_ended = hi == HIGHEST
        last, last_places = self.starts(term, np.where(open_ended, hi, hi + ~open_ended))
        last[open_ended] = NOTHING
        first[lo > hi] = NOTHING
        return TreeRanges(*self.leaves(term), first, places, last, last_places)

    def _evaluate(
        self,
        boxes: ProbeBoxes,
        begin: int,
        end: int,
        counts: NDArray[np.int64],
        answer: NDArray[np.int64],
        *,
        write: bool,
    ) -> tuple[int, int]:
        """Answer probes begin…end-1, as `Part.walk` and, without `write`, as `Part.count`."""
        total, ordinals, done = 0, self.ordinals, np.empty(2, np.int64)
        if not ordinals.size:
            counts[begin:end] = 0
            return end, 0
        words = ordinals.size // WORD + 1
        sets = np.empty(words, np.uint64), np.empty(words, np.uint64)
        # Twice the rows at least, so that few slots are looked at for each.
        power = max((2 * ordinals.size - 1).bit_length(), 1)
        for first in range(begin, end, TOGETHER):
            last = min(first + TOGETHER, end)
            part = slice(first, last)
            matches = WalkMatches(counts[part], answer[total:], done)
            seen_from, seen_to = boxes.seen_from[part], boxes.seen_to[part]
            if self.base:
                seen_from, seen_to = seen_from - self.base, seen_to - self.base
            given = (
                self._tree(0, boxes.lo[:, part], boxes.hi[:, part]),
                self._tree(1, boxes.lo_2[:, part], boxes.hi_2[:, part]),
                ordinals, seen_from, seen_to, write,
            )  # fmt: skip
            if self._hashed:
                table = np.zeros(1 << power, np.int64)
                intersect_hash_sets(*given, HALF - power, table, matches)
            else:
                intersect_bit_sets(*given, *sets, matches)
            if self.base and write:
                answer[total : total + int(done[1])] += self.base
            total += int(done[1])
            if done[0] < last - first:
                return first + int(done[0]), total
        return end, total

    def count(self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64]) -> None:
        """Count the rows of each probe, see `Part`."""
        self._evaluate(boxes, begin, end, counts, counts[:0], write=False)

    def walk(
        self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Find the rows of probes until the room is full, see `Part`."""
        return self._evaluate(boxes, begin, end, counts, ordinals, write=True)


ORDINAL_BYTES = 8


class MutableRows(TwoTrees):
    """The mutable part: the newest rows of the window, see `slidejoin.papers.spo_join.part.Part`.

    Parameters
    ----------
    terms : int
        One or two.
    fan_out : int
        Entries of a node.
    seconds : dict of str to float
        Takes the time of ``insert``.
    hashed : bool
        As of `TwoTrees`.

    Attributes
    ----------
    permuted : Part, optional
        The same rows as a merge would leave them, if they have been read; until others are inserted.
    """

    def __init__(self, terms: int, fan_out: int, seconds: dict[str, float], *, hashed: bool) -> None:
        super().__init__(hashed=hashed)
        self.trees = [MutableTree(fan_out, AT_FIRST, seconds) for _ in range(terms)]
        self._ordinals = np.empty(AT_FIRST, np.int64)
        self.permuted: Part | None = None

    @property
    def ordinals(self) -> NDArray[np.int64]:
        """Ordinals (n,) int64 by number."""
        return self._ordinals[: self.trees[0].rows]

    @property
    def rows(self) -> int:
        """How many."""
        return self.trees[0].rows

    def insert(self, keys: list[NDArray[np.int64]], ordinals: NDArray[np.int64]) -> None:
        """Insert the newest rows: keys (n,) int64 of each term, and their ordinals. O(n log(rows))."""
        first, past = self.rows, self.rows + ordinals.size
        self.permuted = self.bounds = None
        if past > self._ordinals.size:
            self._ordinals = np.concatenate([self.ordinals, np.empty(max(past, 2 * first) - first, np.int64)])
        self._ordinals[first:past] = ordinals
        numbers = np.arange(first, past)
        for tree, own in zip(self.trees, keys, strict=True):
            tree.insert(own, numbers)

    def clear(self) -> None:
        """Remove all rows, but not the memory of the trees."""
        self.permuted = self.bounds = None
        for tree in self.trees:
            tree.clear()

    def leaves(self, term: int) -> Leaves:
        """Return the leaves of a term's tree."""
        nodes = self.trees[term].nodes
        return nodes.values, nodes.sizes, nodes.following, nodes.fan_out

    def starts(self, term: int, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Descend to the first entry not below each bound, see `TwoTrees`."""
        return self.trees[term].starts(bounds)

    @property
    def nbytes(self) -> int:
        """Bytes of all nodes, of the ordinals, and of the rows as they have been read."""
        read = 0 if self.permuted is None else self.permuted.nbytes
        return sum(tree.nbytes for tree in self.trees) + self._ordinals.nbytes + read

    def growth(self, rows: int) -> int:
        """Return by how many bytes that many more rows make it grow at most."""
        past = self.rows + rows
        ordinals = 0 if past <= self._ordinals.size else max(past, 2 * self.rows) * ORDINAL_BYTES
        return sum(tree.growth(rows) for tree in self.trees) + ordinals

    @staticmethod
    def most_bytes(terms: int, fan_out: int, rows: int) -> int:
        """Return the bytes of an empty one after so many rows were inserted, at most."""
        ordinals = ORDINAL_BYTES * max(2 * rows, AT_FIRST)
        return terms * MutableTree.most_bytes(fan_out, AT_FIRST, rows) + ordinals


class CssTrees(TwoTrees):
    """Rows that no longer change, see `slidejoin.papers.spo_join.part.Part`.

    Parameters
    ----------
    trees : list of CssTree
        Of each term; values are the rows' numbers.
    ordinals : (n,) int64
        By number.
    hashed : bool
        As of `TwoTrees`.
    base : int
        Added to the ordinals.
    """

    def __init__(self, trees: list[CssTree], ordinals: NDArray[np.int64], *, hashed: bool, base: int = 0) -> None:
        super().__init__(hashed=hashed)
        self.trees, self._ordinals, self.base = trees, ordinals, base
        self._size, self._following = np.array([ordinals.size], np.int32), np.array([-1], np.int32)

    @staticmethod
    def sealed(fan_out: int, keys: NDArray[np.int64], ordinals: NDArray[np.int64], aux: NDArray[np.int64]) -> CssTrees:
        """Return the trees of rows in arrival order, see `slidejoin.papers.sealed_rows.sealed_format`. O(n)."""
        columns = [keys, np.ascontiguousarray(aux[:, 0])] if aux.shape[1] else [keys]
        trees = []
        for column in columns:
            order = sorted_order(column)
            trees.append(CssTree.built(column[order], order.astype(np.int64), fan_out))
        made = CssTrees(trees, ordinals, hashed=False)
        made.bounds = bounds_of(aux)
        return made

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return sealed rows as named arrays, from which `of_arrays` restores them."""
        named = {f"{at}.{name}": array for at, tree in enumerate(self.trees) for name, array in tree.arrays().items()}
        assert self.bounds is not None  # noqa: S101 - they are sealed
        return {"ordinals": self._ordinals, "bounds": self.bounds, **named}

    @staticmethod
    def of_arrays(arrays: Mapping[str, NDArray[Any]]) -> CssTrees:
        """Return the trees that `arrays` returned; nothing is copied."""
        ordinals, trees = checked(arrays, "ordinals", (-1,)), []
        for at in range(2 if arrays["aux"].shape[1] else 1):
            own = {name[2:]: array for name, array in arrays.items() if name.startswith(f"{at}.")}
            trees.append(CssTree.of_arrays(own))
        if any(tree.size != ordinals.size for tree in trees):
            msg = f"the trees of {ordinals.size} rows have {[tree.size for tree in trees]}"
            raise ValueError(msg)
        made = CssTrees(trees, ordinals, hashed=False)
        made.bounds = checked(arrays, "bounds", (2, arrays["aux"].shape[1]))
        return made

    def rebased(self, base: int, *, hashed: bool) -> CssTrees:
        """Return sealed rows with the first ordinal; arrays are shared."""
        made = CssTrees(self.trees, self._ordinals, hashed=hashed, base=base)
        made.bounds = self.bounds
        return made

    @property
    def ordinals(self) -> NDArray[np.int64]:
        """Ordinals (n,) int64 by number, less the base."""
        return self._ordinals

    def leaves(self, term: int) -> Leaves:
        """Return a term's sorted rows as a single leaf."""
        return self.trees[term].values, self._size, self._following, self.rows

    def starts(self, term: int, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Descend to the first entry not below each bound, see `TwoTrees`."""
        places = self.trees[term].places(bounds.ravel()).reshape(bounds.shape)
        return np.zeros_like(bounds), places

    @staticmethod
    def bytes_of(rows: int, fan_out: int) -> int:
        """Return the bytes of so many rows at most."""
        return 2 * CssTree.bytes_of(rows, fan_out) + 8 * rows

    @property
    def nbytes(self) -> int:
        """Bytes of both trees and of the ordinals."""
        return sum(tree.nbytes for tree in self.trees) + self._ordinals.nbytes
