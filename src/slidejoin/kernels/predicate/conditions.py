"""Conditions on pairs of rows as programs: a block of pairs at a time, its values in the first cache.

NumPy would write the columns of all pairs, and each intermediate result, to memory; a program reads a row of each side
and writes one flag. A program is a list of instructions on registers, each of which holds a value for every pair of a
block and whether it is known: NULL is not, and neither is what a NaN compares to. Its arithmetic is that of
`slidejoin.predicate.truth.evaluate`; where integers would need more than 64 bits, or doubles would round twice, the
kernel gives up, and the pairs are to be evaluated there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.kernels.common.memory import i64_at, load_8, load_16, load_32, load_64, place_of, prefetch_at, u8_at
from slidejoin.kernels.common.vectors import LOW_32
from slidejoin.kernels.jit.compiling import (
    FLAGS,
    I32,
    I64,
    I64_2D,
    OUT_FLAGS,
    OUT_I32,
    OUT_I64,
    OUT_I64_2D,
    OUT_U32,
    U32,
    U64,
    inlined,
    kernel,
)
from slidejoin.kernels.predicate.doubles import bits_of, divided, of_bits
from slidejoin.kernels.rows.records import LONG

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ABS",
    "ADD",
    "AND",
    "BLOCK",
    "COLUMN",
    "CONSTANT",
    "DIVIDE_DOUBLES",
    "EQUAL",
    "EXACT",
    "INSTRUCTION",
    "IS_NULL",
    "LESS",
    "LOADS",
    "LOAD_DOUBLE",
    "LOAD_FLOAT",
    "LOAD_TEXT",
    "MULTIPLY",
    "NEAREST",
    "NEGATE",
    "NOT",
    "OF_DOUBLES",
    "OF_TEXTS",
    "OR",
    "QUOTIENT",
    "REMAINDER",
    "SAME",
    "SIDE_WORDS",
    "SUBTRACT",
    "UNSIGN",
    "UNSIGNED",
    "UP_TO",
    "find_held",
    "hold_pairs",
    "keep_held",
]

BLOCK = 128
"""Pairs that one instruction handles at a time."""

LINE = 6
"""A cache line is ``2**LINE`` bytes."""

(
    ADD, SUBTRACT, MULTIPLY, REMAINDER, QUOTIENT, NEGATE, ABS, EQUAL, LESS, UP_TO, SAME, AND, OR, NOT, IS_NULL,
    NEAREST, EXACT, UNSIGN, OF_DOUBLES,
) = range(19)  # fmt: skip
"""Instructions on integers, and on truth values, which are 0 and 1; the nearest double of an integer, or the double
that it is EXACTly; a zero of doubles without its sign. Up to SAME, with OF_DOUBLES added they are those on doubles, and
comparisons, with OF_TEXTS added, those of texts, which a register has as addresses of their words."""

OF_TEXTS = 2 * OF_DOUBLES

DIVIDE_DOUBLES = OF_DOUBLES + QUOTIENT
"""A division of doubles, which is not cut off."""

INSTRUCTION = 4
"""Words of an instruction: which, the register that it writes, and those of its operands."""

(LOAD_8, LOAD_16, LOAD_32, LOAD_64, LOAD_DOUBLE, LOAD_FLOAT, LOAD_TEXT, UNSIGNED) = range(8)
"""How values lie in records: signed integers, doubles of 64 and of 32 bits, texts; with UNSIGNED added others."""

LOADS = {1: LOAD_8, 2: LOAD_16, 4: LOAD_32, 8: LOAD_64}
"""How integers of so many bytes lie there."""

CONSTANT = 3
"""Words of a constant: its register, its value, and 1, or for NULL 0."""

COLUMN = 5
"""Words of a column: its side, how its values lie, the bytes of a record before them, the address of the addresses of
its marks, as `gather_marks` takes them, or 0, and its register."""

SIDE_WORDS = 6
"""Words of a side: the address of the addresses of its records, as `gather_rows` takes them, and how many these are, 0
if no column of it is read; shift and stride; the bytes of a record before the columns, and up to the last of them."""

SAFE = 1 << 53
"""Up to here every integer is a double."""

TOP = 1 << 63

I8_OF, I16_OF, I32_OF, I64_OF, F64_OF = np.int8, np.int16, np.int32, np.int64, np.float64

KNOWN, OUT_KNOWN = types.Array(types.uint8, 1, "C", readonly=True), types.Array(types.uint8, 1, "C")
OUT_KNOWN_2D = types.Array(types.uint8, 2, "C")


@inlined
def _size(value: int) -> np.uint64:
    """Return the magnitude of an integer."""
    return U64(value) if value >= 0 else U64(0) - U64(value)


@kernel(types.int64, I64, I64, OUT_I64, types.int64, returns=types.boolean)
def compute(  # noqa: C901, PLR0912 - one branch for each instruction
    op: int, one: NDArray[np.int64], two: NDArray[np.int64], out: NDArray[np.int64], n: int
) -> bool:
    """Do an instruction of arithmetic on the first n values; return False if not all results fit.

    one, two and out (BLOCK,) int64, doubles as their bits. O(n).
    """
    wrong = 0
    if op == ADD:
        for i in range(n):
            a, b = one[U64(i)], two[U64(i)]
            out[U64(i)] = total = a + b
            wrong |= (a ^ total) & (b ^ total)
    elif op == SUBTRACT:
        for i in range(n):
            a, b = one[U64(i)], two[U64(i)]
            out[U64(i)] = rest = a - b
            wrong |= (a ^ b) & (a ^ rest)
    elif op == MULTIPLY:
        far = 0
        for i in range(n):
            a, b = one[U64(i)], two[U64(i)]
            out[U64(i)] = a * b
            # The product of the nearest doubles is that near to it.
            far += int(abs(F64_OF(a) * F64_OF(b)) > 9.2e18)  # noqa: PLR2004 - a little below 2**63
        wrong = -far
    elif op in (NEGATE, ABS):
        for i in range(n):
            a = one[U64(i)]
            out[U64(i)] = value = a if op == ABS and a >= 0 else I64_OF(0) - a
            wrong |= a & value if a < 0 else 0
    elif op == NEAREST:
        for i in range(n):
            out[U64(i)] = bits_of(F64_OF(one[U64(i)]))
    elif op == EXACT:
        far = 0
        for i in range(n):
            a = one[U64(i)]
            out[U64(i)] = bits_of(F64_OF(a))
            far += int(a > SAFE) + int(a < -SAFE)
        wrong = -far
    elif op == UNSIGN:
        for i in range(n):
            out[U64(i)] = bits_of(of_bits(one[U64(i)]) + 0.0)
    elif op == OF_DOUBLES + ADD:
        for i in range(n):
            out[U64(i)] = bits_of(of_bits(one[U64(i)]) + of_bits(two[U64(i)]))
    elif op == OF_DOUBLES + SUBTRACT:
        for i in range(n):
            out[U64(i)] = bits_of(of_bits(one[U64(i)]) - of_bits(two[U64(i)]))
    elif op == OF_DOUBLES + MULTIPLY:
        for i in range(n):
            out[U64(i)] = bits_of(of_bits(one[U64(i)]) * of_bits(two[U64(i)]))
    elif op == DIVIDE_DOUBLES:
        for i in range(n):
            out[U64(i)] = bits_of(divided(of_bits(one[U64(i)]), of_bits(two[U64(i)])))
    elif op == OF_DOUBLES + REMAINDER:
        for i in range(n):
            out[U64(i)] = bits_of(np.fmod(of_bits(one[U64(i)]), of_bits(two[U64(i)])))
    elif op == OF_DOUBLES + NEGATE:
        for i in range(n):
            out[U64(i)] = bits_of(-of_bits(one[U64(i)]))
    else:  # OF_DOUBLES + ABS
        for i in range(n):
            out[U64(i)] = bits_of(abs(of_bits(one[U64(i)])))
    return wrong >= 0


@kernel(types.int64, I64, I64, OUT_I64, OUT_KNOWN, types.int64, returns=types.boolean)
def divide(
    op: int,
    one: NDArray[np.int64],
    two: NDArray[np.int64],
    out: NDArray[np.int64],
    known: NDArray[np.uint8],
    n: int,
) -> bool:
    """Divide the first n integers: write the QUOTIENT, cut off towards zero, or the REMAINDER, with a sign of `one`.

    Neither is known where a divisor is 0: known (BLOCK,) uint8 becomes 0 there. Returns False if not all quotients fit.
    one, two and out (BLOCK,) int64. O(n).
    """
    wrong = 0
    for i in range(n):
        a, b = one[U64(i)], two[U64(i)]
        size, by = _size(a), _size(b)
        known[U64(i)] = known[U64(i)] & int(b != 0)
        by = by | U64(b == 0)
        if op == REMAINDER:
            left = I64_OF(size % by)
            out[U64(i)] = I64_OF(0) - left if a < 0 else left
        else:
            whole = size // by
            below = (a < 0) != (b < 0)
            wrong += int(whole >= U64(TOP)) * int(not below)
            out[U64(i)] = I64_OF(U64(0) - whole) if below else I64_OF(whole)
    return wrong == 0


@kernel(types.int64, I64, KNOWN, I64, KNOWN, OUT_I64, OUT_KNOWN, types.int64)
def decide(  # noqa: C901, PLR0912 - one branch for each instruction
    op: int,
    one: NDArray[np.int64],
    one_known: NDArray[np.uint8],
    two: NDArray[np.int64],
    two_known: NDArray[np.uint8],
    out: NDArray[np.int64],
    known: NDArray[np.uint8],
    n: int,
) -> None:
    """Do an instruction whose result is a truth value on the first n values: comparisons, SAME, and what joins them.

    one, two and out (BLOCK,) int64; known (BLOCK,) uint8, 1 or 0. O(n).
    """
    if op >= OF_TEXTS:
        for i in range(n):
            known[U64(i)] = one_known[U64(i)] & two_known[U64(i)]
            # What lies under a NULL is no text.
            order = text_order(one[U64(i)], two[U64(i)]) if known[U64(i)] else 0
            equal, less = int(order == 0), int(order < 0)
            out[U64(i)] = equal if op == OF_TEXTS + EQUAL else less if op == OF_TEXTS + LESS else equal | less
    elif op in (EQUAL, LESS, UP_TO, OF_DOUBLES + EQUAL, OF_DOUBLES + LESS, OF_DOUBLES + UP_TO):
        for i in range(n):
            known[U64(i)] = one_known[U64(i)] & two_known[U64(i)]
        if op == EQUAL:
            for i in range(n):
                out[U64(i)] = one[U64(i)] == two[U64(i)]
        elif op == LESS:
            for i in range(n):
                out[U64(i)] = one[U64(i)] < two[U64(i)]
        elif op == UP_TO:
            for i in range(n):
                out[U64(i)] = one[U64(i)] <= two[U64(i)]
        else:
            for i in range(n):
                a, b = of_bits(one[U64(i)]), of_bits(two[U64(i)])
                known[U64(i)] = known[U64(i)] & int(a == a) & int(b == b)  # noqa: PLR0124 - what NaN is not
                if op == OF_DOUBLES + EQUAL:
                    out[U64(i)] = a == b
                elif op == OF_DOUBLES + LESS:
                    out[U64(i)] = a < b
                else:
                    out[U64(i)] = a <= b
    elif op in (SAME, OF_DOUBLES + SAME):
        for i in range(n):
            both, neither = one_known[U64(i)] & two_known[U64(i)], 1 - (one_known[U64(i)] | two_known[U64(i)])
            equal = one[U64(i)] == two[U64(i)]
            if op > SAME:
                a, b = of_bits(one[U64(i)]), of_bits(two[U64(i)])
                equal = a == b or (a != a and b != b)  # noqa: PLR0124 - what NaN is
            out[U64(i)] = (both & equal) | neither
            known[U64(i)] = 1
    elif op in (AND, OR):
        # What decides, false or true, wins over what is not known.
        deciding = int(op == OR)
        for i in range(n):
            first = one_known[U64(i)] & (one[U64(i)] == deciding)
            second = two_known[U64(i)] & (two[U64(i)] == deciding)
            decided = first | second
            out[U64(i)] = decided if deciding else 1 - decided
            known[U64(i)] = decided | (one_known[U64(i)] & two_known[U64(i)])
    elif op == NOT:
        for i in range(n):
            out[U64(i)] = 1 - one[U64(i)]
            known[U64(i)] = one_known[U64(i)]
    else:  # IS_NULL
        for i in range(n):
            out[U64(i)] = 1 - one_known[U64(i)]
            known[U64(i)] = 1


@inlined
def _bytes_of(at: int) -> tuple[int, int]:
    """Return the address of a text's bytes, and how many these are, see `kernels.rows.records`."""
    word = U64(load_64(at))
    tag = int(word & U64(255))
    if tag == LONG:
        return int(load_64(at + 8)), int(word >> U64(8))
    return at + 1, tag


@kernel(types.int64, types.int64, returns=types.int64)
def text_order(one: int, two: int) -> int:
    """Return -1, 0 or 1 where a text comes before, is, or comes after another one, by their bytes. O(bytes)."""
    if load_64(one) == load_64(two) and load_64(one + 8) == load_64(two + 8):
        return 0
    (at, size), (by, length) = _bytes_of(one), _bytes_of(two)
    place, common = 0, min(size, length)
    while place + 8 <= common and load_64(at + place) == load_64(by + place):
        place += 8
    while place < common and load_8(at + place) == load_8(by + place):
        place += 1
    if place < common:
        return -1 if load_8(at + place) < load_8(by + place) else 1
    return -1 if size < length else int(size > length)


@inlined
def _load(  # noqa: C901, PLR0912 - one branch for each type
    how: int, rows: NDArray[np.int64], offset: int, out: NDArray[np.int64], n: int
) -> None:
    """Load one column of the rows at these addresses; unsigned integers of 64 bits as signed ones."""
    if how in (LOAD_64, LOAD_DOUBLE, UNSIGNED + LOAD_64):
        for i in range(n):
            out[U64(i)] = I64_OF(U64(load_64(rows[U64(i)] + offset)))
    elif how == LOAD_32:
        for i in range(n):
            word = I64_OF(load_32(rows[U64(i)] + offset))
            out[U64(i)] = (word ^ (1 << 31)) - (1 << 31)
    elif how == LOAD_16:
        for i in range(n):
            word = I64_OF(load_16(rows[U64(i)] + offset))
            out[U64(i)] = (word ^ (1 << 15)) - (1 << 15)
    elif how == LOAD_8:
        for i in range(n):
            word = I64_OF(load_8(rows[U64(i)] + offset))
            out[U64(i)] = (word ^ (1 << 7)) - (1 << 7)
    elif how == UNSIGNED + LOAD_32:
        for i in range(n):
            out[U64(i)] = I64_OF(load_32(rows[U64(i)] + offset))
    elif how == UNSIGNED + LOAD_16:
        for i in range(n):
            out[U64(i)] = I64_OF(load_16(rows[U64(i)] + offset))
    elif how == LOAD_TEXT:
        for i in range(n):
            out[U64(i)] = rows[U64(i)] + offset
    elif how == UNSIGNED + LOAD_8:
        for i in range(n):
            out[U64(i)] = I64_OF(load_8(rows[U64(i)] + offset))
    else:  # LOAD_FLOAT
        words = np.empty(BLOCK, np.uint32)
        for i in range(n):
            words[U64(i)] = load_32(rows[U64(i)] + offset)
        halves = words.view(np.float32)
        for i in range(n):
            out[U64(i)] = bits_of(F64_OF(halves[U64(i)]))


@inlined
def _known_of(
    addresses: NDArray[np.int64],
    shift: int,
    ordinals: NDArray[np.int64],
    values: NDArray[np.int64],
    known: NDArray[np.uint8],
    n: int,
) -> None:
    """Load the marks of one column; what lies under a NULL becomes 0."""
    mask = addresses.size - 1
    for i in range(n):
        ordinal = ordinals[U64(i)]
        address = addresses[U64((ordinal >> shift) & mask)]
        mark = 1 if address == 0 else I64_OF(load_8(address + ordinal))
        known[U64(i)] = mark
        values[U64(i)] = values[U64(i)] if mark else 0


@kernel(
    I64_2D, I64_2D, I64_2D, OUT_I64_2D, OUT_I64_2D, OUT_I64_2D, OUT_KNOWN_2D, types.int64, types.int64, OUT_FLAGS,
    types.int64, returns=types.boolean,
)  # fmt: skip
def hold_block(
    code: NDArray[np.int64],
    columns: NDArray[np.int64],
    sides: NDArray[np.int64],
    ordinals: NDArray[np.int64],
    rows: NDArray[np.int64],
    values: NDArray[np.int64],
    known: NDArray[np.uint8],
    half: int,
    n: int,
    flags: NDArray[np.bool_],
    at: int,
) -> bool:
    """Run a program on a block, the pairs in rows `half` and ``half + 1`` of ordinals and addresses (4, BLOCK) int64.

    values (r, BLOCK) int64 and known (r, BLOCK) uint8 are the registers. Writes flags[at…], (pairs,) bool, where the
    result of the last instruction is true. Returns False if a value does not fit. O(n * instructions).
    """
    # Views by address: a slice of an array counts its references, which takes as long as an instruction.
    value_at, known_at, row_at, ordinal_at = place_of(values), place_of(known), place_of(rows), place_of(ordinals)
    fits = True
    for c in range(columns.shape[0]):
        side, how, offset, marks, register = columns[c, 0], columns[c, 1], columns[c, 2], columns[c, 3], columns[c, 4]
        of_side = 8 * BLOCK * (half + side)
        out, valid = i64_at(value_at + 8 * BLOCK * register, BLOCK), u8_at(known_at + BLOCK * register, BLOCK)
        _load(how, i64_at(row_at + of_side, BLOCK), offset, out, n)
        if marks != 0:
            _known_of(i64_at(marks, sides[side, 1]), sides[side, 2], i64_at(ordinal_at + of_side, BLOCK), out, valid, n)
        else:
            valid[:] = 1
        if how == UNSIGNED + LOAD_64:
            signs = I64_OF(0)
            for i in range(n):
                signs |= out[U64(i)]
            fits = bool(signs >= 0) and fits
    target = 0
    for step in range(code.shape[0]):
        op, target = code[step, 0], code[step, 1]
        one, one_known = (
            i64_at(value_at + 8 * BLOCK * code[step, 2], BLOCK),
            u8_at(known_at + BLOCK * code[step, 2], BLOCK),
        )
        two, two_known = (
            i64_at(value_at + 8 * BLOCK * code[step, 3], BLOCK),
            u8_at(known_at + BLOCK * code[step, 3], BLOCK),
        )
        out, valid = i64_at(value_at + 8 * BLOCK * target, BLOCK), u8_at(known_at + BLOCK * target, BLOCK)
        kind = op % OF_DOUBLES
        if EQUAL <= kind <= IS_NULL:
            decide(op, one, one_known, two, two_known, out, valid, n)
            continue
        for i in range(n):
            valid[U64(i)] = one_known[U64(i)] & two_known[U64(i)]
        if op in (REMAINDER, QUOTIENT):
            fits = divide(op, one, two, out, valid, n) and fits
        else:
            fits = compute(op, one, two, out, n) and fits
    truth, valid = i64_at(value_at + 8 * BLOCK * target, BLOCK), u8_at(known_at + BLOCK * target, BLOCK)
    for i in range(n):
        flags[U64(at + i)] = (truth[U64(i)] != 0) & (valid[U64(i)] != 0)
    return fits


@inlined
def _set_constants(constants: NDArray[np.int64], values: NDArray[np.int64], known: NDArray[np.uint8]) -> None:
    for c in range(constants.shape[0]):
        register = U64(constants[c, 0])
        values[register][:] = constants[c, 1]
        known[register][:] = constants[c, 2]


@inlined
def _record(sides: NDArray[np.int64], side: int, ordinal: int) -> int:
    """Return the address of a record, 0 if no column of its side is read, and prefetch it."""
    units, row = sides[side, 1], 0
    if units != 0:
        unit = (ordinal >> sides[side, 2]) & (units - 1)
        row = i64_at(sides[side, 0], units)[U64(unit)] + ordinal * sides[side, 3]
        prefetch_at((row + sides[side, 4]) >> LINE << LINE)
    return row


@inlined
def _look_up(sides: NDArray[np.int64], side: int, ordinals: NDArray[np.int64], rows: NDArray[np.int64], n: int) -> None:
    """Write the addresses of the records with these ordinals, and prefetch these."""
    units = sides[side, 1]
    if units == 0:
        return
    addresses, shift, stride = i64_at(sides[side, 0], units), sides[side, 2], sides[side, 3]
    first, last = sides[side, 4], sides[side, 5]
    for i in range(n):
        ordinal = ordinals[U64(i)]
        row = addresses[U64((ordinal >> shift) & (units - 1))] + ordinal * stride
        rows[U64(i)] = row
        for line in range((row + first) >> LINE, ((row + last) >> LINE) + 1):
            prefetch_at(line << LINE)


@kernel(I64_2D, I64_2D, I64_2D, I64_2D, types.int64, I64, I64, OUT_FLAGS, returns=types.boolean)
def hold_pairs(
    code: NDArray[np.int64],
    constants: NDArray[np.int64],
    columns: NDArray[np.int64],
    sides: NDArray[np.int64],
    registers: int,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    flags: NDArray[np.bool_],
) -> bool:
    """Write where a condition holds for pairs of rows, given by their ordinals, (n,) int64 each.

    Parameters
    ----------
    code
        (i, INSTRUCTION) int64; the last one gives the result.
    constants
        (k, CONSTANT) int64.
    columns, sides
        (c, COLUMN) and (2, SIDE_WORDS) int64.
    registers
        How many there are.
    left, right
        (n,) int64.
    flags
        (n,) bool, written.

    Returns False, flags undefined, if a value does not fit, see above. O(n * instructions).
    """
    values, known = np.empty((registers, BLOCK), np.int64), np.empty((registers, BLOCK), np.uint8)
    _set_constants(constants, values, known)
    ordinals, rows = np.empty((4, BLOCK), np.int64), np.empty((4, BLOCK), np.int64)
    blocks, before = (left.size + BLOCK - 1) // BLOCK, 0
    for block in range(blocks + 1):
        # The half that the previous block, which is evaluated now, has not used.
        half, start = 2 * (block & 1), block * BLOCK
        n = max(min(BLOCK, left.size - start), 0)
        for i in range(n):
            ordinals[U64(half), U64(i)], ordinals[U64(half + 1), U64(i)] = left[U64(start + i)], right[U64(start + i)]
        for side in range(2):
            _look_up(sides, side, ordinals[U64(half + side)], rows[U64(half + side)], n)
        if before > 0 and not hold_block(
            code, columns, sides, ordinals, rows, values, known, 2 - half, before, flags, start - BLOCK
        ):
            return False
        before = n
    return True


@kernel(
    I64_2D, I64_2D, I64_2D, I64_2D, types.int64, U32, I32, types.int64, types.int64, types.int64, types.int64,
    types.int64, types.int64, OUT_FLAGS, returns=types.boolean,
)  # fmt: skip
def find_held(
    code: NDArray[np.int64],
    constants: NDArray[np.int64],
    columns: NDArray[np.int64],
    sides: NDArray[np.int64],
    registers: int,
    found: NDArray[np.uint32],
    counts: NDArray[np.int32],
    begin: int,
    end: int,
    take: int,
    first: int,
    base: int,
    role: int,
    flags: NDArray[np.bool_],
) -> bool:
    """Write where a condition holds for what probes begin…end-1 found, without writing these pairs.

    A probe's positions uint32 stand in `found` one probe after the other, from place `take` on, counts (n,) int32 of
    them; probe i has the ordinal ``first + i``, and positions count from ``base + 1``, as in
    `kernels.candidates.weaving`; `role` is 0 for left probes, 1 for right ones. flags (places,) bool at the same places
    as `found`. For all else see `hold_pairs`. O(found * instructions).
    """
    values, known = np.empty((registers, BLOCK), np.int64), np.empty((registers, BLOCK), np.uint8)
    _set_constants(constants, values, known)
    ordinals, rows = np.empty((4, BLOCK), np.int64), np.empty((4, BLOCK), np.int64)
    origin, half, before, probe, rest = (base + 1) & LOW_32, 0, 0, begin, 0
    if begin < end:
        rest = int(counts[U64(begin)])
    while True:
        n, own, its = 0, U64(half + role), U64(half + 1 - role)
        while n < BLOCK:
            while rest == 0 and probe + 1 < end:
                probe += 1
                rest = int(counts[U64(probe)])
            if rest == 0:
                break
            some = min(rest, BLOCK - n)
            row = _record(sides, role, first + probe)
            for i in range(n, n + some):
                ordinals[own, U64(i)], rows[own, U64(i)] = first + probe, row
                ordinals[its, U64(i)] = base + ((int(found[U64(take + before + i)]) - origin) & LOW_32)
            n, rest = n + some, rest - some
        _look_up(sides, 1 - role, ordinals[its], rows[its], n)
        if before > 0 and not hold_block(
            code, columns, sides, ordinals, rows, values, known, 2 - half, before, flags, take
        ):
            return False
        take, before, half = take + before, n, 2 - half
        if n == 0:
            return True


@kernel(OUT_U32, OUT_I32, types.int64, types.int64, types.int64, FLAGS, returns=types.int64)
def keep_held(
    found: NDArray[np.uint32],
    counts: NDArray[np.int32],
    begin: int,
    end: int,
    take: int,
    flags: NDArray[np.bool_],
) -> int:
    """Keep the flagged ones of the rows that probes begin…end-1 found, see `find_held`; return how many these are.

    found and counts are updated; what is kept stands from `take` on. O(found).
    """
    at = origin = take
    for probe in range(begin, end):
        start, count = at, int(counts[U64(probe)])
        for place in range(take, take + count):
            found[U64(at)] = found[U64(place)]
            at += int(flags[U64(place)])
        take += count
        counts[U64(probe)] = at - start
    return at - origin
