"""Ends of ranges: exact bounds of doubles, and several ranges of a probe joined.

The exact bound of a range of doubles is the largest double for which a rounded expression is at most a bound.

A comparison such as ``l.x + 0.1 <= r.x`` holds, as written, for all l.x up to some double, since rounding keeps the
order. That double is a few steps away from ``r.x - 0.1``, which is rounded itself. The operations are inverted one at a
time, so that a check is one operation: guess, try the neighbours, and bisect only if that does not settle it.

Keys are the order-preserving bits of doubles, see `slidejoin.jit.vectors.doubles`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64_2D, OUT_I64, OUT_I64_2D, U64, inlined, kernel
from slidejoin.jit.vectors.doubles import F64, FIRST_KEY, LAST_KEY, divided, key_of, value_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BEFORE",
    "BOTTOM",
    "CONSTANT",
    "INPUT",
    "NEGATE",
    "OVER",
    "PLUS",
    "TIMES",
    "TOP",
    "UNOVER",
    "UNPLUS",
    "UNPLUS_INPUT",
    "UNTIMES",
    "find_ends",
    "tidy_pieces",
]

(
    CONSTANT, INPUT, NEGATE, PLUS, TIMES, OVER, BEFORE, UNPLUS, UNPLUS_INPUT, UNTIMES, UNOVER, TOP, BOTTOM,
) = range(13)  # fmt: skip
"""Instructions of `find_ends`."""

OPEN_LOW, OPEN_HIGH = -(1 << 63), (1 << 63) - 1
LARGEST = float(np.finfo(np.float64).max)
NAN, INFINITY = float("nan"), float("inf")

BLOCK = 256
"""Rows that one instruction handles at a time: their values stay in the first cache."""

F64_2D = types.Array(types.float64, 2, "C", readonly=True)


# -- one operation undone ----------------------------------------------------------------------------------------------


@inlined
def _applied(op: int, value: float, operand: float) -> float:
    if op == UNTIMES:
        return value * operand
    if op == UNOVER:
        return divided(value, operand)
    return value + operand


@kernel(types.int64, types.float64, types.float64, returns=types.float64)
def bisected(op: int, bound: float, operand: float) -> float:
    """Return the largest double whose ``double op operand`` is at most `bound`; NaN if there is none. O(64)."""
    if bound != bound or operand != operand:  # noqa: PLR0124 - what NaN is
        return NAN
    if op == UNPLUS and operand == INFINITY:
        return INFINITY if bound == INFINITY else NAN
    if op == UNPLUS and operand == -INFINITY:
        return LARGEST  # behind it the sum is NaN
    if not _applied(op, -INFINITY, operand) <= bound:
        return NAN
    if _applied(op, INFINITY, operand) <= bound:
        return INFINITY
    below, above = FIRST_KEY, LAST_KEY
    while above - 1 > below:
        middle = (below >> 1) + (above >> 1) + (below & above & 1)
        if _applied(op, value_of(middle), operand) <= bound:
            below = middle
        else:
            above = middle
    return value_of(below)


@inlined
def _unplus(bounds: NDArray[np.float64], operands: NDArray[np.float64], m: int, out: NDArray[np.float64]) -> None:
    """Undo ``double + operand <= bound`` for the first m rows."""
    unsure = 0
    for i in range(m):
        bound, operand = bounds[U64(i)], operands[U64(i)]
        # Sums up to half way to the next double round to the bound: ``bound + half - operand``, whose error is below
        # a step, since the difference and its error add up exactly.
        half = (value_of(key_of(bound) + 1) - bound) * 0.5
        near = bound - operand
        part = near - bound
        error = (bound - (near - part)) - (operand + part)
        key = key_of(near + (error + half))
        key -= int(not value_of(key) + operand <= bound)
        value, above = value_of(key), value_of(key + 1)
        out[U64(i)] = value
        unsure += int(not value + operand <= bound) + int(above + operand <= bound)
    if unsure:
        for i in range(m):
            bound, operand, value = bounds[U64(i)], operands[U64(i)], out[U64(i)]
            if not value + operand <= bound or value_of(key_of(value) + 1) + operand <= bound:
                out[U64(i)] = bisected(UNPLUS, bound, operand)


@inlined
def _untimes(op: int, bounds: NDArray[np.float64], factor: float, m: int, out: NDArray[np.float64]) -> None:
    """Undo ``double * factor <= bound``, or ``double / factor <= bound``, factor > 0, for the first m rows."""
    unsure = 0
    for i in range(m):
        bound = bounds[U64(i)]
        # Two roundings away from the end, less than two steps.
        key = max(key_of(divided(bound, factor) if op == UNTIMES else bound * factor) - 2, FIRST_KEY - 1)
        steps = 0
        for step in range(1, 5):
            steps += int(_applied(op, value_of(key + step), factor) <= bound)
        out[U64(i)] = value_of(key + steps)
        unsure += int(steps == 0) + int(steps == 4)  # noqa: PLR2004 - all of them
    if unsure:
        for i in range(m):
            bound, key = bounds[U64(i)], key_of(out[U64(i)])
            held = _applied(op, value_of(key), factor) <= bound
            if not held or _applied(op, value_of(key + 1), factor) <= bound:
                out[U64(i)] = bisected(op, bound, factor)


# -- whole ranges ------------------------------------------------------------------------------------------------------


@inlined
def _compute(  # noqa: C901, PLR0912 - one branch for each instruction
    op: int, row: int, constant: float, inputs: NDArray[np.float64], start: int, m: int, bounds: NDArray[np.float64]
) -> None:
    """Carry one of the first instructions out, for m probes from `start` on."""
    if op == CONSTANT:
        for i in range(m):
            bounds[U64(i)] = constant
    elif op == INPUT:
        for i in range(m):
            bounds[U64(i)] = inputs[U64(row), U64(start + i)]
    elif op == NEGATE:
        for i in range(m):
            bounds[U64(i)] = -bounds[U64(i)]
    elif op == PLUS:
        for i in range(m):
            bounds[U64(i)] += constant
    elif op == TIMES:
        for i in range(m):
            bounds[U64(i)] *= constant
    elif op == OVER:
        for i in range(m):
            bounds[U64(i)] = divided(bounds[U64(i)], constant)
    else:
        for i in range(m):
            key = key_of(bounds[U64(i)]) - 1
            bounds[U64(i)] = value_of(key - int(key == -1))


@inlined
def _limit(
    op: int, bounds: NDArray[np.float64], start: int, m: int, lo: NDArray[np.int64], hi: NDArray[np.int64]
) -> None:
    """Limit ranges to the keys of the bounds, or from those of their opposites on."""
    if op == TOP:
        for i in range(m):
            bound, at = bounds[U64(i)], U64(start + i)
            known = bound == bound  # noqa: PLR0124 - what NaN is not
            hi[at] = min(hi[at], key_of(bound) if known else OPEN_LOW)
            lo[at] = lo[at] if known else OPEN_HIGH
    else:
        for i in range(m):
            bound, at = bounds[U64(i)], U64(start + i)
            known = bound == bound  # noqa: PLR0124
            lo[at] = max(lo[at], key_of(-bound) if known else OPEN_HIGH)
            hi[at] = hi[at] if known else OPEN_LOW


@inlined
def _leave_out(
    op: int, operands: NDArray[np.float64], start: int, m: int, lo: NDArray[np.int64], hi: NDArray[np.int64]
) -> None:
    """Take the infinity out of ranges that gives NaN beside an infinite operand; the opposite one lies outside."""
    for i in range(m):
        at, one = U64(start + i), int(operands[U64(i)] == INFINITY)
        if op == TOP:
            lo[at] = max(lo[at], FIRST_KEY + one)
        else:
            hi[at] = min(hi[at], LAST_KEY - one)


@kernel(F64_2D, I64_2D, F64, OUT_I64, OUT_I64, returns=types.int64)
def find_ends(  # noqa: C901, PLR0912 - one path through a program, seen whole
    inputs: NDArray[np.float64],
    code: NDArray[np.int64],
    constants: NDArray[np.float64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
) -> int:
    """Write the range of keys of each probe that `code` describes: [lo, hi], both included; empty ones are [1, 0].

    inputs (r, n) float64, the values of each probe; code (c, 2) int64, an instruction and its input; constants (c,)
    float64, the operands; lo and hi (n,) int64. Instructions work on one value for each probe, the bound:

    CONSTANT, INPUT: let it be the constant, or an input.
    NEGATE, PLUS, TIMES, OVER: compute with it and the constant.
    BEFORE: let it be the double before.
    UNPLUS, UNTIMES, UNOVER: let it be the largest double for which ``double + constant``, ``* constant`` or
    ``/ constant`` is at most the bound, factors above 0; UNPLUS_INPUT: ``+ constant * input``.
    TOP: no key in the range is above the bound's; BOTTOM: none is below that of the bound's opposite.

    A bound that is NaN leaves nothing. Beside an infinite operand the opposite infinity gives NaN, and its key does not
    belong to the range; returns for how many probes that key is unknown, which does not happen if TOP or BOTTOM follows
    the UNPLUS_INPUT. O(n * c).
    """
    odd = 0
    bounds, out, operands = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, lo.size, BLOCK):
        m, infinite = min(BLOCK, lo.size - start), 0
        for i in range(m):
            lo[U64(start + i)], hi[U64(start + i)] = OPEN_LOW, OPEN_HIGH
        for k in range(code.shape[0]):
            op, row, constant = code[U64(k), U64(0)], code[U64(k), U64(1)], constants[U64(k)]
            if op < UNPLUS:
                _compute(op, row, constant, inputs, start, m, bounds)
            elif op >= TOP:
                _limit(op, bounds, start, m, lo, hi)
                if infinite:
                    _leave_out(op, operands, start, m, lo, hi)
                infinite = 0
            else:
                odd, infinite = odd + infinite, 0
                if op == UNPLUS_INPUT:
                    for i in range(m):
                        operands[U64(i)] = constant * inputs[U64(row), U64(start + i)]
                        infinite += int(abs(operands[U64(i)]) == INFINITY)
                else:
                    for i in range(m):
                        operands[U64(i)] = constant
                if op <= UNPLUS_INPUT:
                    _unplus(bounds, operands, m, out)
                elif op == UNTIMES:
                    _untimes(UNTIMES, bounds, constant, m, out)
                else:
                    _untimes(UNOVER, bounds, constant, m, out)
                for i in range(m):
                    bounds[U64(i)] = out[U64(i)]
        for i in range(m):
            at = U64(start + i)
            empty = lo[at] > hi[at]
            lo[at], hi[at] = 1 if empty else lo[at], 0 if empty else hi[at]
    return odd


@kernel(OUT_I64_2D, OUT_I64_2D, types.boolean, types.int64)
def tidy_pieces(lo: NDArray[np.int64], hi: NDArray[np.int64], joins: bool, most: int) -> None:
    """Put the pieces of each row into ascending order, in place, empty ones last and as (1, 0).

    lo and hi (k, n) int64, the ends of k pieces of each of n rows, both included. With `joins` pieces that overlap
    become one; beyond `most` pieces the last ones are joined across their gaps. O(n * k) for pieces in about that
    order.
    """
    lows, highs = np.empty(lo.shape[0], np.int64), np.empty(lo.shape[0], np.int64)
    for row in range(lo.shape[1]):
        i, count = U64(row), np.int64(0)
        for piece in range(lo.shape[0]):
            low, high = lo[U64(piece), i], hi[U64(piece), i]
            if low > high:
                continue
            at = count
            while at > 0 and lows[U64(at - 1)] > low:
                lows[U64(at)], highs[U64(at)] = lows[U64(at - 1)], highs[U64(at - 1)]
                at -= 1
            lows[U64(at)], highs[U64(at)] = low, high
            count += 1
        if joins and count > 0:
            last = np.int64(0)
            for piece in range(1, count):
                if lows[U64(piece)] <= highs[U64(last)]:
                    highs[U64(last)] = max(highs[U64(last)], highs[U64(piece)])
                else:
                    last += 1
                    lows[U64(last)], highs[U64(last)] = lows[U64(piece)], highs[U64(piece)]
            count = last + 1
        if count > most:
            highs[U64(most - 1)] = highs[U64(count - 1)]
            count = np.int64(most)
        for piece in range(lo.shape[0]):
            some = piece < count
            lo[U64(piece), i] = lows[U64(piece)] if some else 1
            hi[U64(piece), i] = highs[U64(piece)] if some else 0
