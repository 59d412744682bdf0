"""The normal form of exact comparisons: ``a * left key + b * right key`` lies in given intervals.

Integers, decimals, times and durations are exact, so moving constants and terms from one side of a comparison to the
other changes nothing. A comparison whose columns add up linearly becomes an integer combination X of the two keys and
a set of intervals that X must lie in: ``abs(l.a - r.b) <= 5`` and ``l.a BETWEEN r.b - 5 AND r.b + 5`` both are
``-5 <= 1 * l.a - 1 * r.b <= 5``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from math import ceil, floor, gcd, isfinite, lcm
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from slidejoin.predicate.ranges.keys import Key, exact_key, stepped
from slidejoin.predicate.truth.tree import Node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slidejoin.sides import Side

__all__ = [
    "Combination",
    "Form",
    "Interval",
    "added",
    "combine",
    "key_of",
    "linear_form",
    "of_difference",
    "of_steps",
    "of_values",
    "stored_places",
]

Interval: TypeAlias = tuple[int | None, int | None]
"""Both ends included; None is an open end."""


@dataclass(frozen=True, slots=True)
class Combination:
    """X = ``left_factor * left + right_factor * right`` lies in one of `intervals`, which are ascending and disjoint.

    Factors have no common divisor, the left one is positive. They refer to unbiased keys.
    """

    left: Key
    right: Key
    left_factor: int
    right_factor: int
    intervals: tuple[Interval, ...]


Form: TypeAlias = tuple[dict[Node, Fraction], Fraction]
"""Atoms with their factors, and a constant, in whole units (numbers, seconds)."""


def linear_form(node: Node, stop: frozenset[Node] | None = None) -> Form | None:  # noqa: C901, PLR0911  one case each
    """Return an exact expression as a linear form; None if a constant is unknown or not finite.

    Atoms are the largest subtrees that do not add up, or in which an atom would vanish. With `stop` these nodes are the
    atoms, and doubles are taken for real numbers: good enough for an estimate.
    """
    approximate = stop is not None
    if stop is not None and node in stop:
        return {node: Fraction(1)}, Fraction(0)
    if node.op == "literal":
        if node.value is None or (isinstance(node.value, float) and not isfinite(node.value)):
            return None
        return {}, Fraction(cast("float", node.value)) / 10**node.type.scale
    linear = node.type.exact or approximate
    if linear and node.op in {"+", "-"}:
        parts = [linear_form(arg, stop) for arg in node.args]
        whole = added(parts[0], parts[1], -1 if node.op == "-" else 1)
        return whole if whole is not None or None in parts else ({node: Fraction(1)}, Fraction(0))
    if linear and node.op == "negate":
        return added(({}, Fraction(0)), linear_form(node.args[0], stop), -1)
    if approximate and node.op == "double":
        return linear_form(node.args[0], stop)
    if linear and node.op in {"*", "/"}:
        for one, two in (node.args, node.args[::-1]):
            if one.op == "literal" and (node.op == "*" or one is node.args[1]):
                constant = linear_form(one)
                scaled = linear_form(two, stop)
                if constant is None or scaled is None or constant[1] == 0:
                    break
                factor = constant[1] if node.op == "*" else 1 / constant[1]
                return {atom: value * factor for atom, value in scaled[0].items()}, scaled[1] * factor
    return {node: Fraction(1)}, Fraction(0)


def added(one: Form | None, two: Form | None, sign: int) -> Form | None:
    """Return ``one + sign * two``; None if an atom would vanish: x - x is 0, but NULL where x is."""
    if one is None or two is None:
        return None
    atoms = dict(one[0])
    for atom, factor in two[0].items():
        atoms[atom] = atoms.get(atom, Fraction(0)) + sign * factor
    if 0 in atoms.values():
        return None
    return atoms, one[1] + sign * two[1]


def of_difference(op: str, form: Form) -> Combination | None:
    """Return the combination of ``form op 0``; None unless both sides take part, each in atoms of its own."""
    frame = _frame_of(form)
    if frame is None:
        return None
    if frame.unit < 0:
        op = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
    return frame.within(intervals_of(op, -form[1] / frame.unit))


def of_values(form: Form, values: Iterable[Fraction]) -> Combination | None:
    """Return the combination of ``form IN (values)``; None as of `of_difference`."""
    frame = _frame_of(form)
    if frame is None:
        return None
    places = ((value - form[1]) / frame.unit for value in values)
    return frame.within(_tidy([(int(place), int(place)) for place in places if place.denominator == 1]))


class _Frame(NamedTuple):
    """A combination without intervals, and what the atoms of its form were divided by."""

    left: Key
    right: Key
    left_factor: int
    right_factor: int
    unit: Fraction

    def within(self, intervals: tuple[Interval, ...]) -> Combination:
        return Combination(self.left, self.right, self.left_factor, self.right_factor, intervals)


def _frame_of(form: Form) -> _Frame | None:
    atoms = form[0]
    keys: dict[Side, tuple[Key, Fraction]] = {}
    for side in ("left", "right"):
        own = {atom: factor for atom, factor in atoms.items() if atom.sides == {side}}
        if not own or any(not atom.type.exact for atom in own):
            return None
        keys[side] = key_of(side, own)
    if any(len(atom.sides) != 1 for atom in atoms):
        return None
    (left, one), (right, two) = keys["left"], keys["right"]
    # divide by the real number that makes both factors coprime integers, the left one positive
    unit = Fraction(gcd(one.numerator, two.numerator), lcm(one.denominator, two.denominator))
    unit = unit if one > 0 else -unit
    return _Frame(left, right, int(one / unit), int(two / unit), unit)


def intervals_of(op: str, bound: Fraction) -> tuple[Interval, ...]:
    """Return the integers X with ``X op bound``."""
    low, high = ceil(bound), floor(bound)
    match op:
        case "<=":
            return ((None, high),)
        case "<":
            return ((None, low - 1),)
        case ">=":
            return ((low, None),)
        case ">":
            return ((high + 1, None),)
        case "=":
            return ((low, high),) if low == high else ()
        case _:
            return ((None, low - 1), (high + 1, None)) if low == high else ((None, None),)


def key_of(side: Side, atoms: dict[Node, Fraction]) -> tuple[Key, Fraction]:
    """Key of a sum of one side's atoms, with coprime integer factors, and what it was divided by."""
    scaled = {atom: factor / 10**atom.type.scale for atom, factor in atoms.items()}
    ordered = sorted(scaled, key=lambda atom: (atom.text, repr(atom)))
    unit = Fraction(
        gcd(*(scaled[atom].numerator for atom in ordered)), lcm(*(scaled[atom].denominator for atom in ordered))
    )
    unit = unit if scaled[ordered[0]] > 0 else -unit
    return exact_key(side, tuple((int(scaled[atom] / unit), atom) for atom in ordered)), unit


def of_steps(what: Combination, probe: Side) -> tuple[int, int, tuple[Interval, ...]] | None:
    """Return the factors of a probe's key and of stored ones, and what their sum lies in, where keys count in steps.

    The probe's number is a multiple of its step, so that its key is twice the number of steps. None if what it counts
    is no multiple of a stored step: then keys do not add up.
    """
    mine, stored, own, its = what.left, what.right, what.left_factor, what.right_factor
    if probe == "right":
        mine, stored, own, its = stored, mine, its, own
    own = own * mine.step // 2 if mine.step > 1 else own
    if stored.step == 1:
        unit = gcd(own, its)
        whole = [
            (None if low is None else -(-low // unit), None if high is None else high // unit)
            for low, high in what.intervals
        ]
        return own // unit, its // unit, tuple(pair for pair in whole if None in pair or pair[0] <= pair[1])  # type: ignore[operator]  # no None
    # A probe's key that counts in steps is even; one that is a number may be odd.
    if abs(its) != 1 or (own if mine.step == 1 else 2 * own) % stored.step:
        return None
    return its * 2 * own // stored.step, 1, stored_places(what.intervals, its, stored.step)


def stored_places(intervals: tuple[Interval, ...], sign: int, step: int) -> tuple[Interval, ...]:
    """Return where keys lie whose numbers, times a sign, are in intervals; they count in steps, see `keys.stepped`.

    Numbers between the same two multiples of a step have one place. So intervals that lie close together may become
    one, lest a key is in two of them.

    Examples
    --------
    >>> stored_places(((1, 2), (3, None)), -1, 1), stored_places(((3, 3), (5, 5), (20, None)), 1, 10)
    (((None, -3), (-2, -1)), ((1, 1), (4, None)))
    """
    ends = list(intervals)
    if sign < 0:
        ends = [(_negative(high), _negative(low)) for low, high in reversed(ends)]
    if step == 1:
        return tuple(ends)
    return _tidy([(_placed(low, step), _placed(high, step)) for low, high in ends])


def _placed(end: int | None, step: int) -> int | None:
    return None if end is None else stepped(end, step)


def _negative(end: int | None) -> int | None:
    return None if end is None else -end


def combine(sets: list[tuple[Interval, ...]], *, union: bool) -> tuple[Interval, ...]:
    """Return the union or the intersection of sets of integers, whose intervals are ascending and disjoint.

    Examples
    --------
    >>> combine([((None, 5), (8, 9)), ((3, None),)], union=False)
    ((3, 5), (8, 9))
    """
    if union:
        return _tidy([interval for one in sets for interval in one])
    while len(sets) > 1:  # two at a time: many small ones grow together
        pairs = zip_longest(sets[::2], sets[1::2])
        sets = [one if two is None else _tidy(_crossed(one, two)) for one, two in pairs]
    return sets[0]


def _crossed(one: tuple[Interval, ...], two: tuple[Interval, ...]) -> list[Interval]:
    """Return where intervals of two sets overlap, and some empty ones; each interval is looked at a few times."""
    crossed, a, b = [], 0, 0
    while a < len(one) and b < len(two):
        crossed.append((_top(one[a][0], two[b][0]), _bottom(one[a][1], two[b][1])))
        high, other = one[a][1], two[b][1]
        if other is None or (high is not None and high < other):
            a += 1
        else:
            b += 1
    return crossed


def _top(one: int | None, two: int | None) -> int | None:
    return two if one is None else one if two is None else max(one, two)


def _bottom(one: int | None, two: int | None) -> int | None:
    return two if one is None else one if two is None else min(one, two)


def _tidy(intervals: list[Interval]) -> tuple[Interval, ...]:
    """Sort, drop empty intervals, join adjacent ones."""
    some = [pair for pair in intervals if pair[0] is None or pair[1] is None or pair[0] <= pair[1]]
    some.sort(key=lambda pair: (pair[0] is not None, pair[0] or 0))
    result: list[Interval] = []
    for low, high in some:
        last = result[-1] if result else None
        if last is not None and (last[1] is None or low is None or low <= last[1] + 1):
            result[-1] = (last[0], None if last[1] is None or high is None else max(last[1], high))
        else:
            result.append((low, high))
    return tuple(result)
