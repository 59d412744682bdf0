"""Comparing every probe of a batch with every key of a block, in two ways: the nested loop of CellJoin, section 5.

Key by key, as the paper's join without SIMD; and vectors of whole keys, one probe after the other. What the join uses,
`slidejoin.papers.cell_join.kernels.narrowed`, is tested and measured against both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.jit.compiling import U64, inlined, kernel
from slidejoin.jit.vectors.vectors import borrowed, first_one
from slidejoin.papers.cell_join.kernels.narrowed import SCANNED_ROWS
from slidejoin.papers.kernels.key_lanes import ALL_LANES, KEY_LANES, any_inside, key_inside, keys_inside
from slidejoin.papers.kernels.walking import ENTRIES, RANGES

if TYPE_CHECKING:
    from slidejoin.papers.cell_join.kernels.narrowed import ScannedRows
    from slidejoin.papers.kernels.walking import MatchEntries, ProbeRanges

__all__ = ["compare_blocks", "compare_one_by_one"]

UNROLLED = ALL_LANES
"""Keys that are compared before the first branch, eight vectors as in section 5.3."""


@inlined
def _write_hits(
    ordinals: Any,  # noqa: ANN401
    place: Any,  # noqa: ANN401
    past: Any,  # noqa: ANN401
    hits: Any,  # noqa: ANN401
    seen: Any,  # noqa: ANN401
    probe: Any,  # noqa: ANN401
    entries: Any,  # noqa: ANN401
    total: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Write an entry for each key that hits and is seen, of those from `place` on and before `past`; count them."""
    while hits != 0:
        at = place + first_one(hits)
        hits &= hits - np.int64(1)
        ordinal = ordinals[U64(at)]
        entries.ordinals[U64(total)] = ordinal  # stays, or is overwritten by the next
        entries.probes[U64(total)] = probe
        total += (at < past) & (seen[0] <= ordinal) & (ordinal < seen[1])
    return total


@kernel(SCANNED_ROWS, RANGES, types.int64, types.int64, ENTRIES, types.int64, returns=types.int64)
def compare_blocks(
    rows: ScannedRows, ranges: ProbeRanges, begin: int, end: int, entries: MatchEntries, room: int
) -> int:
    """Write match entries as `slidejoin.papers.cell_join.kernels.narrowed.compare_narrowed` does."""
    total: Any = np.int64(0)
    keys, ordinals = borrowed(rows.keys), borrowed(rows.ordinals)
    lo, hi, seen_from, seen_to = ranges
    for window in range(rows.first, rows.last, rows.size):
        base, past = window % keys.size, window % keys.size + min(rows.size, rows.last - window)
        # Only basic windows at either end of what the batch sees are looked at row by row for that (section 4.1.2).
        if ordinals[U64(past - 1)] < seen_from[U64(begin)] or ordinals[U64(base)] >= seen_to[U64(end - 1)]:
            continue
        for i in range(begin, end):
            seen = seen_from[U64(i)], seen_to[U64(i)]
            for piece in range(lo.shape[0]):
                low, high = lo[U64(piece), U64(i)], hi[U64(piece), U64(i)]
                if low > high:
                    continue
                for at in range(base, past, UNROLLED):
                    if not any_inside(keys, at, low, high):
                        continue
                    if total + UNROLLED > room:
                        return -1
                    for lane in range(at, at + UNROLLED, KEY_LANES):
                        hits = keys_inside(keys, lane, low, high)
                        total = _write_hits(ordinals, lane, past, hits, seen, i - begin, entries, total)
    return total  # type: ignore[no-any-return]


@kernel(SCANNED_ROWS, RANGES, types.int64, types.int64, ENTRIES, types.int64, returns=types.int64)
def compare_one_by_one(
    rows: ScannedRows, ranges: ProbeRanges, begin: int, end: int, entries: MatchEntries, room: int
) -> int:
    """Do what `compare_blocks` does key by key, with a branch for each: its scalar twin. O(rows * probes * k)."""
    total: Any = np.int64(0)
    keys, ordinals = borrowed(rows.keys), borrowed(rows.ordinals)
    lo, hi, seen_from, seen_to = ranges
    for window in range(rows.first, rows.last, rows.size):
        base, past = window % keys.size, window % keys.size + min(rows.size, rows.last - window)
        for i in range(begin, end):
            for piece in range(lo.shape[0]):
                low, high, place = lo[U64(piece), U64(i)], hi[U64(piece), U64(i)], np.int64(base)
                if low > high:
                    continue
                while True:
                    # One branch a key, which is foreseen, and nothing stored: as fast as one key at a time can be.
                    while place < past and not key_inside(keys, place, low, high):
                        place += np.int64(1)
                    if place == past:
                        break
                    ordinal = ordinals[U64(place)]
                    place += np.int64(1)
                    if seen_from[U64(i)] <= ordinal < seen_to[U64(i)]:
                        if total == room:
                            return -1
                        entries.ordinals[U64(total)] = ordinal
                        entries.probes[U64(total)] = i - begin
                        total += 1
    return total  # type: ignore[no-any-return]
