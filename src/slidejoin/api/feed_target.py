"""What a `Feed` needs of a join: read a batch, push, finish. Another kind of join needs a class like this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.api.feed_put import Put, combined
from slidejoin.errors import ArgumentError, SchemaError
from slidejoin.jit.interpreted import INTERPRETER
from slidejoin.operator.ingest.batches import to_table
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from slidejoin.api.stream_join import StreamJoin
    from slidejoin.operator.ingest.late_rows import LateRows
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["FeedTarget"]


class FeedTarget:
    """A `StreamJoin` that a feed pushes into; no one else may until `release`.

    Parameters
    ----------
    join : StreamJoin

    Attributes
    ----------
    schemas : dict from side to pyarrow.Schema
        Those known so far: a batch is compared with them before it waits.
    spec : JoinSpec
    """

    def __init__(self, join: StreamJoin) -> None:
        join._feed_begins()  # noqa: SLF001 - the feed stands in front of the join, and shares its state
        self._join = join
        self._state = join._state  # noqa: SLF001
        self.spec: JoinSpec = self._state.config
        self.schemas: dict[Side, pa.Schema] = dict(self._state.schemas)

    def read(self, left: object, right: object, order_by: str | None) -> Put:
        """Read the batches of a put.

        Raises
        ------
        SchemaError
            If a batch cannot be read or differs from the first one of its side, or the rows cannot be ordered.
        ArgumentError
            If there is no batch.
        """
        if left is None and right is None:
            msg = "put takes a left batch, a right batch or both; got none"
            raise ArgumentError(msg)
        if self.spec.self_join and right is not None:
            msg = "a self-join takes only left batches; got a right batch as well"
            raise SchemaError(msg)
        batches = {side: batch for side, batch in zip(SIDES, (left, right), strict=True) if batch is not None}
        said = self._join._known_from  # noqa: SLF001 - see `__init__`
        tables = {
            side: to_table(batch, side, self.schemas.get(side), known_from=said) for side, batch in batches.items()
        }
        put = Put(tables, order_by)
        # Of two first batches at once, the one that was read first counts; the other is compared with it.
        for side, table in put.tables.items():
            known = self.schemas.setdefault(side, table.schema)
            if known is not table.schema and not known.equals(table.schema):
                put.tables[side] = to_table(table, side, known, known_from=said)
        if self.spec.self_join:
            self.schemas.setdefault("right", self.schemas["left"])
        return put

    def begin(self, thread: int) -> None:
        """Let only that thread push."""
        self._join._fed_by = thread  # noqa: SLF001

    def release(self) -> None:
        """Give the join back to its user."""
        self._join._fed_by = None  # noqa: SLF001

    def push(self, puts: Sequence[Put]) -> Iterator[pa.Table]:
        """Push the rows and yield what they produce, as one push each would have."""
        operator, join = self._state.operator, self._join
        # Where one push may be refused, each put is one; and schemas are learned put by put.
        if len(puts) > 1 and operator is not None and self.spec.memory_limit is None:
            tables, order_by = combined(puts, self._state.schemas)
            if INTERPRETER.cold:
                INTERPRETER.expect(sum(table.num_rows for table in tables.values()))
            try:
                out = join._fed(operator, tables, order_by)  # noqa: SLF001
            except Exception:
                if join._broken is not None:  # noqa: SLF001
                    raise
                # Nothing was taken: the puts before the one that is refused still give their results.
            else:
                yield out
                return
        for put in puts:
            yield join.push(put.tables.get("left"), put.tables.get("right"), order_by=put.order_by)

    def late_rows(self) -> LateRows:
        """Return the late rows that have come since the last call."""
        return self._join.late_rows()

    def finish(self) -> pa.Table:
        """End the streams and return what was still pending."""
        return self._join.finish()
