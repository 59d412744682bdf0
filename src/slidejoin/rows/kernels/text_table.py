"""A hash table of texts that gives each different one a number, its code.

Two arrays make the table::

    slots (s, 4) uint64   the number of slots is a power of two
        first two words   the text as in records, see `records`; of a long one the second is its place in the heap
        third word        the upper half of its hash, and below it the code + 1; 0 in empty slots
        fourth word       the epoch in which it was last seen
    heap (h,) uint8       the bytes of long texts

A text is mostly in the slot that its hash names, so that a single cache line is read for it. The hash has
secrets, random numbers of each table, so that nobody can choose texts of which many have one hash.

Two texts have one code only if they have the same bytes: hashes say where to look, and bytes are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from slidejoin.jit.compiling import I64, OUT_FLAGS, OUT_I64, U64, group, inlined, kernel
from slidejoin.jit.vectors.memory import load_64, place_of, prefetch_at
from slidejoin.rows.kernels.copying import copy_bytes, store_64
from slidejoin.rows.kernels.records import LONG, SHORT, TEXT_ARRAY, TextArray, offset_of, short_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Place: TypeAlias = Any
"""An address, a length or a code: an integer, plain or of 64 bits."""

__all__ = [
    "CODE", "EPOCH", "FREED", "HEAP_USED", "LOW_32", "MISSING", "SECRETS", "SLOT", "STATE", "TEXTS", "USED",
    "TextSlots", "add_texts", "find_texts", "rebuild",
]  # fmt: skip

CODE, EPOCH, SLOT = 2, 3, 4
"""Places in a slot, and its words."""

MISSING = -1
"""The code of a text that is not in the table."""

USED, FREED, HEAP_USED, TEXTS, STATE = range(5)
"""Places in a table's state: codes ever given, how many of them are free again, bytes of the heap in use, and texts."""

BLOCK = 64
"""Texts whose slots are prefetched together."""

LOW_32 = (1 << 32) - 1

SECRETS = 4
"""A mask of the bits of a hash that are used, and three random numbers, the second one odd."""

OUT_SLOTS, OUT_BYTES = types.Array(types.uint64, 2, "C"), types.Array(types.uint8, 1, "C")
WORDS: Any = types.Array(types.uint64, 1, "C", readonly=True)


class TextSlots(NamedTuple):
    """The memory of a table.

    Attributes
    ----------
    slots, heap
        See above.
    free : (c,) int64
        Free codes, the last ones first; c is how many texts there is room for.
    state : (STATE,) int64
    secrets : (SECRETS,) uint64
    """

    slots: NDArray[np.uint64]
    heap: NDArray[np.uint8]
    free: NDArray[np.int64]
    state: NDArray[np.int64]
    secrets: NDArray[np.uint64]


TEXT_SLOTS = group(TextSlots, OUT_SLOTS, OUT_BYTES, I64, OUT_I64, WORDS)


ALL_64 = (1 << 64) - 1


@intrinsic
def _fold(_typing: Any, one: Any, two: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at the names
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(arg, wide) for arg in args))
        high = builder.trunc(builder.lshr(product, wide(64)), word)
        return builder.xor(high, builder.trunc(product, word))

    return types.uint64(types.uint64, types.uint64), generate


def _plain_fold(one: int, two: int) -> np.uint64:
    product = int(one) * int(two)
    return np.uint64(product >> 64 ^ product & ALL_64)


fold: Callable[[Any, Any], np.uint64] = _plain_fold if numba.config.DISABLE_JIT else _fold
"""The upper half of the product of two unsigned numbers of 64 bits, xor the lower half.

Examples
--------
>>> int(_plain_fold(1 << 63, 6))
3
"""


@inlined
def _hash(
    low: np.uint64, high: np.uint64, address: Place, one: np.uint64, two: np.uint64, three: np.uint64
) -> np.uint64:
    """Return the hash of a text given its first word, and the second one if it is short, else where its bytes are.

    Folded products, as in wyhash (Wang Yi): which texts have one hash depends on the secrets.
    """
    if low & U64(255) != U64(LONG):
        return fold(low ^ one, high ^ three)
    length: Place = np.int64(low >> U64(8))
    hashed = fold(low ^ one, two)
    for place in range(0, length - 8, 8):
        hashed = fold(hashed ^ U64(load_64(address + place)) ^ three, two) ^ hashed
    return fold(hashed ^ U64(load_64(address + length - 8)) ^ three, two)


@inlined
def _same_bytes(one: Place, two: Place, length: Place) -> bool:
    """Compare the bytes at two addresses, at least eight of them."""
    differ = U64(load_64(one + length - 8)) ^ U64(load_64(two + length - 8))
    for place in range(0, length - 8, 8):
        differ |= U64(load_64(one + place)) ^ U64(load_64(two + place))
    return bool(differ == U64(0))


@inlined
def _words(data: int, begin: int, length: int, size: int) -> tuple[np.uint64, np.uint64]:
    """Return the two words of a text; of a long one the second is 0."""
    if length > SHORT:
        return U64(LONG) | U64(length) << U64(8), U64(0)
    return short_words(data, begin, length, size)


@inlined
def _sought(
    low: np.uint64, high: np.uint64, hashed: np.uint64, address: Place, slots: Place, mask: np.uint64, heap: Place
) -> tuple[Any, Any]:
    """Return the code of a text, MISSING if it has none, and the address of the slot at which the search ended.

    Given are the addresses of slots and heap: arrays would have their references counted in the loop.
    """
    at, code = hashed & mask, np.int64(MISSING)
    while True:
        slot: Place = slots + np.int64(at) * (8 * SLOT)
        tagged = U64(load_64(slot + 8 * CODE))
        if tagged == U64(0):
            break
        if U64(load_64(slot)) == low:
            other = U64(load_64(slot + 8))
            if low & U64(255) != U64(LONG):
                if other == high:
                    code = np.int64(tagged & U64(LOW_32)) - 1
                    break
            elif tagged >> U64(32) == hashed >> U64(32) and _same_bytes(
                heap + np.int64(other), address, np.int64(low >> U64(8))
            ):
                code = np.int64(tagged & U64(LOW_32)) - 1
                break
        at = (at + U64(1)) & mask
    return code, slot


@inlined
def _fill(slot: Place, low: np.uint64, high: np.uint64, hashed: np.uint64, code: Place, epoch: np.uint64) -> None:
    store_64(slot, low)
    store_64(slot + 8, high)
    store_64(slot + 8 * CODE, (hashed >> U64(32)) << U64(32) | U64(code + 1))
    store_64(slot + 8 * EPOCH, epoch)


@kernel(TEXT_ARRAY, TEXT_SLOTS, types.uint64, OUT_I64, OUT_I64, returns=types.int64)
def find_texts(
    texts: TextArray, table: TextSlots, epoch: int, codes: NDArray[np.int64], missing: NDArray[np.int64]
) -> int:
    """Write the codes (n,) int64 of texts; return how many are not in the table, whose rows go to `missing` (n,) int64.

    The texts that are in the table get this epoch; two threads may search at once. O(n + bytes).
    """
    data, size, slots, heap, secrets = texts.data, texts.size, table.slots, table.heap, table.secrets
    bits, one, two, three = secrets[0], secrets[1], secrets[2], secrets[3]
    rows, absent, bytes_at = texts.rows, 0, place_of(heap)
    words, mask, slots_at = np.empty((BLOCK, 3), np.uint64), U64(slots.shape[0] - 1), place_of(slots)
    for start in range(0, rows, BLOCK):
        count = min(BLOCK, rows - start)
        for i in range(count):
            begin = offset_of(texts, start + i)
            low, high = _words(data, begin, offset_of(texts, start + i + 1) - begin, size)
            hashed = _hash(low, high, data + begin, one, two, three) & bits
            words[U64(i), 0], words[U64(i), 1], words[U64(i), 2] = low, high, hashed
            prefetch_at(slots_at + np.int64(hashed & mask) * (8 * SLOT))
        for i in range(count):
            low, high, hashed = words[U64(i), 0], words[U64(i), 1], words[U64(i), 2]
            code, slot = _sought(low, high, hashed, data + offset_of(texts, start + i), slots_at, mask, bytes_at)
            codes[U64(start + i)] = code
            if code < 0:
                missing[U64(absent)] = start + i
                absent += 1
            elif U64(load_64(slot + 8 * EPOCH)) != U64(epoch):
                # Written once: two threads that write one line take it from each other.
                store_64(slot + 8 * EPOCH, U64(epoch))
    return absent


@kernel(TEXT_ARRAY, TEXT_SLOTS, types.uint64, OUT_I64, I64, types.int64, types.int64, returns=types.int64)
def add_texts(
    texts: TextArray,
    table: TextSlots,
    epoch: int,
    codes: NDArray[np.int64],
    missing: NDArray[np.int64],
    first: int,
    last: int,
) -> int:
    """Give codes to the texts of the rows missing[first:last], which are written; return where there was no room.

    The other arguments are those of `find_texts`. O(n + bytes).
    """
    data, size, (slots, heap, free, state, secrets) = texts.data, texts.size, table
    slots_at, bytes_at, mask = place_of(slots), place_of(heap), U64(slots.shape[0] - 1)
    bits, one, two, three = secrets[0], secrets[1], secrets[2], secrets[3]
    for number in range(first, last):
        row = missing[U64(number)]
        begin = offset_of(texts, row)
        length = offset_of(texts, row + 1) - begin
        low, high = _words(data, begin, length, size)
        hashed = _hash(low, high, data + begin, one, two, three) & bits
        code, slot = _sought(low, high, hashed, data + begin, slots_at, mask, bytes_at)
        if code < 0:
            if state[TEXTS] == free.size:
                return number
            if length > SHORT:
                if state[HEAP_USED] + length > heap.size:
                    return number
                copy_bytes(bytes_at + state[HEAP_USED], data + begin, length)
                high = U64(state[HEAP_USED])
                state[HEAP_USED] += length
            if state[FREED] > 0:
                state[FREED] -= 1
                code = free[U64(state[FREED])]
            else:
                code = state[USED]
                state[USED] += 1
            state[TEXTS] += 1
            _fill(slot, low, high, hashed, code, U64(epoch))
        store_64(slot + 8 * EPOCH, U64(epoch))
        codes[U64(row)] = code
    return last


@kernel(OUT_SLOTS, OUT_SLOTS, OUT_BYTES, OUT_BYTES, OUT_FLAGS, OUT_I64, WORDS, types.uint64)
def rebuild(
    old_slots: NDArray[np.uint64], slots: NDArray[np.uint64], old: NDArray[np.uint8], heap: NDArray[np.uint8],
    alive: NDArray[np.bool_], state: NDArray[np.int64], secrets: NDArray[np.uint64], oldest: int,
) -> None:  # fmt: skip
    """Enter those texts into empty slots (s, 4) uint64 that were seen in the epoch `oldest` or later.

    They keep their codes, for which alive (codes,) bool is set. heap (h,) uint8 gets the bytes of those in use. Of the
    state, the heap and the number of texts are written. O(slots + bytes).
    """
    mask, slots_at, old_at, heap_at = U64(slots.shape[0] - 1), place_of(slots), place_of(old), place_of(heap)
    bits, one, two, three = secrets[0], secrets[1], secrets[2], secrets[3]
    end: Place = 0
    texts = 0
    for place in range(old_slots.shape[0]):
        low, high = old_slots[U64(place), 0], old_slots[U64(place), 1]
        tagged, epoch = old_slots[U64(place), CODE], old_slots[U64(place), EPOCH]
        if tagged == U64(0) or epoch < U64(oldest):
            continue
        hashed = _hash(low, high, old_at + np.int64(high), one, two, three) & bits
        if low & U64(255) == U64(LONG):
            length = np.int64(low >> U64(8))
            copy_bytes(heap_at + end, old_at + np.int64(high), length)
            high = U64(end)
            end += length
        at = hashed & mask
        while slots[at, CODE] != U64(0):
            at = (at + U64(1)) & mask
        code = np.int64(tagged & U64(LOW_32)) - 1
        _fill(slots_at + np.int64(at) * (8 * SLOT), low, high, hashed, code, epoch)
        alive[U64(code)] = True
        texts += 1
    state[HEAP_USED], state[TEXTS] = end, texts
