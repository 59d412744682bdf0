"""Explain a plan: how each part of the predicate is evaluated, and what to write instead where it may be slow."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from slidejoin.errors import NoIndexWarning
from slidejoin.index.protocol import CELLS, PLANAR, RUNS
from slidejoin.predicate import columns_of, to_sql
from slidejoin.predicate.expression.build import shown
from slidejoin.predicate.expression.expr import And, Compare
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.sides import SIDES
from slidejoin.spec.join_options import UNMATCHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slidejoin.plan.index_terms import IndexTerms
    from slidejoin.predicate.bind import BoundPredicate
    from slidejoin.predicate.expression.expr import Expr
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = [
    "Explained",
    "explained_index",
    "explained_join_type",
    "explained_terms",
    "frames_inside",
    "warn_without_index",
]

_PACKAGE = str(Path(__file__).parents[1])


LOWER, UPPER = {">", ">="}, {"<", "<="}
TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}

BAND = "such as {l}.x BETWEEN {r}.x - 5 AND {r}.x + 5"

SHARES = {
    "scope": "all rows within the time window",
    "numbers": "all rows within the count window",
    "not-equal": "nearly all rows of the window",
    "all": "all rows of the window",
}
"""What a row is compared with, by the shape of the term that is indexed."""


class ExplainedTerm(Protocol):
    """The attributes of a term that are explained; see `slidejoin.plan.plan.Term`."""

    @property
    def shape(self) -> str:
        """How narrow its ranges are, by kind."""

    @property
    def label(self) -> str:
        """The term in words."""


class Explained(NamedTuple):
    """Lines of an explanation.

    Attributes
    ----------
    terms
        Each part of the predicate, and whether it is indexed.
    warnings
        What is expected to be slow, and what to write instead.
    """

    terms: list[str]
    warnings: list[str]


INDEXES = {CELLS: "cells", RUNS: "sorted runs", PLANAR: "planar index"}


def explained_index(terms: Sequence[ExplainedTerm], chosen: IndexTerms) -> str:
    """Return in a few words which index of which terms that is."""
    labels = " and ".join(terms[place].label for place in chosen.places)
    closed = "" if chosen.closed_by is None else f" closed by {terms[chosen.closed_by].label}"
    return f"{INDEXES.get(chosen.algorithm, chosen.algorithm)} on {labels}{closed}"


def explained_join_type(config: JoinSpec) -> list[str]:
    """Explain which rows a join puts out besides pairs, or instead of them, and when."""
    if config.how == "left_semi":
        return ["left rows: each once, with its first match"]
    sides = UNMATCHED[config.how]
    if not sides:
        return []
    return [f"rows without a match: {' and '.join(sides)} ones, emitted {config.window.departure}, or by finish()"]


def explained_terms(
    config: JoinSpec,
    terms: Sequence[ExplainedTerm],
    indexed: Sequence[int],
    bound: BoundPredicate,
    loose: frozenset[int],
    closed_by: int | None = None,
) -> Explained:
    """Explain for each part of a predicate whether it is indexed.

    Parameters
    ----------
    terms
        The plan's.
    indexed
        Places of those that are indexed, together if they are several.
    loose
        Numbers of the predicate's terms whose candidates are rechecked.
    closed_by
        Place of the term that closes the range that is indexed, None without one.
    """
    first, *others_indexed = (terms[place] for place in indexed)
    others = [term for place, term in enumerate(terms) if place not in indexed and place != closed_by]
    lines = []
    if first.shape == "all":
        lines.append(
            "indexed: nothing; no comparison has only left columns on one side and only right columns on the other"
        )
    else:
        lines.append(f"indexed: {_named(first, config)}")
    lines += [f"indexed with it: {_named(term, config)}" for term in others_indexed]
    if closed_by is not None:
        lines.append(
            f"closed by the longest interval of the window, and checked row by row: {_named(terms[closed_by], config)}"
        )
    lines += [f"not indexed, checked row by row: {_named(term, config)}" for term in others]
    for side in SIDES:
        own = [part for part in bound.conjuncts if _sides(part) == {side}]
        lines += [f"filter on {side} rows, before the index: {to_sql(part, config.aliases)}" for part in own]
    rest = bound.filter(loose)
    if rest is not None:
        lines.append(f"filter on candidate pairs: {to_sql(rest.expr, config.aliases)}")
    if bound.never:
        lines.append("a constant part of the predicate is never true: no pair can match")
        return Explained(lines, [])
    warning = (
        None if others_indexed or closed_by is not None else _warning(config, first, others, checked=rest is not None)
    )
    return Explained(lines, [] if warning is None else [f"warning: {warning}"])


def warn_without_index(config: JoinSpec, bound: BoundPredicate, limit: str | None = None) -> None:
    """Warn with `NoIndexWarning` if pairs are filtered and nothing says which rows can be pairs.

    In a window of time, rows near in time can. A join of all rows with all rows, without a filter, needs no index.
    `limit` is which limit of planning was met, see `Plan`.
    """
    if bound.terms or bound.never or not bound.residual or config.window.has_watermark:
        return
    met = "" if limit is None else f"{limit[0].upper()}{limit[1:]}. "
    message = (
        f"no part of {shown(config.on, config.aliases)} can use an index: each row is compared with every row of the "
        f"window. {met}{_of_one_end(config, ())}. If this is meant, ignore slidejoin.NoIndexWarning"
    )
    warnings.warn(message, NoIndexWarning, stacklevel=frames_inside())


def frames_inside() -> int:
    """Return how far above the caller the code is that uses the package, as `warnings.warn` counts."""
    frame, count = sys._getframe(), 0  # noqa: SLF001 - Python 3.12 has skip_file_prefixes, 3.11 has not
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, count = frame.f_back, count + 1
    return count


def _sides(expr: Expr) -> set[Side]:
    return {side for side in SIDES if columns_of(expr, side)}


def _named(term: ExplainedTerm, config: JoinSpec) -> str:
    if not isinstance(term, RangeTerm):
        return f"the window, {config.window}"
    parts = term.conjuncts
    return f"{to_sql(parts[0] if len(parts) == 1 else And(parts), config.aliases)} ({_kind(term)})"


def _kind(term: RangeTerm) -> str:
    if term.shape == "band":
        return "band of fixed width" if term.widths is not None else "band"
    if term.shape == "not-equal":
        return "inequality, all values but one"
    if term.shape == "ranges":
        return f"up to {term.pieces} ranges" if term.pieces > 1 else "open-ended range"
    return term.shape


def _warning(config: JoinSpec, first: ExplainedTerm, others: Sequence[ExplainedTerm], *, checked: bool) -> str | None:
    """Return a warning if rows are compared with a large share of the window; None if they are not.

    The share assumes evenly distributed values: nothing is known about the data when a join is planned.
    """
    if isinstance(first, RangeTerm) and not first.open_ended:
        return None
    share = SHARES.get(first.shape, "about half of the window")
    if not others and not checked:
        if config.output == "count":
            return None
        return (
            f"each row is expected to match {share}, and all these pairs are output; output='count' counts them "
            "without enumerating them"
        )
    ranges = [term for term in (first, *others) if isinstance(term, RangeTerm)]
    hint = _of_two_columns(config, ranges) or _of_one_end(config, ranges)
    return f"each row is expected to be compared with {share}. {hint}"


def _of_two_columns(config: JoinSpec, terms: Sequence[RangeTerm]) -> str | None:
    """Return what to write where the ends of a range come from different columns."""
    ends = [end for term in terms for end in _ends(term)]
    highs: dict[Expr, Expr] = {}
    for high, at, op in ends:
        if op in UPPER:
            highs.setdefault(at, high)
    for low, at, op in ends:
        if op in LOWER and at in highs:
            value, below, above = (to_sql(expr, config.aliases) for expr in (at, low, highs[at]))
            return (
                f"{value} is bounded by two columns, {below} and {above}, but the index has one key. If {above} is "
                f"never more than a number N above {below}, add AND {value} <= {below} + N, replacing N by the "
                "number: the result is the same, and the band of fixed width is indexed"
            )
    return None


def _ends(term: RangeTerm) -> list[tuple[Expr, Expr, str]]:
    """Return (end, value, comparison) for each way to read a comparison as an end of a value."""
    if term.shape != "ranges" or len(term.conjuncts) != 1:
        return []
    part = term.conjuncts[0]
    if not isinstance(part, Compare) or part.op not in TURNED:
        return []
    return [(part.right, part.left, part.op), (part.left, part.right, TURNED[part.op])]


def _of_one_end(config: JoinSpec, terms: Sequence[RangeTerm]) -> str:
    left, right = config.aliases
    example = BAND.format(l=left, r=right)
    if len(terms) > 1:
        return (
            "One comparison is indexed, and all are open-ended. If left values are known to be near right ones, add a "
            f"band of fixed width, {example}: a probe then reads only the band"
        )
    return (
        "If matching rows allow it, add a comparison that an index can use: an equality such as "
        f"{left}.key = {right}.key, or a band, {example}, with only left columns on one side and only right columns on "
        "the other"
    )
