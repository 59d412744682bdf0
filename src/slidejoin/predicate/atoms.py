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
from slidejoin.predicate.values import Values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.predicate.expr import Side

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
            data = values.data if valid is values.valid else np.where(valid, values.data, 0.0)
            return ranges.restrict(ranges.double_bounds(op, data, scale), valid, n)
        integers = mine.type.exact
        below, above = ranges.double_keys_around(values, integers=integers)
        valid = values.valid if integers else without_nan(values)
        return ranges.restrict(ranges.Found(ranges.around(op, below, above)), valid, n)


@dataclass(frozen=True)
class Rounded:
    """A comparison of doubles, freed of what stands beside the keys; ranges are rounded outwards, so only a superset."""

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
        lo = low if op in {"=", ">", ">="} else np.full(1, -np.inf)
        hi = high if op in {"=", "<", "<="} else np.full(1, np.inf)
        unknown = np.isnan(low)
        valid = evaluate(outside, source).valid
        core = self.cores[0 if stored == "left" else 1]
        while inside != core:
            inside, lo, hi = _peel(inside, stored, lo, hi, source)
            wrong = np.isnan(lo) | np.isnan(hi)
            lo, hi = np.where(wrong, -np.inf, lo), np.where(wrong, np.inf, hi)
        key, scale = node_scale(stored, core)
        known = valid if not unknown.any() else ~unknown if valid is None else valid & ~unknown
        if key.space == "float":
            found = ranges.Found([(floats.float_keys(lo), floats.float_keys(hi))])
        else:
            lower = ranges.double_bounds(">=", lo, scale)
            found = ranges.intersect(lower, ranges.double_bounds("<=", hi, scale), n)
        probe_key = key_values(node_scale(probe, self.cores[0 if probe == "left" else 1])[0], source)
        found = ranges.restrict(found, probe_key.valid, n)
        return ranges.restrict(found, known, n)


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
    if -floats.SAFE <= low and high <= floats.SAFE:
        return nearest, nearest
    return floats.down(nearest), floats.up(nearest)


_Step: TypeAlias = "tuple[Node, NDArray[np.float64], NDArray[np.float64]]"


def _peel(node: Node, side: Side, lo: NDArray[np.float64], hi: NDArray[np.float64], source: Source) -> _Step:
    """Return the operand that holds `side`, and where it must lie for the node to round into [lo, hi].

    A double that rounds to at most h is at most the double after h; each step of our own rounds outwards once more.
    """
    first = side in node.args[0].sides
    inner = node.args[0 if first else 1]
    if node.op == "negate":
        return inner, -hi, -lo
    beside = node.args[1 if first else 0]
    values = evaluate(beside, source)
    low, high = _as_doubles(values, beside)
    lo, hi = floats.down(lo), floats.up(hi)
    if node.op == "+":
        new_lo, new_hi = lo - high, hi - low
    elif node.op == "-":
        new_lo, new_hi = (lo + low, hi + high) if first else (low - hi, high - lo)
    else:
        new_lo, new_hi = (lo / low, hi / low) if node.op == "*" else (lo * low, hi * low)
        if low[0] < 0:
            new_lo, new_hi = new_hi, new_lo
    new_lo, new_hi = floats.down(new_lo), floats.up(new_hi)
    strange = ~np.isfinite(low) | ~np.isfinite(high)
    return inner, np.where(strange, -np.inf, new_lo), np.where(strange, np.inf, new_hi)


def estimated(atom: Atom, pair: KeyPair) -> tuple[str, Fraction, Fraction] | None:
    """Return ``(op, b, c)`` of ``left + b * right + c op 0`` over the nodes of the keys, as if there were no rounding."""
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
    atoms = {node: first[0].get(node, Fraction(0)) - second[0].get(node, Fraction(0)) for node in (*first[0], *second[0])}
    factor = atoms.get(nodes[0], Fraction(0))
    if set(atoms) != stop or factor == 0:
        return None
    return op if factor > 0 else MIRRORED[op], atoms[nodes[1]] / factor, (first[1] - second[1]) / factor
