"""Links of a chain: immutable CSS-trees, sealed ones among them, and the walk of all links that joins their matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from slidejoin.jit.vectors.sorting import sorted_order
from slidejoin.papers.pim_tree.bplus_tree import SearchedTree
from slidejoin.papers.pim_tree.css_tree import CssTree
from slidejoin.papers.pim_tree.kernels.chains import scan_sorted, weave_links
from slidejoin.papers.pim_tree.kernels.css_tree import find_places
from slidejoin.papers.sealed_rows import sealed_format
from slidejoin.papers.structure import walk_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slidejoin.index.part_format import PartFormat
    from slidejoin.index.probe import Probes
    from slidejoin.papers.kernels.walking import ProbeRanges, WalkMatches

__all__ = ["WOVEN_AT_ONCE", "ArchivedTree", "Link", "css_format", "walk_links"]

WOVEN_AT_ONCE = 1 << 12
"""Probes whose matches from all links are merged at once."""


class Link(Protocol):
    """Some rows of a window, see `slidejoin.papers.structure.Structure.walk`."""

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Find the rows of probes begin…end-1 until the room is full."""


class ArchivedTree(SearchedTree):
    """An archived sub-index that is a CSS-tree.

    Parameters
    ----------
    tree : CssTree
        Its rows.
    seconds : dict of str to float
        Takes the time of ``search`` and ``scan``.
    base : int
        Added to the values of the tree to get ordinals: those of sealed rows count from 0.
    """

    def __init__(self, tree: CssTree, seconds: dict[str, float], base: int = 0) -> None:
        super().__init__(tree.size, seconds)
        self.tree, self._base = tree, base

    @property
    def nbytes(self) -> int:
        """Bytes of the tree."""
        return self.tree.nbytes

    def _room(self, pieces: int, probes: int) -> NDArray[np.int64]:
        return np.empty((pieces, probes), np.int64)

    def _search(self, lo: NDArray[np.int64], first: int, last: int, room: NDArray[np.int64]) -> None:
        for bounds, begun in zip(lo, room, strict=True):
            find_places(self.tree.words, bounds, first, last, -1, begun, begun)

    def _scan(self, room: NDArray[np.int64], ranges: ProbeRanges, first: int, last: int, matches: WalkMatches) -> None:
        if not self._base:
            scan_sorted(self.tree.words, room, *ranges, first, last, *matches)
            return
        before, base = int(matches.done[1]), self._base
        seen_from, seen_to = (np.empty(last, np.int64) for _ in range(2))
        for own, seen in ((seen_from, ranges.seen_from), (seen_to, ranges.seen_to)):
            np.subtract(seen[first:last], base, out=own[first:last])
        own_ranges = ranges._replace(seen_from=seen_from, seen_to=seen_to)
        scan_sorted(self.tree.words, room, *own_ranges, first, last, *matches)
        matches.ordinals[before : int(matches.done[1])] += base


def css_format(fan_out: int) -> PartFormat:
    """Return the format of sealed rows that are one CSS-tree; values are ordinals."""

    def build(keys: NDArray[np.int64], ordinals: NDArray[np.int64], aux: NDArray[np.int64]) -> CssTree:  # noqa: ARG001 - see `sealed_format`
        order = sorted_order(keys)
        return CssTree.built(keys[order], ordinals[order], fan_out)

    return sealed_format(f"css_tree {fan_out}", build, CssTree.of_arrays)


def walk_links(
    links: Sequence[Link],
    probes: Probes,
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    together: int,
) -> tuple[int, int, int]:
    """Search all links, and join their matches for each probe, see `Structure.walk`.

    Returns what that does, and of how many probes to walk all links next before their matches are joined, the present
    `together`.
    """
    _, matches = walk_groups(probes, begin, counts, ordinals)
    entries, counts_by_link = np.empty(ordinals.size, np.int64), np.empty((len(links), end), np.int64)
    starts, done = np.empty(len(links), np.int64), begin
    while done < end:
        last, at, room = min(done + together, end), 0, ordinals.size - int(matches.done[1])
        for number, link in enumerate(links):
            starts[number] = at
            # Each gets an equal share of the remaining room, except for a single probe, whose rows may all be in one.
            share = room - at if together == 1 else (room - at) // (len(links) - number)
            last, more = link.walk(probes, done, last, counts_by_link[number], entries[at : at + share])
            at += more
        if last > done:
            weave_links(entries, starts, counts_by_link, done, last, *matches)
            together, done = min(2 * (last - done), WOVEN_AT_ONCE), last
        elif together > 1:
            together = 1
        else:
            break
    return done, int(matches.done[1]), together
