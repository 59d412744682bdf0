"""Conditions as formulas: atoms joined by AND and OR."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from slidejoin.predicate.ranges.atoms import KeyPair, OpenEnded, Separable, Shifted, node_scale
from slidejoin.predicate.ranges.keys import Absent
from slidejoin.predicate.ranges.linear import Combination, Form, added, combine, linear_form, of_difference, of_values
from slidejoin.predicate.ranges.monotone import Monotone, cores_of
from slidejoin.predicate.truth.members import MemberSet
from slidejoin.predicate.truth.orders import PREFIX_REACH
from slidejoin.predicate.truth.tree import BOOLEAN, COMPARATORS, MIRRORED, Node, literal
from slidejoin.predicate.truth.types import Kind, Type
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slidejoin.predicate.ranges.keys import Key
    from slidejoin.predicate.ranges.linear import Interval
    from slidejoin.sides import Side

__all__ = ["Choice", "Formula", "Group", "formula", "group", "leaves", "pair_of", "settled"]

_BYTES = frozenset({Kind.STRING, Kind.BINARY})

MOST_VALUES = 6_666
"""Of a list that gives ranges."""

MOST_DOUBLES = 256
"""Of a list of doubles that does: each is compared for itself."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A comparison of doubles, strings or binary, of which one of several pairs of operands can be the keys.

    Attributes
    ----------
    node
        As written.
    written
        With both sides of the comparator for keys.
    cores
        The possible keys of the left side, and of the right: the largest operand first.
    """

    node: Node
    written: Separable | None
    cores: tuple[tuple[Node, ...], tuple[Node, ...]]

    def keys(self, place: int) -> list[Key]:
        """Return the possible keys of one side, 0 for the left."""
        side: Side = "right" if place else "left"
        return [node_scale(side, node)[0] for node in self.cores[place]]

    def atom(self, pair: KeyPair) -> Separable | Monotone:
        """Return the comparison as one of the keys `pair`, as written if possible."""
        if self.written is not None and self.written.whole == pair:
            return self.written
        left, right = (self.cores[place][self.keys(place).index(pair[place])] for place in (0, 1))
        return Monotone(self.node, (left, right))


@dataclass(frozen=True, slots=True)
class Group:
    """All of, or any of."""

    union: bool
    parts: tuple[Formula, ...]


Formula: TypeAlias = "Shifted | Separable | Monotone | OpenEnded | Choice | Group"
Leaf: TypeAlias = "Shifted | Separable | Monotone | OpenEnded | Choice"
_Sides: TypeAlias = "Callable[[str], Formula | None]"


def formula(node: Node) -> Formula | None:  # noqa: PLR0911 - one case for each kind of comparison
    """Return a condition on both sides as comparisons that give ranges, None if it is not made of such."""
    if node.op == "or" and any(arg.op == "isnull" for arg in node.args):
        return _open_ended(node)
    if node.op in {"and", "or"}:
        parts = [formula(arg) for arg in node.args]
        known = [part for part in parts if part is not None]
        return group(known, union=node.op == "or") if len(known) == len(parts) else None
    if node.op == "same":
        return _same_values(node)
    if node.op == "member":
        return _listed(node)
    if node.op not in COMPARATORS:
        return None
    one, two = node.args
    kinds = {one.type.kind, two.type.kind}
    if kinds & _BYTES:
        return _bytes(node)
    constant = next((arg for arg in node.args if arg.op == "literal" and arg.type.kind is Kind.FLOAT), None)
    if Kind.FLOAT not in kinds or (constant is not None and len(kinds) > 1):
        form = _difference(one, two)
        return None if form is None else _exact(node.op, form)
    for arg, bound, op in ((one, two, node.op), (two, one, MIRRORED[node.op])):
        if arg.op == "abs" and len(arg.args[0].sides) > 1:
            return _absolute_double(op, arg.args[0], bound)
    return _doubles(node)


def _listed(node: Node) -> Formula | None:
    """Return ``operand IN (constants)`` as one comparison, of doubles as many; None if these are too many."""
    (operand,), listed = node.args, node.value
    assert isinstance(listed, MemberSet)  # noqa: S101 - see the making of the node
    if operand.type.exact and len(listed.members) <= MOST_VALUES:
        form = linear_form(operand)
        return (
            None
            if form is None
            else _exact_values(form, {Fraction(one, 10**operand.type.scale) for one in listed.members})
        )
    if operand.type.kind is not Kind.FLOAT or not 0 < len(listed.members) <= MOST_DOUBLES:
        return None
    constants = [literal(value, operand.type, repr(value)) for value in listed.doubles.tolist()]
    parts = [formula(Node("=", BOOLEAN, (operand, one), sides=node.sides)) for one in constants]
    known = [part for part in parts if part is not None]
    return group(known, union=True) if len(known) == len(parts) else None


def _exact_values(form: Form, values: set[Fraction]) -> Formula | None:
    """Return ``form IN (values)``; abs(D) is one of some values where D is one of these or of their negatives."""
    absolute = next((atom for atom in form[0] if len(atom.sides) > 1), None)
    if absolute is None:
        exact_ones = of_values(form, values)
        return None if exact_ones is None else Shifted(exact_ones)
    if len(form[0]) > 1 or absolute.op != "abs":
        return None
    inside, positive = linear_form(absolute.args[0]), {(value - form[1]) / form[0][absolute] for value in values}
    return (
        None
        if inside is None
        else _exact_values(inside, {sign * one for one in positive if one >= 0 for sign in (1, -1)})
    )


def _open_ended(node: Node) -> Formula | None:
    """Return ``e IS NULL OR comparison`` as a comparison with open ends; None if it is not made of such."""
    rest = [arg for arg in node.args if arg.op != "isnull"]
    missing = {arg.args[0] for arg in node.args if arg.op == "isnull"}
    what = formula(rest[0]) if len(rest) == 1 else None
    if isinstance(what, Choice):
        what = what.written
    if isinstance(what, Shifted):
        factors, ends = (what.what.left_factor, what.what.right_factor), what.what.intervals
        if len(ends) != 1 or (ends[0][0] is None) == (ends[0][1] is None):
            return None
        highs = [(factor > 0) == (ends[0][1] is None) for factor in factors]
    elif isinstance(what, Separable) and what.op in {"<", "<=", ">", ">="}:
        highs = [what.op[0] == ">", what.op[0] == "<"]
    else:
        return None
    if any(len(key.parts) > 1 or key.parts[0][0] != 1 or key.step > 1 for key in what.whole):
        return None
    operands = [_nullable(key.parts[0][1]) for key in what.whole]
    opens = [operand in missing for operand in operands]
    if missing != {operand for operand, is_open in zip(operands, opens, strict=True) if is_open}:
        return None
    left, right = (
        replace(key, absent=Absent(high, is_open, other_open))
        for key, high, is_open, other_open in zip(what.whole, highs, opens, reversed(opens), strict=True)
    )
    return OpenEnded(what, (left, right))


def _nullable(node: Node) -> Node:
    """Return the operand that is NULL where a key is."""
    return node.args[0] if node.op in {"prefix", "double"} else node


def _difference(one: Node, two: Node) -> Form | None:
    return added(linear_form(one), linear_form(two), -1)


def _bytes(node: Node) -> Formula | None:
    one, two = node.args
    if node.op == "=":
        return _hashes(node, one, two)
    if node.op == "<>" or one.sides | two.sides != set(SIDES) or len(one.sides) != 1 or len(two.sides) != 1:
        return None
    # Ordered strings have ordered prefixes, but those of different strings may be equal.
    form = _difference(_prefix(one), _prefix(two))
    return None if form is None else _exact(node.op[0] + "=", form)


def _prefix(node: Node) -> Node:
    return Node("prefix", Type(Kind.INT), (node,), sides=node.sides, reach=PREFIX_REACH, text=node.text)


def _same_values(node: Node) -> Formula | None:
    """IS NOT DISTINCT FROM is equality of codes, in which NULL is a value; different values may have one code."""
    one, two = node.args
    floating = Kind.FLOAT in {one.type.kind, two.type.kind}
    to = Type(Kind.FLOAT) if floating else Type(one.type.kind, max(one.type.scale, two.type.scale))
    codes = (
        Node(
            "codes",
            Type(Kind.BINARY),
            (arg,),
            Type(Kind.NULL) if arg.type.kind in _BYTES else to,
            sides=arg.sides,
            text=arg.text,
        )
        for arg in node.args
    )
    return _hashes(node, *codes)


def _hashes(node: Node, one: Node, two: Node) -> Formula | None:
    if {one.sides, two.sides} != {frozenset({"left"}), frozenset({"right"})}:
        return None
    left, right = (one, two) if one.sides == {"left"} else (two, one)
    return Choice(node, Separable("=", left, right), ((left,), (right,)))


def _exact(op: str, form: Form) -> Formula | None:
    across = [atom for atom in form[0] if len(atom.sides) > 1]
    if not across:
        values = of_difference(op, form)
        return None if values is None else Shifted(values)
    if len(across) > 1 or across[0].op != "abs":
        return None
    return _exact_absolute(op, form, across[0])


def _exact_absolute(op: str, form: Form, absolute: Node) -> Formula | None:
    """Split ``k * abs(D) + rest op 0``: abs(D) <= R is D <= R and -D <= R, abs(D) >= R is D >= R or -D >= R."""
    factor = form[0][absolute]
    op = op if factor > 0 else MIRRORED[op]
    rest = ({atom: value / factor for atom, value in form[0].items() if atom != absolute}, form[1] / factor)
    inside = linear_form(absolute.args[0])
    both = [added(inside, rest, 1), added(added(({}, Fraction(0)), inside, -1), rest, 1)]

    def sides(comparator: str) -> Formula | None:
        parts = [None if part is None else _exact(comparator, part) for part in both]
        known = [part for part in parts if part is not None]
        return group(known, union=comparator[0] == ">") if len(known) == len(parts) else None

    return _by_sides(op, sides)


def _absolute_double(op: str, inside: Node, operand: Node) -> Formula | None:
    negative = (
        literal(-operand.value, operand.type, f"-{operand.text}")  # type: ignore[operator]  # a number
        if operand.op == "literal"
        else Node(
            "negate", operand.type, (operand,), sides=operand.sides, reach=operand.reach, text=f"-({operand.text})"
        )
    )

    def sides(comparator: str) -> Formula | None:
        parts = [
            formula(Node(how, BOOLEAN, (inside, bound), sides=inside.sides | bound.sides))
            for how, bound in ((comparator, operand), (MIRRORED[comparator], negative))
        ]
        known = [part for part in parts if part is not None]
        return group(known, union=comparator[0] == ">") if len(known) == len(parts) else None

    return _by_sides(op, sides)


def _by_sides(op: str, sides: _Sides) -> Formula | None:
    """Abs against a bound: = is both <= and >=, <> is either < or >."""
    if op not in {"=", "<>"}:
        return sides(op)
    one, two = (sides("<="), sides(">=")) if op == "=" else (sides("<"), sides(">"))
    return None if one is None or two is None else group([one, two], union=op == "<>")


def _doubles(node: Node) -> Formula | None:
    one, two = node.args
    written = None
    if {one.sides, two.sides} == {frozenset({"left"}), frozenset({"right"})}:
        straight = one.sides == {"left"}
        written = Separable(node.op, one, two) if straight else Separable(MIRRORED[node.op], two, one)
    if node.op == "<>":
        return None if written is None else Choice(node, written, ((written.left,), (written.right,)))
    cores: list[tuple[Node, ...]] = []
    for side in SIDES:
        holders = [arg for arg in node.args if side in arg.sides]
        cores.append(tuple(cores_of(holders[0], side)) if len(holders) == 1 else ())
    if not all(cores) and written is not None:
        cores = [(written.left,), (written.right,)]
    return Choice(node, written, (cores[0], cores[1])) if all(cores) else None


def group(parts: list[Formula], *, union: bool) -> Formula:
    """Join formulas; exact comparisons of the same combination of keys become one at once."""
    joined: list[Formula | None] = []
    same: dict[tuple[Key, Key, int, int], tuple[int, list[tuple[Interval, ...]]]] = {}
    for part in (inner for outer in parts for inner in _inner(outer, union=union)):
        if not isinstance(part, Shifted):
            joined.append(part)
            continue
        what = part.what
        place, sets = same.setdefault((what.left, what.right, what.left_factor, what.right_factor), (len(joined), []))
        sets.append(what.intervals)
        if place == len(joined):
            joined.append(None)  # for all comparisons of this combination
    for (left, right, one, two), (place, sets) in same.items():
        joined[place] = Shifted(Combination(left, right, one, two, combine(sets, union=union)))
    whole = tuple(part for part in joined if part is not None)
    return whole[0] if len(whole) == 1 else Group(union, whole)


def _inner(part: Formula, *, union: bool) -> tuple[Formula, ...]:
    return part.parts if isinstance(part, Group) and part.union == union else (part,)


def leaves(what: Formula) -> Iterator[Leaf]:
    """Yield the comparisons of a formula."""
    if isinstance(what, Group):
        for part in what.parts:
            yield from leaves(part)
    else:
        yield what


def settled(what: Formula, pair: KeyPair) -> Formula:
    """Return a formula whose comparisons are all of the keys `pair`."""
    if isinstance(what, Group):
        return Group(what.union, tuple(settled(part, pair) for part in what.parts))
    return what.atom(pair) if isinstance(what, Choice) else what


def pair_of(whats: list[Formula], *, innermost: bool = False) -> KeyPair | None:
    """Return the largest, or the smallest, keys that all comparisons of formulas share; None if they share none.

    The larger the keys, the fewer operations are left with them.
    """
    pair = []
    for place in (0, 1):
        shared: list[Key] | None = None
        for leaf in (leaf for what in whats for leaf in leaves(what)):
            keys = leaf.keys(place) if isinstance(leaf, Choice) else [leaf.whole[place]]
            shared = keys if shared is None else [key for key in shared if key in keys]
        if not shared:
            return None
        pair.append(shared[-1 if innermost else 0])
    return pair[0], pair[1]
