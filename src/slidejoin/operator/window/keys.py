"""The keys of one side's rows: one whole number for each term of the predicate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.sorted_runs.bi_sort import build_run
from slidejoin.rows.arrow_buffers import by_name

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.sorted_runs.bi_sort import Run
    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["RowKeys", "keyed", "run_of"]


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The keys of some rows of one side, ready for an index.

    Attributes
    ----------
    keys : (n,) int64
        Of the indexed term.
    aux : (n, d) int64
        Of the others.
    kept : (n,) bool or None
        Rows that may match anything; None for all.
    inexact : frozenset of int
        Terms of which some key was clipped.
    """

    keys: NDArray[np.int64]
    aux: NDArray[np.int64]
    kept: NDArray[np.bool_] | None
    inexact: frozenset[int]


def keyed(plan: Plan, side: Side, table: pa.Table) -> RowKeys:
    """Compute the keys of a side's rows."""
    columns = by_name(table)
    kept = plan.bound.prefilter(side, columns)
    keys = []
    inexact = set()
    for number, term in enumerate(plan.terms):
        key = term.key(side, columns)
        if key.valid is not None:
            kept = key.valid if kept is None else kept & key.valid
        if not key.exact:
            inexact.add(plan.numbers[number])
        keys.append(key.values)
    aux = np.stack(keys[1:], axis=1) if len(keys) > 1 else np.empty((table.num_rows, 0), np.int64)
    return RowKeys(np.ascontiguousarray(keys[0]), np.ascontiguousarray(aux), kept, frozenset(inexact))


def run_of(plan: Plan, side: Side, table: pa.Table, base: int) -> Run:
    """Compute the keys of one piece of a side's rows and sort them; `base` is the ordinal of its first row."""
    rows = keyed(plan, side, table)
    return build_run(base, table.num_rows, rows.keys, rows.aux, rows.kept, rows.inexact)
