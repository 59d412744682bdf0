"""The join of a job: micro-batches of both sources in, rows of the result out, with the match time and late rows.

Inside a micro-batch rows arrive by event time, left first on ties, and a row is late if it is below the watermark with
which the micro-batch began. The join's own watermark never passes the row that moves it, so with rows in that order it
says the same of every row, though it moves all the time. So a micro-batch can be pushed in slices::

    left rows   ─▶ by event time ─┐ slice 1 │ slice 2 │ …
    right rows  ─▶ by event time ─┘    │         │
                                      push ─▶ rows + match time ─▶ result

Nearest matches that lie equally near are those of the later arrival, so right rows of one event time arrive in the
order of their values. In a count window rows arrive by its order, and further ties as they lie in the files.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.api.stream_join import StreamJoin
from slidejoin.errors import ConfigError, PredicateError
from slidejoin.pipeline.job_join import LostCounts, needed_columns, output_columns
from slidejoin.plan.window_term import saturating_add
from slidejoin.rows.arrow_buffers import array_of, empty_of, values_in
from slidejoin.sides import SIDES
from slidejoin.spec.join_options import ONE_SIDED
from slidejoin.spec.window import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.pipeline.source import Rows
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["LATE_SIDE", "MATCH_TIME", "MicroBatchJoin"]

MATCH_TIME = "match_time"
"""The column of a result over time that has the later event time of a pair."""

LATE_SIDE = "late_side"
"""The column that says of which side a late row is; NULL in pairs."""

AT = "__slidejoin_at"
"""A column of both sides with their event times, where these have other names or types."""

ROW = "__slidejoin_row"
"""A column of left rows with their numbers, in a semi join over time, see `FirstMatches`."""

HEAD = struct.Struct("<QQ")
"""The number of the next row, and how many rows were output and may match again."""

SIZE = struct.Struct("<Q")
"""Bytes of the state of first matches, which is before that of the join."""

SLICE_ROWS = 1 << 19
"""Rows of both sides that are pushed at once."""


class MicroBatchJoin:
    """A `StreamJoin` that takes micro-batches.

    Parameters
    ----------
    spec : JoinSpec
        The join, checked.
    options : Mapping of str to object
        Arguments of `StreamJoin`, without `select` and `schemas`.
    order_by : str, optional
        The column by which rows of a count window arrive.
    schemas : pair of pyarrow.Schema
        Of both sources, whole.
    slice_rows : int
        About how many rows of both sides are pushed at once.
    """

    def __init__(
        self,
        spec: JoinSpec,
        options: Mapping[str, Any],
        order_by: str | None,
        schemas: tuple[pa.Schema, pa.Schema],
        slice_rows: int = SLICE_ROWS,
    ) -> None:
        self._slice_rows = slice_rows
        self._spec, self._options, self._order_by = spec, dict(options), order_by
        window = spec.window
        self._timed = window.has_watermark
        self._columns = output_columns(spec, schemas)
        self._names = [name for _, _, name in self._columns]
        self._times = [(side, name) for side in SIDES for name in window.event_times(side)] if self._timed else []
        if self._timed:
            _check_times(self._times, schemas, self._names)
        ordered = [] if order_by is None else [(side, order_by) for side in SIDES]
        self._needed = needed_columns(spec, schemas, self._columns, [*self._times, *ordered])
        self._schemas = schemas
        self._join: StreamJoin | None = None
        self._self = spec.self_join
        self._semi = FirstMatches() if self._timed and spec.how == "left_semi" else None
        self._latest: dict[Side, int] = {}
        """The largest event time of each side."""
        if self._semi is not None:
            self._options["how"] = "inner"

    # -- beginning -----------------------------------------------------------------------------------------------------

    @property
    def needed(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns of each side that the join reads."""
        return self._needed

    def begin(self, state: bytes = b"") -> None:
        """Create the join, unless that is done, or restore it from a state."""
        if not state and self._join is not None:
            return
        select = self._selection()
        if state and self._semi is not None:
            (size,) = SIZE.unpack_from(state)
            self._semi = FirstMatches(state[SIZE.size : SIZE.size + size])
            state = state[SIZE.size + size :]
        if state:
            same = {name: self._options[name] for name in ("threads", "algorithm") if name in self._options}
            self._join = StreamJoin.restore(
                state, **same, select=select, suffix=self._spec.suffix, aliases=self._spec.aliases, order="none"
            )
            return
        left, right = (
            pa.schema([*(schema.field(name) for name in names), *self._added(side)])
            for side, schema, names in zip(SIDES, self._schemas, self._needed, strict=True)
        )
        self._join = StreamJoin(**self._options, select=select, order="none", schemas=(left, right))

    def _added(self, side: Side) -> list[pa.Field[Any]]:
        names = [AT] if self._ordered_by == AT else []
        names += [ROW] if self._semi is not None and (side == "left" or self._self) else []
        return [pa.field(name, pa.int64()) for name in names]

    @property
    def _kind(self) -> pa.DataType:
        """The type of event times of both sides."""
        return _finest([self._type(*one) for one in self._times])

    @property
    def _ordered_by(self) -> str | None:
        """The column of both sides by which rows are interleaved."""
        if not self._timed:
            return self._order_by
        if self._self:
            return self._times[0][1]
        (_, left), (_, right) = self._times
        same = left == right and self._schemas[0].field(left).type == self._schemas[1].field(right).type
        return left if same else AT

    def _selection(self) -> list[str]:
        """Return the columns of the operator's result: those of the result, then event times that these lack."""
        alias = dict(zip(SIDES, self._spec.aliases, strict=True))
        names = [f"{alias[side]}.{name}" for side, name, _ in self._columns]
        names += [f"{alias[side]}.{name}" for side, name in self._shown_times() if (side, name) not in self._own]
        return names if self._semi is None else [*names, f"{alias['left']}.{ROW}"]

    @property
    def _own(self) -> list[tuple[Side, str]]:
        return [(side, name) for side, name, _ in self._columns]

    def _shown_times(self) -> list[tuple[Side, str]]:
        one_sided = (self._spec.how in ONE_SIDED and self._semi is None) or self._spec.aggregate is not None
        return [one for one in self._times if not one_sided or one[0] == "left"]

    @property
    def join(self) -> StreamJoin:
        """The join."""
        if self._join is None:
            msg = "begin() comes first"
            raise TypeError(msg)
        return self._join

    def state(self) -> bytes:
        """Return the state of the join."""
        if self._semi is None:
            return self.join.snapshot()
        first = self._semi.state()
        return SIZE.pack(len(first)) + first + self.join.snapshot()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        schema = self.join.schema
        whole = self._result(empty_of(pa.schema([]) if schema is None else schema)).schema
        return whole if self._semi is None else pa.schema([field for field in whole if field.name not in {ROW, AT}])

    def counts(self) -> LostCounts:
        """Return how many rows were late or had no time so far."""
        stats = self.join.stats
        return LostCounts(stats.late_rows, stats.null_time_rows)

    def explain(self) -> str:
        """Return the plan in words."""
        return str(self.join.explain())

    # -- micro-batches -------------------------------------------------------------------------------------------------

    def take(self, rows: Sequence[Rows]) -> Iterator[pa.Table]:
        """Take what a micro-batch has read of each source, and yield rows of the result."""
        return self.push(rows[0].table, rows[1].table if len(rows) > 1 else None)

    def take_all(self, rows: Sequence[Rows]) -> Iterator[pa.Table]:
        """Take all rows, and yield rows of the result, those without a partner at the end."""
        yield from self.take(rows)
        yield from self._finish()

    def push(self, left: pa.Table, right: pa.Table | None) -> Iterator[pa.Table]:
        """Take the rows of a micro-batch, and yield the rows of the result."""
        given = zip(SIDES, (left, right), self._needed, strict=True)
        tables: dict[Side, pa.Table] = {side: its.select(list(names)) for side, its, names in given if its is not None}
        if not self._timed:
            yield from self._pushed(tables, self._order_by)
            return
        ordered = {side: self._in_order(side, table) for side, table in tables.items()}
        times = {side: ticks for side, (_, ticks) in ordered.items()}
        pairs = self._of_slices(ordered, times)
        yield from pairs if self._semi is None else self._first_pairs(self._semi, pairs)
        self._forget(times)

    def _of_slices(
        self, ordered: Mapping[Side, tuple[pa.Table, NDArray[np.int64]]], times: Mapping[Side, NDArray[np.int64]]
    ) -> Iterator[pa.Table]:
        for cuts in _slices(times, self._slice_rows):
            part = {side: ordered[side][0].slice(start, stop - start) for side, (start, stop) in cuts.items()}
            yield from self._pushed(part, self._ordered_by)

    def _first_pairs(self, semi: FirstMatches, pairs: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield of the pairs of a micro-batch the first one of each left row that has not been output."""
        taken = [part for part in map(self._new_pairs, pairs) if part.num_rows]
        if not taken:
            return
        whole = self._new_pairs(pa.concat_tables(taken))
        semi.output(values_in(whole.column(ROW), np.int64), values_in(whole.column(AT), np.int64))
        yield whole.drop_columns([ROW, AT])

    def _new_pairs(self, pairs: pa.Table) -> pa.Table:
        numbers, times = (values_in(pairs.column(name).cast(pa.int64()), np.int64) for name in (ROW, MATCH_TIME))
        return pairs.take(array_of(self._semi.new(numbers, times))) if self._semi is not None else pairs

    def _forget(self, times: Mapping[Side, NDArray[np.int64]]) -> None:
        """Forget left rows of a semi join that have left the window."""
        self._latest |= {
            s: max(int(its[-1]), self._latest.get(s, int(its[-1]))) for s, its in times.items() if its.size
        }
        window: Any = self._spec.window
        if self._semi is not None and len(self._latest) == len(times):
            past = self._ticks_of(window.left) + self._ticks_of(window.lateness)
            self._semi.forget(min(self._latest.values()) - past)

    def latest(self, rows: Sequence[Rows]) -> str | None:
        """Return the largest event time of the rows of both sides in ISO 8601; None without one."""
        columns = [its.table.column(name) for its, (_, name) in zip(rows, self._times, strict=False)]
        known = [latest for column in columns if (latest := pc.max(column).cast(self._kind)).is_valid]
        if not known:
            return None
        latest = max(known, key=lambda one: one.value)
        text = str(pc.strftime(latest.cast(pa.timestamp("ms", latest.type.tz), safe=False), "%Y-%m-%dT%H:%M:%S"))
        return f"{text}Z"

    def _finish(self) -> Iterator[pa.Table]:
        rest = self.join.finish()
        if rest.num_rows:
            yield self._result(rest)

    def _pushed(self, tables: Mapping[Side, pa.Table], order_by: str | None) -> Iterator[pa.Table]:
        for table in self.join.push_iter(tables["left"], tables.get("right"), order_by=order_by):
            if table.num_rows:
                yield self._result(table)
        yield from self._late()

    def _in_order(self, side: Side, table: pa.Table) -> tuple[pa.Table, NDArray[np.int64]]:
        """Put rows in the order of their event times; those without one are counted and left out."""
        column = table.column(dict(self._times)[side])
        if column.null_count:
            valid = column.is_valid()
            lost = table.filter(pc.invert(valid))
            lost = self._with_added(side, lost, np.zeros(lost.num_rows, np.int64))
            empty = None if self._self else self._empty("right")
            for _ in self.join.push_iter(*((lost, empty) if side == "left" else (self._empty("left"), lost))):
                pass
            table = table.filter(valid)
            column = table.column(dict(self._times)[side])
        ticks = values_in(column.cast(self._kind), np.int64)
        ascending = ticks[1:] >= ticks[:-1]
        if not ascending.all():
            order = np.argsort(ticks, kind="stable")
            table, ticks = table.take(array_of(order)), ticks[order]
        if self._spec.keep is not None and (side == "right" or self._self) and (ticks[1:] == ticks[:-1]).any():
            table, ticks = _by_values(table, ticks)
        return self._with_added(side, table, ticks), ticks

    def _empty(self, side: Side) -> pa.Table:
        place = SIDES.index(side)
        table = empty_of(self._schemas[place]).select(list(self._needed[place]))
        return self._with_added(side, table, np.empty(0, np.int64))

    def _with_added(self, side: Side, table: pa.Table, ticks: NDArray[np.int64]) -> pa.Table:
        """Return rows with the columns that `_added` says; `ticks` are their event times."""
        if self._ordered_by == AT:
            table = table.append_column(AT, array_of(ticks))
        if self._semi is not None and (side == "left" or self._self):
            table = table.append_column(ROW, array_of(self._semi.numbers(table.num_rows)))
        return table

    # -- results -------------------------------------------------------------------------------------------------------

    def _result(self, table: pa.Table) -> pa.Table:
        """Return the result's columns of an output table of the join."""
        spec, ahead = self._spec, 1 if self._spec.output == "count" else 0
        shown = len(self._columns)
        times = self._shown_times()
        lacking = [one for one in times if one not in self._own]
        places = {
            one: ahead + (self._own.index(one) if one in self._own else shown + lacking.index(one)) for one in times
        }
        columns = [table.column(place) for place in range(ahead + shown)]
        names = [*(["side"] if ahead else []), *self._names]
        behind = list(range(ahead + shown + len(lacking), table.num_columns - (self._semi is not None)))
        columns += [table.column(place) for place in behind]
        names += [table.schema.field(place).name for place in behind]
        if self._timed:
            columns.append(self._match_times({side: table.column(places[side, name]) for side, name in times}))
            names.append(MATCH_TIME)
        if spec.late == "emit":
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, pa.string())]))
            names.append(LATE_SIDE)
        if self._semi is not None:
            columns += [
                table.column(table.num_columns - 1),
                table.column(places[times[0]]).cast(self._kind).cast(pa.int64()),
            ]
            names += [ROW, AT]
        return pa.Table.from_arrays(columns, names=names)

    def _match_times(self, times: Mapping[Side, pa.ChunkedArray[Any]]) -> pa.ChunkedArray[Any]:
        spec = self._spec
        kind = self._kind
        ticks = {side: column.cast(kind).cast(pa.int64()) for side, column in times.items()}
        if spec.output == "count":
            return pc.coalesce(*ticks.values()).cast(kind)
        if spec.deferred or spec.how == "left_anti":
            return self._over("left", ticks["left"]).cast(kind)
        latest: Any = pc.max_element_wise(*ticks.values(), skip_nulls=True)
        for side, lone in (("left", ticks["right"]), ("right", ticks["left"])):
            if lone.null_count and spec.how not in {"inner", "left_semi"}:
                latest = pc.if_else(lone.is_null(), self._over(side, ticks[side]), latest)  # type: ignore[index,arg-type]
        return latest.cast(kind)  # type: ignore[no-any-return]

    def _over(self, side: Side, ticks: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
        """Return when rows of a side expire."""
        window: Any = self._spec.window
        length = window.left if side == "left" else window.right
        amount = self._ticks_of(length)
        filled: Any = pc.fill_null(ticks, pa.scalar(0, pa.int64()))
        values = values_in(filled, np.int64)
        return pa.chunked_array([pa.array(saturating_add(values, amount), mask=np.asarray(ticks.is_null()))])

    def _ticks_of(self, length: Any) -> int:  # noqa: ANN401 - a span or a number
        kind: Any = self._kind
        return length.ticks(6 if kind.unit == "us" else 9) if isinstance(length, Span) else int(length)

    def _type(self, side: Side, name: str) -> pa.DataType:
        kind: pa.DataType = self._schemas[SIDES.index(side)].field(name).type
        return kind

    def _late(self) -> Iterator[pa.Table]:
        """Yield late rows as rows of the result, where they are some."""
        if self._spec.late != "emit":
            return
        late = self.join.late_rows()
        nulls: Any = pa.nulls
        schema = self.schema
        kind = schema.field(MATCH_TIME).type
        for side in SIDES:
            rows = getattr(late, side)
            if not rows.num_rows:
                continue
            columns = [
                rows.column(name) if own == side else nulls(rows.num_rows, self._type(own, name))
                for own, name in self._own
            ]
            columns += [rows.column(dict(self._times)[side]).cast(kind), pa.array([side] * rows.num_rows)]
            yield pa.Table.from_arrays(columns, schema=schema)


def _check_times(times: Sequence[tuple[Side, str]], schemas: tuple[pa.Schema, pa.Schema], names: Sequence[str]) -> None:
    kinds = []
    for side, name in times:
        schema = schemas[SIDES.index(side)]
        if name not in schema.names:
            msg = f"the {side} side has no event-time column {name!r}; its columns are {', '.join(schema.names)}"
            raise PredicateError(msg)
        kind = schema.field(name).type
        kinds.append(kind)
        if not pa.types.is_timestamp(kind):
            msg = (
                f"join.window: the event time {name!r} of the {side} source is {kind}, expected a timestamp. Convert "
                f'it in the source: columns = ["* EXCEPT (`{name}`)", "CAST(`{name}` AS TIMESTAMP) AS `{name}`"]'
            )
            raise ConfigError(msg)
    if len({kind.tz is None for kind in kinds}) > 1:
        msg = f"the event times of the two sides are not comparable: {kinds[0]} and {kinds[1]}; cast one of them"
        raise PredicateError(msg)
    if MATCH_TIME in names:
        msg = (
            f"the result has a column {MATCH_TIME!r} of its own, and an input has one too; rename that one with the "
            "key columns of its source, or leave it out with select"
        )
        raise PredicateError(msg)


def _finest(kinds: Sequence[Any]) -> pa.DataType:
    unit: Any = "ns" if any(kind.unit == "ns" for kind in kinds) else "us"
    finest: pa.DataType = pa.timestamp(unit, kinds[0].tz)
    return finest


def _by_values(table: pa.Table, ticks: NDArray[np.int64]) -> tuple[pa.Table, NDArray[np.int64]]:
    """Put rows of one event time in the order of their values, NULLs last; nested columns do not count."""
    names = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    place = "__slidejoin_place"
    keyed = table.append_column(place, array_of(ticks))
    order = pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in (place, *names)])
    return table.take(order), ticks[np.asarray(order)]


def _slices(times: Mapping[Side, NDArray[np.int64]], most: int) -> Iterator[dict[Side, tuple[int, int]]]:
    """Yield stretches of each side's rows that arrive one after the other; rows of one time are in one of them."""
    rows = sum(ticks.size for ticks in times.values())
    start = dict.fromkeys(times, 0)
    pieces = math.ceil(rows / most)
    if pieces > 1:
        longest = max(times.values(), key=len)
        ends = longest[[len(longest) * number // pieces - 1 for number in range(1, pieces)]]
        for end in np.unique(ends):
            stop = {side: int(np.searchsorted(ticks, end, "right")) for side, ticks in times.items()}
            if stop != start:
                yield {side: (start[side], stop[side]) for side in times}
            start = stop
    yield {side: (start[side], times[side].size) for side in times}


class FirstMatches:
    """Which left rows of a semi join over time were output, with the match time of their first pair.

    The result of a semi join has left columns alone, and of which pair a row is would be lost. So the join is an inner
    one here, left rows have numbers, and of the pairs of a row the first one is a row of the result. Which rows were
    output is remembered until they have left the window.

    Parameters
    ----------
    state : bytes
        What `state` has returned; empty at the beginning.
    """

    def __init__(self, state: bytes = b"") -> None:
        self._next, count = HEAD.unpack_from(state) if state else (0, 0)
        numbers = np.frombuffer(state, np.int64, 2 * count, HEAD.size) if count else np.empty(0, np.int64)
        self._rows, self._times = numbers[:count].copy(), numbers[count:].copy()

    def numbers(self, count: int) -> NDArray[np.int64]:
        """Return numbers for so many left rows that arrive, (count,) int64 ascending."""
        first, self._next = self._next, self._next + count
        return np.arange(first, self._next)

    def new(self, rows: NDArray[np.int64], match_times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return of each left row that was not output its pair with the smallest match time, as (m,) int64 places.

        Parameters
        ----------
        rows, match_times : (n,) int64
            Of each pair the number of its left row, and its match time.
        """
        order = np.lexsort([match_times, rows])
        ordered = rows[order]
        new = np.ones(order.size, np.bool_)
        new[1:] = ordered[1:] != ordered[:-1]
        if self._rows.size:
            known = np.searchsorted(self._rows, ordered)
            known[known == self._rows.size] = 0
            new &= self._rows[known] != ordered
        return np.sort(order[new])

    def output(self, rows: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        """Take note of left rows that are output, (n,) int64 numbers and event times."""
        merged = np.concatenate([self._rows, rows])
        order = np.argsort(merged, kind="stable")
        self._rows, self._times = merged[order], np.concatenate([self._times, times])[order]

    def forget(self, oldest: int) -> None:
        """Forget rows from before an event time: they match no more."""
        stay = self._times >= oldest
        if not stay.all():
            self._rows, self._times = self._rows[stay], self._times[stay]

    def state(self) -> bytes:
        """Return what must be stored."""
        return HEAD.pack(self._next, self._rows.size) + self._rows.tobytes() + self._times.tobytes()
