"""Comparisons of doubles that hold for a range of one inner operand, since the operations around it are monotone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.predicate.ranges import ranges
from slidejoin.predicate.ranges.atoms import KeyPair, Separable, Shifted, integers_beside, node_scale
from slidejoin.predicate.ranges.linear import linear_form
from slidejoin.predicate.ranges.programs import Draft, Program, constant_of
from slidejoin.predicate.truth import floats
from slidejoin.predicate.truth.evaluate import evaluate
from slidejoin.predicate.truth.tree import MIRRORED, Node
from slidejoin.predicate.truth.types import Kind
from slidejoin.sides import other

if TYPE_CHECKING:
    from slidejoin.predicate.truth.evaluate import ColumnsBySide
    from slidejoin.sides import Side

__all__ = ["Monotone", "cores_of", "estimated"]

_BEYOND = 1 << 1022
"""Twice as much as any whole number nearer than this is a finite double."""


@dataclass(frozen=True)
class Monotone:
    """A comparison of doubles, whose `cores` are the operands that are keys, left and right."""

    node: Node
    cores: tuple[Node, Node]

    @property
    def whole(self) -> KeyPair:
        """The keys that it compares."""
        return node_scale("left", self.cores[0])[0], node_scale("right", self.cores[1])[0]

    def find(self, probe: Side, source: ColumnsBySide, n: int) -> ranges.Pieces:
        """Return the stored keys for each probe row; too many only where integers beyond 2**53 are rounded."""
        stored = other(probe)
        core = self.cores[0 if stored == "left" else 1]
        key, scale = node_scale(stored, core)
        if key.space == "exact" and core in self.node.args:
            # Nothing is rounded before this comparison: whole numbers between two doubles stay distinct.
            first = core == self.node.args[0]
            op = self.node.op if first else MIRRORED[self.node.op]
            return integers_beside(op, evaluate(self.node.args[1 if first else 0], source), scale, n)
        programs = self._programs[stored]
        if key.space == "float":
            part = programs[0].ranges(source, n)
            return ranges.Pieces([(part.lo[0], part.hi[0])], part.exact)
        both = _of_integers(programs[0], core, scale, source, n)
        for program in programs[1:]:
            both = ranges.intersect(both, _of_integers(program, core, scale, source, n), n)
        return both

    @cached_property
    def _programs(self) -> dict[Side, list[Program]]:
        sides: tuple[Side, Side] = ("left", "right")
        return {side: self._drawn(side) for side in sides}

    def _drawn(self, stored: Side) -> list[Program]:
        core = self.cores[0 if stored == "left" else 1]
        # Between two neighbouring doubles there may be whole numbers: each end separately.
        ends = ["<=", ">="] if self.node.op == "=" and core.type.exact else [self.node.op]
        programs = []
        for op in ends:
            draft = Draft(stored, core)
            self.draw(draft, op)
            programs.append(draft.program())
        return programs

    def draw(self, draft: Draft, op: str | None = None) -> None:
        """Add the comparison, or one with another comparator, to a program for ranges of the draft's core."""
        one, two = self.node.args
        op = op or self.node.op
        if draft.stored in one.sides:
            draft.add(op, one, two)
        else:
            draft.add(MIRRORED[op], two, one)


def _of_integers(program: Program, core: Node, scale: ranges.Scale, source: ColumnsBySide, n: int) -> ranges.Pieces:
    """Return keys of whole numbers, of which those beyond 2**53 may be too many, from a program for one end."""
    part = program.ranges(source, n)
    exact, some, top = part.exact, part.lo[0] <= part.hi[0], program.has("TOP")
    keys = part.hi[0] if top else part.lo[0]
    end = floats.from_keys(keys)
    # A whole number between two doubles is rounded with the first operation: it may lie on either side of the end.
    # The end itself may be a double farther out than the farthest whole number.
    farthest = 2.0 * core.reach if core.reach < _BEYOND else np.inf
    between = some & (np.abs(end) >= floats.SAFE) & (np.abs(end) <= farthest)
    if between.any():
        end[between] = floats.from_keys(keys[between] + (1 if top else -1))
        exact = False
    bounds = ranges.double_bounds("<=" if top else ">=", end, scale)
    bounds = ranges.Pieces(bounds.pieces, bounds.exact and exact)
    return bounds if some.all() else ranges.restrict(bounds, some, n)


def cores_of(node: Node, side: Side) -> list[Node]:
    """Return the subtrees that hold the columns of `side` and nothing else, and that can be freed, outermost first."""
    nodes = []
    while True:
        if node.sides == {side}:
            nodes.append(node)
        if node.type.kind is not Kind.FLOAT or node.op not in {"+", "-", "*", "/", "negate"}:
            break
        holders = [arg for arg in node.args if side in arg.sides]
        if len(holders) != 1:
            break
        operand = node.args[1 if holders[0] is node.args[0] else 0] if len(node.args) == 2 else None  # noqa: PLR2004
        if node.op in {"*", "/"} and (operand is None or not constant_of(operand)):
            break
        if node.op == "/" and holders[0] is node.args[1]:
            break
        node = holders[0]
    return nodes if node.sides == {side} and node.type.kind in {Kind.INT, Kind.FLOAT} else []


def estimated(atom: Shifted | Separable | Monotone, pair: KeyPair) -> tuple[str, Fraction, Fraction] | None:
    """Return ``(op, b, c)`` of ``left + b * right + c op 0`` over the keys' nodes, as if there were no rounding."""
    if isinstance(atom, Shifted):
        return None
    one, two = (atom.left, atom.right) if isinstance(atom, Separable) else atom.node.args
    op = atom.op if isinstance(atom, Separable) else atom.node.op
    if any(len(key.parts) > 1 or key.parts[0][0] != 1 for key in pair):
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
