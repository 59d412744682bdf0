"""The interface of a push: its batch, and the contract between the operator and the two paths.

A push is first read into tables with the schemas of their sides; all later steps work on those tables. There are two
paths through the windows, the fused one and the general one, and the operator chooses::

    tables ─▶ PushBatch ─▶ fused.accepts? ── yes ─▶ ordinals ─▶ fused.run ────────────┐
                               └─ no ─▶ ingest ─▶ slices ─▶ ordinals ─▶ general.run ──┴─▶ commit: expire, adapt, count

- **The operator alone** assigns ordinals, advances the clock, expires rows, replaces an index, and counts rows and
  pairs. A path inserts the rows with the given ordinals, probes, and returns the results.
- **`accepts` is pure**: it reads the batch and the windows, and may write into memory of its own, but changes nothing
  that another push could see. All checks are made here: values, NULLs, order and room.
- **`run` cannot decline.** If there is no room after all, for example for more matches than expected, a slower way
  within the same path is taken, not the other path.
- A path may count the time of its steps (`Stats.seconds`), and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.operator.ingest.batch_columns import BatchColumns
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    import pyarrow as pa

    from slidejoin.operator.ingest.arrival import Clock
    from slidejoin.operator.ingest.ingest import Ingest
    from slidejoin.sides import Side

__all__ = ["PushBatch"]


class PushBatch:
    """The rows of one push, as they were given.

    Parameters
    ----------
    tables : dict from side to pyarrow.Table
        With the sides' schemas, an empty one for a side without rows; those of a self-join are the same one.
    order_by : str or None
        The column by which both sides are sorted into one arrival order.
    clock : Clock
        Event times before these rows.
    ingest : Ingest
        Knows how rows are held.

    Attributes
    ----------
    clock_after : Clock or None
        Event times after these rows, set by the path that accepts a batch of a time window.
    """

    __slots__ = ("_columns", "_ingest", "clock", "clock_after", "left_rows", "order_by", "right_rows", "tables")

    def __init__(self, tables: dict[Side, pa.Table], order_by: str | None, clock: Clock, ingest: Ingest) -> None:
        self.tables, self.order_by, self.clock, self._ingest = tables, order_by, clock, ingest
        self.clock_after: Clock | None = None
        self.left_rows: int = tables["left"].num_rows
        self.right_rows: int = tables["right"].num_rows
        self._columns: dict[Side, BatchColumns] | None = None

    def rows_of(self, side: Side) -> int:
        """Rows of one side."""
        return self.left_rows if side == "left" else self.right_rows

    @property
    def rows(self) -> int:
        """Rows of both sides."""
        return self.left_rows + self.right_rows

    @property
    def columns(self) -> dict[Side, BatchColumns]:
        """The columns of each side, each read once."""
        if self._columns is None:
            self._columns = {side: BatchColumns(side, self.tables[side], self._ingest) for side in SIDES}
            if self.tables["left"] is self.tables["right"]:
                self._columns["right"] = self._columns["left"]
        return self._columns
