"""The index keys of one side's rows: one integer for each term of the predicate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.keys import RowKeys
from slidejoin.rows.arrow_buffers import by_name

if TYPE_CHECKING:
    import pyarrow as pa

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["row_keys"]


def row_keys(plan: Plan, side: Side, table: pa.Table) -> RowKeys:
    """Compute the keys of a side's rows: of the indexed term, and of the others as further dimensions."""
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
