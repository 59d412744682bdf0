"""Range scans of a chain of sub-indexes: scan a sorted archived one, and merge the results of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_I64, U64, kernel, prefetch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["scan_sorted", "weave_links"]

AHEAD = 8
"""Prefetch distance, in probes, of the first rows of a range."""


@kernel(
    I64, I64, I64_2D, I64_2D, I64_2D, I64, I64, types.int64, types.int64, types.int64, OUT_I64, OUT_I64, OUT_I64
)  # fmt: skip
def scan_sorted(
    keys: NDArray[np.int64],
    values: NDArray[np.int64],
    places: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    total: int,
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
    result: NDArray[np.int64],
) -> None:
    """Read the rows of probes begin…end-1 from the place where each range begins, in sorted keys.

    ``places[k, i - begin]`` (k, end - begin) int64 is the first place of a key not below ``lo[k, i]``; values (rows,)
    int64 are the ordinals of the keys. Ordinals go into `found` from `total` on, see
    `slidejoin.papers.structure.Structure.walk`; `result` (2,) int64 takes what that returns. O(rows in range).
    """
    all_found: Any = total
    for i in range(begin, end):
        soon = places[U64(0), U64(min(i + AHEAD, end - 1) - begin)]
        prefetch(keys, soon)
        prefetch(values, soon)
        before = all_found
        for piece in range(lo.shape[0]):
            high = hi[U64(piece), U64(i)]
            if lo[U64(piece), U64(i)] > high:
                continue
            at = places[U64(piece), U64(i - begin)]
            while at < values.size and keys[U64(at)] <= high:
                if all_found == found.size:
                    result[0], result[1] = i, before
                    return
                ordinal = values[U64(at)]
                found[U64(all_found)] = ordinal
                all_found += (seen_from[U64(i)] <= ordinal) & (ordinal < seen_to[U64(i)])
                at += 1
        counts[U64(i)] = all_found - before
    result[0], result[1] = end, all_found


@kernel(I64, OUT_I64, I64_2D, types.int64, types.int64, OUT_I64, OUT_I64, types.int64, returns=types.int64)
def weave_links(
    entries: NDArray[np.int64],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    first: int,
    last: int,
    all_counts: NDArray[np.int64],
    found: NDArray[np.int64],
    total: int,
) -> int:
    """Concatenate the results of all links for probes first…last-1, probe by probe, into `found` from `total` on.

    Link k found ``counts[k, i]`` rows of probe i, (links, n) int64, which stand in `entries` from ``starts[k]`` on,
    (links,) int64, one probe after the other; `starts` are advanced. The sums are written to `all_counts` (n,) int64.
    Returns the new number of rows in `found`. O(rows found + probes * links).
    """
    all_found: Any = total
    for i in range(first, last):
        before = all_found
        for link in range(starts.size):
            at = starts[U64(link)]
            for _ in range(counts[U64(link), U64(i)]):
                found[U64(all_found)] = entries[U64(at)]
                all_found += 1
                at += 1
            starts[U64(link)] = at
        all_counts[U64(i)] = all_found - before
    return all_found  # type: ignore[no-any-return]
