"""A fast path for the common ranges, integers around integers: their widths are computed when the join is planned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.predicate.ranges.linear import stored_places
from slidejoin.predicate.ranges.pieces import Ranges
from slidejoin.predicate.truth.evaluate import ColumnsBySide, evaluate
from slidejoin.predicate.truth.tree import column_of
from slidejoin.predicate.truth.values import INT64_MAX, INT64_MIN, in_steps, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from slidejoin.predicate.ranges.atoms import Shifted
    from slidejoin.predicate.truth.tree import Node
    from slidejoin.predicate.truth.values import Column
    from slidejoin.sides import Side

__all__ = ["Shift", "ShiftUnion", "shift_of", "union_of"]

CALM = 1 << 62
"""Ends no farther from 0 than this, and values nearer, add up to an int64."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Ranges ``lows[k] + sign * value <= stored key <= highs[k] + sign * value``.

    Attributes
    ----------
    node
        The expression of a probe's value.
    sign
        1 or -1.
    lows, highs
        int64 (k,), ascending; the ends of int64 stand for open ends.
    step
        How many units the keys of both sides count.
    """

    node: Node
    sign: int
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    step: int = 1

    def ranges(self, probe: Side, columns: Mapping[str, Column]) -> Ranges | None:
        """Return the ranges of each probe, None if a value is too large for the fast path."""
        values = _integers(self.node, probe, columns, self.step)
        return None if values is None else self.around(*values)

    def around(self, data: NDArray[np.int64], valid: NDArray[np.bool_] | None = None) -> Ranges | None:
        """Return the ranges of probes with these values, (n,), as `ranges` does."""
        ends = self._unmoved(data) if valid is None else None
        if ends is not None:
            return Ranges(*ends, exact=True)
        shape = self.lows.size, data.size
        lo, hi = np.empty(shape, np.int64), np.empty(shape, np.int64)
        fits = _shifting().shift_ends(data, self.sign, self.lows, self.highs, lo, hi)
        return _known(lo, hi, valid) if fits else None

    def _unmoved(self, data: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return the ends, (1, n) each, where each is the value itself or open, as of an equality; None elsewhere."""
        low, high = (int(ends[0]) if ends.size == 1 else None for ends in (self.lows, self.highs))
        if self.sign != 1 or low not in {0, INT64_MIN} or high not in {0, INT64_MAX}:
            return None
        same = data.reshape(1, -1)
        return (same if low == 0 else np.full_like(same, INT64_MIN)), (
            same if high == 0 else np.full_like(same, INT64_MAX)
        )


@dataclass(frozen=True, slots=True)
class ShiftUnion:
    """The union of ranges ``lows[k] + signs[k] * value <= stored key <= highs[k] + signs[k] * value``.

    Attributes
    ----------
    node
        The expression of a probe's value.
    signs, lows, highs
        int64 (k,), see `Shift`; in any order.
    """

    node: Node
    signs: NDArray[np.int64]
    lows: NDArray[np.int64]
    highs: NDArray[np.int64]

    def ranges(self, probe: Side, columns: Mapping[str, Column]) -> Ranges | None:
        """Return the ranges of each probe, None if a value is too large for the fast path."""
        values = _integers(self.node, probe, columns)
        if values is None:
            return None
        data, valid = values
        shape = self.lows.size, data.size
        lo, hi = np.empty(shape, np.int64), np.empty(shape, np.int64)
        fits = _shifting().unite_ends(data, self.signs, self.lows, self.highs, lo, hi)
        return _known(lo, hi, valid) if fits else None


def _integers(
    node: Node, probe: Side, columns: Mapping[str, Column], step: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None] | None:
    """Return the values of a node, (n,), and where they are valid; None if some need more than 64 bits."""
    if step > 1:
        counted = in_steps(columns[column_of(node)[1]], step)
        return None if counted is None else (counted.data, counted.valid)
    if node.op == "column":
        values = values_of(columns, column_of(node)[1], node.type)
    else:
        values = evaluate(node, ColumnsBySide({probe: columns}))
    if values.data.dtype != np.int64:
        return None
    return values.data if values.data.flags.c_contiguous else np.ascontiguousarray(values.data), values.valid


def _known(lo: NDArray[np.int64], hi: NDArray[np.int64], valid: NDArray[np.bool_] | None) -> Ranges:
    """Return ranges, those of unknown probes empty."""
    if valid is not None:
        lo[:, ~valid], hi[:, ~valid] = 1, 0
    return Ranges(lo, hi, exact=True)


@cache
def _shifting() -> ModuleType:
    from slidejoin.jit.vectors import shifting  # noqa: PLC0415 - loads Numba, which planning does not need

    return shifting


def shift_of(comparison: Shifted, probe: Side) -> Shift | None:
    """Return how probes of that side are answered, None unless both keys count once and the ends are within reach."""
    what = comparison.what
    mine, stored = (what.left, what.right) if probe == "left" else (what.right, what.left)
    own, its = what.left_factor, what.right_factor
    if probe == "right":
        own, its = its, own
    if abs(own) != 1 or abs(its) != 1 or stored.bias or not what.intervals:
        return None
    if stored.may_squeeze and not mine.calm:
        return None  # ends may be where keys are squeezed
    if mine.step != stored.step:
        return None
    ends = stored_places(what.intervals, its, stored.step)
    near = CALM >> stored.may_squeeze
    if any(end is not None and abs(end) > near for pair in ends for end in pair):
        return None
    reach = np.iinfo(np.int64)
    lows = np.array([reach.min if low is None else low for low, _ in ends], np.int64)
    highs = np.array([reach.max if high is None else high for _, high in ends], np.int64)
    return Shift(mine.parts[0][1], -own * its, lows, highs, stored.step)


def union_of(comparisons: Sequence[Shifted], probe: Side) -> ShiftUnion | None:
    """Return how probes are answered that any of these comparisons is enough for; None as of `shift_of`."""
    shifts = [shift_of(one, probe) for one in comparisons]
    known = [one for one in shifts if one is not None]
    if len(known) < len(shifts) or len({one.node for one in known}) != 1 or any(one.step > 1 for one in known):
        return None
    return ShiftUnion(
        known[0].node,
        np.concatenate([np.full(one.lows.size, one.sign, np.int64) for one in known]),
        np.concatenate([one.lows for one in known]),
        np.concatenate([one.highs for one in known]),
    )
