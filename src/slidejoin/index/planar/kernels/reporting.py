"""Reporting the rows of boxes: a range of places by the first key times a range of ranks by the second one.

The blocks of a run have bounds, and so have groups of blocks, groups of groups and so on: a search tree over the second
key in the order of the first one (a priority search tree, McCreight 1985, with wide nodes). Only blocks whose bounds
meet the range of ranks are read, so that a box open at one end of both keys costs its matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types

from slidejoin.index.kernels.found_rows import PAIRS, PROBE_PAIRS, Pairs, ProbePairs
from slidejoin.index.kernels.searching import CHECK_AUX, CRITERIA, Criteria
from slidejoin.index.planar.kernels.lanes import (
    LANES,
    first_lane,
    lanes_in,
    nodes_meeting,
    offsets_inside,
    ranks_inside,
)
from slidejoin.jit.compiling import I32, I64, I64_2D, OUT_I64, U64, group, inlined, kernel
from slidejoin.jit.vectors.memory import load_64, prefetch_at, put_64
from slidejoin.jit.vectors.words import load_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "AUX", "BASE", "CHECKS", "COUNT", "DEPTH", "DIMENSIONS", "FIELDS", "FILL", "KEEP", "LEVELS", "MOST_LEVELS", "RANKS",
    "ROWS", "SIZE", "SYMBOLS", "WORDS_AT", "BoxAnswer", "BoxKeys", "BoxPlaces", "YoungRows", "put_listed", "report",
]  # fmt: skip

MOST_LEVELS = 7
"""Levels of bounds of the longest run: 64 * 16**7 rows are more than 32 bits number."""

RANKS, WORDS_AT, SIZE, BASE, ROWS, CHECKS, AUX, DIMENSIONS, SYMBOLS, DEPTH, LEVELS = range(11)
"""A planar run as one line of int64 in a table.

Addresses of the ranks and of the words in the order of the first key; how many rows have keys; the run's first ordinal,
the ordinals it spans; what to check of a candidate; the address of the further dimensions, and how many these are; the
address of what `index.planar.kernels.counting` reads, 0 if there is none; levels of bounds, and the address of each.
"""
FIELDS = LEVELS + MOST_LEVELS

COUNT, KEEP, FILL = range(3)
"""What `report` does with rows: count them, write them side by side as far as there is room, or to given places."""

FEW_BLOCKS = 4
"""Blocks up to which a range of places is read as a whole: their bounds cost as much."""

FEW_ROWS = 4
"""Rows of a block up to which each is checked for itself: a vector reads the ordinals of all of them."""

AHEAD = 2
"""Prefetch distance, in probes."""

ENDLESS = 1 << 62

BITS = 4
"""A group has 2**4 nodes."""

LOW_HALF = 0xFFFFFFFF
EVERY = 0xFFFFFFFFFFFFFFFF


class BoxPlaces(NamedTuple):
    """The boxes of n probes in r runs.

    Attributes
    ----------
    boxes, sides : (n, k * r), (n, p * r) int64
        Ranges of places by the first key, and of ranks by the second one, as ``begin << 32 | end``; piece after piece
        the runs. A row lies in at most one box of a run.
    order, side_lines : (n,) int32
        Line t of `boxes` is of probe ``order[t]``, and the line of `sides` of probe i is ``side_lines[i]``.
    """

    boxes: NDArray[np.int64]
    sides: NDArray[np.int64]
    order: NDArray[np.int32]
    side_lines: NDArray[np.int32]


class BoxKeys(NamedTuple):
    """The ranges of both keys of n probes: (k, n) int64 twice, and (p, n) int64 twice."""

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    lo_second: NDArray[np.int64]
    hi_second: NDArray[np.int64]


class YoungRows(NamedTuple):
    """Rows that are not sorted yet; more may be added behind them.

    Attributes
    ----------
    rows : (3, room) int64
        A line each of ordinals, ascending, of first keys and of second keys.
    more : (room, d) int64
        The dimensions from the third on.
    size : int
        How many there are.
    """

    rows: NDArray[np.int64]
    more: NDArray[np.int64]
    size: int


class BoxAnswer(NamedTuple):
    """What is written about n probes.

    Attributes
    ----------
    counts : (n,) int64
        Rows of each probe; written unless the mode is FILL.
    places : (n,) int64
        Written by KEEP: where the rows of each probe begin, -1 of those for which there was no room. With FILL, where
        they are to begin.
    ordinals : (room,) int64
        Of the rows.
    """

    counts: NDArray[np.int64]
    places: NDArray[np.int64]
    ordinals: NDArray[np.int64]


BOX_PLACES, BOX_KEYS = group(BoxPlaces, I64_2D, I64_2D, I32, I32), group(BoxKeys, *[I64_2D] * 4)
YOUNG_ROWS, BOX_ANSWER = group(YoungRows, I64_2D, I64_2D, types.int64), group(BoxAnswer, *[OUT_I64] * 3)


class Box(NamedTuple):
    """What one probe wants of one run: places begin…end-1 with ranks low…high-1; or ranges of both keys."""

    begin: int
    end: int
    low: int
    high: int


class RowCheck(NamedTuple):
    """What rows of a run must meet for one probe.

    Attributes
    ----------
    seen_from, seen_to : int
        Offsets that it sees.
    checks : int
        What is checked, see `index.kernels.searching`.
    i, more : int
        The probe, and the address of the further dimensions, see `_passes`.
    """

    seen_from: int
    seen_to: int
    checks: int
    i: int
    more: int


BOX, ROW_CHECK = group(Box, *[types.int64] * 4), group(RowCheck, *[types.int64] * 5)


@inlined
def _clipped(mask: Any, begin: Any, first: Any, last: Any) -> Any:  # noqa: ANN401
    """Return the bits of a mask whose lanes, the first of which is `begin`, lie in first…last."""
    if first > begin:
        mask &= U64(EVERY) << U64(first - begin)
    if last < begin + LANES - 1:
        mask &= (U64(1) << U64(last - begin + 1)) - U64(1)
    return mask


@inlined
def _passes(more: Any, aux: Any, width: Any, j: Any, i: Any) -> bool:  # noqa: ANN401
    """Tell whether row j lies in one range of probe i in every further dimension, see `searching.passes`.

    `more` is the address of a line: the addresses of the ranges' ends, and of their dimensions; how many ranges there
    are, and probes.
    """
    lows, highs, dims = load_key(more), load_key(more + 8), load_key(more + 16)
    pieces, probes, piece = load_key(more + 24), load_key(more + 32), 0
    while piece < pieces:
        d = load_key(dims + (piece << 3))
        value, inside = load_key(aux + ((j * width + d) << 3)), False
        while piece < pieces and load_key(dims + (piece << 3)) == d:
            at = (piece * probes + i) << 3
            inside |= (load_key(lows + at) <= value) & (value <= load_key(highs + at))
            piece += 1
        if not inside:
            return False
    return True


@kernel(types.int64, types.int64, types.uint64, ROW_CHECK, types.int64, returns=types.int64)
def _report_rows(line: int, at: int, rows: int, check: RowCheck, out: int) -> int:
    """Report the rows of one block, which begins at place `at`, that are bits of the mask `rows`; see `_report_box`."""
    seen_from, seen_to, checks, i, more = check
    mask: Any = rows
    hits: int = 0
    words, base = load_key(line + 8 * WORDS_AT) + (at << 3), load_key(line + 8 * BASE)
    # Behind the last words there may be no memory.
    if checks != 0 and at + LANES <= load_key(line + 8 * SIZE) and lanes_in(mask) > FEW_ROWS:
        mask &= offsets_inside(words, seen_from, seen_to)
        checks &= CHECK_AUX
    if checks == 0:
        hits = lanes_in(mask)
        to: Any = out
        while mask != U64(0) and out != 0:
            lane = first_lane(mask)
            put_64(to, base + np.int64(load_64(words + (lane << 3)) & U64(LOW_HALF)))
            to += 8
            mask &= mask - U64(1)
        return hits
    aux, width = load_key(line + 8 * AUX), load_key(line + 8 * DIMENSIONS)
    while mask != U64(0):
        lane = first_lane(mask)
        mask &= mask - U64(1)
        offset = np.int64(load_64(words + (lane << 3)) & U64(LOW_HALF))
        inside: Any = seen_from <= offset < seen_to
        if inside and checks & CHECK_AUX:
            inside = _passes(more, aux, width, at + lane, i)
        if inside:
            if out != 0:
                put_64(out + (hits << 3), base + offset)
            hits += 1
    return hits


@inlined
def _ask_below(mask: Any, begin: Any, address: Any, width: Any, ahead: Any) -> None:  # noqa: ANN401
    """Prefetch `ahead` bytes of each child in a mask, the first of which is number `begin`; each is `width` bytes."""
    while mask != U64(0):
        child = address + (begin + first_lane(mask)) * width
        for at in range(0, ahead, 64):
            prefetch_at(child + at)
        mask &= mask - U64(1)


@kernel(types.int64, BOX, ROW_CHECK, types.int64, types.int64, types.int64, returns=types.int64)
def _report_box(  # noqa: C901, PLR0912 - one walk over levels and blocks
    line: int, box: Box, check: RowCheck, stack: int, out: int, room: int
) -> int:
    """Report the rows of a box of the run whose line is at an address.

    Their ordinals are written to the address `out` as far as there is room, unless that is 0; all are counted. `stack`
    is the address of scratch. O((1 + blocks with a row of the ranks) * log(blocks)).
    """
    begin, end, low, high = box
    first, last, hits, span = begin >> 6, (end - 1) >> 6, 0, high - low
    ranks, level, top, place = load_key(line), 0, 0, first
    group: Any = np.int64(-1)
    if last - first >= FEW_BLOCKS:
        while first >> (BITS * level + BITS) != last >> (BITS * level + BITS):
            level += 1
        top, group, place = level, first >> (BITS * level + BITS), last + 1
    while True:
        if group >= 0:
            # Enter a group: which of its nodes may have rows?
            mask: Any = nodes_meeting(load_key(line + 8 * (LEVELS + level)) + (group << 7), low, high)
            mask = _clipped(mask, group << BITS, first >> (BITS * level), last >> (BITS * level))
            if level > 0:
                _ask_below(mask, group << BITS, load_key(line + 8 * (LEVELS + level - 1)), 128, 128)
            else:
                _ask_below(mask, group << BITS, ranks, 4 * LANES, 4 * LANES)
            put_64(stack + (level << 4), np.int64(mask))
            put_64(stack + (level << 4) + 8, group << BITS)
            group = np.int64(-1)
        if place <= last:
            block, place = place, place + 1
        else:
            mask = U64(0)
            while level <= top and group == -1 and last - first >= FEW_BLOCKS:
                mask = load_64(stack + (level << 4))
                if mask != U64(0):
                    break
                level += 1
            if mask == U64(0):
                return hits
            block = load_key(stack + (level << 4) + 8) + first_lane(mask)
            put_64(stack + (level << 4), np.int64(mask & (mask - U64(1))))
            if level > 0:
                level, group = level - 1, block
                continue
        at = block * LANES
        rows = _clipped(ranks_inside(ranks + (at << 2), low, span), at, begin, end - 1)
        if rows != U64(0):
            to = out + (hits << 3) if out != 0 and hits + LANES <= room else 0
            hits += _report_rows(line, at, rows, check, to)


@inlined
def _ask_for_boxes(table: Any, boxes: Any, line: Any, runs: Any, columns: Any) -> None:  # noqa: ANN401
    """Prefetch the blocks at the ends of a probe's ranges of places, and their bounds: most matches are near them."""
    for column in range(columns):
        begin, end = boxes[line, U64(column)] >> 32, boxes[line, U64(column)] & LOW_HALF
        if begin < end:
            r = column % runs
            edge = begin if begin > 0 else end - 1
            ranks = table[r, RANKS] + ((edge >> 6) << 8)
            for at in range(0, 4 * LANES, 64):
                prefetch_at(ranks + at)
            bounds = table[r, LEVELS] + ((edge >> (6 + BITS)) << 7)
            prefetch_at(bounds)
            prefetch_at(bounds + 64)


@kernel(I64_2D, types.int64, types.int64, BOX, types.int64, ROW_CHECK, types.int64, returns=types.int64)
def _report_young(
    rows: NDArray[np.int64], first_row: int, last_row: int, keys: Box, width: int, check: RowCheck, out: int
) -> int:
    """Report the rows first_row…last_row-1 of those that are not sorted whose two keys lie in two ranges, see `report`.

    `keys` are the ends of the first range, both included, and of the second one; `width` is how many further dimensions
    there are, 0 if none is compared; the address of these dimensions comes behind what `_passes` reads. Ordinals are
    written to the address `out`, unless that is 0. O(rows).
    """
    (low, high, low_second, high_second), i, more = keys, check.i, check.more
    near: Any = U64(0)
    hits: int = 0
    for t in range(U64(first_row), U64(last_row)):
        first, second = rows[U64(1), t], rows[U64(2), t]
        near += U64((low <= first) & (first <= high) & (low_second <= second) & (second <= high_second))
    if near == U64(0) or (out == 0 and width == 0):
        return int(np.int64(near))
    aux = load_key(more + 40)
    for t in range(U64(first_row), U64(last_row)):
        first, second = rows[U64(1), t], rows[U64(2), t]
        inside: Any = (low <= first) & (first <= high) & (low_second <= second) & (second <= high_second)
        if inside and width != 0:
            inside = _passes(more, aux, width, np.int64(t), i)
        if inside:
            if out != 0:
                put_64(out + (hits << 3), rows[U64(0), t])
            hits += 1
    return hits


@kernel(I64_2D, BOX_PLACES, I32, CRITERIA, BOX_KEYS, YOUNG_ROWS, types.int64, BOX_ANSWER, returns=types.int64)
def report(  # noqa: C901, PLR0912, PLR0915 - one loop over runs and pieces
    table: NDArray[np.int64],
    located: BoxPlaces,
    lines: NDArray[np.int32],
    criteria: Criteria,
    keys: BoxKeys,
    newest: YoungRows,
    mode: int,
    answer: BoxAnswer,
) -> int:
    """Report the rows of each probe in all runs and among the young rows, which are not sorted.

    Parameters
    ----------
    table : (runs, FIELDS) int64
    located : BoxPlaces
    lines : (m,) int32
        The lines of boxes to answer.
    criteria : Criteria
        The dimensions are those of the table.
    keys : BoxKeys
    newest : YoungRows
    mode : int
        With KEEP rows are written side by side until there is no more room, with FILL from the places on.
    answer : BoxAnswer

    Returns
    -------
    int
        How many rows were written side by side.
    """
    (boxes, sides, order, side_lines), (counts, places, out) = located, answer
    (seen_from, seen_to, lows, highs, dims), (lo, hi, lo_second, hi_second) = criteria, keys
    young, young_more, young_size = newest
    runs, columns, side_columns, cursor = table.shape[0], boxes.shape[1], sides.shape[1], 0
    stack: NDArray[np.int64] = np.empty(2 * MOST_LEVELS, np.int64)
    table_at: Any = np.int64(table.ctypes.data)
    out_at: Any = np.int64(out.ctypes.data)
    stack_at: Any = np.int64(stack.ctypes.data)
    more = np.array(
        [
            lows.ctypes.data, highs.ctypes.data, dims.ctypes.data, dims.size, lows.shape[1],
            young_more.ctypes.data,
        ],
        np.int64,
    )  # fmt: skip
    more_at: Any = np.int64(more.ctypes.data)
    room, width = out.size, young_more.shape[1] if dims.size > 0 else 0
    for t in range(lines.size):
        _ask_for_boxes(table, boxes, U64(lines[U64(min(t + AHEAD, lines.size - 1))]), runs, columns)
        line: Any = U64(lines[U64(t)])
        i: Any = U64(order[line])
        side, total, writes = U64(side_lines[i]), 0, mode
        if mode == FILL:
            cursor = places[i]
        for column in range(columns):
            r: Any = column % runs
            begin: Any = boxes[line, U64(column)] >> 32
            end: Any = boxes[line, U64(column)] & LOW_HALF
            if begin >= end:
                continue
            low: Any = np.int64(0)
            high: Any = table[r, ROWS]
            checks: Any = table[r, CHECKS]
            if checks != 0:
                low, high = seen_from[i] - table[r, BASE], seen_to[i] - table[r, BASE]
            if low >= high:
                continue
            for other in range(r, side_columns, runs):
                least: Any = sides[side, U64(other)] >> 32
                past: Any = sides[side, U64(other)] & LOW_HALF
                if least >= past:
                    continue
                to: Any = np.int64(0) if writes == COUNT else out_at + ((cursor + total) << 3)
                left = room - cursor - total
                box, check = Box(begin, end, least, past), RowCheck(low, high, checks, int(i), more_at)
                room_left = left if writes == KEEP else ENDLESS
                total += _report_box(table_at + r * 8 * FIELDS, box, check, stack_at, to, room_left)
                # A block is written where there is room for a whole one; after that rows are only counted.
                if writes == KEEP and cursor + total + LANES > room:
                    writes = COUNT
        if young_size > 0:
            least, past = np.int64(0), np.int64(young_size)
            while least < past and young[U64(0), U64(least)] < seen_from[i]:
                least += 1
            while past > least and young[U64(0), U64(past - 1)] >= seen_to[i]:
                past -= 1
            # All of them may match: then there must be room for all.
            if writes == KEEP and cursor + total + past - least > room:
                writes = COUNT
            for piece in range(lo.shape[0]):
                for other in range(lo_second.shape[0]):
                    low, high = lo[U64(piece), i], hi[U64(piece), i]
                    begin, end = lo_second[U64(other), i], hi_second[U64(other), i]
                    if least < past and low <= high and begin <= end:
                        to = np.int64(0) if writes == COUNT else out_at + ((cursor + total) << 3)
                        box, check = Box(low, high, begin, end), RowCheck(0, 0, 0, int(i), more_at)
                        total += _report_young(young, least, past, box, width, check, to)
        if mode != FILL:
            counts[i] = total
            places[i] = cursor if writes == KEEP else -1
            cursor += total if writes == KEEP else 0
    more[0] = stack[0]  # both are used until here by their addresses
    return cursor


@kernel(I64, I64, PROBE_PAIRS, types.int64, types.int64, PAIRS)
def put_listed(
    rows: NDArray[np.int64], begins: NDArray[np.int64], placed: ProbePairs, first: int, last: int, pairs: Pairs
) -> None:
    """Write the pairs of probes first…last-1: the probe's ordinal, and the row's as far as rows are listed.

    Probe i has its rows in `rows` from ``begins[i]`` on, none if that is negative. O(pairs).
    """
    (ordinals, counts, places), (probes, stored) = placed, pairs
    for i in range(first, last):
        begin, at, own = begins[U64(i)], places[U64(i)], ordinals[U64(i)]
        for row in range(counts[U64(i)]):
            probes[U64(at + row)] = own
        if begin >= 0:
            for row in range(counts[U64(i)]):
                stored[U64(at + row)] = rows[U64(begin + row)]
