"""Instructions of programs, each on a block of values: arithmetic, comparisons, truth values, texts.

A program is a list of instructions on registers, each of which holds a value for every pair of a block and whether it
is known: NULL is not, and neither is what a NaN compares to. See `slidejoin.operator.kernels.conditions` for what
programs are for. The arithmetic is that of `slidejoin.predicate.truth.evaluate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, OUT_I64, U64, inlined, kernel
from slidejoin.jit.vectors.doubles import bits_of, divided, of_bits
from slidejoin.jit.vectors.memory import load_8, load_64
from slidejoin.rows.kernels.records import LONG

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ABS", "ADD", "AND", "BLOCK", "CONSTANT", "DIVIDE_DOUBLES", "EQUAL", "EXACT", "F64_OF", "I64_OF", "INSTRUCTION",
    "IS_NULL", "LESS", "MULTIPLY", "NEAREST", "NEGATE", "NOT", "OF_DOUBLES", "OF_TEXTS", "OR", "OUT_KNOWN_2D",
    "QUOTIENT", "REMAINDER", "SAME", "SUBTRACT", "UNSIGN", "UP_TO", "compute", "decide", "divide",
]  # fmt: skip

BLOCK = 128
"""Pairs that one instruction handles at a time."""

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

CONSTANT = 3
"""Words of a constant: its register, its value, and 1, or for NULL 0."""

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
    """Return the address of a text's bytes, and how many these are, see `rows.kernels.records`."""
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
