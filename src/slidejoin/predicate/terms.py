"""From conjuncts to range terms: what can be answered by ranges of a stored key, merged for each pair of keys."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np

from slidejoin.predicate import ranges
from slidejoin.predicate.atoms import Atom, KeyPair, Rounded, Separable, Shifted, core_of, estimated
from slidejoin.predicate.evaluate import Source
from slidejoin.predicate.floats import from_keys
from slidejoin.predicate.hashes import mix
from slidejoin.predicate.keys import Keys, stored_keys
from slidejoin.predicate.linear import Combination, Form, added, combine, linear_form, of_difference
from slidejoin.predicate.tree import BOOLEAN, COMPARATORS, MIRRORED, Node, literal
from slidejoin.predicate.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from slidejoin.predicate.expr import Expr, Side
    from slidejoin.predicate.ranges import Found, Ranges
    from slidejoin.predicate.values import Column

__all__ = ["Formula", "RangeTerm", "Shape", "formula", "make_terms"]

MOST_PIECES = 16
Shape = Literal["equality", "band", "ranges", "not-equal"]
_PREFERENCE: tuple[Shape, ...] = ("equality", "band", "ranges", "not-equal")
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


# --------------------------------------------------------------------------------------------------------------------
# Which conjuncts are formulas


def formula(node: Node) -> Formula | None:
    """Return a condition on both sides as comparisons that give ranges, None if it is not made of such."""
    if node.op in {"and", "or"}:
        parts = [formula(arg) for arg in node.args]
        known = [part for part in parts if part is not None]
        return _group(known, union=node.op == "or") if len(known) == len(parts) else None
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
        return _group(known, union=comparator[0] == ">") if len(known) == len(parts) else None

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
        return _group(known, union=comparator[0] == ">") if len(known) == len(parts) else None

    return _by_sides(op, sides)


def _by_sides(op: str, sides: _Sides) -> Formula | None:
    """Abs against a bound: = is both <= and >=, <> is either < or >."""
    if op not in {"=", "<>"}:
        return sides(op)
    one, two = (sides("<="), sides(">=")) if op == "=" else (sides("<"), sides(">"))
    return None if one is None or two is None else _group([one, two], union=op == "<>")


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


def _group(parts: list[Formula], *, union: bool) -> Formula:
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


def _leaves(what: Formula) -> Iterator[Shifted | Choice]:
    if isinstance(what, Group):
        for part in what.parts:
            yield from _leaves(part)
    else:
        yield what


def _pairs(what: Formula) -> tuple[KeyPair | None, KeyPair | None]:
    """Key pairs that all comparisons of a formula share: as written, and freed of constants."""
    written: set[KeyPair | None] = set()
    freed: set[KeyPair | None] = set()
    for leaf in _leaves(what):
        if isinstance(leaf, Shifted):
            written.add(leaf.whole)
            freed.add(leaf.whole)
        else:
            written.add(leaf.written.whole if leaf.written is not None else None)
            freed.add(leaf.freed.peeled if leaf.freed is not None else None)
    return (written.pop() if len(written) == 1 else None), (freed.pop() if len(freed) == 1 else None)


# --------------------------------------------------------------------------------------------------------------------
# Terms


@dataclass(frozen=True, slots=True)
class RangeTerm:
    """Comparisons of one pair of keys: for a probe row its partners' keys lie in at most `pieces` ranges.

    Attributes
    ----------
    shape
        "equality": at most one key; "band": one range, closed on both ends; "not-equal": all but one key; "ranges":
        anything else.
    pieces
        How many ranges a probe has at most.
    label
        For explanations, such as "band l.price ~ r.bid".
    exact
        Whether a stored key within the ranges means that the comparisons hold, unless `Keys` or `Ranges` say otherwise.
    conjuncts
        The parts of the predicate that this term stands for.
    band_width
        Of a band that is equally wide everywhere: its width on the axis of the left key (see `axis`); 0 for equality of
        numbers; None otherwise.
    """

    pair: KeyPair
    what: Formula
    shape: Shape
    pieces: int
    label: str
    exact: bool
    conjuncts: tuple[Expr, ...]
    band_width: float | int | None

    def key(self, side: Side, columns: Mapping[str, Column]) -> Keys:
        """Return the keys under which rows of `side` are stored."""
        return stored_keys(self.pair[0 if side == "left" else 1], Source({side: columns}))

    def ranges(self, probe_side: Side, columns: Mapping[str, Column]) -> Ranges:
        """Return for each row of `probe_side` the ranges of the other side's keys that its partners have."""
        n = len(next(iter(columns.values())))
        with np.errstate(all="ignore"):
            found = self._find(self.what, probe_side, Source({probe_side: columns}), n)
            return ranges.finish(found, n)

    def _find(self, what: Formula, probe: Side, source: Source, n: int) -> Found:
        if isinstance(what, Shifted):
            return what.find(probe, source, n)
        if isinstance(what, Choice):
            return what.atom(self.pair).find(probe, source, n)
        found = self._find(what.parts[0], probe, source, n)
        for part in what.parts[1:]:
            more = self._find(part, probe, source, n)
            found = ranges.unite(found, more, n, MOST_PIECES) if what.union else ranges.intersect(found, more, n)
        return found

    def axis(self, keys: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.float64]:
        """Return the positions of left keys, or of ends of ranges of left keys, on an axis with a meaningful distance.

        Exact keys are their own position; keys of doubles become those doubles, open ends infinities.
        """
        return from_keys(keys) if self.pair[0].space == "float" else keys

    def route(self, side: Side, columns: Mapping[str, Column]) -> Keys | None:
        """Return numbers that are the same for both rows of every pair; None if the term is not an equality.

        Well spread over int64, the same in every process and run; rows that are not valid have no partner.
        """
        if self.shape != "equality":
            return None
        if side == "left":
            keys = self.key("left", columns)
            return Keys(mix(np.ascontiguousarray(keys.values)), keys.valid, keys.exact)
        found = self.ranges("right", columns)
        some = found.lo[0] <= found.hi[0]
        return Keys(mix(found.lo[0]), None if some.all() else some, found.exact)


def make_terms(conditions: list[tuple[Expr, Node]]) -> tuple[tuple[RangeTerm, ...], list[tuple[Expr, Node]]]:
    """Return the range terms of conditions on both sides, best first, and the conditions that give none."""
    rest: list[tuple[Expr, Node]] = []
    groups: dict[KeyPair, list[tuple[Expr, Formula, KeyPair | None]]] = {}
    for condition, node in conditions:
        what = formula(node)
        written, freed = _pairs(what) if what is not None else (None, None)
        place = freed if freed is not None else written
        if what is None or place is None:
            rest.append((condition, node))
        else:
            groups.setdefault(place, []).append((condition, what, written))
    terms = []
    for freed, members in groups.items():
        first = members[0][2]
        # as written all about the same pair of values: then nothing needs rounding
        pair = first if first is not None and all(written == first for *_, written in members) else freed
        terms.append(_term(pair, [what for _, what, _ in members], tuple(condition for condition, *_ in members)))
    terms.sort(key=lambda term: (_PREFERENCE.index(term.shape), term.pieces))
    return tuple(terms), rest


def _term(pair: KeyPair, parts: list[Formula], conjuncts: tuple[Expr, ...]) -> RangeTerm:
    what = _group(parts, union=False)
    pieces, capped = _count(what)
    atoms = [leaf if isinstance(leaf, Shifted) else leaf.atom(pair) for leaf in _leaves(what)]
    rounded = any(isinstance(atom, Rounded) for atom in atoms)
    exact = not (rounded or capped or pair[0].space == "hash")
    shape = _shape(what, pair)
    label = f"{shape} {pair[0].text} ~ {pair[1].text}"
    return RangeTerm(pair, what, shape, pieces, label, exact, conjuncts, _width(what, pair, shape))


def _count(what: Formula) -> tuple[int, bool]:
    """Return the largest number of pieces, and whether ranges had to be joined to get there."""
    if isinstance(what, Shifted):
        return max(len(what.what.intervals), 1), False
    if isinstance(what, Choice):
        return (2 if what.written is not None and what.written.op == "<>" else 1), False
    counts = [_count(part) for part in what.parts]
    capped = any(part[1] for part in counts)
    total = sum(part[0] for part in counts)
    if not what.union:
        return total - len(counts) + 1, capped
    return min(total, MOST_PIECES), capped or total > MOST_PIECES


def _shape(what: Formula, pair: KeyPair) -> Shape:
    if _is_point(what, pair):
        return "equality"
    if isinstance(what, Shifted) and [(a is None, b is None) for a, b in what.what.intervals] == [
        (True, False),
        (False, True),
    ]:
        (_, low), (high, _) = what.what.intervals
        return "not-equal" if high == (low or 0) + 2 else "ranges"
    if isinstance(what, Choice) and _count(what)[0] > 1:
        return "not-equal"
    return "band" if _count(what)[0] == 1 and _closed(what) == (True, True) else "ranges"


def _is_point(what: Formula, pair: KeyPair) -> bool:
    if isinstance(what, Shifted):
        return len(what.what.intervals) == 1 and what.what.intervals[0][0] == what.what.intervals[0][1] is not None
    if isinstance(what, Choice):
        atom = what.atom(pair)
        return isinstance(atom, Separable) and atom.op == "="
    return not what.union and any(_is_point(part, pair) for part in what.parts)


def _closed(what: Formula) -> tuple[bool, bool]:
    """Whether a formula of one piece has a lower and an upper end for the left key."""
    if isinstance(what, Shifted):
        ends = what.what.intervals[0] if what.what.intervals else (0, 0)
        return ends[0] is not None, ends[1] is not None
    if isinstance(what, Group):
        ends_of = [_closed(part) for part in what.parts]
        return any(low for low, _ in ends_of), any(high for _, high in ends_of)
    found = _written_op(what)
    return found in {"=", ">", ">="}, found in {"=", "<", "<="}


def _written_op(what: Choice) -> str:
    """Return the comparator seen from the left key."""
    if what.written is not None:
        return what.written.op
    if what.freed is None:
        return ""
    estimate = estimated(what.freed, what.freed.peeled)
    return "" if estimate is None else estimate[0]


def _width(what: Formula, pair: KeyPair, shape: Shape) -> float | int | None:
    if shape == "equality":
        return None if pair[0].space == "hash" else 0
    if shape != "band":
        return None
    if isinstance(what, Shifted):
        low, high = what.what.intervals[0] if what.what.intervals else (0, 0)
        return None if low is None or high is None else (high - low) // what.what.left_factor
    ends: dict[str, list[Fraction]] = {"<": [], ">": []}
    slopes = set()
    for leaf in _leaves(what):
        estimate = None if isinstance(leaf, Shifted) else estimated(leaf.atom(pair), pair)
        if estimate is None or estimate[0] not in {"<", "<=", ">", ">="}:
            return None
        slopes.add(estimate[1])
        ends[estimate[0][0]].append(-estimate[2])
    if len(slopes) != 1 or not ends["<"] or not ends[">"]:
        return None
    return float(max(min(ends["<"]) - max(ends[">"]), Fraction(0)))
