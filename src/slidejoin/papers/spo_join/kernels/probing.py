"""Probing PO-Join structures: one term sets bits and the other scans them (SPO-Join, Algorithm 4, figures 4 and 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I64, U64, group, inlined, kernel
from slidejoin.jit.vectors.vectors import borrowed
from slidejoin.jit.vectors.words import OUT_WORDS
from slidejoin.papers.kernels.walking import MATCHES
from slidejoin.papers.spo_join.kernels.bits import (
    clear_words,
    ones_between,
    seen_between,
    set_bits,
    unset_bits,
    write_between,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.papers.kernels.walking import WalkMatches

__all__ = ["BoxOffsets", "RowOrders", "probe_in_turn", "probe_singly"]


class RowOrders(NamedTuple):
    """The n rows of a structure in the order of the first term; their ordinals are all from `oldest` to `newest`.

    The permutation (n,) int32 holds for each place in the order of the second term the place in that of the first.
    Rows a, b, c with keys 1, 2, 5 of the first term and 9, 3, 4 of the second::

        first term   a b c        second term  b c a
        keys         1 2 5        keys         3 4 9        permutation  1 2 0
    """

    permutation: NDArray[np.int32]
    ordinals: NDArray[np.int64]
    oldest: int
    newest: int


class BoxOffsets(NamedTuple):
    """Where the ranges of m probes begin and end in both orders, and which ordinals they see.

    `starts` and `ends` (k, m) int64 are of the first term, `starts_2` and `ends_2` (p, m) of the second; ``starts >=
    ends`` is empty, and without rows of `starts_2` there is no second term. The ranges of a probe in one term do not
    overlap. A probe sees the ordinals ``seen_from <= o < seen_to``, (m,) int64.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    starts_2: NDArray[np.int64]
    ends_2: NDArray[np.int64]
    seen_from: NDArray[np.int64]
    seen_to: NDArray[np.int64]


ROW_ORDERS = group(RowOrders, I32, I64, types.int64, types.int64)
BOX_OFFSETS = group(BoxOffsets, I64_2D, I64_2D, I64_2D, I64_2D, I64, I64)


@inlined
def _count_seen(bits: Any, rows: Any, boxes: Any, i: Any) -> Any:  # noqa: ANN401 - int64
    """Return how many rows probe i matches and sees."""
    total: Any = 0
    low, high = boxes.seen_from[U64(i)], boxes.seen_to[U64(i)]
    whole = low <= rows.oldest and rows.newest < high
    for piece in range(boxes.starts.shape[0]):
        first, past = boxes.starts[U64(piece), U64(i)], boxes.ends[U64(piece), U64(i)]
        total += ones_between(bits, first, past) if whole else seen_between(bits, first, past, rows.ordinals, low, high)
    return total


@inlined
def _write_seen(bits: Any, rows: Any, boxes: Any, i: Any, into: Any, at: Any) -> Any:  # noqa: ANN401 - int64
    """Write the rows that probe i matches and sees into an array from `at` on; return the new `at`."""
    low, high = boxes.seen_from[U64(i)], boxes.seen_to[U64(i)]
    for piece in range(boxes.starts.shape[0]):
        first, past = boxes.starts[U64(piece), U64(i)], boxes.ends[U64(piece), U64(i)]
        at = write_between(bits, first, past, rows.ordinals, low, high, into, at)
    return at


@inlined
def _borrowed_rows(rows: Any) -> Any:  # noqa: ANN401
    """Return rows whose arrays are `borrowed`."""
    return RowOrders(borrowed(rows.permutation), borrowed(rows.ordinals), rows.oldest, rows.newest)


@inlined
def _borrowed_boxes(boxes: Any) -> Any:  # noqa: ANN401
    """Return offsets whose arrays are `borrowed`."""
    return BoxOffsets(
        borrowed(boxes.starts),
        borrowed(boxes.ends),
        borrowed(boxes.starts_2),
        borrowed(boxes.ends_2),
        borrowed(boxes.seen_from),
        borrowed(boxes.seen_to),
    )


@kernel(ROW_ORDERS, BOX_OFFSETS, I32, types.int64, OUT_WORDS, I64, OUT_I64, OUT_I64)
def probe_in_turn(
    rows: RowOrders,
    boxes: BoxOffsets,
    order: NDArray[np.int32],
    done: int,
    bits: NDArray[np.uint64],
    places: NDArray[np.int64],
    counts: NDArray[np.int64],
    ordinals: NDArray[np.int64],
) -> None:
    """Answer the probes before `done` in an order in which each has about the bits of the one before it, as IE-Join.

    `order` (m,) int32 is that of the second term's ends; `bits` (n / 64 and more,) uint64 are zeros at first. Without
    `places` counts (m,) int64 takes how many rows match; with them, (m,) int64, rows are written into `ordinals` from
    ``places[i]`` on. Bits are set and cleared in O(n) for all probes together where their ends ascend, and a probe is
    scanned in O(n / 64 + matches).
    """
    own, near, words = _borrowed_rows(rows), _borrowed_boxes(boxes), borrowed(bits)
    starts_2, ends_2, permutation = near.starts_2, near.ends_2, own.permutation
    # The ranges whose bits are set.
    spans = np.zeros(2 * starts_2.shape[0], np.int64)
    for turn in range(order.size):
        i = order[U64(turn)]
        if i >= done:
            continue
        for piece in range(starts_2.shape[0]):
            old, old_end = spans[U64(2 * piece)], spans[U64(2 * piece + 1)]
            new = starts_2[U64(piece), U64(i)]
            new_end = max(ends_2[U64(piece), U64(i)], new)
            unset_bits(words, permutation, old, min(max(new, old), old_end))
            unset_bits(words, permutation, max(min(new_end, old_end), old), old_end)
        # Only now: a range may have come to where another one was.
        for piece in range(starts_2.shape[0]):
            old, old_end = spans[U64(2 * piece)], spans[U64(2 * piece + 1)]
            new = starts_2[U64(piece), U64(i)]
            new_end = max(ends_2[U64(piece), U64(i)], new)
            set_bits(words, permutation, new, min(max(old, new), new_end))
            set_bits(words, permutation, max(min(old_end, new_end), new), new_end)
            spans[U64(2 * piece)], spans[U64(2 * piece + 1)] = new, new_end
        if places.size > 0:
            _write_seen(words, own, near, i, ordinals, places[U64(i)])
        else:
            counts[U64(i)] = _count_seen(words, own, near, i)


@kernel(ROW_ORDERS, BOX_OFFSETS, types.boolean, OUT_WORDS, MATCHES)
def probe_singly(
    rows: RowOrders, boxes: BoxOffsets, write: bool, bits: NDArray[np.uint64], matches: WalkMatches
) -> None:
    """Answer probe after probe, each of which sets its own bits, as in the paper. O(n) for each.

    With `write` ordinals are written one probe after the other, and only whole probes are answered. Without a second
    term all `bits` are set beforehand.
    """
    own, near, words = _borrowed_rows(rows), _borrowed_boxes(boxes), borrowed(bits)
    counts, ordinals, done = matches
    at: Any = 0
    for i in range(counts.size):
        if near.starts_2.shape[0] > 0:
            clear_words(words)
        for piece in range(near.starts_2.shape[0]):
            set_bits(words, own.permutation, near.starts_2[U64(piece), U64(i)], near.ends_2[U64(piece), U64(i)])
        total = _count_seen(words, own, near, i)
        if write:
            if at + total > ordinals.size:
                done[0], done[1] = i, at
                return
            at = _write_seen(words, own, near, i, ordinals, at)
        counts[U64(i)] = total
    done[0], done[1] = counts.size, at
