"""Atoms: comparisons between the sides that give key ranges, and how a probe's ranges are computed from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from slidejoin.predicate.ranges import ranges
from slidejoin.predicate.ranges.keys import Key, is_null, key_values, node_key, without_nan
from slidejoin.predicate.ranges.linear import Combination, key_of, linear_form, of_steps
from slidejoin.predicate.truth.evaluate import evaluate
from slidejoin.predicate.truth.tree import MIRRORED, Node
from slidejoin.predicate.truth.types import Kind
from slidejoin.predicate.truth.values import INT64_MAX, INT64_MIN
from slidejoin.sides import other

if TYPE_CHECKING:
    from slidejoin.predicate.ranges.programs import Draft
    from slidejoin.predicate.truth.evaluate import ColumnsBySide
    from slidejoin.predicate.truth.values import Values
    from slidejoin.sides import Side

__all__ = ["KeyPair", "OpenEnded", "Separable", "Shifted", "integers_beside", "node_scale"]

KeyPair: TypeAlias = tuple[Key, Key]


@dataclass(frozen=True, slots=True)
class Shifted:
    """An exact comparison: see `Combination`."""

    what: Combination

    @property
    def whole(self) -> KeyPair:
        """The keys that it compares."""
        return self.what.left, self.what.right

    def find(self, probe: Side, source: ColumnsBySide, n: int) -> ranges.Pieces:
        """Return the stored keys for each probe row."""
        what = self.what
        mine, stored = (what.left, what.right) if probe == "left" else (what.right, what.left)
        own, its = what.left_factor, what.right_factor
        if probe == "right":
            own, its = its, own
        if mine.step > 1 or stored.step > 1:
            soon = self._of_steps(probe, source, n)
            if soon is not None:
                return soon
        bias = own * mine.bias + its * stored.bias
        moved = tuple(
            (None if low is None else low - bias, None if high is None else high - bias) for low, high in what.intervals
        )
        values = key_values(mine, source)
        scale = ranges.Scale(its, may_squeeze=stored.may_squeeze, step=stored.step)
        return ranges.restrict(ranges.between(values, own, moved, scale), values.valid, n)

    def _of_steps(self, probe: Side, source: ColumnsBySide, n: int) -> ranges.Pieces | None:
        """Return the stored keys where both keys can be taken as they are, though one counts in steps; else None."""
        mine, stored = self.whole if probe == "left" else self.whole[::-1]
        combined = of_steps(self.what, probe)
        if combined is None or stored.bias or mine.bias:
            return None
        own, its, intervals = combined
        node = mine.parts[0][1]
        values = source.in_steps(node, mine.step) if mine.step > 1 else key_values(mine, source)
        if values is None or values.data.dtype != np.int64:
            return None
        pieces = ranges.between(values, own, intervals, ranges.Scale(its, may_squeeze=stored.may_squeeze))
        return ranges.restrict(pieces, values.valid, n)


@dataclass(frozen=True)
class Separable:
    """``left op right`` as written, one side of the comparator for each side of the join."""

    op: str
    left: Node
    right: Node

    @cached_property
    def whole(self) -> KeyPair:
        """The keys that it compares."""
        return node_scale("left", self.left)[0], node_scale("right", self.right)[0]

    def draw(self, draft: Draft) -> None:
        """Add the comparison to a program for ranges of the draft's core, which is one of its sides."""
        straight = draft.stored == "left"
        draft.add(*((self.op, self.left, self.right) if straight else (MIRRORED[self.op], self.right, self.left)))

    def find(self, probe: Side, source: ColumnsBySide, n: int) -> ranges.Pieces:
        """Return the stored keys for each probe row: exact, whichever side probes."""
        mine, stored = (self.left, self.right) if probe == "left" else (self.right, self.left)
        op = self.op if probe == "right" else MIRRORED[self.op]
        key, scale = node_scale(other(probe), stored)
        if key.space == "hash":
            values = key_values(node_scale(probe, mine)[0], source)
            return ranges.restrict(ranges.Pieces([(values.data, values.data)]), values.valid, n)
        values = evaluate(mine, source)
        if key.space == "exact":
            return integers_beside(op, values, scale, n)
        integers = mine.type.exact
        below, above = ranges.double_keys_around(values, integers=integers)
        valid = values.valid if integers else without_nan(values)
        return ranges.restrict(ranges.Pieces(ranges.around(op, below, above)), valid, n)


@dataclass(frozen=True)
class OpenEnded:
    """``e IS NULL OR comparison``: a one-ended comparison with the key e of a side, of which NULL is an open end.

    Attributes
    ----------
    what
        The comparison as if NULL were unknown.
    whole
        The keys that it compares, which say where rows without a value are stored.
    """

    what: Shifted | Separable
    whole: KeyPair

    def find(self, probe: Side, source: ColumnsBySide, n: int) -> ranges.Pieces:
        """Return the stored keys for each probe row, a single range each."""
        mine, stored = self.whole if probe == "left" else self.whole[::-1]
        pieces = self._compared(probe, source, n)
        lo, hi = (
            np.full(n, end, np.int64) if given is None else np.array(np.broadcast_to(given, (n,)))
            for given, end in zip(pieces.pieces[0], (INT64_MIN, INT64_MAX), strict=True)
        )
        exact = pieces.exact
        integers = stored.space == "exact"  # which may lie at the ends of int64 themselves, so that pairs are rechecked
        if stored.absent is not None:
            nothing = lo > hi
            if stored.absent.open and nothing.any():
                lo[nothing] = hi[nothing] = stored.absent.near
                exact &= not integers
            if stored.absent.stored and integers:
                exact &= not ((lo if stored.absent.high else hi) == stored.absent.far).any()
        open_end = mine.absent is not None and mine.absent.open
        missing = is_null(mine, key_values(mine, source), source) if open_end else None
        if missing is not None:
            everything = np.broadcast_to(missing, (n,))
            lo[everything], hi[everything] = INT64_MIN, INT64_MAX
        return ranges.Pieces([(lo, hi)], exact)

    def _compared(self, probe: Side, source: ColumnsBySide, n: int) -> ranges.Pieces:
        if isinstance(self.what, Separable):
            return self.what.find(probe, source, n)
        left, right = self.whole
        return Shifted(replace(self.what.what, left=left, right=right)).find(probe, source, n)


def integers_beside(op: str, values: Values, scale: ranges.Scale, n: int) -> ranges.Pieces:
    """Return the stored keys whose whole number N has ``N op value``, N compared exactly with n probes' doubles."""
    valid = without_nan(values)
    data = values.data if valid is None else np.where(valid, values.data, 0.0)
    return ranges.restrict(ranges.double_bounds(op, data, scale), valid, n)


def node_scale(side: Side, node: Node) -> tuple[Key, ranges.Scale]:
    """Return the key of one operand of a comparison, and how the operand follows from the key."""
    if node.type.kind in {Kind.STRING, Kind.BINARY}:
        return node_key(side, "hash", node), ranges.Scale()
    if node.type.kind is Kind.FLOAT:
        return node_key(side, "float", node), ranges.Scale()
    form = linear_form(node)
    assert form is not None  # noqa: S101 - integers alone have one, and constants that are unknown give no comparison
    key, unit = key_of(side, form[0])
    return key, ranges.Scale(int(unit), int(form[1]), key.bias, key.may_squeeze, key.step)
