"""Bits in words of 64: set, clear, count, and read the rows that they stand for; compiled into other kernels.

Bit p is bit ``p % 64`` of word ``p // 64``. All arrays have been through `vectors.borrowed`, or are the caller's.
"""

from __future__ import annotations

from typing import Any

from slidejoin.jit.compiling import U64, inlined
from slidejoin.jit.vectors.vectors import count_ones, first_one

__all__ = ["clear_words", "ones_between", "seen_between", "set_bits", "unset_bits", "write_between"]

ONE, SIX, LAST = U64(1), U64(6), U64(63)
ALL = U64((1 << 64) - 1)


@inlined
def clear_words(bits: Any) -> None:  # noqa: ANN401 - uint64 array
    """Set all bits to 0."""
    for word in range(bits.size):
        bits[U64(word)] = U64(0)


@inlined
def set_bits(bits: Any, places: Any, first: Any, past: Any) -> None:  # noqa: ANN401
    """Set the bits ``places[first…past-1]`` (Algorithm 4, step 3 of figure 4)."""
    for at in range(first, past):
        place = U64(places[U64(at)])
        bits[place >> SIX] |= ONE << (place & LAST)


@inlined
def unset_bits(bits: Any, places: Any, first: Any, past: Any) -> None:  # noqa: ANN401
    """Clear the bits ``places[first…past-1]``, which are set."""
    for at in range(first, past):
        place = U64(places[U64(at)])
        bits[place >> SIX] ^= ONE << (place & LAST)


@inlined
def _masked(bits: Any, word: Any, first: Any, past: Any) -> Any:  # noqa: ANN401 - uint64
    """Return a word, without the bits before `first` and from `past` on, one of which at least is in between."""
    value = bits[U64(word)]
    if word == first >> 6:
        value &= ALL << (U64(first) & LAST)
    if word == (past - 1) >> 6:
        value &= ALL >> (LAST - (U64(past - 1) & LAST))
    return value


@inlined
def ones_between(bits: Any, first: Any, past: Any) -> Any:  # noqa: ANN401 - int64
    """Return how many of the bits first…past-1 are set."""
    total = 0
    if first < past:
        low, high = first >> 6, (past - 1) >> 6
        total += count_ones(_masked(bits, low, first, past))
        if low < high:
            for word in range(low + 1, high):
                total += count_ones(bits[U64(word)])
            total += count_ones(_masked(bits, high, first, past))
    return total


@inlined
def seen_between(bits: Any, first: Any, past: Any, ordinals: Any, low_seen: Any, high_seen: Any) -> Any:  # noqa: ANN401
    """Return how many of the bits first…past-1 are set and stand for an ordinal that is seen."""
    total = 0
    if first < past:
        for word in range(first >> 6, ((past - 1) >> 6) + 1):
            value = _masked(bits, word, first, past)
            while value != U64(0):
                bit = first_one(value)
                value ^= ONE << U64(bit)
                ordinal = ordinals[U64((word << 6) + bit)]
                total += (low_seen <= ordinal) & (ordinal < high_seen)
    return total


@inlined
def write_between(
    bits: Any,  # noqa: ANN401
    first: Any,  # noqa: ANN401
    past: Any,  # noqa: ANN401
    ordinals: Any,  # noqa: ANN401
    low_seen: Any,  # noqa: ANN401
    high_seen: Any,  # noqa: ANN401
    into: Any,  # noqa: ANN401
    at: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Write the ordinals that are seen of the set bits first…past-1 into an array from `at` on; return the new `at`.

    A row that is not seen is not written either: what comes next may be another probe's.
    """
    if first < past:
        for word in range(first >> 6, ((past - 1) >> 6) + 1):
            value = _masked(bits, word, first, past)
            while value != U64(0):
                bit = first_one(value)
                value ^= ONE << U64(bit)
                ordinal = ordinals[U64((word << 6) + bit)]
                if low_seen <= ordinal < high_seen:
                    into[U64(at)] = ordinal
                    at += 1
    return at
