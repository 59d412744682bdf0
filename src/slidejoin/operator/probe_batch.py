"""Turning the rows of one side into a batch of probes of the other side's index."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from slidejoin.index.kernels.view import view_of
from slidejoin.index.probe import ProbeBatch
from slidejoin.operator.ingest.ingest import columns_of
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.sides import other

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.keys import KeyRanges, Prepared
    from slidejoin.plan.key_layout import KeyLayout
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["key_ranges", "probe_batch", "slots_of"]


def probe_batch(
    plan: Plan, role: Side, table: pa.Table, rank: NDArray[np.int64], *,
    layout: KeyLayout, first: int, arrived: int, prepared: Prepared | None = None,
) -> ProbeBatch:  # fmt: skip
    """Turn the rows of one side into probes.

    Parameters
    ----------
    rank : (n,) int64
        Their places among all arrivals.
    layout : KeyLayout
        How the keys of the window are laid out that is probed.
    first : int
        Ordinal of the first of them.
    arrived : int
        Rows of the other side from before.
    prepared : Prepared, optional
        The same rows as their own side's index has them, if the other index can use their order.
    """
    view = view_of(arrived, *plan.scope.view(other(role)), own=plan.config.self_join)
    around = None if prepared is None or plan.is_union else _around(plan, role)
    if around is None or prepared is None or not prepared.orders(around, table.num_rows):
        prepared = around = None
    return ProbeBatch(
        first=first,
        rank=rank,
        view=view,
        ranges=partial(key_ranges, plan, role, table, layout),
        own=prepared,
        around=around,
    )


def slots_of(plan: Plan, role: Side, rank: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of probes among all probes, (n,) int64: a row of a self-join probes twice."""
    return rank * 2 + (role == "right") if plan.config.self_join else rank


def _around(plan: Plan, role: Side) -> tuple[int, int] | None:
    """Return how far below and above its own key the range of a row reaches; None if its ranges are not like that."""
    term = plan.terms[0]
    column = term.shifted_column(role) if isinstance(term, RangeTerm) and len(plan.terms) == 1 else None
    return None if column is None else column.around


def key_ranges(plan: Plan, role: Side, table: pa.Table, layout: KeyLayout) -> KeyRanges:
    """Return the ranges of the other side's keys for each row of a table, those of rows that are filtered out empty."""
    columns, branches = columns_of(table), []
    for number, (branch, own) in enumerate(zip(plan.branches, layout.branches, strict=True)):
        of_terms = [term.ranges(role, columns) for term in branch.terms]
        inexact = [at for at, ranges in zip(branch.numbers, of_terms, strict=True) if not ranges.exact]
        passing = branch.bound.prefilter(role, columns)
        silent = None if passing is None else ~passing
        branches.append(own.ranges(of_terms, silent, plan.counted(number, inexact)))
    if len(branches) == 1:
        return branches[0]
    every = frozenset().union(*(ranges.inexact for ranges in branches))
    return replace(branches[0], inexact=every, branches=tuple(branches))
