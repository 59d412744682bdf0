"""Conditions as formulas: comparisons that give ranges, joined by AND and OR."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias, cast

from slidejoin.predicate.atoms import Atom, KeyPair, Rounded, Separable, Shifted, core_of
from slidejoin.predicate.linear import Combination, Form, added, combine, linear_form, of_difference
from slidejoin.predicate.tree import BOOLEAN, COMPARATORS, MIRRORED, Node, literal
from slidejoin.predicate.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Choice", "Formula", "Group", "formula", "group", "leaves", "pairs"]

_BYTES = frozenset({Kind.STRING, Kind.BINARY})


@dataclass(frozen=True, slots=True)
class Choice:
    """A comparison of doubles that can be taken as written, or freed of constants, or either."""

    written: Separable | None
    freed: Rounded | None

    def atom(self, pair: KeyPair) -> Atom:
        """Return the form that is about the keys `pair`, as written if possible since that is exact."""
        if self.written is not None and self.written.whole == pair:
            return self.written
        return cast("Rounded", self.freed)


@dataclass(frozen=True, slots=True)
class Group:
    """All of, or any of."""

    union: bool
    parts: tuple[Formula, ...]


Formula: TypeAlias = "Shifted | Choice | Group"
_Sides: TypeAlias = "Callable[[str], Formula | None]"


def formula(node: Node) -> Formula | None:
    """Return a condition on both sides as comparisons that give ranges, None if it is not made of such."""
    if node.op in {"and", "or"}:
        parts = [formula(arg) for arg in node.args]
        known = [part for part in parts if part is not None]
        return group(known, union=node.op == "or") if len(known) == len(parts) else None
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
    for arg, beside, op in ((one, two, node.op), (two, one, MIRRORED[node.op])):
        if arg.op == "abs" and len(arg.args[0].sides) > 1:
            return _absolute_double(op, arg.args[0], beside)
    return _doubles(node)


def _difference(one: Node, two: Node) -> Form | None:
    return added(linear_form(one), linear_form(two), -1)


def _bytes(node: Node) -> Formula | None:
    one, two = node.args
    if node.op != "=" or one.op != "column" or two.op != "column" or one.sides == two.sides:
        return None
    left, right = (one, two) if one.sides == {"left"} else (two, one)
    return Choice(Separable("=", left, right), None)


def _exact(op: str, form: Form) -> Formula | None:
    across = [atom for atom in form[0] if len(atom.sides) > 1]
    if not across:
        found = of_difference(op, form)
        return None if found is None else Shifted(found)
    if len(across) > 1 or across[0].op != "abs":
        return None
    return _exact_absolute(op, form, across[0])


def _exact_absolute(op: str, form: Form, absolute: Node) -> Formula | None:
    """Take ``k * abs(D) + rest op 0`` apart: abs(D) <= R is D <= R and -D <= R, abs(D) >= R is D >= R or -D >= R."""
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


def _absolute_double(op: str, inside: Node, beside: Node) -> Formula | None:
    negative = (
        literal(-beside.value, beside.type, f"-{beside.text}")  # type: ignore[operator]  # a number
        if beside.op == "literal"
        else Node("negate", beside.type, (beside,), sides=beside.sides, reach=beside.reach, text=f"-({beside.text})")
    )

    def sides(comparator: str) -> Formula | None:
        parts = [
            formula(Node(how, BOOLEAN, (inside, bound), sides=inside.sides | bound.sides))
            for how, bound in ((comparator, beside), (MIRRORED[comparator], negative))
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
    written = freed = None
    if {one.sides, two.sides} == {frozenset({"left"}), frozenset({"right"})}:
        straight = one.sides == {"left"}
        written = Separable(node.op, one, two) if straight else Separable(MIRRORED[node.op], two, one)
    cores: list[Node] = []
    for side in ("left", "right"):
        holders = [arg for arg in node.args if side in arg.sides]
        core = core_of(holders[0], side) if len(holders) == 1 else None
        if core is not None:
            cores.append(core)
    if len(cores) == 2 and node.op != "<>":  # noqa: PLR2004  a pair
        freed = Rounded(node, (cores[0], cores[1]))
    return None if written is None and freed is None else Choice(written, freed)


def group(parts: list[Formula], *, union: bool) -> Formula:
    """Join formulas; exact comparisons of the same combination of keys become one at once."""
    joined: list[Formula] = []
    for part in (inner for outer in parts for inner in _inner(outer, union=union)):
        for place, before in enumerate(joined):
            if isinstance(part, Shifted) and isinstance(before, Shifted) and _same(part.what, before.what):
                what = before.what
                intervals = combine(what.intervals, part.what.intervals, union=union)
                joined[place] = Shifted(
                    Combination(what.left, what.right, what.left_factor, what.right_factor, intervals)
                )
                break
        else:
            joined.append(part)
    return joined[0] if len(joined) == 1 else Group(union, tuple(joined))


def _inner(part: Formula, *, union: bool) -> tuple[Formula, ...]:
    return part.parts if isinstance(part, Group) and part.union == union else (part,)


def _same(one: Combination, two: Combination) -> bool:
    return (one.left, one.right, one.left_factor, one.right_factor) == (
        two.left,
        two.right,
        two.left_factor,
        two.right_factor,
    )


def leaves(what: Formula) -> Iterator[Shifted | Choice]:
    """Yield the comparisons of a formula."""
    if isinstance(what, Group):
        for part in what.parts:
            yield from leaves(part)
    else:
        yield what


def pairs(what: Formula) -> tuple[KeyPair | None, KeyPair | None]:
    """Key pairs that all comparisons of a formula share: as written, and freed of constants."""
    written: set[KeyPair | None] = set()
    freed: set[KeyPair | None] = set()
    for leaf in leaves(what):
        if isinstance(leaf, Shifted):
            written.add(leaf.whole)
            freed.add(leaf.whole)
        else:
            written.add(leaf.written.whole if leaf.written is not None else None)
            freed.add(leaf.freed.peeled if leaf.freed is not None else None)
    return (written.pop() if len(written) == 1 else None), (freed.pop() if len(freed) == 1 else None)
