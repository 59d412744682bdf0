"""`TableJoin`: every row of a stream against every row of a table, on any comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from time import perf_counter
from typing import TYPE_CHECKING

import pyarrow as pa

from slidejoin.api.one_call import OpenIterator, PushIterator, SharedJoin, one_call
from slidejoin.api.snapshot import new_plan, operator_of
from slidejoin.arguments import one_of, shown
from slidejoin.display import Explanation, figures_html
from slidejoin.errors import ArgumentError, ArgumentTypeError, MemoryLimitError
from slidejoin.jit.interpreted import INTERPRETER
from slidejoin.operator.ingest.batches import DECLARED, to_table
from slidejoin.operator.stats import Stats
from slidejoin.predicate import to_sql
from slidejoin.predicate.expression.expr import Column, rewritten
from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.sides import SIDES
from slidejoin.spec.join_spec import JoinSpec, make_join_spec
from slidejoin.spec.window import TableWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.predicate import Expr, Expression
    from slidejoin.sides import Side
    from slidejoin.spec.aggregate import Aggregate
    from slidejoin.spec.join_options import JoinType, Order, Output
    from slidejoin.spec.nearest import Nearest
    from slidejoin.spec.options import Options

__all__ = ["ANSWERED", "INDEX_BYTES", "TableJoin", "answered_side", "mirrored", "table_operator"]

ANSWERED: tuple[JoinType, ...] = ("inner", "left", "left_semi", "left_anti")
"""Join types whose rows are all known as a row of the stream arrives."""

MIRRORED: dict[JoinType, JoinType] = {"inner": "inner", "right": "left"}
"""Join types of a table with a stream, and those of the stream with the table."""

INDEX_BYTES = 64
"""Bytes of the index for a row of a table, about; the columns of the table come to it."""

GIVEN = "the schema of the first table"


@dataclass(slots=True)
class TableState:
    """What a join with a table knows.

    Attributes
    ----------
    config : JoinSpec
        With the window of the present table.
    table : pyarrow.Table
        Its rows; none once they are in the index.
    schema : pyarrow.Schema or None
        Of the stream, once that is known.
    operator : JoinOperator or None
        The index, once both schemas are known.
    finished : bool
        Never: there is nothing left to answer.
    """

    config: JoinSpec
    table: pa.Table
    schema: pa.Schema | None = None
    operator: JoinOperator | None = None
    finished: bool = False


class TableJoin(SharedJoin):
    """Joins each batch of a stream with a table, on any comparison: no window, no late rows, no state.

    The rows of the table are put into an index once. A row of the stream, the left side, is answered as it arrives, so
    results are in the order of its rows: which range is a value in, which rules apply to an order, which price was
    valid then.

    Parameters
    ----------
    table : batch
        The right side, as `StreamJoin.push` takes batches.
    on : str or expression
        What must hold for a row of the stream and one of the table, see `StreamJoin`.
    how : {"inner", "left", "left_semi", "left_anti"}
        Join type, see `StreamJoin`.
    output : {"pairs", "count", "positions"} or Aggregate
        As of a `StreamJoin`. Rows of the table are numbered from 0 in its order, those of the stream as they arrive.
    order, select, suffix, aliases, algorithm, threads
        As of a `StreamJoin`. With ``order="strict"`` the pairs of a row are in the order of the table.
    memory_limit : int, optional
        Bytes that the table may take with its index; one that would take more is refused.
    schema : pyarrow.Schema, optional
        The schema of the stream. With it everything is checked here, and the index is built; without, when the first
        batch comes.
    keep : Nearest, optional
        Keep of each row's pairs only the nearest ones: the as-of join of a stream with a table.

    Raises
    ------
    PredicateError
        For a predicate, selection or names that cannot be used.
    SchemaError
        If the table cannot be read.
    MemoryLimitError
        If the table does not fit into `memory_limit`.
    ArgumentError
        For other arguments that cannot be used.

    Examples
    --------
    >>> import slidejoin as sj
    >>> bands = {"low": [0, 10, 100], "high": [9, 99, 999], "rate": [1, 2, 3]}
    >>> join = sj.TableJoin(bands, on="l.qty BETWEEN r.low AND r.high", select=["l.qty", "r.rate"])
    >>> join.push({"qty": [5, 500]}).to_pydict()
    {'qty': [5, 500], 'rate': [1, 3]}
    >>> join.refresh({"low": [0], "high": [999], "rate": [7]})
    >>> join.push({"qty": [5]}).to_pydict()
    {'qty': [5], 'rate': [7]}
    """

    _state: TableState

    _no_rows: pa.Table
    """Of the table's schema."""

    def __init__(
        self,
        table: object,
        on: str | Expr | Expression,
        *,
        how: JoinType = "inner",
        output: Output | Aggregate = "pairs",
        order: Order = "probe",
        select: Iterable[str] | None = None,
        suffix: str = "_right",
        aliases: tuple[str, str] = ("l", "r"),
        algorithm: str | Options = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
        schema: pa.Schema | None = None,
        keep: Nearest | None = None,
    ) -> None:
        rows = to_table(table, "right", None)
        config = make_join_spec(
            on=on,
            window=TableWindow(rows.num_rows),
            how=one_of("how", how, ANSWERED),
            output=output,
            order=order,
            select=select,
            suffix=suffix,
            aliases=aliases,
            algorithm=algorithm,
            threads=threads,
            memory_limit=memory_limit,
            keep=keep,
        )
        given: object = schema
        if given is not None and not isinstance(given, pa.Schema):
            msg = f"schema must be a pyarrow schema, that of the stream; got {shown(given)}"
            raise ArgumentTypeError(msg)
        self._begin()
        self._state = TableState(config, rows)
        self._no_rows = empty_of(rows.schema)
        if schema is not None:
            self._known_from = DECLARED
            self._plan(schema)

    # -- rows ----------------------------------------------------------------------------------------------------

    def push(self, batch: object) -> pa.Table:
        """Answer the rows of a batch.

        Parameters
        ----------
        batch : batch
            Rows of the stream, see `StreamJoin.push`.

        Returns
        -------
        pyarrow.Table
            Their pairs with rows of the table, in the order of the batch, or what `how` and `output` make of these.

        Raises
        ------
        SchemaError
            If the batch cannot be read or differs from the first one.
        PredicateError
            If the predicate does not fit the schemas, which without `schema` are known only now.
        JoinClosedError
            While an iterator of `push_iter` is open or `push_async` is running.
        """
        self._check_others()
        return self._push(batch)

    @one_call
    def _push(self, batch: object) -> pa.Table:
        start = perf_counter()
        self._check_open()
        operator, tables = self._prepared(batch)
        out = self._take(operator, tables, None)
        self._push_times.add(perf_counter() - start)
        return out

    async def push_async(self, batch: object) -> pa.Table:
        """Push in a worker thread, so that an event loop can do other things meanwhile; see `StreamJoin.push_async`.

        Examples
        --------
        >>> import asyncio
        >>> import slidejoin as sj
        >>> join = sj.TableJoin({"a": [1, 2]}, on="l.a <= r.a")
        >>> asyncio.run(join.push_async({"a": [2]})).num_rows
        1
        """
        return await self._queue().run(lambda: self.push(batch))

    def push_iter(self, batch: object) -> Iterator[pa.Table]:
        """Return an iterator over what the rows of a batch produce, in tables of bounded size.

        See `StreamJoin.push_iter`. Closing it early discards the rest.
        """
        self._check_others()
        return self._opened(batch)

    @one_call
    def _opened(self, batch: object) -> Iterator[pa.Table]:
        self._check_open()
        operator, tables = self._prepared(batch)
        work = PushIterator(self._to_the_end(operator.push_iter(operator.prepare(tables))))
        self._open = work
        return OpenIterator(self, work)

    def _prepared(self, batch: object) -> tuple[JoinOperator, dict[Side, pa.Table]]:
        """Return the index, which is built by the first batch, and the rows of the batch."""
        state = self._state
        rows = to_table(batch, "left", state.schema, self._known_from, own=False)
        operator = state.operator or self._plan(rows.schema)
        if INTERPRETER.cold:
            INTERPRETER.expect(rows.num_rows)
        return operator, {"left": rows, "right": self._no_rows}

    def _plan(self, schema: pa.Schema) -> JoinOperator:
        """Plan the join for rows of the stream with that schema, and put the table into its index."""
        state = self._state
        operator = table_operator(state.config, schema, state.table)
        state.operator, state.schema, state.table = operator, schema, self._no_rows
        return operator

    # -- the table -----------------------------------------------------------------------------------------------

    def refresh(self, table: object) -> None:
        """Replace the table: later batches meet the new one, whole, and none of the old rows.

        Pushes of other threads go on with the old table while the index of the new one is built.

        Parameters
        ----------
        table : batch
            Of the schema of the first one.

        Raises
        ------
        SchemaError
            If it cannot be read, or its schema is another one; the old table stays.
        MemoryLimitError
            If it does not fit into `memory_limit`; the old table stays.
        JoinClosedError
            While an iterator of `push_iter` is open.
        """
        self._check_from_within()
        rows = to_table(table, "right", self._no_rows.schema, GIVEN)
        config = replace(self._state.config, window=TableWindow(rows.num_rows))
        schema = self._state.schema
        self._refreshed(config, rows, None if schema is None else table_operator(config, schema, rows))

    @one_call
    def _refreshed(self, config: JoinSpec, rows: pa.Table, operator: JoinOperator | None) -> None:
        self._check_idle()
        state = self._state
        if operator is None and state.schema is not None:
            # The first batch came meanwhile.
            operator = table_operator(config, state.schema, rows)
        if operator is not None and state.operator is not None:
            operator.stats.become(state.operator.stats)
            state.operator.close()
        state.config, state.operator = config, operator
        state.table = rows if operator is None else self._no_rows

    # -- looking at it -------------------------------------------------------------------------------------------

    @property
    def stats(self) -> Stats:
        """Counters: ``rows_left`` of the stream, ``window_right`` of the table, pairs, bytes, seconds by step."""
        self._settle()
        return self._measured()

    @one_call
    def _measured(self) -> Stats:
        operator = self._state.operator
        stats = Stats() if operator is None else operator.measured()
        return replace(stats, seconds=dict(stats.seconds))

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of what `push` returns; None until that of the stream is known."""
        operator = self._state.operator
        return None if operator is None else operator.plan.layout.whole

    def explain(self) -> Explanation:
        """Return the plan in words, and why it was chosen: a text that shows its lines at Python's prompt."""
        self._settle()
        return self._explained()

    @one_call
    def _explained(self) -> Explanation:
        state = self._state
        if state.operator is not None:
            return Explanation(state.operator.explain())
        config = state.config
        return Explanation(
            f"{config.how} join on {to_sql(config.on, config.aliases)}\nwindow: {config.window}\n"
            "not planned yet: the schema of the stream is not known yet; push a batch, or give schema="
        )

    def __repr__(self) -> str:
        return self._state.config.shown("TableJoin")

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>{figures_html(self.stats.to_json())}"


def table_operator(config: JoinSpec, schema: pa.Schema, table: pa.Table) -> JoinOperator:
    """Return the operator of a stream with that schema and a table, whose rows are in its index.

    Raises
    ------
    PredicateError
        If the predicate does not fit the schemas.
    MemoryLimitError
        If the table does not fit into the limit of memory.
    """
    INTERPRETER.expect(table.num_rows)
    operator = operator_of(new_plan(config, schema, table.schema), None)
    limit = config.memory_limit
    if limit is not None:
        needed = operator.growth({"left": empty_of(schema), "right": table}, limit)
        if needed > limit:
            msg = (
                f"memory_limit is {limit} bytes; the table of {table.num_rows} rows may need {needed} with its index. "
                "Raise memory_limit, or give a table of fewer rows or columns: those that on= and select= do not name "
                "are not stored"
            )
            raise MemoryLimitError(msg)
    operator.load_table(table)
    return operator


# -- joins whose left side is the table --------------------------------------------------------------------------------


def answered_side(config: JoinSpec, streams: Sequence[Side], tables: str = "two tables without a window") -> Side:
    """Return the side whose rows are answered as they come: the stream, or of two tables the one that keeps its rows.

    Parameters
    ----------
    config : JoinSpec
    streams : sequence of {"left", "right"}
        The side that is a stream; none if both are tables at rest.
    tables : str
        How an error calls such a join of two tables.

    Raises
    ------
    ArgumentError
        For what that side cannot know.
    """
    stream = streams[0] if streams else "right" if config.how == "right" else "left"
    possible = ANSWERED if stream == "left" else tuple(MIRRORED)
    what = "a stream with a table" if streams else tables
    if config.how not in possible:
        msg = f"how={config.how!r} is not for {what}, as it asks which rows of the table have a partner. "
        if not streams:
            msg += f"Use {', '.join((*ANSWERED, 'right'))}; or give a window="
        elif stream == "left":
            msg += f"Use {', '.join(ANSWERED)}"
        else:
            msg += f"Use {', '.join(MIRRORED)}; or give the stream as left, for {', '.join(ANSWERED)}"
        raise ArgumentError(msg)
    if config.deferred and stream == "right":
        given = "output=Aggregate" if config.keep is None else f"keep={config.keep!r}"
        msg = f"{given} answers left rows, and the left side is a table: give the stream as left, the table as right"
        raise ArgumentError(msg)
    return stream


def mirrored(config: JoinSpec) -> JoinSpec:
    """Return a join with the sides changed over."""
    other = dict(zip(SIDES, reversed(SIDES), strict=True))

    def changed(node: Expr) -> Expr | None:
        return Column(other[node.side], node.name) if isinstance(node, Column) else None

    one, two = config.aliases
    return replace(config, on=rewritten(config.on, changed), aliases=(two, one), how=MIRRORED[config.how])
