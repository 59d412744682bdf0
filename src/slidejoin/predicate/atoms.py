"""Comparisons between the sides that give ranges: what they compare, and how a probe's ranges follow."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from slidejoin.predicate import floats, ranges
from slidejoin.predicate.evaluate import Source, evaluate
from slidejoin.predicate.keys import Key, key_values, node_key, without_nan
from slidejoin.predicate.linear import Combination, key_of, linear_form
from slidejoin.predicate.tree import MIRRORED, Node, other
from slidejoin.predicate.types import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.predicate.expr import Side
    from slidejoin.predicate.values import Values

__all__ = ["Atom", "KeyPair", "Rounded", "Separable", "Shifted", "node_scale"]

KeyPair: TypeAlias = tuple[Key, Key]


@dataclass(frozen=True, slots=True)
class Shifted:
    """An exact comparison: see `Combination`."""

    what: Combination

    @property
    def whole(self) -> KeyPair:
        """The keys that it compares."""
        return self.what.left, self.what.right

    @property
    def peeled(self) -> KeyPair:
        """The same: exact keys are always freed of constants."""
        return self.whole

    def find(self, probe: Side, source: Source, n: int) -> ranges.Found:
        """Return the stored keys for each probe row."""
        what = self.what
        mine, stored = (what.left, what.right) if probe == "left" else (what.right, what.left)
        own, its = what.left_factor, what.right_factor
        if probe == "right":
            own, its = its, own
        bias = own * mine.bias + its * stored.bias
        moved = tuple(
            (None if low is None else low - bias, None if high is None else high - bias) for low, high in what.intervals
        )
        values = key_values(mine, source)
        found = ranges.between(values, own, moved, ranges.Scale(its, may_clip=stored.may_clip))
        return ranges.restrict(found, values.valid, n)


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

    def find(self, probe: Side, source: Source, n: int) -> ranges.Found:
        """Return the stored keys for each probe row: exact, whichever side probes."""
        mine, stored = (self.left, self.right) if probe == "left" else (self.right, self.left)
        op = self.op if probe == "right" else MIRRORED[self.op]
        key, scale = node_scale(other(probe), stored)
        if key.space == "hash":
            values = key_values(node_scale(probe, mine)[0], source)
            return ranges.restrict(ranges.Found([(values.data, values.data)]), values.valid, n)
        values = evaluate(mine, source)
        if key.space == "exact":
            valid = without_nan(values)
            data = values.data if valid is None else np.where(valid, values.data, 0.0)
            return ranges.restrict(ranges.double_bounds(op, data, scale), valid, n)
        integers = mine.type.exact
        below, above = ranges.double_keys_around(values, integers=integers)
        valid = values.valid if integers else without_nan(values)
        return ranges.restrict(ranges.Found(ranges.around(op, below, above)), valid, n)


@dataclass(frozen=True)
class Rounded:
    """A comparison of doubles, freed of what stands beside the keys; its ranges are rounded outwards, so too wide."""

    node: Node
    cores: tuple[Node, Node]

    @cached_property
    def peeled(self) -> KeyPair:
        """The keys inside."""
        return node_scale("left", self.cores[0])[0], node_scale("right", self.cores[1])[0]

    def find(self, probe: Side, source: Source, n: int) -> ranges.Found:
        """Return stored keys for each probe row, some too many."""
        stored = other(probe)
        one, two = self.node.args
        inside, outside = (one, two) if stored in one.sides else (two, one)
        op = self.node.op if inside is one else MIRRORED[self.node.op]
        low, high = _as_doubles(evaluate(outside, source), outside)
        lo, hi = _without_nan(low if op in {"=", ">", ">="} else None, high if op in {"=", "<", "<="} else None)
        core = self.cores[0 if stored == "left" else 1]
        while inside != core:
            inside, lo, hi = _peel(inside, stored, lo, hi, source)
        key, scale = node_scale(stored, core)
        if key.space == "float":
            keys = (None if end is None else floats.float_keys(end) for end in (lo, hi))
            found = ranges.Found([(next(keys), next(keys))])
        else:
            ends = [ranges.double_bounds(how, end, scale) for how, end in ((">=", lo), ("<=", hi)) if end is not None]
            found = ends[0] if len(ends) == 1 else ranges.intersect(ends[0], ends[1], n)
        mine = evaluate(self.cores[0 if probe == "left" else 1], source)
        return ranges.restrict(found, mine.valid if mine.data.dtype != np.float64 else without_nan(mine), n)


Atom: TypeAlias = Shifted | Separable | Rounded


def node_scale(side: Side, node: Node) -> tuple[Key, ranges.Scale]:
    """Return the key of one operand of a comparison, and how the operand follows from the key."""
    if node.type.kind in {Kind.STRING, Kind.BINARY}:
        return node_key(side, "hash", node), ranges.Scale()
    form = linear_form(node) if node.type.kind is Kind.INT else None
    if node.type.kind is not Kind.INT or form is None:
        return node_key(side, "float", node), ranges.Scale()
    key, unit = key_of(side, form[0])
    return key, ranges.Scale(int(unit), int(form[1]), key.bias, key.may_clip)


def core_of(node: Node, side: Side) -> Node | None:
    """Return the subtree that holds the columns of `side` and nothing else can be taken off, None if there is none."""
    while node.type.kind is Kind.FLOAT and node.op in {"+", "-", "*", "/", "negate"}:
        holders = [arg for arg in node.args if side in arg.sides]
        if len(holders) != 1:
            break
        beside = node.args[1 if holders[0] is node.args[0] else 0] if len(node.args) == 2 else None  # noqa: PLR2004
        if node.op in {"*", "/"} and not (beside is not None and _divides(beside)):
            break
        if node.op == "/" and holders[0] is node.args[1]:
            break
        node = holders[0]
    return node if node.sides == {side} and node.type.kind in {Kind.INT, Kind.FLOAT} else None


def _divides(node: Node) -> bool:
    """Whether a factor is a constant that a bound can be divided by."""
    value = node.value
    if node.op != "literal" or not isinstance(value, int | float):
        return False
    return value != 0 and (isfinite(value) if isinstance(value, float) else abs(value) <= floats.SAFE)


def _as_doubles(values: Values, node: Node) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Doubles below and above the values, the values themselves where they are doubles."""
    if not node.type.exact:
        return values.data, values.data
    nearest = floats.to_float(values)
    low, high = values.limits()
    if low >= -floats.SAFE and high <= floats.SAFE:
        return nearest, nearest
    return floats.down(nearest), floats.up(nearest)


_End: TypeAlias = "NDArray[np.float64] | None"


def _without_nan(lo: _End, hi: _End) -> tuple[_End, _End]:
    """Return open ends where nothing is known."""
    if lo is not None and np.isnan(lo).any():
        lo = np.where(np.isnan(lo), -np.inf, lo)
    if hi is not None and np.isnan(hi).any():
        hi = np.where(np.isnan(hi), np.inf, hi)
    return lo, hi


def _peel(node: Node, side: Side, lo: _End, hi: _End, source: Source) -> tuple[Node, _End, _End]:
    """Return the operand that holds `side`, and where it must lie for the node to round into [lo, hi].

    A double that rounds to at most h is at most the double after h; each step of our own rounds outwards once more.
    """
    first = side in node.args[0].sides
    inner = node.args[0 if first else 1]
    if node.op == "negate":
        return inner, None if hi is None else -hi, None if lo is None else -lo
    beside = node.args[1 if first else 0]
    low, high = _as_doubles(evaluate(beside, source), beside)
    lo, hi = (None if lo is None else floats.down(lo)), (None if hi is None else floats.up(hi))
    if (node.op == "-" and not first) or (node.op in {"*", "/"} and low[0] < 0):
        lo, hi = hi, lo
    lo = None if lo is None else floats.down(_undo(node.op, lo, low, high, first=first))
    hi = None if hi is None else floats.up(_undo(node.op, hi, high, low, first=first))
    known = np.isfinite(low) & np.isfinite(high)
    if not known.all():  # beside an infinity or NaN the operand may be anything
        lo = None if lo is None else np.where(known, lo, -np.inf)
        hi = None if hi is None else np.where(known, hi, np.inf)
    return inner, *_without_nan(lo, hi)


def _undo(
    op: str, end: NDArray[np.float64], near: NDArray[np.float64], far: NDArray[np.float64], *, first: bool
) -> NDArray[np.float64]:
    """Return the operand for which ``operand op beside = end``; `near` is the end of `beside` on the same side."""
    match op:
        case "+":
            return end - far
        case "-":
            return end + near if first else near - end
        case "*":
            return end / near
        case _:
            return end * near


def estimated(atom: Atom, pair: KeyPair) -> tuple[str, Fraction, Fraction] | None:
    """Return ``(op, b, c)`` of ``left + b * right + c op 0`` over the keys' nodes, as if there were no rounding."""
    one, two = (atom.left, atom.right) if isinstance(atom, Separable) else (None, None)
    op = atom.op if isinstance(atom, Separable) else ""
    if isinstance(atom, Rounded):
        one, two, op = atom.node.args[0], atom.node.args[1], atom.node.op
    if one is None or two is None or any(len(key.parts) > 1 or key.parts[0][0] != 1 for key in pair):
        return None
    nodes = [key.parts[0][1] for key in pair]
    stop = frozenset(nodes)
    first, second = linear_form(one, stop), linear_form(two, stop)
    if first is None or second is None:
        return None
    atoms = {
        node: first[0].get(node, Fraction(0)) - second[0].get(node, Fraction(0)) for node in (*first[0], *second[0])
    }
    factor = atoms.get(nodes[0], Fraction(0))
    if set(atoms) != stop or factor == 0:
        return None
    return op if factor > 0 else MIRRORED[op], atoms[nodes[1]] / factor, (first[1] - second[1]) / factor
