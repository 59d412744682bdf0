"""Probing PO-Join structures: bits are set by one term and scanned by the other (SPO-Join, Algorithm 4, figures 4, 5).

A structure has n rows in the order of the first term. Ordinals (n,) int64 are theirs; permutation (n,) int32 holds for
each place in the order of the second term the place in that of the first. Where the ranges of probe i begin and end in
both orders is known: `starts`, `ends` (k, m) int64 of the first term and `starts_2`, `ends_2` (p, m) of the second;
``starts >= ends`` is empty, and without rows of `starts_2` there is no second term. The ranges of a probe in one term
do not overlap. A probe sees the ordinals ``seen_from <= o < seen_to``, (m,) int64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types

from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.vectors import borrowed
from slidejoin.jit.vectors.words import OUT_WORDS
from slidejoin.papers.spo_join.kernels.bits import (
    clear_words,
    ones_between,
    seen_between,
    set_bits,
    unset_bits,
    write_between,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["probe_in_turn", "probe_singly"]


@inlined
def _count_seen(
    bits: Any,  # noqa: ANN401
    starts: Any,  # noqa: ANN401
    ends: Any,  # noqa: ANN401
    i: Any,  # noqa: ANN401
    ordinals: Any,  # noqa: ANN401
    whole: Any,  # noqa: ANN401
    low: Any,  # noqa: ANN401
    high: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401 - int64
    """Return how many rows probe i finds and sees; with `whole`, it sees all."""
    total: Any = 0
    for piece in range(starts.shape[0]):
        first, past = starts[U64(piece), U64(i)], ends[U64(piece), U64(i)]
        total += ones_between(bits, first, past) if whole else seen_between(bits, first, past, ordinals, low, high)
    return total


@inlined
def _write_seen(
    bits: Any,  # noqa: ANN401
    starts: Any,  # noqa: ANN401
    ends: Any,  # noqa: ANN401
    i: Any,  # noqa: ANN401
    ordinals: Any,  # noqa: ANN401
    low: Any,  # noqa: ANN401
    high: Any,  # noqa: ANN401
    found: Any,  # noqa: ANN401
    at: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401 - int64
    """Write the rows that probe i finds and sees into `found` from `at` on; return the new `at`."""
    for piece in range(starts.shape[0]):
        first, past = starts[U64(piece), U64(i)], ends[U64(piece), U64(i)]
        at = write_between(bits, first, past, ordinals, low, high, found, at)
    return at


@kernel(
    I32, I64, types.int64, types.int64, I64_2D, I64_2D, I64_2D, I64_2D, I64, I64, I32, types.int64, types.boolean,
    OUT_WORDS, OUT_I64, I64, OUT_I64, OUT_I64,
)  # fmt: skip
def probe_in_turn(
    permutation: NDArray[np.int32],
    ordinals: NDArray[np.int64],
    oldest: int,
    newest: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    starts_2: NDArray[np.int64],
    ends_2: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    order: NDArray[np.int32],
    done: int,
    write: bool,
    bits: NDArray[np.uint64],
    spans: NDArray[np.int64],
    places: NDArray[np.int64],
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Answer the probes before `done` in an order in which each has about the bits of the one before it, as IE-Join.

    The ordinals are all from `oldest` to `newest`. `order` (m,) int32 is that of the second term's ends; `bits` (n / 64
    and more,) uint64 and `spans` (2 * p,) int64, the ranges whose bits are set, are zeros at first. Without `write`
    counts (m,) int64 takes how many rows are found; with it they are written into `found` from ``places[i]`` on. Bits
    are set and cleared in O(n) for all probes together where their ends ascend, and a probe is scanned in O(n / 64 +
    rows found).
    """
    rows, words, own = borrowed(permutation), borrowed(bits), borrowed(ordinals)
    for turn in range(order.size):
        i = order[U64(turn)]
        if i >= done:
            continue
        for piece in range(starts_2.shape[0]):
            old, old_end = spans[U64(2 * piece)], spans[U64(2 * piece + 1)]
            new = starts_2[U64(piece), U64(i)]
            new_end = max(ends_2[U64(piece), U64(i)], new)
            unset_bits(words, rows, old, min(max(new, old), old_end))
            unset_bits(words, rows, max(min(new_end, old_end), old), old_end)
        # Only now: a range may have come to where another one was.
        for piece in range(starts_2.shape[0]):
            old, old_end = spans[U64(2 * piece)], spans[U64(2 * piece + 1)]
            new = starts_2[U64(piece), U64(i)]
            new_end = max(ends_2[U64(piece), U64(i)], new)
            set_bits(words, rows, new, min(max(old, new), new_end))
            set_bits(words, rows, max(min(old_end, new_end), new), new_end)
            spans[U64(2 * piece)], spans[U64(2 * piece + 1)] = new, new_end
        low, high = seen_from[U64(i)], seen_to[U64(i)]
        if write:
            _write_seen(words, starts, ends, i, own, low, high, found, places[U64(i)])
        else:
            whole = low <= oldest and newest < high
            counts[U64(i)] = _count_seen(words, starts, ends, i, own, whole, low, high)


@kernel(
    I32, I64, types.int64, types.int64, I64_2D, I64_2D, I64_2D, I64_2D, I64, I64, types.boolean, OUT_WORDS,
    OUT_I64, OUT_I64, OUT_I64,
)  # fmt: skip
def probe_singly(
    permutation: NDArray[np.int32],
    ordinals: NDArray[np.int64],
    oldest: int,
    newest: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    starts_2: NDArray[np.int64],
    ends_2: NDArray[np.int64],
    seen_from: NDArray[np.int64],
    seen_to: NDArray[np.int64],
    write: bool,
    bits: NDArray[np.uint64],
    counts: NDArray[np.int64],
    found: NDArray[np.int64],
    result: NDArray[np.int64],
) -> None:
    """Answer probe after probe, each of which sets its own bits, as in the paper. O(n) for each.

    Rows go into `found` one probe after the other, and only whole probes are answered; `result` (2,) int64 takes the
    first one without room and how many rows were found. Without a second term all `bits` are set beforehand. The others
    as in `probe_in_turn`.
    """
    rows, words, own = borrowed(permutation), borrowed(bits), borrowed(ordinals)
    at: Any = 0
    for i in range(counts.size):
        if starts_2.shape[0] > 0:
            clear_words(words)
        for piece in range(starts_2.shape[0]):
            set_bits(words, rows, starts_2[U64(piece), U64(i)], ends_2[U64(piece), U64(i)])
        low, high = seen_from[U64(i)], seen_to[U64(i)]
        whole = low <= oldest and newest < high
        total = _count_seen(words, starts, ends, i, own, whole, low, high)
        if write:
            if at + total > found.size:
                result[0], result[1] = i, at
                return
            at = _write_seen(words, starts, ends, i, own, low, high, found, at)
        counts[U64(i)] = total
    result[0], result[1] = counts.size, at
