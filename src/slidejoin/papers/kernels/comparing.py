"""Comparing every probe of a batch with every key of a block: the nested loop of CellJoin, section 5.

Three ways of it: key by key, as the paper's join without SIMD; vectors of whole keys, one probe after the other; and,
in `papers.cell_join.kernels.narrowed`, vectors of narrowed keys for several probes at once, which is the way that is
used. The first two are what that one is measured against.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I32, OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.vectors import borrowed, first_one
from slidejoin.papers.kernels.key_lanes import ALL_LANES, KEY_LANES, any_inside, key_inside, keys_inside

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["UNIT_BLOCK", "UNROLLED", "compare_blocks", "compare_one_by_one", "group_matches"]

UNIT_BLOCK = 8
"""Keys in a unit block: a vector of 512 bits, equation 1 with eight bytes a key."""

UNROLLED = ALL_LANES
"""Keys that are compared before the first branch, eight vectors as in section 5.3."""


@inlined
def _write_hits(
    ordinals: Any,  # noqa: ANN401
    place: Any,  # noqa: ANN401
    past: Any,  # noqa: ANN401
    hits: Any,  # noqa: ANN401
    low_seen: Any,  # noqa: ANN401
    high_seen: Any,  # noqa: ANN401
    probe: Any,  # noqa: ANN401
    entries: Any,  # noqa: ANN401
    which: Any,  # noqa: ANN401
    total: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Write an entry for each key that hits and is seen, of those from `place` on and before `past`; count them."""
    while hits != 0:
        at = place + first_one(hits)
        hits &= hits - np.int64(1)
        ordinal = ordinals[U64(at)]
        entries[U64(total)] = ordinal  # kept, or overwritten by the next
        which[U64(total)] = probe
        total += (at < past) & (low_seen <= ordinal) & (ordinal < high_seen)
    return total


@kernel(
    I64, I64, types.int64, types.int64, types.int64, I64_2D, I64_2D, I64, I64, types.int64, types.int64, types.int64,
    OUT_I64, OUT_I32, returns=types.int64,
)  # fmt: skip
def compare_blocks(
    keys: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    first: int,
    last: int,
    size: int,
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    room: int,
    entries: NDArray[np.int64],
    which: NDArray[np.int32],
) -> int:
    """Write match entries of probes begin…end-1: a stored row's ordinal, and which probe from `begin` on it matches.

    Rows first…last-1 lie at their number modulo the places of `keys` and `ordinals`, int64, a whole number of basic
    windows of `size` places, and `first` is at the beginning of one. lo, hi (k, n) int64, ``lo > hi`` an empty range;
    probes see the ordinals ``seen_from <= o < seen_to``, (n,) int64 ascending. Returns how many entries, or -1 where
    there is no `room` for them. O(rows * probes * k).
    """
    total: Any = np.int64(0)
    own, stored, out, probe_of = borrowed(keys), borrowed(ordinals), borrowed(entries), borrowed(which)
    for window in range(first, last, size):
        base, rows = window % keys.size, min(size, last - window)
        # Only basic windows at either end of what the batch sees are looked at row by row for that (section 4.1.2).
        oldest, newest = stored[U64(base)], stored[U64(base + rows - 1)]
        if newest < seen_from[U64(begin)] or oldest >= seen_to[U64(end - 1)]:
            continue
        for i in range(begin, end):
            low_seen, high_seen = seen_from[U64(i)], seen_to[U64(i)]
            for piece in range(lo.shape[0]):
                low, high = lo[U64(piece), U64(i)], hi[U64(piece), U64(i)]
                if low > high:
                    continue
                for at in range(base, base + rows, UNROLLED):
                    if not any_inside(own, at, low, high):
                        continue
                    if total + UNROLLED > room:
                        return -1
                    for half in range(at, at + UNROLLED, KEY_LANES):
                        hits = keys_inside(own, half, low, high)
                        total = _write_hits(
                            stored, half, base + rows, hits, low_seen, high_seen, i - begin, out, probe_of, total
                        )
    return total  # type: ignore[no-any-return]


@kernel(
    I64, I64, types.int64, types.int64, types.int64, I64_2D, I64_2D, I64, I64, types.int64, types.int64, types.int64,
    OUT_I64, OUT_I32, returns=types.int64,
)  # fmt: skip
def compare_one_by_one(
    keys: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    first: int,
    last: int,
    size: int,
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    begin: int,
    end: int,
    room: int,
    entries: NDArray[np.int64],
    which: NDArray[np.int32],
) -> int:
    """Do what `compare_blocks` does key by key, with a branch for each: its scalar twin. O(rows * probes * k)."""
    total: Any = np.int64(0)
    own, stored, out, probe_of = borrowed(keys), borrowed(ordinals), borrowed(entries), borrowed(which)
    for window in range(first, last, size):
        base, rows = window % keys.size, min(size, last - window)
        for i in range(begin, end):
            for piece in range(lo.shape[0]):
                low, high, place = lo[U64(piece), U64(i)], hi[U64(piece), U64(i)], np.int64(base)
                if low > high:
                    continue
                while True:
                    # One branch a key, which is foreseen, and nothing stored: as fast as one key at a time can be.
                    while place < base + rows and not key_inside(own, place, low, high):
                        place += np.int64(1)
                    if place == base + rows:
                        break
                    ordinal = stored[U64(place)]
                    place += np.int64(1)
                    if seen_from[U64(i)] <= ordinal < seen_to[U64(i)]:
                        if total == room:
                            return -1
                        out[U64(total)] = ordinal
                        probe_of[U64(total)] = i - begin
                        total += 1
    return total  # type: ignore[no-any-return]


@kernel(I64, I32, types.int64, types.int64, types.int64, OUT_I64, OUT_I64, types.int64)
def group_matches(
    entries: NDArray[np.int64],
    which: NDArray[np.int32],
    total: int,
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
    at: int,
) -> None:
    """Put match entries of probes begin…end-1 in order of their probes, into `found` from `at` on; count each's. O(n).

    Within a probe they stay in the order in which they came.
    """
    places = np.zeros(end - begin + 1, np.int64)
    for n in range(total):
        places[U64(which[U64(n)]) + U64(1)] += 1
    for i in range(end - begin):
        counts[U64(begin + i)] = places[U64(i + 1)]
        places[U64(i + 1)] += places[U64(i)]
    for n in range(total):
        probe = U64(which[U64(n)])
        found[U64(at + places[probe])] = entries[U64(n)]
        places[probe] += 1
