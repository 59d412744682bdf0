"""The keys of one side's rows: one integer for each term of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.plan.key_layout import TermKeys
from slidejoin.rows.arrow_buffers import by_name

if TYPE_CHECKING:
    import pyarrow as pa

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["term_keys"]


def term_keys(plan: Plan, side: Side, table: pa.Table) -> TermKeys:
    """Compute the keys of a side's rows, and which rows can match at all."""
    if plan.branches:
        found = [term_keys(part, side, table) for part in plan.branches]
        branches = tuple(keys._replace(inexact=plan.counted(number, keys.inexact)) for number, keys in enumerate(found))
        return TermKeys((), None, frozenset().union(*(keys.inexact for keys in branches)), table.num_rows, branches)
    columns = by_name(table)
    kept = plan.bound.prefilter(side, columns)
    values = []
    inexact = set()
    for number, term in zip(plan.numbers, plan.terms, strict=True):
        key = term.key(side, columns)
        if key.valid is not None:
            kept = key.valid if kept is None else kept & key.valid
        if not key.exact:
            inexact.add(number)
        values.append(key.values)
    return TermKeys(tuple(values), kept, frozenset(inexact), table.num_rows)
