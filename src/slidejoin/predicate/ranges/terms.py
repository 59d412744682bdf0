"""Range terms: conjuncts that ranges of a stored key can answer, merged for each pair of keys."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from slidejoin.predicate.ranges import ranges
from slidejoin.predicate.ranges.atoms import KeyPair, OpenEnded, Separable, Shifted
from slidejoin.predicate.ranges.formula import Choice, Formula, Group, formula, group, leaves, pair_of, settled
from slidejoin.predicate.ranges.keys import Keys, plain_keys, stored_keys
from slidejoin.predicate.ranges.monotone import Monotone, estimated
from slidejoin.predicate.ranges.programs import Draft, Program
from slidejoin.predicate.ranges.shifts import CALM, Shift, ShiftUnion, shift_of, union_of
from slidejoin.predicate.truth.evaluate import ColumnsBySide
from slidejoin.predicate.truth.floats import from_keys
from slidejoin.predicate.truth.hashes import mix
from slidejoin.predicate.truth.tree import Node, column_of
from slidejoin.predicate.truth.types import Kind, Type
from slidejoin.predicate.truth.values import rows_of, values_of
from slidejoin.sides import other

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from slidejoin.predicate.expression.expr import Expr
    from slidejoin.predicate.ranges.keys import Key
    from slidejoin.predicate.ranges.ranges import Pieces, Ranges
    from slidejoin.predicate.truth.values import Column
    from slidejoin.sides import Side

__all__ = ["RangeTerm", "Shape", "ShiftedColumn", "make_terms", "ranged", "terms_of"]

MOST_PIECES = 16
MOST_CROSSED = 256
"""Pairs of ranges of a probe that are looked at where two sets of them must both hold."""
DOUBLE = Type(Kind.FLOAT)
Shape = Literal["equality", "band", "ranges", "not-equal"]
_PREFERENCE: tuple[Shape, ...] = ("equality", "band", "ranges", "not-equal")


class ShiftedColumn(NamedTuple):
    """Ranges that follow from the values of a probe's column by a shift; they are its own keys."""

    column: str
    meaning: Type
    shift: Shift

    def keys(self, column: Column) -> NDArray[np.int64] | None:
        """Return the keys of that column's values, (n,); None if some are NULL or need more than 64 bits."""
        return plain_keys(column, self.meaning, self.shift.step)

    @property
    def around(self) -> tuple[int, int] | None:
        """How far a probe's range reaches below and above its own key, where that is in it; None if it is not."""
        shift = self.shift
        if shift.sign != 1 or shift.lows.size != 1:
            return None
        low, high = int(shift.lows[0]), int(shift.highs[0])
        return (-low, high) if -CALM <= low <= 0 <= high <= CALM else None


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
    widths
        Of a band that is equally wide everywhere: how wide the ranges of left keys are on their axis (see `axis`), and
        those of right keys on theirs; zeros for equality of numbers; None otherwise.
    """

    pair: KeyPair
    what: Formula
    shape: Shape
    pieces: int
    label: str
    exact: bool
    conjuncts: tuple[Expr, ...]
    widths: tuple[float | int, float | int] | None
    _bare: dict[Side, Node] = field(init=False, repr=False, compare=False, default_factory=dict)
    _shift: dict[Side, Shift] = field(init=False, repr=False, compare=False, default_factory=dict)
    _unions: dict[Side, ShiftUnion] = field(init=False, repr=False, compare=False, default_factory=dict)
    _programs: dict[Side, Program] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for key in self.pair:
            node = key.parts[0][1]
            if key.space == "exact" and key.absent is None and key.parts[0][0] == len(key.parts) == 1 and not key.bias:
                if node.op == "column":
                    self._bare[key.side] = node
                shift = shift_of(self.what, key.side) if isinstance(self.what, Shifted) else None
                if shift is not None:
                    self._shift[key.side] = shift
                union = self._union(key.side)
                if union is not None:
                    self._unions[key.side] = union
            program = self._program(other(key.side)) if key.space == "float" else None
            if program is not None:
                self._programs[other(key.side)] = program

    def _union(self, probe: Side) -> ShiftUnion | None:
        """Return how all ranges of a probe are computed at once, where any of some comparisons is enough."""
        what = self.what
        if not isinstance(what, Group) or not what.union:
            return None
        parts = [part for part in what.parts if isinstance(part, Shifted)]
        union = union_of(parts, probe) if len(parts) == len(what.parts) else None
        return union if union is not None and union.signs.size <= MOST_PIECES else None

    def _program(self, probe: Side) -> Program | None:
        """Return a program that finds a probe's range at once: one range of doubles, limited by every comparison."""
        stored = other(probe)
        draft = Draft(stored, self.pair[0 if stored == "left" else 1].parts[0][1])
        if isinstance(self.what, Group) and self.what.union:
            return None
        for leaf in self.what.parts if isinstance(self.what, Group) else (self.what,):
            if not isinstance(leaf, Separable | Monotone) or (isinstance(leaf, Separable) and leaf.op == "<>"):
                return None
            leaf.draw(draft)
        return draft.program()

    def key(self, side: Side, columns: Mapping[str, Column]) -> Keys:
        """Return the keys under which rows of `side` are stored."""
        node, key = self._bare.get(side), self.pair[0 if side == "left" else 1]
        if node is not None and key.step == 1:
            values = values_of(columns, column_of(node)[1], node.type)
            if values.data.dtype == np.int64:
                return Keys(values.data, values.valid, exact=True)
        return stored_keys(key, ColumnsBySide({side: columns}))

    def ranges(self, probe_side: Side, columns: Mapping[str, Column]) -> Ranges:
        """Return for each row of `probe_side` the ranges of the other side's keys that its partners have."""
        shift = self._shift.get(probe_side) or self._unions.get(probe_side)
        if shift is not None:
            soon = shift.ranges(probe_side, columns)
            if soon is not None:
                return soon
        n, program = rows_of(columns), self._programs.get(probe_side)
        with np.errstate(all="ignore"):
            if program is not None:
                return program.ranges(ColumnsBySide({probe_side: columns}), n)
            pieces = self._find(self.what, probe_side, ColumnsBySide({probe_side: columns}), n)
            return ranges.finish(pieces, n)

    def ranges_of_keys(self, probe_side: Side, keys: NDArray[np.int64]) -> Ranges | None:
        """Return what `ranges` does from the probes' own keys, (n,), as `key` gave them: None if it takes more."""
        shift = self._shift.get(probe_side)
        return None if shift is None else shift.around(keys)

    def _find(self, what: Formula, probe: Side, source: ColumnsBySide, n: int) -> Pieces:
        if not isinstance(what, Group):
            assert not isinstance(what, Choice)  # noqa: S101 - its pair is settled
            return what.find(probe, source, n)
        pieces = self._find(what.parts[0], probe, source, n)
        for part in what.parts[1:]:
            more = self._find(part, probe, source, n)
            pieces = ranges.unite(pieces, more, n, MOST_PIECES) if what.union else ranges.intersect(pieces, more, n)
        return pieces

    def shifted_column(self, probe_side: Side) -> ShiftedColumn | None:
        """Return how ranges follow from a probe's own key, where that is a column as it is; None if they do not."""
        shift, own = self._shift.get(probe_side), self._bare.get(probe_side)
        if shift is None or own is None or shift.node != own:
            return None
        return ShiftedColumn(column_of(own)[1], own.type, shift)

    @property
    def band_width(self) -> float | int | None:
        """How wide the ranges of left keys are, see `widths`."""
        return None if self.widths is None else self.widths[0]

    @property
    def open_ended(self) -> bool:
        """Whether some range of a probe has one end only, so that it may hold a large part of all keys."""
        return _is_open(self.what, self.pair)

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether ranges of left keys have a lower and an upper end, where they are one piece each."""
        return _closed(self.what, self.pair)

    def of_doubles(self, side: Side) -> bool:
        """Whether that side's keys are the order-preserving bits of doubles, whose differences mean nothing."""
        return self.pair[0 if side == "left" else 1].space == "float"

    def axis(self, keys: NDArray[np.int64], side: Side = "left") -> NDArray[np.int64] | NDArray[np.float64]:
        """Return the positions of a side's keys, or of ends of ranges of them, on an axis with a meaningful distance.

        Exact keys are their own position; keys of doubles become those doubles, open ends infinities.
        """
        return from_keys(keys) if self.pair[0 if side == "left" else 1].space == "float" else keys

    def route(self, side: Side, columns: Mapping[str, Column]) -> Keys | None:
        """Return numbers that are the same for both rows of every pair; None if the term is not an equality.

        Well spread over int64, the same in every process and run; rows that are not valid have no partner.
        """
        if self.shape != "equality":
            return None
        if side == "left":
            keys = self.key("left", columns)
            return Keys(mix(np.ascontiguousarray(keys.values)), keys.valid, keys.exact)
        single = self.ranges("right", columns)
        some = single.lo[0] <= single.hi[0]
        return Keys(mix(single.lo[0]), None if some.all() else some, single.exact)


def make_terms(conditions: list[tuple[Expr, Node]]) -> tuple[tuple[RangeTerm, ...], list[tuple[Expr, Node]]]:
    """Return the range terms of conditions on both sides, best first, and the conditions that give none."""
    rest: list[tuple[Expr, Node]] = []
    members: list[tuple[Expr, tuple[KeyPair, Formula]]] = []
    for condition, node in conditions:
        of_node = ranged(node)
        if of_node is None:
            rest.append((condition, node))
        else:
            members.append((condition, of_node))
    return terms_of(members), rest


def ranged(node: Node) -> tuple[KeyPair, Formula] | None:
    """Return a condition on both sides as comparisons of one pair of keys, the smallest; None if it is not."""
    what = formula(node)
    place = None if what is None else pair_of([what], innermost=True)
    return None if what is None or place is None else (place, what)


def terms_of(members: list[tuple[Expr, tuple[KeyPair, Formula]]]) -> tuple[RangeTerm, ...]:
    """Return the range terms of conditions that are `ranged`, best first."""
    groups: dict[KeyPair, list[tuple[Expr, Formula]]] = {}
    compared = {key for _, (pair, _) in members for key in pair if key.absent is None}
    for condition, (pair, formula_of) in members:
        place, what = pair, formula_of
        if isinstance(what, OpenEnded):
            # Of a key that another term compares too, rows without a value match nothing anyway.
            left, right = (_only_values(key, compared) for key in pair)
            place, what = (left, right), OpenEnded(what.what, (left, right))
        groups.setdefault(place, []).append((condition, what))
    terms = []
    for place, group_of in groups.items():
        whats = [what for _, what in group_of]
        terms.append(_term(pair_of(whats) or place, whats, tuple(condition for condition, _ in group_of)))
    terms.sort(key=lambda term: (_PREFERENCE.index(term.shape), term.pieces))
    return tuple(terms)


def _only_values(key: Key, compared: Collection[Key]) -> Key:
    plain = replace(key, absent=None)
    return plain if key.absent is not None and not key.absent.open and plain in compared else key


def _term(pair: KeyPair, parts: list[Formula], conjuncts: tuple[Expr, ...]) -> RangeTerm:
    what, whole = _crossable(settled(group(parts, union=False), pair))
    pieces, capped = _count(what)
    shape = _shape(what, pair)
    label = f"{shape} {pair[0].text} ~ {pair[1].text}"
    exact = whole and not capped and not any(key.approximate for key in pair)
    return RangeTerm(pair, what, shape, pieces, label, exact, conjuncts, _widths(what, pair, shape))


def _crossable(what: Formula) -> tuple[Formula, bool]:
    """Return a formula that is quick to find, and whether it is the given one or only follows from it.

    Of p ranges and q ranges of each probe, that must both hold, p * q are looked at. Where these are many, those that
    are fewer stay.
    """
    if not isinstance(what, Group):
        return what, True
    crossed = [_crossable(part) for part in what.parts]
    whole = all(same for _, same in crossed)
    parts = [part for part, _ in crossed]
    if not what.union:
        by_count = sorted(parts, key=lambda part: _count(part)[0])
        pieces, parts = _count(by_count[0])[0], by_count[:1]
        for part in by_count[1:]:
            more = _count(part)[0]
            if pieces > 2 and pieces * more > MOST_CROSSED:  # noqa: PLR2004 - one range, or all but one key, cost little
                whole = False
                break
            pieces, parts = pieces + more - 1, [*parts, part]
        if len(parts) == len(what.parts):
            parts = [part for part, _ in crossed]
    return parts[0] if len(parts) == 1 else Group(what.union, tuple(parts)), whole


def _count(what: Formula) -> tuple[int, bool]:
    """Return the largest number of pieces, and whether ranges had to be joined to get there."""
    if isinstance(what, Shifted):
        return max(len(what.what.intervals), 1), False
    if not isinstance(what, Group):
        return (2 if isinstance(what, Separable) and what.op == "<>" else 1), False
    counts = [_count(part) for part in what.parts]
    capped = any(part[1] for part in counts)
    total = sum(part[0] for part in counts)
    if not what.union:
        return total - len(counts) + 1, capped
    return min(total, MOST_PIECES), capped or total > MOST_PIECES


def _shape(what: Formula, pair: KeyPair) -> Shape:
    if _is_point(what):
        return "equality"
    if isinstance(what, Shifted) and [(a is None, b is None) for a, b in what.what.intervals] == [
        (True, False),
        (False, True),
    ]:
        (_, low), (high, _) = what.what.intervals
        return "not-equal" if high == (low or 0) + 2 else "ranges"
    if isinstance(what, Separable) and what.op == "<>":
        return "not-equal"
    return "band" if _count(what)[0] == 1 and _closed(what, pair) == (True, True) else "ranges"


def _is_point(what: Formula) -> bool:
    if isinstance(what, Shifted):
        return len(what.what.intervals) == 1 and what.what.intervals[0][0] == what.what.intervals[0][1] is not None
    if isinstance(what, Group):
        return not what.union and any(_is_point(part) for part in what.parts)
    return isinstance(what, Separable) and what.op == "="


def _closed(what: Formula, pair: KeyPair) -> tuple[bool, bool]:
    """Whether a formula of one piece has a lower and an upper end for the left key."""
    if isinstance(what, OpenEnded):
        return _closed(what.what, pair)
    if isinstance(what, Shifted):
        ends = what.what.intervals[0] if what.what.intervals else (0, 0)
        return ends[0] is not None, ends[1] is not None
    if isinstance(what, Group):
        ends_of = [_closed(part, pair) for part in what.parts]
        return any(low for low, _ in ends_of), any(high for _, high in ends_of)
    if isinstance(what, Separable):
        seen = what.op
    else:
        estimate = None if isinstance(what, Choice) else estimated(what, pair)
        seen = "" if estimate is None else estimate[0]
    return seen in {"=", ">", ">="}, seen in {"=", "<", "<="}


def _is_open(what: Formula, pair: KeyPair) -> bool:
    if isinstance(what, Shifted):
        return any(low is None or high is None for low, high in what.what.intervals)
    if isinstance(what, Group):
        if what.union:
            return any(_is_open(part, pair) for part in what.parts)
        return all(_is_open(part, pair) for part in what.parts) and _closed(what, pair) != (True, True)
    return _closed(what, pair) != (True, True)


def _in_steps(width: int, step: int) -> int:
    """Return how far apart the keys of numbers are at most that are so far apart."""
    return width if step == 1 else 2 * (width // step + (width % step > 0))


def _widths(  # noqa: PLR0911 - one case each
    what: Formula, pair: KeyPair, shape: Shape
) -> tuple[float | int, float | int] | None:
    if shape == "equality":
        return None if pair[0].space == "hash" else (0, 0)
    if shape != "band":
        return None
    if isinstance(what, Shifted):
        low, high = what.what.intervals[0] if what.what.intervals else (0, 0)
        if low is None or high is None:
            return None
        factors = what.what.left_factor, abs(what.what.right_factor)
        one, two = (
            _in_steps((high - low) // factor, key.step) for factor, key in zip(factors, what.whole, strict=True)
        )
        return one, two
    ends: dict[str, list[Fraction]] = {"<": [], ">": []}
    slopes = set()
    for leaf in leaves(what):
        estimate = None if isinstance(leaf, Choice | OpenEnded) else estimated(leaf, pair)
        if estimate is None or estimate[0] not in {"<", "<=", ">", ">="}:
            return None
        slopes.add(estimate[1])
        ends[estimate[0][0]].append(-estimate[2])
    if len(slopes) != 1 or not ends["<"] or not ends[">"]:
        return None
    width, slope = max(min(ends["<"]) - max(ends[">"]), Fraction(0)), abs(slopes.pop())
    try:
        return (float(width), float(width / slope)) if slope else None
    except OverflowError:
        return None
