"""Rows that pass both terms, each found in a tree of its own: by bit sets, or by hash sets (SPO-Join, section 4.1).

The n rows of a part are numbered by arrival; ordinals (n,) int64 ascend with the number. A tree is `values` int64
(numbers by ascending key), `sizes` and `following` int32 and `fan_out`, see `slidejoin.kernels.trees.bplus_nodes`; a
sorted array is a single leaf. A range of probe i goes from place ``places[i]`` in leaf ``leaves[i]`` up to
``last_places[i]`` in ``last_leaves[i]``; it is empty if its leaf is `NOTHING`, and goes to the end if its last one is;
(k, m) int64 for k ranges of m probes. Without ranges of the second term there is none. Ranges of a probe in one term do
not overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from slidejoin.kernels.common.vectors import borrowed
from slidejoin.kernels.common.words import OUT_WORDS
from slidejoin.kernels.jit.compiling import I32, I64, I64_2D, OUT_I64, U64, inlined, kernel
from slidejoin.kernels.po_join.bits import clear_words, ones_between, set_bits, write_between
from slidejoin.kernels.trees.bplus_nodes import NOTHING

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["intersect_bit_sets", "intersect_hash_sets"]

TREE: Any = (I64, I32, I32, types.int64, I64_2D, I64_2D, I64_2D, I64_2D)
"""Values, sizes, following, fan_out, leaves, places, last_leaves, last_places."""

SPREAD, LOW_HALF = 0x9E3779B1, 0xFFFFFFFF
"""2^32 over the golden ratio: the lower halves of products spread neighbouring numbers over the table."""


@inlined
def _mark_range(
    bits: Any,  # noqa: ANN401
    values: Any,  # noqa: ANN401
    sizes: Any,  # noqa: ANN401
    following: Any,  # noqa: ANN401
    fan_out: Any,  # noqa: ANN401
    leaf: Any,  # noqa: ANN401
    at: Any,  # noqa: ANN401
    last_leaf: Any,  # noqa: ANN401
    last_at: Any,  # noqa: ANN401
) -> None:
    """Set the bits of the rows in a range."""
    while leaf != NOTHING:
        past = last_at if leaf == last_leaf else leaf * fan_out + sizes[U64(leaf)]
        set_bits(bits, values, at, past)
        leaf = np.int64(NOTHING) if leaf == last_leaf else np.int64(following[U64(leaf)])
        at = leaf * fan_out


@inlined
def _number_from(ordinals: Any, ordinal: Any) -> Any:  # noqa: ANN401 - int64
    """Return the number of the first row with that ordinal or a later one."""
    low, high = 0, ordinals.size
    while low < high:
        middle = (low + high) >> 1
        if ordinals[U64(middle)] < ordinal:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(
    *TREE, *TREE, I64, I64, I64, types.boolean, OUT_WORDS, OUT_WORDS, OUT_I64, OUT_I64, OUT_I64,
)  # fmt: skip
def intersect_bit_sets(
    values: NDArray[np.int64],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    fan_out: int,
    leaves: NDArray[np.int64],
    places: NDArray[np.int64],
    last_leaves: NDArray[np.int64],
    last_places: NDArray[np.int64],
    values_2: NDArray[np.int64],
    sizes_2: NDArray[np.int32],
    following_2: NDArray[np.int32],
    fan_out_2: int,
    leaves_2: NDArray[np.int64],
    places_2: NDArray[np.int64],
    last_leaves_2: NDArray[np.int64],
    last_places_2: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    write: bool,
    bits: NDArray[np.uint64],
    bits_2: NDArray[np.uint64],
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
    result: NDArray[np.int64],
) -> None:
    """Answer probe after probe: a bit set for each term, and their intersection. O(n) for each.

    `bits` and `bits_2` (n / 64 and more,) uint64. counts (m,) int64 takes how many rows each probe finds. With `write`
    they go into `found`, one probe after the other, and only whole probes are answered; `result` (2,) int64 takes the
    first without room, and how many rows were found.
    """
    rows, rows_2, one, two, own = (
        borrowed(values), borrowed(values_2), borrowed(bits), borrowed(bits_2), borrowed(ordinals)
    )  # fmt: skip
    at: Any = 0
    for i in range(counts.size):
        clear_words(one)
        for piece in range(leaves.shape[0]):
            _mark_range(
                one, rows, sizes, following, fan_out, leaves[U64(piece), U64(i)], places[U64(piece), U64(i)],
                last_leaves[U64(piece), U64(i)], last_places[U64(piece), U64(i)],
            )  # fmt: skip
        first, past = _number_from(own, seen_from[U64(i)]), _number_from(own, seen_to[U64(i)])
        if leaves_2.shape[0] > 0:
            clear_words(two)
            for piece in range(leaves_2.shape[0]):
                _mark_range(
                    two, rows_2, sizes_2, following_2, fan_out_2, leaves_2[U64(piece), U64(i)],
                    places_2[U64(piece), U64(i)], last_leaves_2[U64(piece), U64(i)], last_places_2[U64(piece), U64(i)],
                )  # fmt: skip
            for word in range(one.size):
                one[U64(word)] &= two[U64(word)]
        total = ones_between(one, first, past)
        if write:
            if at + total > found.size:
                result[0], result[1] = i, at
                return
            at = write_between(one, first, past, own, seen_from[U64(i)], seen_to[U64(i)], found, at)
        counts[U64(i)] = total
    result[0], result[1] = counts.size, at


@inlined
def _slot_of(entries: Any, shift: Any, mark: Any, number: Any) -> Any:  # noqa: ANN401 - int64
    """Return where a number is in the probe's hash set, or would be."""
    slot = ((number * SPREAD) & LOW_HALF) >> shift
    # Smaller entries are of probes before.
    while entries[U64(slot)] >= mark and entries[U64(slot)] != mark + number:
        slot = (slot + 1) & (entries.size - 1)
    return slot


@inlined
def _add_range(
    entries: Any,  # noqa: ANN401
    shift: Any,  # noqa: ANN401
    mark: Any,  # noqa: ANN401
    values: Any,  # noqa: ANN401
    sizes: Any,  # noqa: ANN401
    following: Any,  # noqa: ANN401
    fan_out: Any,  # noqa: ANN401
    leaf: Any,  # noqa: ANN401
    at: Any,  # noqa: ANN401
    last_leaf: Any,  # noqa: ANN401
    last_at: Any,  # noqa: ANN401
) -> None:
    """Add the rows in a range to the probe's hash set."""
    while leaf != NOTHING:
        past = last_at if leaf == last_leaf else leaf * fan_out + sizes[U64(leaf)]
        for place in range(at, past):
            number = values[U64(place)]
            entries[U64(_slot_of(entries, shift, mark, number))] = mark + number
        leaf = np.int64(NOTHING) if leaf == last_leaf else np.int64(following[U64(leaf)])
        at = leaf * fan_out


@inlined
def _pass_range(
    entries: Any,  # noqa: ANN401
    shift: Any,  # noqa: ANN401
    mark: Any,  # noqa: ANN401
    single: Any,  # noqa: ANN401
    values: Any,  # noqa: ANN401
    sizes: Any,  # noqa: ANN401
    following: Any,  # noqa: ANN401
    fan_out: Any,  # noqa: ANN401
    leaf: Any,  # noqa: ANN401
    at: Any,  # noqa: ANN401
    last_leaf: Any,  # noqa: ANN401
    last_at: Any,  # noqa: ANN401
    ordinals: Any,  # noqa: ANN401
    low: Any,  # noqa: ANN401
    high: Any,  # noqa: ANN401
    write: Any,  # noqa: ANN401
    found: Any,  # noqa: ANN401
    to: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Count the rows in a range that are in the probe's hash set, or all with a single term, and are seen.

    They are written as far as there is room.
    """
    total = 0
    while leaf != NOTHING:
        past = last_at if leaf == last_leaf else leaf * fan_out + sizes[U64(leaf)]
        for place in range(at, past):
            number = values[U64(place)]
            if single or entries[U64(_slot_of(entries, shift, mark, number))] == mark + number:
                ordinal = ordinals[U64(number)]
                if low <= ordinal < high:
                    if write and to + total < found.size:
                        found[U64(to + total)] = ordinal
                    total += 1
        leaf = np.int64(NOTHING) if leaf == last_leaf else np.int64(following[U64(leaf)])
        at = leaf * fan_out
    return total


@kernel(
    *TREE, *TREE, I64, I64, I64, types.boolean, types.int64, OUT_I64, OUT_I64, OUT_I64, OUT_I64,
)  # fmt: skip
def intersect_hash_sets(
    values: NDArray[np.int64],
    sizes: NDArray[np.int32],
    following: NDArray[np.int32],
    fan_out: int,
    leaves: NDArray[np.int64],
    places: NDArray[np.int64],
    last_leaves: NDArray[np.int64],
    last_places: NDArray[np.int64],
    values_2: NDArray[np.int64],
    sizes_2: NDArray[np.int32],
    following_2: NDArray[np.int32],
    fan_out_2: int,
    leaves_2: NDArray[np.int64],
    places_2: NDArray[np.int64],
    last_leaves_2: NDArray[np.int64],
    last_places_2: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    write: bool,
    shift: int,
    table: NDArray[np.int64],
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
    result: NDArray[np.int64],
) -> None:
    """Answer probe after probe: a hash set of one term's rows, where those of the other are looked up. O(n) for each.

    `table` (2^(32 - shift),) int64, more than n and below 2^31, is zeros at first; an entry has its probe's number in
    the upper half, so that it need not be emptied. The others as in `intersect_bit_sets`.
    """
    entries, own, to = borrowed(table), borrowed(ordinals), borrowed(found)
    rows, rows_2 = borrowed(values), borrowed(values_2)
    single = leaves_2.shape[0] == 0
    at: Any = 0
    for i in range(counts.size):
        low, high, mark, total = seen_from[U64(i)], seen_to[U64(i)], np.int64(i + 1) << 32, 0
        for piece in range(leaves.shape[0]):
            leaf, place = leaves[U64(piece), U64(i)], places[U64(piece), U64(i)]
            last, last_place = last_leaves[U64(piece), U64(i)], last_places[U64(piece), U64(i)]
            if single:
                total += _pass_range(
                    entries, shift, mark, single, rows, sizes, following, fan_out, leaf, place, last, last_place, own,
                    low, high, write, to, at + total,
                )  # fmt: skip
            else:
                _add_range(entries, shift, mark, rows, sizes, following, fan_out, leaf, place, last, last_place)
        for piece in range(leaves_2.shape[0]):
            total += _pass_range(
                entries, shift, mark, single, rows_2, sizes_2, following_2, fan_out_2,
                leaves_2[U64(piece), U64(i)], places_2[U64(piece), U64(i)], last_leaves_2[U64(piece), U64(i)],
                last_places_2[U64(piece), U64(i)], own, low, high, write, to, at + total,
            )  # fmt: skip
        if write:
            if at + total > found.size:
                result[0], result[1] = i, at
                return
            at += total
        counts[U64(i)] = total
    result[0], result[1] = counts.size, at
