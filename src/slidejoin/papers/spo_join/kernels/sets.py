"""Rows that pass both terms, each looked up in a tree of its own: by bit or hash sets (SPO-Join, section 4.1).

The n rows of a part are numbered by arrival; ordinals (n,) int64 ascend with the number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I64, U64, group, inlined, kernel
from slidejoin.jit.vectors.vectors import borrowed
from slidejoin.jit.vectors.words import OUT_WORDS
from slidejoin.papers.kernels.walking import MATCHES
from slidejoin.papers.pim_tree.kernels.bplus_nodes import NOTHING
from slidejoin.papers.spo_join.kernels.bits import clear_words, ones_between, set_bits, write_between

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from slidejoin.papers.kernels.walking import WalkMatches

__all__ = ["TreeRanges", "intersect_bit_sets", "intersect_hash_sets"]


class TreeRanges(NamedTuple):
    """The leaves of a term's tree, and where k ranges of m probes are in them.

    `values` int64 are numbers by ascending key, `sizes` and `following` int32, see
    `papers.pim_tree.kernels.bplus_nodes`; a sorted array is a single leaf. The others (k, m) int64: the range of probe
    i goes from place ``places[i]`` in leaf ``leaves[i]`` up to ``last_places[i]`` in ``last_leaves[i]``; it is empty if
    its leaf is `NOTHING`, and goes to the end if its last one is. Without ranges of the second term there is none.
    Ranges of a probe in one term do not overlap.
    """

    values: NDArray[np.int64]
    sizes: NDArray[np.int32]
    following: NDArray[np.int32]
    fan_out: int
    leaves: NDArray[np.int64]
    places: NDArray[np.int64]
    last_leaves: NDArray[np.int64]
    last_places: NDArray[np.int64]


TREE = group(TreeRanges, I64, I32, I32, types.int64, *[I64_2D] * 4)

SPREAD, LOW_HALF = 0x9E3779B1, 0xFFFFFFFF
"""2^32 over the golden ratio: the lower 32 bits of products spread neighbouring numbers over the table."""


def _make_walk(visit: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loop over ranges of a tree: all those of probe i.

    ``visit(state, values, first, past, total)`` is called for the places of each leaf, and returns the next `total`.
    """

    @inlined
    def walk(state: Any, tree: Any, i: Any, total: Any) -> Any:  # noqa: ANN401
        values, sizes, following, fan_out, leaves, places, last_leaves, last_places = tree
        rows, full, after = borrowed(values), borrowed(sizes), borrowed(following)
        for piece in range(leaves.shape[0]):
            leaf, at = leaves[U64(piece), U64(i)], places[U64(piece), U64(i)]
            last, last_at = last_leaves[U64(piece), U64(i)], last_places[U64(piece), U64(i)]
            while leaf != NOTHING:
                past = last_at if leaf == last else leaf * fan_out + full[U64(leaf)]
                total = visit(state, rows, at, past, total)
                leaf = np.int64(NOTHING) if leaf == last else np.int64(after[U64(leaf)])
                at = leaf * fan_out
        return total

    return walk


# -- bit sets ----------------------------------------------------------------------------------------------------------


@inlined
def _set_bits(state: Any, values: Any, first: Any, past: Any, total: Any) -> Any:  # noqa: ANN401
    """Set the bits of rows in the probe's bit set, the `state`."""
    set_bits(state, values, first, past)
    return total


_mark = _make_walk(_set_bits)


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
    TREE, TREE, *[I64] * 3, types.boolean, OUT_WORDS, OUT_WORDS, MATCHES,
)  # fmt: skip
def intersect_bit_sets(
    tree: TreeRanges,
    tree_2: TreeRanges,
    ordinals: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    write: bool,
    bits: NDArray[np.uint64],
    bits_2: NDArray[np.uint64],
    matches: WalkMatches,
) -> None:
    """Answer probe after probe: a bit set for each term, and their intersection. O(n) for each.

    `bits` and `bits_2` (n / 64 and more,) uint64. Without `write` matches are counted only; with it, only whole probes
    are answered.
    """
    counts, into, done = matches
    one, two, own = borrowed(bits), borrowed(bits_2), borrowed(ordinals)
    terms = 1 if tree_2.leaves.shape[0] == 0 else 2
    at: Any = 0
    for i in range(counts.size):
        clear_words(one)
        _mark(one, tree, i, 0)
        if terms > 1:
            clear_words(two)
            _mark(two, tree_2, i, 0)
            for word in range(one.size):
                one[U64(word)] &= two[U64(word)]
        low, high = seen_from[U64(i)], seen_to[U64(i)]
        first, past = _number_from(own, low), _number_from(own, high)
        total = ones_between(one, first, past)
        if write:
            if at + total > into.size:
                done[0], done[1] = i, at
                return
            at = write_between(one, first, past, own, low, high, into, at)
        counts[U64(i)] = total
    done[0], done[1] = counts.size, at


# -- hash sets ---------------------------------------------------------------------------------------------------------


@inlined
def _slot_of(entries: Any, shift: Any, mark: Any, number: Any) -> Any:  # noqa: ANN401 - int64
    """Return where a number is in the probe's hash set, or would be."""
    slot = ((number * SPREAD) & LOW_HALF) >> shift
    # Smaller entries are of probes before.
    while entries[U64(slot)] >= mark and entries[U64(slot)] != mark + number:
        slot = (slot + 1) & (entries.size - 1)
    return slot


@inlined
def _add_numbers(state: Any, values: Any, first: Any, past: Any, total: Any) -> Any:  # noqa: ANN401
    """Add rows to the probe's hash set; the state is ``(entries, shift, mark)``."""
    entries, shift, mark = state
    for place in range(first, past):
        number = values[U64(place)]
        entries[U64(_slot_of(entries, shift, mark, number))] = mark + number
    return total


@inlined
def _match_numbers(state: Any, values: Any, first: Any, past: Any, total: Any) -> Any:  # noqa: ANN401 - int64
    """Count the rows that are in the probe's hash set, or all with a single term, and are seen.

    They are written as far as there is room. The state is ``(entries, shift, mark, single, ordinals, low, high, write,
    into, to)``.
    """
    entries, shift, mark, single, ordinals, low, high, write, into, to = state
    for place in range(first, past):
        number = values[U64(place)]
        if single or entries[U64(_slot_of(entries, shift, mark, number))] == mark + number:
            ordinal = ordinals[U64(number)]
            if low <= ordinal < high:
                if write and to + total < into.size:
                    into[U64(to + total)] = ordinal
                total += 1
    return total


_add, _match = _make_walk(_add_numbers), _make_walk(_match_numbers)


@kernel(
    TREE, TREE, *[I64] * 3, types.boolean, types.int64, OUT_I64, MATCHES,
)  # fmt: skip
def intersect_hash_sets(
    tree: TreeRanges,
    tree_2: TreeRanges,
    ordinals: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    write: bool,
    shift: int,
    table: NDArray[np.int64],
    matches: WalkMatches,
) -> None:
    """Answer probe after probe: a hash set of one term's rows, where those of the other are looked up. O(n) for each.

    `table` (2^(32 - shift),) int64, more than n and below 2^31, is zeros at first; an entry has its probe's number in
    the upper half, so that it need not be emptied. The others as in `intersect_bit_sets`.
    """
    counts, into, done = matches
    entries, own, room = borrowed(table), borrowed(ordinals), borrowed(into)
    single = tree_2.leaves.shape[0] == 0
    at: Any = 0
    for i in range(counts.size):
        low, high, mark = seen_from[U64(i)], seen_to[U64(i)], np.int64(i + 1) << 32
        state = (entries, shift, mark, single, own, low, high, write, room, at)
        if single:
            total = _match(state, tree, i, 0)
        else:
            _add((entries, shift, mark), tree, i, 0)
            total = _match(state, tree_2, i, 0)
        if write:
            if at + total > into.size:
                done[0], done[1] = i, at
                return
            at += total
        counts[U64(i)] = total
    done[0], done[1] = counts.size, at
