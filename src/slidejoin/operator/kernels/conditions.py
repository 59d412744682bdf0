"""Conditions on pairs of rows as programs: a block of pairs at a time, its values in the first cache.

NumPy would write the columns of all pairs, and each intermediate result, to memory; a program reads a row of each side
and writes one flag. What it is made of is in `slidejoin.predicate.kernels.instructions`. Where integers would need more
than 64 bits, or doubles would round twice, the kernel gives up, and the pairs are to be evaluated by
`slidejoin.predicate.truth.evaluate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import types

from slidejoin.jit.compiling import I64, I64_2D, OUT_FLAGS, OUT_I64_2D, U64, group, inlined, kernel
from slidejoin.jit.vectors.doubles import bits_of
from slidejoin.jit.vectors.memory import i64_at, load_8, load_16, load_32, load_64, place_of, prefetch_at, u8_at
from slidejoin.jit.vectors.vectors import LOW_32
from slidejoin.operator.kernels.probe_matches import PROBE_MATCHES
from slidejoin.predicate.kernels.instructions import (
    BLOCK,
    EQUAL,
    F64_OF,
    I64_OF,
    IS_NULL,
    OF_DOUBLES,
    OUT_KNOWN_2D,
    QUOTIENT,
    REMAINDER,
    compute,
    decide,
    divide,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.operator.kernels.probe_matches import ProbeMatches

__all__ = [
    "COLUMN",
    "LOADS",
    "LOAD_DOUBLE",
    "LOAD_FLOAT",
    "LOAD_TEXT",
    "SIDE_WORDS",
    "UNSIGNED",
    "BoundCode",
    "hold_matches",
    "hold_pairs",
]

LINE = 6
"""A cache line is ``2**LINE`` bytes."""

(LOAD_8, LOAD_16, LOAD_32, LOAD_64, LOAD_DOUBLE, LOAD_FLOAT, LOAD_TEXT, UNSIGNED) = range(8)
"""How values lie in records: signed integers, doubles of 64 and of 32 bits, texts; with UNSIGNED added others."""

LOADS = {1: LOAD_8, 2: LOAD_16, 4: LOAD_32, 8: LOAD_64}
"""How integers of so many bytes lie there."""

COLUMN = 5
"""Words of a column: its side, how its values lie, the bytes of a record before them, its number among the columns of
the records if it has NULLs, or -1, and its register."""

SIDE_WORDS = 7
"""Words of a side: the address of the addresses of its records, as `gather_rows` takes them, and how many these are, 0
if no column of it is read; shift and stride; the bytes of a record before the columns, and up to the last of them; the
address of the addresses of its marks, as `gather_marks` takes them."""


class BoundCode(NamedTuple):
    """A program, and where it finds its values.

    Attributes
    ----------
    code : (i, INSTRUCTION) int64
        The last one gives the result.
    constants : (k, CONSTANT) int64
    columns : (c, COLUMN) int64
    sides : (2, SIDE_WORDS) int64
    registers : int
        How many there are.
    """

    code: NDArray[np.int64]
    constants: NDArray[np.int64]
    columns: NDArray[np.int64]
    sides: NDArray[np.int64]
    registers: int


class PairBlocks(NamedTuple):
    """Two blocks of pairs, one of which is looked up while the other one is evaluated, and the registers.

    Attributes
    ----------
    ordinals, rows : (4, BLOCK) int64
        Ordinals and addresses of left and right rows of each block.
    values : (r, BLOCK) int64
    known : (r, BLOCK) uint8
    """

    ordinals: NDArray[np.int64]
    rows: NDArray[np.int64]
    values: NDArray[np.int64]
    known: NDArray[np.uint8]


BOUND_CODE = group(BoundCode, I64_2D, I64_2D, I64_2D, I64_2D, types.int64)
PAIR_BLOCKS = group(PairBlocks, OUT_I64_2D, OUT_I64_2D, OUT_I64_2D, OUT_KNOWN_2D)


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
        floats = words.view(np.float32)
        for i in range(n):
            out[U64(i)] = bits_of(F64_OF(floats[U64(i)]))


@inlined
def _known_of(
    addresses: NDArray[np.int64],
    shift: int,
    number: int,
    ordinals: NDArray[np.int64],
    values: NDArray[np.int64],
    known: NDArray[np.uint8],
    n: int,
) -> None:
    """Load the marks of one column; what lies under a NULL becomes 0."""
    mask, width = addresses.size - 2, addresses[U64(addresses.size - 1)]
    place, bit = number >> 3, number & 7
    for i in range(n):
        ordinal = ordinals[U64(i)]
        address = addresses[U64((ordinal >> shift) & mask)]
        mark = 1 if address == 0 else (I64_OF(load_8(address + ordinal * width + place)) >> bit) & 1
        known[U64(i)] = mark
        values[U64(i)] = values[U64(i)] if mark else 0


@kernel(BOUND_CODE, PAIR_BLOCKS, types.int64, types.int64, OUT_FLAGS, types.int64, returns=types.boolean)
def hold_block(program: BoundCode, blocks: PairBlocks, half: int, n: int, flags: NDArray[np.bool_], at: int) -> bool:
    """Run a program on n pairs, whose ordinals and addresses are in lines `half` and ``half + 1`` of the blocks.

    Writes flags[at…], (pairs,) bool, where the result of the last instruction is true. Returns False if a value does
    not fit. O(n * instructions).
    """
    code, columns, sides = program.code, program.columns, program.sides
    # Views by address: a slice of an array counts its references, which takes as long as an instruction.
    value_at, known_at = place_of(blocks.values), place_of(blocks.known)
    row_at, ordinal_at = place_of(blocks.rows), place_of(blocks.ordinals)
    fits = True
    for c in range(columns.shape[0]):
        side, how, offset, number, register = columns[c, 0], columns[c, 1], columns[c, 2], columns[c, 3], columns[c, 4]
        of_side = 8 * BLOCK * (half + side)
        out, valid = i64_at(value_at + 8 * BLOCK * register, BLOCK), u8_at(known_at + BLOCK * register, BLOCK)
        _load(how, i64_at(row_at + of_side, BLOCK), offset, out, n)
        if number >= 0:
            marks, ordinals = i64_at(sides[side, 6], sides[side, 1] + 1), i64_at(ordinal_at + of_side, BLOCK)
            _known_of(marks, sides[side, 2], number, ordinals, out, valid, n)
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
def _blocks_for(program: BoundCode) -> PairBlocks:
    """Return memory for a program, with its constants in their registers."""
    constants, registers = program.constants, program.registers
    values, known = np.empty((registers, BLOCK), np.int64), np.empty((registers, BLOCK), np.uint8)
    for c in range(constants.shape[0]):
        register = U64(constants[c, 0])
        values[register][:] = constants[c, 1]
        known[register][:] = constants[c, 2]
    return PairBlocks(np.empty((4, BLOCK), np.int64), np.empty((4, BLOCK), np.int64), values, known)


@inlined
def _address(sides: NDArray[np.int64], side: int, ordinal: int) -> int:
    """Return the address of a record; columns of its side are read."""
    units = sides[side, 1]
    unit = (ordinal >> sides[side, 2]) & (units - 1)
    begin: int = i64_at(sides[side, 0], units)[U64(unit)]
    return begin + ordinal * int(sides[side, 3])


@inlined
def _look_up(sides: NDArray[np.int64], side: int, ordinals: NDArray[np.int64], rows: NDArray[np.int64], n: int) -> None:
    """Write the addresses of the records with these ordinals, and prefetch these."""
    if sides[side, 1] == 0:
        return
    first, last = sides[side, 4], sides[side, 5]
    for i in range(n):
        rows[U64(i)] = row = _address(sides, side, ordinals[U64(i)])
        for line in range((row + first) >> LINE, ((row + last) >> LINE) + 1):
            prefetch_at(line << LINE)


@kernel(BOUND_CODE, I64, I64, OUT_FLAGS, returns=types.boolean)
def hold_pairs(program: BoundCode, left: NDArray[np.int64], right: NDArray[np.int64], flags: NDArray[np.bool_]) -> bool:
    """Write where a condition holds for pairs of rows, given by their ordinals, (n,) int64 each: flags (n,) bool.

    Returns False, flags undefined, if a value does not fit, see above. O(n * instructions).
    """
    two = _blocks_for(program)
    ordinals, rows = two.ordinals, two.rows
    blocks, before = (left.size + BLOCK - 1) // BLOCK, 0
    for block in range(blocks + 1):
        # The half that the previous block, which is evaluated now, has not used.
        half, start = 2 * (block & 1), block * BLOCK
        n = max(min(BLOCK, left.size - start), 0)
        for i in range(n):
            ordinals[U64(half), U64(i)], ordinals[U64(half + 1), U64(i)] = left[U64(start + i)], right[U64(start + i)]
        for side in range(2):
            _look_up(program.sides, side, ordinals[U64(half + side)], rows[U64(half + side)], n)
        if before > 0 and not hold_block(program, two, 2 - half, before, flags, start - BLOCK):
            return False
        before = n
    return True


@kernel(BOUND_CODE, PROBE_MATCHES, types.int64, types.int64, types.int64, OUT_FLAGS, returns=types.boolean)
def hold_matches(
    program: BoundCode, matches: ProbeMatches, first: int, base: int, role: int, flags: NDArray[np.bool_]
) -> bool:
    """Write where a condition holds for what probes have matched, without writing these pairs.

    Probe i has the ordinal ``first + i``, and positions count from ``base + 1``, see `SideMatches`; `role` is 0 for
    left probes, 1 for right ones. flags (places,) bool at the same places as the positions. For all else see
    `hold_pairs`. O(matches * instructions).
    """
    two, sides, positions, counts = _blocks_for(program), program.sides, matches.positions, matches.counts
    ordinals, rows, end, take = two.ordinals, two.rows, matches.end, matches.place
    origin, half, before, probe, rest = (base + 1) & LOW_32, 0, 0, matches.begin, 0
    if probe < end:
        rest = int(counts[U64(probe)])
    while True:
        n, own, its = 0, U64(half + role), U64(half + 1 - role)
        while n < BLOCK:
            while rest == 0 and probe + 1 < end:
                probe += 1
                rest = int(counts[U64(probe)])
            if rest == 0:
                break
            some = min(rest, BLOCK - n)
            row = _address(sides, role, first + probe) if sides[role, 1] != 0 else 0
            for i in range(n, n + some):
                ordinals[own, U64(i)], rows[own, U64(i)] = first + probe, row
                ordinals[its, U64(i)] = base + ((int(positions[U64(take + before + i)]) - origin) & LOW_32)
            n, rest = n + some, rest - some
        _look_up(sides, 1 - role, ordinals[its], rows[its], n)
        if before > 0 and not hold_block(program, two, 2 - half, before, flags, take):
            return False
        take, before, half = take + before, n, 2 - half
        if n == 0:
            return True
