"""The window of one side: rows, index and expiry together. Both sides are this one class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.bi_sort import BiSort, build_run
from slidejoin.store.payload import Payload
from slidejoin.store.piece import Piece

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.index.bi_sort import Run
    from slidejoin.plan import Plan
    from slidejoin.predicate.expr import Side

__all__ = ["SideWindow", "run_of"]


def run_of(plan: Plan, side: Side, table: pa.Table, base: int) -> Run:
    """Compute the keys of one piece of a side's rows and sort them; `base` is the ordinal of its first row."""
    columns: Mapping[str, pa.ChunkedArray] = dict(zip(table.column_names, table.columns, strict=True))
    rows = table.num_rows
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
    aux = np.stack(keys[1:], axis=1) if len(keys) > 1 else np.empty((rows, 0), np.int64)
    return build_run(base, rows, keys[0], np.ascontiguousarray(aux), kept, frozenset(inexact))


class SideWindow:
    """Rows of one side that arriving rows of the other side may still see."""

    def __init__(self, plan: Plan, side: Side, payload: Payload | None = None, *, merge: bool = True) -> None:
        self.plan = plan
        self.side: Side = side
        self.shared = payload is not None
        self.payload = Payload(plan.kept_schema(side), merge) if payload is None else payload
        self.index = BiSort(len(plan.terms) - 1, merge=merge)
        self.rows_seen = 0

    def append(self, table: pa.Table, times: NDArray[np.int64] | None) -> None:
        """Take the newest rows, in arrival order; `times` are their event times in ticks, (n,) int64."""
        if table.num_rows == 0:
            return
        run = run_of(self.plan, self.side, table, self.rows_seen)
        self.append_run(table, run, None if times is None else int(times.max()))

    def append_run(self, table: pa.Table, run: Run, time_max: int | None) -> None:
        """Take rows whose keys are sorted already; their ordinals follow those that are here."""
        run = self.index.rebased(run, self.rows_seen)
        if not self.shared:
            self.payload.append(Piece(run.base, table, time_max), self.payload.rows + table.num_rows)
        self.index.append(run, self.payload.rows)
        self.rows_seen += run.rows

    @property
    def first(self) -> int:
        """Ordinal of the oldest row kept."""
        return self.payload.pieces[0].base if self.payload.pieces else self.rows_seen

    def expire(self, ordinal: int) -> None:
        """Drop whole sub-windows before that ordinal."""
        self.index.expire(ordinal)
        if not self.shared:
            self.payload.expire(ordinal)

    def expire_below(self, oldest: int, payload_oldest: int) -> None:
        """Drop sub-windows of a time window whose event times all lie below `oldest`, rows below `payload_oldest`."""
        dimension = [term.shape for term in self.plan.terms].index("scope") - 1
        self.index.expire_below(dimension, oldest)
        if not self.shared:
            self.payload.expire_below(payload_oldest)

    def own(self, ordinal: int) -> None:
        """Free the rows from that ordinal on of larger memory that they are slices of."""
        if not self.shared:
            self.payload.own(ordinal)

    @property
    def nbytes(self) -> int:
        """Bytes of rows and index."""
        return self.index.nbytes + (0 if self.shared else self.payload.nbytes)
