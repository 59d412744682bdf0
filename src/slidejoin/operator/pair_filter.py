"""Filters that run as programs on the records of both windows, see `slidejoin.operator.kernels.conditions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.operator.kernels.conditions import (
    COLUMN,
    LOAD_DOUBLE,
    LOAD_FLOAT,
    LOAD_TEXT,
    LOADS,
    SIDE_WORDS,
    UNSIGNED,
    BoundCode,
    hold_matches,
    hold_pairs,
)
from slidejoin.operator.kernels.probe_matches import ProbeMatches
from slidejoin.predicate.kernels.instructions import CONSTANT
from slidejoin.rows.kernels.records import LONG, SHORT, TEXT
from slidejoin.runtime.array_pool import address_of
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.index.answer import MatchPositions
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.predicate.truth.pair_programs import PairProgram
    from slidejoin.rows.chunk import Fixed
    from slidejoin.sides import Side

__all__ = ["PairFilter", "pair_filter"]

ROLES: dict[Side, int] = {"left": 0, "right": 1}


class PairFilter(NamedTuple):
    """A program, and where it finds the columns of both sides' rows; valid until rows come or go.

    Attributes
    ----------
    code : BoundCode
    texts : tuple of uint8
        What constants have the addresses of.
    """

    code: BoundCode
    texts: tuple[NDArray[np.uint8], ...]

    def holds(self, left: NDArray[np.int64], right: NDArray[np.int64], flags: NDArray[np.bool_]) -> bool:
        """Write where it holds for pairs of rows, (n,) int64 ordinals; return False if that has to be evaluated."""
        with np.errstate(all="ignore"):  # as plain Python, the kernel would warn
            return bool(hold_pairs(self.code, left, right, flags))

    def holds_matches(
        self,
        role: Side,
        matches: MatchPositions,
        probes: tuple[int, int],
        take: int,
        ordinals: tuple[int, int],
        flags: NDArray[np.bool_],
    ) -> bool:
        """Write where it holds for candidates of one side's probes, at the same places; return False as `holds` does.

        Probes begin…end-1 have their candidates from place `take` on; `ordinals` are that of the first of all probes,
        and the floor of the probed index.
        """
        its = ProbeMatches(matches.positions, matches.counts, *probes, take)
        with np.errstate(all="ignore"):
            return bool(hold_matches(self.code, its, *ordinals, ROLES[role], flags))


def pair_filter(program: PairProgram, windows: Mapping[Side, SideWindow]) -> PairFilter | None:
    """Let a program find its columns in the records of two windows; None if some are not there."""
    columns = np.zeros((len(program.columns), COLUMN), np.int64)
    sides = np.zeros((len(SIDES), SIDE_WORDS), np.int64)
    for side in SIDES:
        read = [(register, name) for register, (of, name) in enumerate(program.columns) if of == side]
        if not read:
            continue
        payload = windows[side].payload
        directory, records = payload.directory, payload.records
        ring, numbers = directory.ring, {column.name: number for number, column in enumerate(records.columns)}
        if ring is None:
            return None
        first, last = records.dtype.itemsize, 0
        for register, name in read:
            number = numbers.get(name)
            how = None if number is None else _how(records.columns[number])
            if number is None or how is None:
                return None
            offset = records.offsets[number]
            first, last = min(first, offset), max(last, offset + records.columns[number].dtype.itemsize - 1)
            columns[register] = ROLES[side], how, offset, number if directory.has_nulls(number) else -1, register
        at = address_of(ring), ring.size, directory.shift, records.dtype.itemsize, first, last
        sides[ROLES[side]] = *at, address_of(directory.marks)
    constants, texts = _with_texts(program)
    return PairFilter(BoundCode(program.code, constants, columns, sides, program.registers), texts)


def _with_texts(program: PairProgram) -> tuple[NDArray[np.int64], tuple[NDArray[np.uint8], ...]]:
    """Return all constants of a program, texts as addresses of their words, and what these are addresses in."""
    lines, memory = [], []
    for register, text in program.texts:
        words = np.zeros(TEXT, np.uint8)
        if len(text) <= SHORT:
            words[: len(text) + 1] = [len(text), *text]
        else:
            held = np.frombuffer(text, np.uint8)
            words.view(np.int64)[:] = len(text) << 8 | LONG, address_of(held)
            memory.append(held)
        memory.append(words)
        lines.append((register, address_of(words), 1))
    constants = np.array(lines, np.int64).reshape(-1, CONSTANT)
    return np.concatenate([program.constants, constants]) if lines else program.constants, tuple(memory)


def _how(column: Fixed) -> int | None:
    """Return how a program loads a column, None if it cannot."""
    kind = column.kind
    if column.text:
        return LOAD_TEXT
    if pa.types.is_float64(kind):
        return LOAD_DOUBLE
    if pa.types.is_float32(kind):
        return LOAD_FLOAT
    width = column.dtype.itemsize
    if pa.types.is_boolean(kind) or pa.types.is_unsigned_integer(kind):
        return UNSIGNED + LOADS[width]
    times = (pa.types.is_timestamp, pa.types.is_date32, pa.types.is_time, pa.types.is_duration)
    if pa.types.is_signed_integer(kind) or any(is_one(kind) for is_one in times):
        return LOADS[width]
    return None
