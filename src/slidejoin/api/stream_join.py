"""`StreamJoin`: the embedded join, the main class of the public API."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from html import escape
from time import perf_counter
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from slidejoin.api.changes import UNCHANGED
from slidejoin.api.one_call import OpenIterator, PushIterator, SharedJoin, both_schemas, from_within, one_call
from slidejoin.api.snapshot import JoinState, load, new_plan, operator_of, save
from slidejoin.arguments import column_name
from slidejoin.display import Explanation, figures_html
from slidejoin.errors import ArgumentError, MemoryLimitError, SchemaError
from slidejoin.jit.interpreted import INTERPRETER
from slidejoin.operator.ingest.batches import DECLARED, to_table
from slidejoin.operator.ingest.order_by import sort_values
from slidejoin.operator.stats import MOST_RECENT
from slidejoin.plan.output_schema import together
from slidejoin.predicate import to_sql
from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.rows.widths import TABLE
from slidejoin.sides import SIDES, other
from slidejoin.spec.join_spec import make_join_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from datetime import timedelta

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.api.changes import Unchanged
    from slidejoin.operator.ingest.late_rows import LateRows
    from slidejoin.operator.join_operator import JoinOperator
    from slidejoin.operator.stats import Stats
    from slidejoin.predicate import Expr, Expression
    from slidejoin.sides import Side
    from slidejoin.spec.aggregate import Aggregate
    from slidejoin.spec.join_options import JoinType, Late, Order, Output
    from slidejoin.spec.nearest import Nearest
    from slidejoin.spec.options import Options
    from slidejoin.spec.topologies import Topology
    from slidejoin.spec.window import Window

__all__ = ["StreamJoin"]


class StreamJoin(SharedJoin):
    """Joins two streams, row by row as they arrive, on any comparison over sliding windows.

    Parameters
    ----------
    on : str or expression
        What must hold for a pair: SQL text with the columns written ``l.name`` and ``r.name``, or a Python expression
        such as ``(sj.left.a < sj.right.b)``.
    window : CountWindow or TimeWindow
        Which pairs are in scope.
    how : {"inner", "left", "right", "full", "left_semi", "left_anti"}
        Join type. ``left``, ``right`` and ``full`` also output the rows of that side, or of both, that have no match,
        with NULL in the columns of the other side; ``left_semi`` outputs each left row that has a match, once;
        ``left_anti`` those that have none. The output of the last two has left columns alone. A row without a match is
        output by the arrival after which it can have none any more: in a count window the one that displaces it, in a
        time window the one that moves the watermark past its time plus its length; or by `finish`.
    output : {"pairs", "count", "positions"} or Aggregate
        One row for each pair; or one row for each arriving row with the number of pairs that it produced, which are
        then never enumerated; or for each pair the ordinals of its rows, two int64 columns ``left`` and ``right``: the
        rows of a side that count (neither late nor without event time) are numbered from 0 in arrival order.
        With an `Aggregate`, one row for each left row with aggregates over its pairs, emitted as the row expires.
    order : {"probe", "strict", "none"}
        Pairs grouped by the row that produced them, in arrival order; the same with each group in order of the stored
        rows' arrival; no promise.
    select : sequence of str, optional
        Output columns, such as ``["l.id", "r.id"]``. Default: all of the left, then all of the right.
    suffix : str, default "_right"
        Appended to the name of a right column that the left side has too.
    self_join : bool, default False
        Rows are given once, as left, and act as both sides.
    aliases : pair of str, default ("l", "r")
        Names of the sides in SQL text and in `select`.
    algorithm : str or slidejoin.options.Options, default "auto"
        One of `slidejoin.algorithms()`; or an object of `slidejoin.options`, which sets what can be set of one.
    topology : str or slidejoin.options.Topology, default "auto"
        How the work is spread over cores: one of `slidejoin.topologies()`; or an object of `slidejoin.options`, which
        sets what can be set of one.
    threads : int, optional
        Threads to use; default one for each core, up to four. More than four rarely help.
    memory_limit : int, optional
        Bytes of rows and index, stored late rows included; a push that would pass them is refused. Not covered
        are batches while they are read, what a push returns (see `push_iter`), and what kernels take while they run.
    late : {"drop", "emit"}
        Whether the late rows of a time window, and rows without event time, are dropped; or stored until `late_rows`
        returns them. Both ways they take no part in the join, and are counted.
    idle_timeout : str or timedelta, optional
        Of a time window: how long, by the wall clock, a side may have no row before it does not hold the watermark back
        any more, until it has rows again. Default: for ever.
    wall_clock : callable, optional
        Returns the seconds of the wall clock, for `idle_timeout`; default `time.monotonic`.
    keep : Nearest, optional
        Keep of each left row's pairs only the nearest ones: an as-of join. They are emitted as the row expires.
    schemas : pair of pyarrow.Schema, optional
        The schemas of both sides (of a self-join: of its rows, twice). With them everything is checked here; without,
        names when the first batch of each side comes, types when both sides have had one. Give them where a first batch
        may have a column of NULLs alone: without, its type is null for good.

    Raises
    ------
    PredicateError
        For a predicate, selection or names that cannot be used.
    ArgumentError
        For other arguments that cannot be used.

    Examples
    --------
    >>> import slidejoin as sj
    >>> join = sj.StreamJoin(on="l.a BETWEEN r.b - 1 AND r.b + 1", window=sj.CountWindow(100))
    >>> join.push(left={"a": [1, 5]}, right={"b": [2, 9]}).to_pydict()
    {'a': [1], 'b': [2]}
    """

    _state: JoinState

    _ordered_by: str | None = None
    """The `order_by` of an earlier push, which was checked then."""

    def __init__(
        self,
        on: str | Expr | Expression,
        window: Window,
        *,
        how: JoinType = "inner",
        output: Output | Aggregate = "pairs",
        order: Order = "probe",
        select: Iterable[str] | None = None,
        suffix: str = "_right",
        self_join: bool = False,
        aliases: tuple[str, str] = ("l", "r"),
        algorithm: str | Options = "auto",
        topology: str | Topology = "auto",
        threads: int | None = None,
        memory_limit: int | None = None,
        late: Late = "drop",
        idle_timeout: str | timedelta | None = None,
        wall_clock: Callable[[], float] | None = None,
        schemas: tuple[pa.Schema, pa.Schema] | None = None,
        keep: Nearest | None = None,
    ) -> None:
        config = make_join_spec(
            on=on,
            window=window,
            how=how,
            output=output,
            order=order,
            select=select,
            suffix=suffix,
            self_join=self_join,
            aliases=aliases,
            algorithm=algorithm,
            topology=topology,
            threads=threads,
            memory_limit=memory_limit,
            late=late,
            idle_timeout=idle_timeout,
            wall_clock=wall_clock,
            keep=keep,
        )
        self._begin()
        self._state = JoinState(config)
        if schemas is not None:
            left, right = both_schemas(schemas, self_join=config.self_join)
            self._state.schemas, self._known_from = {"left": left, "right": right}, DECLARED
            self._state.operator = operator_of(new_plan(config, left, right), self._state.late)

    # -- rows ----------------------------------------------------------------------------------------------------

    def push(self, left: object = None, right: object = None, *, order_by: str | None = None) -> pa.Table:
        """Take rows and return what they produce.

        Parameters
        ----------
        left, right : batch, optional
            A pyarrow Table or RecordBatch, a pandas or Polars frame, a dict of arrays, or anything with
            ``__arrow_c_stream__``. All left rows arrive, then all right rows.
        order_by : str, optional
            Column by which the rows of both sides are sorted into one arrival order, stable, left first on ties.

        Returns
        -------
        pyarrow.Table
            The pairs that these arrivals produced, or their counts. The output schema is known once both sides have
            had a batch, or from `schemas`; until then the table has the columns known so far and, for pairs, no rows.

        Raises
        ------
        ArgumentError
            If `order_by` is no name; nothing is taken.
        SchemaError
            If a batch cannot be read or differs from the side's first one; nothing is taken.
        PredicateError
            If the predicate does not fit the schemas, which without `schemas` are known only now; nothing is taken.
        MemoryLimitError
            If the rows would pass `memory_limit`; nothing is taken.
        JoinClosedError
            After `finish`, while an iterator of `push_iter` is open or `push_async` is running, or after a push that
            was interrupted.
        """
        if self._turns is not None or self._fed_by is not None:
            self._check_others()
        # As `one_call`, written out: a tenth of a microsecond of each push.
        with self._lock:
            if self._busy:
                raise from_within()
            self._busy = True
            try:
                start = perf_counter()
                out = self._push(left, right, order_by)
                # As `PushTimes.add`, written out for the same reason.
                operator, recent = self._state.operator, self._push_times.recent
                recent.append((perf_counter() if operator is None else operator.ended) - start)
                if len(recent) >= MOST_RECENT:
                    self._push_times.fold()
                return out
            finally:
                self._busy = False

    def _push(self, left: object, right: object, order_by: str | None) -> pa.Table:
        if order_by is not None and order_by is not self._ordered_by:
            self._ordered_by = column_name("order_by", order_by)
        state = self._state
        if state.finished or self._open is not None or self._broken is not None:
            self._check_open()
        operator = state.operator
        if operator is None:
            out = self._all_of(self._push_iter(self._read(left, right), _given(left, right), order_by))
            return together(out, out[0].schema) if out else self._empty()
        tables = self._read(left, right, own=not operator.copies)
        if state.config.memory_limit is not None:
            self._check_memory(tables, operator, None if order_by is None else sort_values(tables, order_by))
        return self._take(operator, tables, order_by)

    async def push_async(self, left: object = None, right: object = None, *, order_by: str | None = None) -> pa.Table:
        """Push in a worker thread, so that an event loop can do other things meanwhile; see `push`.

        Kernels do not hold Python's lock. Pushes are done one at a time, in the order of the calls; while one runs or
        waits, `push`, `push_iter`, `finish` and `snapshot` raise in the thread of the event loop, `stats` and `explain`
        wait for it. A batch must not be changed before its push has ended.

        A call that is cancelled before its turn takes nothing. One that is cancelled while it runs takes all its rows:
        it waits until they are in the window and then ends as cancelled, without what they produced.

        Raises
        ------
        ArgumentError, SchemaError, PredicateError, MemoryLimitError, JoinClosedError
            As `push`.

        Examples
        --------
        >>> import asyncio
        >>> import slidejoin as sj
        >>> join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(10))
        >>> asyncio.run(join.push_async({"a": [1]}, {"a": [1]})).num_rows
        1
        """
        return await self._queue().run(lambda: self.push(left, right, order_by=order_by))

    def push_iter(
        self, left: object = None, right: object = None, *, order_by: str | None = None
    ) -> Iterator[pa.Table]:
        """Take rows and return an iterator over what they produce, in tables of bounded size.

        A table has at most 1,048,576 rows and 64 MiB; a row that is wider is a table of its own. The entries of
        dictionaries come on top where many rows share them.

        The rows are checked before this returns, and taken as the iterator advances; closing it early takes the rest
        and discards what they produce. Until then the join takes no other rows. See `push`.
        """
        order_by = None if order_by is None else column_name("order_by", order_by)
        self._check_others()
        return self._opened(left, right, order_by)

    @one_call
    def _opened(self, left: object, right: object, order_by: str | None) -> Iterator[pa.Table]:
        self._check_open()
        tables = self._push_iter(self._read(left, right), _given(left, right), order_by)
        return OpenIterator(self, tables) if isinstance(tables, PushIterator) else tables

    def _push_iter(self, tables: dict[Side, pa.Table], given: list[Side], order_by: str | None) -> Iterator[pa.Table]:
        """Check the tables of the sides `given`, and return an iterator over what they produce."""
        state = self._state
        by = None if order_by is None else sort_values(tables, order_by)
        schemas = state.schemas | {side: tables[side].schema for side in given}
        if state.config.self_join and "left" in schemas:
            schemas["right"] = schemas["left"]
        operator = state.operator
        self._check_memory(tables, operator, by)
        known: list[pa.Table] = []
        if operator is None and len(schemas) == len(SIDES):
            operator, known = state.waiting.operator(new_plan(state.config, schemas["left"], schemas["right"]))
            tables = {side: tables[side] if side in given else empty_of(schemas[side]) for side in SIDES}
            self._check_memory(tables, operator, by)
        if operator is None:
            # Rows of one side alone have no matches; they wait for the other side's schema.
            for side in given:
                if tables[side].num_rows and state.waiting.lacks_columns(other(side)):
                    self._warn_of_columns(f"the {other(side)} side")
            out = [state.waiting.push(side, tables[side], by) for side in given]
            state.schemas = schemas
            return (part for table in out for part in TABLE.cut(table))
        work = PushIterator(self._to_the_end(_after(known, operator.push_iter(operator.prepare(tables, by)))))
        # Nothing can be refused from here on.
        state.schemas, state.operator, self._open = schemas, operator, work
        return work

    def finish(self) -> pa.Table:
        """End both streams and return the rows that were still pending.

        These are the rows without a match that are still in the window, if `how` outputs such: left ones first, each
        side in arrival order. There are none for an inner or a semi join.

        Raises
        ------
        JoinClosedError
            If the join is finished already, or an iterator of `push_iter` is open.
        """
        self._check_others()
        return self._finish()

    @one_call
    def _finish(self) -> pa.Table:
        self._check_open()
        state, operator = self._state, self._state.operator
        try:
            if operator is None:
                out = state.waiting.finish(state.schemas)
            else:
                out = together(list(operator.finish()), operator.plan.layout.whole)
        except BaseException as error:
            self._broken = repr(error)
            raise
        state.finished = True
        if operator is not None:
            operator.close()
        return out

    def late_rows(self) -> LateRows:
        """Return the late rows that have come since the last call, and forget them.

        These are rows below the watermark, and rows whose event time is NULL. They have all columns of their side, and
        stand in the order in which they arrived; the column of event times tells the two kinds apart. They are part of
        a snapshot, and count for `memory_limit`. Any thread may call this, also while a `Feed` pushes.

        Returns
        -------
        LateRows
            ``left`` and ``right``: a table of each side, of a self-join of left rows only.

        Raises
        ------
        ArgumentError
            If the join was not made with ``late="emit"``.

        Examples
        --------
        >>> import slidejoin as sj
        >>> join = sj.StreamJoin(on="l.k = r.k", window=sj.TimeWindow(5, on="t"), late="emit")
        >>> _ = join.push(left={"k": [1], "t": [10]}, right={"k": [1, 2, 3], "t": [12, 4, None]})
        >>> join.late_rows().right.to_pydict()
        {'k': [2, 3], 't': [4, None]}
        >>> join.late_rows().right.num_rows
        0
        """
        return self._late_rows()

    @one_call
    def _late_rows(self) -> LateRows:
        late = self._state.late
        if late is None:
            msg = (
                "late_rows() needs a join with late='emit'; this one has late='drop', which counts late rows in "
                "stats.late_rows and keeps none. Create it with StreamJoin(…, late='emit')"
            )
            raise ArgumentError(msg)
        return late.take(self._state.schemas)

    # -- looking at it -------------------------------------------------------------------------------------------

    @property
    def stats(self) -> Stats:
        """Counters of rows, pairs, late rows, window sizes, bytes, and seconds by step, as they are now."""
        self._settle()
        return self._measured()

    @one_call
    def _measured(self) -> Stats:
        state = self._state
        stats = state.waiting.stats if state.operator is None else state.operator.measured()
        return replace(stats, seconds=dict(stats.seconds))

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of what `push` returns; None until both sides' schemas are known."""
        self._settle()
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
        missing = " and ".join(side for side in SIDES if side not in state.schemas)
        return Explanation(
            f"{config.how} join on {to_sql(config.on, config.aliases)}\nwindow: {config.window}\n"
            f"not planned yet: the schema of the {missing} side is not known yet; push a batch of it, or give schemas="
        )

    def __repr__(self) -> str:
        return self._state.config.shown()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>{figures_html(self.stats.to_json())}"

    # -- state ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return the whole state as bytes: versioned, checksummed, without pickled objects.

        Raises
        ------
        JoinClosedError
            While an iterator of `push_iter` is open.
        """
        self._check_others()
        return self._saved()

    @one_call
    def _saved(self) -> bytes:
        self._check_idle()
        return save(self._state)

    @classmethod
    def restore(
        cls,
        state: bytes,
        *,
        threads: int | None = None,
        algorithm: str | Options = "auto",
        topology: str | Topology = "auto",
        select: Iterable[str] | Unchanged | None = UNCHANGED,
        window: Window | None = None,
        suffix: str | None = None,
        order: Order | None = None,
        aliases: tuple[str, str] | None = None,
        wall_clock: Callable[[], float] | None = None,
    ) -> Self:
        """Return a join that continues where `snapshot` was taken; threads, algorithm and topology may be others.

        Parameters
        ----------
        state : bytes
            What `snapshot` returned.
        threads, algorithm, topology, wall_clock
            As of a new join; they are no part of the state.
        select : sequence of str or None, optional
            Other output columns, among those that the state holds: what the former selection and the predicate need.
            None for all columns. Default: as before.
        window : CountWindow or TimeWindow, optional
            Other sizes or lengths. A shorter window is exact at once: all results are those of a join that had it from
            the start. Of a longer one, pairs with rows that had left the former window are missing, and no others,
            until no row that arrives could see such a row; that is logged.
        suffix, order, aliases : optional
            As of a new join.

        Raises
        ------
        StateError
            If the bytes are damaged, foreign or of an unknown format; or if the rows do not allow a change, such as
            another lateness. Nothing is loaded.
        PredicateError, ArgumentError
            For arguments that do not suit the join's predicate and schemas.

        Examples
        --------
        >>> import slidejoin as sj
        >>> join = sj.StreamJoin(on="l.a = r.b", window=sj.CountWindow(100))
        >>> _ = join.push(left={"a": [1, 2]}, right={"b": [3]})
        >>> again = sj.StreamJoin.restore(join.snapshot(), select=["l.a"], window=sj.CountWindow(10))
        >>> again.push(right={"b": [2]}).to_pydict()
        {'a': [2]}
        """
        given = {"select": select, "window": window, "suffix": suffix, "order": order, "aliases": aliases}
        changes = {
            name: value for name, value in given.items() if value is not (UNCHANGED if name == "select" else None)
        }
        join = cls._unloaded()
        join._state = load(  # noqa: SLF001 - its own
            state, threads=threads, algorithm=algorithm, topology=topology, wall_clock=wall_clock, changes=changes
        )
        return join

    # -- checks --------------------------------------------------------------------------------------------------

    def _read(self, left: object, right: object, *, own: bool = True) -> dict[Side, pa.Table]:
        """Read the batches, each once, and return a table of each side, with memory of its `own` or perhaps not."""
        state = self._state
        if state.config.self_join and right is not None:
            msg = "a self-join takes only left batches; got a right batch as well"
            raise SchemaError(msg)
        schemas, said = state.schemas, self._known_from
        of_left, of_right = schemas.get("left"), schemas.get("right")
        tables: dict[Side, pa.Table] = {
            "left": _no_rows(of_left) if left is None else to_table(left, "left", of_left, said, own=own),
            "right": _no_rows(of_right) if right is None else to_table(right, "right", of_right, said, own=own),
        }
        if state.operator is None or INTERPRETER.cold:
            INTERPRETER.expect(sum(table.num_rows for table in tables.values()))
        return tables

    def _behind(self) -> Side | None:
        """Return the side whose event times are behind the other's; None in count windows, or if that is not known."""
        operator = self._state.operator
        return None if operator is None else operator.clock.behind()

    def _check_memory(
        self,
        tables: dict[Side, pa.Table],
        operator: JoinOperator | None,
        by: tuple[NDArray[np.generic], NDArray[np.generic]] | None,
    ) -> None:
        limit = self._state.config.memory_limit
        if limit is None:
            return
        late = 0 if self._state.late is None else self._state.late.nbytes
        held, coming = (
            self._state.waiting.nbytes + late,
            sum(table.nbytes + table.num_rows * 12 for table in tables.values()),
        )
        if operator is not None:
            held = operator.measured().window_bytes + late
            coming = operator.growth(tables, limit - held, by)
        if held + coming > limit:
            waiting = f", {late} of them late rows that late_rows() returns and forgets," if late else ""
            msg = (
                f"memory_limit is {limit} bytes; the window holds {held}{waiting} and this push of "
                f"{sum(t.num_rows for t in tables.values())} rows may need {coming} more. "
                "Push fewer rows at once, or make the window smaller; none of the rows was added"
            )
            raise MemoryLimitError(msg)

    def _empty(self) -> pa.Table:
        state = self._state
        if state.operator is not None:
            return empty_of(state.operator.plan.layout.whole)
        return state.waiting.empty(state.schemas)


def _after(known: list[pa.Table], tables: Generator[pa.Table]) -> Generator[pa.Table]:
    """Yield what rows have produced that waited for the schemas, and then what others produce."""
    with closing(PushIterator(tables)) as work:
        yield from known
        yield from work


def _no_rows(schema: pa.Schema | None) -> pa.Table:
    """Return what stands for a side that `push` was given no batch of."""
    return pa.table({}) if schema is None else empty_of(schema)


def _given(left: object, right: object) -> list[Side]:
    return [side for side, batch in zip(SIDES, (left, right), strict=True) if batch is not None]
