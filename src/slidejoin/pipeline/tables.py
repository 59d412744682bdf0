"""A stream with a table, for micro-batches: what a row of the stream produces depends on the table alone.

The table is read whole, and again when it has changed. A version of it is what it was read by: the files with their
sizes and times, the version of a Delta table, or ranges of offsets. The plan of a micro-batch has the version that it
meets, if that is another one than the micro-batch before has met. So a micro-batch that runs again meets the same rows,
if they can still be read. There is no other state.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.api.join_tables import available_memory
from slidejoin.api.table_join import INDEX_BYTES, TableJoin, answered_side, mirrored
from slidejoin.errors import MemoryLimitError, SlideJoinError
from slidejoin.pipeline.job_join import LostCounts, needed_columns, output_columns
from slidejoin.pipeline.source import Rows
from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from slidejoin.pipeline.source import RowSource
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["TableBatchJoin", "TableSource", "check_room"]

log = logging.getLogger(__name__)

Version = list[Any]
"""A mark that changes with the table, or None, and the plans by which a `RowSource` reads it."""


class TableSource:
    """A `RowSource` whose plans are versions of a whole table, and never of a part of it.

    Parameters
    ----------
    made : callable
        Returns a source of all rows that are there.
    refresh : float, optional
        Seconds after which it is looked for another version; None for once a run, or with a `mark` before each
        micro-batch.
    mark : callable, optional
        Returns what changes with the table, and costs less than listing it.
    """

    def __init__(
        self, made: Callable[[], RowSource], refresh: float | None = None, mark: Callable[[], Any] | None = None
    ) -> None:
        first = made()
        self.name, self.schema, self.ended, self.alone = first.name, first.schema, True, False
        self._made, self._mark = made, mark
        self._wait = refresh if refresh is not None else math.inf if mark is None else 0.0
        self._due = -math.inf
        self._needed: Sequence[str] | None = None
        self._version: Version | None = None
        """The last one that was planned."""

    def _source(self) -> RowSource:
        source = self._made()
        if self._needed is not None:
            source.narrow(self._needed)
        return source

    def narrow(self, names: Sequence[str]) -> None:
        """Return these columns alone from now on: the join needs no others."""
        self._needed = names
        self.schema = self._source().schema

    def look(self) -> None:
        """Do nothing: `plan` looks when it is time."""

    def plan(self) -> Version | None:
        """Return the version of the table, if that is another one than the last that was planned."""
        now = monotonic()
        if now < self._due:
            return None
        self._due = now + self._wait
        mark = None if self._mark is None else self._mark()
        if self._version is not None and mark is not None and mark == self._version[0]:
            return None
        version = [mark, self._listed()]
        return None if version == self._version else version

    def _listed(self) -> list[Any]:
        source = self._source()
        source.look()
        plans = []
        while (plan := source.plan()) is not None:
            source.planned(plan)
            plans.append(plan)
        return plans

    def planned(self, plan: Version) -> None:
        """Take note of a version whose plan is written down."""
        self._version = plan

    def read(self, plan: Version | None) -> Rows:
        """Read the table of a version; without one there is nothing new.

        If that version is gone, the table is read as it is, and a warning says so. No result of the micro-batch has
        been seen then: it has not ended, or it is not repeated.

        Raises
        ------
        SlideJoinError
            If the table cannot be read as it is.
        """
        if plan is None:
            return Rows(empty_of(self.schema), 0)
        try:
            return self._read(plan)
        except SlideJoinError as error:
            rows = self._read([None, self._listed()])
            log.warning(
                "sources.%s: the table has changed since a micro-batch was planned, which now meets it as it is: %s",
                self.name, str(error).removeprefix(f"sources.{self.name}: "),
            )  # fmt: skip
            return replace(rows, version=plan)

    def _read(self, version: Version) -> Rows:
        source = self._source()
        parts = [source.read(plan) for plan in version[1]]
        table = pa.concat_tables([part.table for part in parts]) if parts else empty_of(self.schema)
        # Its rows are no rows of a stream, which are counted.
        unread = [part.unread for part in parts if part.unread is not None]
        bad = sum(part.bad for part in parts)
        return Rows(table, 0, bad, pa.concat_tables(unread) if unread else None, version)

    def state(self) -> Version | None:
        """Return the last version that was planned."""
        return self._version

    def load(self, state: Version | None) -> None:
        """Continue from there."""
        self._version = state


# -- the join ----------------------------------------------------------------------------------------------------------

APART = "\x00table"
"""The suffix of columns within the join, which no name of a user has."""

AT_ONCE = 1 << 19
"""Rows of the stream that are answered at once."""


class TableBatchJoin:
    """A `TableJoin` that takes micro-batches.

    Parameters
    ----------
    spec : JoinSpec
        The join, checked.
    streams : sequence of {"left", "right"}
        The sides that are streams: one, or none if both are tables at rest.
    schemas : pair of pyarrow.Schema
        Of both sources, whole.
    again : callable
        Reads the table of a version that an earlier run has met.
    threads, memory_limit : int, optional
        See `StreamJoin`.

    Raises
    ------
    ArgumentError
        For what a stream cannot know of a table.
    """

    def __init__(
        self,
        spec: JoinSpec,
        streams: Sequence[Side],
        schemas: tuple[pa.Schema, pa.Schema],
        again: Callable[[Any], Rows],
        *,
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self._stream = answered_side(spec, streams)
        self._schemas, self._again = dict(zip(SIDES, schemas, strict=True)), again
        self._columns = output_columns(spec, schemas)
        self._spec = spec if self._stream == "left" else mirrored(spec)
        self.needed = needed_columns(spec, schemas, self._columns, ())
        self._threads, self._memory_limit = threads, memory_limit
        self._join: TableJoin | None = None
        self._version: Any = None
        self._loaded = False

    @property
    def _table(self) -> Side:
        return "right" if self._stream == "left" else "left"

    # -- beginning -----------------------------------------------------------------------------------------------------

    def begin(self, state: bytes = b"") -> None:
        """Plan the join; the table comes with the first micro-batch, or by the version in the state."""
        if state:
            self._version = json.loads(state)
        if self._join is not None:
            return
        spec = self._spec
        own = dict(zip((self._stream, self._table), spec.aliases, strict=True))
        self._join = TableJoin(
            self._empty(self._table),
            spec.on,
            how=spec.how,
            output=spec.output if spec.aggregate is None else spec.aggregate,
            order="none",
            select=[f"{own[side]}.{name}" for side, name, _ in self._columns],
            suffix=APART,
            aliases=spec.aliases,
            algorithm=spec.options or spec.algorithm,
            threads=self._threads,
            memory_limit=self._memory_limit,
            schema=self._empty(self._stream).schema,
            keep=spec.keep,
        )

    def _empty(self, side: Side) -> pa.Table:
        names = self.needed[SIDES.index(side)]
        return empty_of(self._schemas[side]).select(list(names))

    @property
    def join(self) -> TableJoin:
        """The join."""
        if self._join is None:
            msg = "begin() comes first"
            raise TypeError(msg)
        return self._join

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        made = self.join.schema
        return self._result(empty_of(pa.schema([]) if made is None else made)).schema

    def explain(self) -> str:
        """Return the plan in words."""
        # How many rows the table has is not known.
        lines = [line for line in str(self.join.explain()).splitlines() if not line.startswith("window: ")]
        head = f"a join with a table, the {self._table} side: every {self._stream} row meets all of its rows"
        return "\n".join([head, *lines])

    # -- micro-batches -------------------------------------------------------------------------------------------------

    def take(self, rows: Sequence[Rows]) -> Iterator[pa.Table]:
        """Take the rows of the stream, and the table if it is another one; yield rows of the result."""
        sides = dict(zip(SIDES, rows, strict=True))
        table, stream = sides[self._table], sides[self._stream]
        if table.version is not None:
            self._use(table)
        elif stream.table.num_rows and not self._loaded:
            self._use(self._again(self._version))
        for first in range(0, stream.table.num_rows, AT_ONCE):
            part = stream.table.slice(first, AT_ONCE).select(list(self.needed[SIDES.index(self._stream)]))
            for made in self.join.push_iter(part):
                if made.num_rows:
                    yield self._result(made)

    def _use(self, rows: Rows) -> None:
        check_room(rows.table, available_memory())
        self.join.refresh(rows.table.select(list(self.needed[SIDES.index(self._table)])))
        self._version, self._loaded = rows.version, True

    def take_all(self, rows: Sequence[Rows]) -> Iterator[pa.Table]:
        """Take all that there is: no row waits for another one."""
        yield from self.take(rows)

    def state(self) -> bytes:
        """Return the version of the table that the last micro-batch has met."""
        return json.dumps(self._version).encode()

    def counts(self) -> LostCounts:
        """Return that no row was late, or lost for want of a time."""
        return LostCounts()

    def latest(self, rows: Sequence[Rows]) -> str | None:  # noqa: ARG002 - see JobJoin
        """Return None: the join has no event time."""
        return None

    def _result(self, table: pa.Table) -> pa.Table:
        """Return rows of the operator under the names of the result."""
        ahead = 1 if self._spec.output == "count" else 0
        names = table.column_names
        names[ahead : ahead + len(self._columns)] = [name for _, _, name in self._columns]
        named = table.rename_columns(names)
        if ahead and self._stream == "right":
            side = pa.repeat(pa.scalar("right"), table.num_rows)
            named = named.set_column(0, "side", side)
        return named


def check_room(table: pa.Table, free: int | None) -> None:
    """Refuse a table for which there is no memory.

    Parameters
    ----------
    table : pyarrow.Table
    free : int, optional
        Bytes of memory that nobody uses; None where that is not known.

    Raises
    ------
    MemoryLimitError
        If it would not fit with its index.
    """
    needed = INDEX_BYTES * table.num_rows
    if free is not None and needed + table.nbytes > free:
        msg = (
            f"the table of {table.num_rows:,} rows takes about {needed + table.nbytes:,} bytes with its index, and "
            f"{free:,} bytes of memory are free. Give a table of fewer rows or columns: those that on and select do "
            "not name are not read"
        )
        raise MemoryLimitError(msg)
