"""Range scans of a chain of sub-indexes: scan a sorted archived one, and merge the results of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, U64, kernel, prefetch
from slidejoin.papers.kernels.walking import MATCHES, RANGES
from slidejoin.papers.pim_tree.kernels.css_tree import css_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["scan_sorted", "weave_links"]

AHEAD = 8
"""Prefetch distance, in probes, of the first rows of a range."""


@kernel(I64, I64_2D, *RANGES.types, types.int64, types.int64, *MATCHES.types)
def scan_sorted(
    words: NDArray[np.int64],
    places: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    done: NDArray[np.int64],
) -> None:
    """Add the matches of probes begin…end-1, from the place where each range begins. O(rows in range).

    `words` are those of the tree's nodes. ``places[k, i - begin]`` (k, end - begin) int64 is the first place of a key
    not below ``lo[k, i]``. The others are fields of `ProbeRanges` and `WalkMatches`.
    """
    tree = css_in(words)
    keys, values, size = tree.keys, tree.values, tree.size
    total = done[1]
    for i in range(begin, end):
        soon = places[U64(0), U64(min(i + AHEAD, end - 1) - begin)]
        prefetch(keys, soon)
        prefetch(values, soon)
        before = total
        for piece in range(lo.shape[0]):
            high = hi[U64(piece), U64(i)]
            if lo[U64(piece), U64(i)] > high:
                continue
            at = places[U64(piece), U64(i - begin)]
            while at < size and keys[U64(at)] <= high:
                if total == ordinals.size:
                    done[0], done[1] = i, before
                    return
                ordinal = values[U64(at)]
                ordinals[U64(total)] = ordinal
                total += (seen_from[U64(i)] <= ordinal) & (ordinal < seen_to[U64(i)])
                at += 1
        counts[U64(i)] = total - before
    done[0], done[1] = end, total


@kernel(I64, OUT_I64, I64_2D, types.int64, types.int64, *MATCHES.types)
def weave_links(
    entries: NDArray[np.int64],
    starts: NDArray[np.int64],
    counts_by_link: NDArray[np.int64],
    first: int,
    last: int,
    counts: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    done: NDArray[np.int64],
) -> None:
    """Concatenate the matches from all links for probes first…last-1, probe by probe. O(matches + probes * links).

    Link k has ``counts_by_link[k, i]`` (links, n) int64 for probe i, in `entries` from ``starts[k]`` (links,) int64 on,
    one probe after the other; `starts` are advanced. Two links that have a, b and c for probes 0, 1, 1 and d for 1::

        entries   a b c  d        counts_by_link  1 2     starts  0 3
                                                  0 1
        ordinals  a | b c d       counts          1 3     starts  3 4
    """
    total: Any = done[1]
    for i in range(first, last):
        before = total
        for link in range(starts.size):
            at = starts[U64(link)]
            for _ in range(counts_by_link[U64(link), U64(i)]):
                ordinals[U64(total)] = entries[U64(at)]
                total += 1
                at += 1
            starts[U64(link)] = at
        counts[U64(i)] = total - before
    done[0], done[1] = last, total
