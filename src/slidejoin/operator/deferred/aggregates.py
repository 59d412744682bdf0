"""Aggregates of left rows: added up over their pairs, merged with what was added up before, and emitted.

Where the index orders rows by their keys, reductions of ranges take the place of enumeration (`AggregateSearch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pat

from slidejoin.errors import StateError
from slidejoin.index.deferred import Channel
from slidejoin.jit.vectors.doubles import double_keys, key_doubles
from slidejoin.operator.deferred.accumulators import (
    LIMB,
    LOW,
    Accumulator,
    Counts,
    ExactSums,
    Extremes,
    PairValues,
    Sums,
    check_numbers,
    empty_states,
    masked,
    plain_values,
    results_of,
    state_columns,
    state_schema,
)
from slidejoin.operator.deferred.intervals import folded_from
from slidejoin.operator.deferred.matches import Matches, probes_of
from slidejoin.plan.deferred import AggregateRule
from slidejoin.rows.arrow_buffers import array_of, by_name, chunks_of, empty_of
from slidejoin.rows.held_types import plain, plain_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.deferred import Reduced
    from slidejoin.operator.deferred.intervals import Intervals
    from slidejoin.operator.parts import JoinParts
    from slidejoin.plan.deferred import BoundAggregate
    from slidejoin.stored import StoredValue

__all__ = ["AggregateAnswers", "AggregateSearch"]

INT64 = np.iinfo(np.int64)
NARROW = 1 << 31
"""Values up to this may be added up in int64, however many there are."""


class ColumnChannels:
    """The channels of one right column, as its values so far need them.

    Attributes
    ----------
    nulls, nan, wide : bool
        Whether some value was NULL, NaN, or too large to be added up in int64.
    refused : bool
        Whether there was a value that has no place in a channel.
    """

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self.name, self.kind = name, kind
        self.doubles = pat.is_floating(kind)
        self.nulls = self.nan = self.wide = self.refused = False

    @property
    def valid(self) -> Channel:
        """The number of values that are not NULL."""
        return Channel(self.name, "valid", "sum", 0)

    @property
    def real(self) -> Channel:
        """The number of values that are neither NULL nor NaN."""
        return Channel(self.name, "real", "sum", 0)

    @property
    def sums(self) -> tuple[Channel, ...]:
        """The sum; of wide whole numbers that of each half."""
        if self.doubles:
            return (Channel(self.name, "whole", "double_sum", 0),)
        return tuple(Channel(self.name, part, "sum", 0) for part in (("low", "high") if self.wide else ("whole",)))

    def extreme(self, *, largest: bool) -> Channel:
        """Return the channel of the smallest or largest value: of its key, or of the opposite of that."""
        return Channel(self.name, "largest" if largest else "smallest", "smallest", int(INT64.max))

    def wanted(self, function: str) -> list[Channel]:
        """Return the channels that a function needs."""
        if function == "count":
            return [self.valid]
        channels = [self.valid] if self.nulls else []
        if function in ("min", "max"):
            return [*channels, *([self.real] if self.nan else []), self.extreme(largest=function == "max")]
        return [*channels, *self.sums]

    def values(self, channel: Channel, column: pa.Array[Any]) -> NDArray[np.int64]:
        """Return the values of rows in a channel, (n,) int64, and remember what they need."""
        known = not (column.null_count or pat.is_union(column.type))
        valid = None if known else np.asarray(column.is_valid(), np.bool_)
        self.nulls |= valid is not None
        if channel.part == "valid":
            return _ones(valid, len(column))
        numbers, valid = (
            self._of_doubles(channel, column, valid) if self.doubles else self._of_whole(channel, column, valid)
        )
        return numbers if valid is None else np.where(valid, numbers, channel.nothing)

    def _of_doubles(
        self, channel: Channel, column: pa.Array[Any], valid: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return numbers of a channel, and which of them are values; None if all are."""
        doubles = np.asarray(_filled(column.cast(pa.float64()), 0.0))
        keys = np.empty(doubles.size, np.int64)
        if double_keys(doubles, keys):
            self.nan = True
            real = ~np.isnan(doubles)
            if channel.how != "double_sum":
                valid = real if valid is None else valid & real
        if channel.part == "real":
            return _ones(valid, doubles.size), None
        numbers = np.ascontiguousarray(doubles).view(np.int64) if channel.how == "double_sum" else keys
        return (~numbers if channel.part == "largest" else numbers), valid

    def _of_whole(
        self, channel: Channel, column: pa.Array[Any], valid: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return numbers of a channel, and which of them are values; None if all are."""
        if column.type == pa.uint64() and len(column) > column.null_count and pc.max(column).as_py() > INT64.max:
            self.refused = True
            return np.zeros(len(column), np.int64), None
        whole: pa.Array[Any] = column.cast(pa.int32()) if self._of_days else column
        numbers: NDArray[np.int64] = np.asarray(_filled(whole.cast(pa.int64()), 0))
        if numbers.size:
            # Those under NULL are 0.
            self.wide |= max(-int(numbers.min()), int(numbers.max())) >= NARROW
        if self.wide and channel == Channel(self.name, "whole", "sum", 0):
            return np.zeros(numbers.size, np.int64), None  # both parts are requested instead, see `AggregateSearch`
        if channel.part == "largest":
            numbers = ~numbers
        elif channel.part in ("low", "high"):
            numbers = numbers & LOW if channel.part == "low" else numbers >> LIMB
        return numbers, valid

    @property
    def _of_days(self) -> bool:
        """Whether values are times of 32 bits, which Arrow casts to no other numbers."""
        return pat.is_temporal(self.kind) and bool(self.kind.bit_width == 32)  # noqa: PLR2004

    def restored(
        self, channel: Channel, numbers: NDArray[np.int64], nothing: NDArray[np.bool_], wrong: NDArray[np.bool_] | None
    ) -> pa.Array[Any]:
        """Return what a channel of the smallest or largest value has as values of the column.

        NULL where there is `nothing`, NaN where only that was `wrong`.
        """
        keys = ~numbers if channel.part == "largest" else numbers
        values: NDArray[Any] = keys
        if self.doubles:
            values = np.empty(keys.size)
            key_doubles(keys, values)
        if wrong is not None:
            values = np.where(wrong, np.nan, values)
        whole = masked(values, pa.float64() if self.doubles else pa.int64(), nothing)
        if self._of_days:
            whole = whole.cast(pa.int32())
        restored: pa.Array[Any] = whole if whole.type == self.kind else whole.cast(self.kind)
        return restored

    @staticmethod
    def serves(function: BoundAggregate, kind: pa.DataType) -> bool:
        """Tell whether values of a type have channels."""
        if function.function == "count":
            return True
        whole = pat.is_integer(kind) or (pat.is_temporal(kind) and not pat.is_interval(kind))
        return whole or (pat.is_floating(kind) and not pat.is_float16(kind))


class AggregateSearch:
    """Adds up the pairs of left rows without listing them.

    Parameters
    ----------
    parts : JoinParts
    rule : AggregateRule
    """

    def __init__(self, parts: JoinParts, rule: AggregateRule) -> None:
        self._parts, self._rule = parts, rule
        schema = parts.plan.kept_schema("right")
        self._columns = {
            name: ColumnChannels(name, plain_values(schema.field(name).type)) for name in rule.columns["right"]
        }
        self._of: dict[str, ColumnChannels] = {}
        self._open = True

    @staticmethod
    def of(parts: JoinParts, rule: AggregateRule) -> AggregateSearch | None:
        """Return the search of a join; None if its pairs have to be listed in any case."""
        plan, schema = parts.plan, parts.plan.kept_schema("right")
        kinds = {name: plain_values(schema.field(name).type) for name in rule.columns["right"]}
        served = all(one.column is None or ColumnChannels.serves(one, kinds[one.column]) for one in rule.functions)
        return AggregateSearch(parts, rule) if served and not plan.is_union and not plan.bound.never else None

    def add(self, left: Intervals, table: pa.Table, states: Sequence[Accumulator]) -> bool:
        """Add the pairs of left rows, given as a table, too, to the states: the number of pairs, and each function's.

        Returns False, and adds nothing, if pairs have to be listed.
        """
        plan, index = self._parts.plan, self._parts.windows["right"].index
        every: list[Reduced] = []
        for since, until in left.seen(self_join=plan.config.self_join):
            with self._parts.stats.step("keys"):
                batch = probes_of(self._parts, table, since, until)
                if not self._open or plan.filter({*plan.loose, *batch.inexact, *index.inexact}) is not None:
                    return False
            with self._parts.stats.step("probe"):
                reduced = self._reduced(
                    lambda channels, probes=batch.probes: index.reduced(  # type: ignore[misc]
                        probes, channels, self._values, self._parts.workers
                    )
                )
            if reduced is None:
                return False
            every.append(reduced)
        with self._parts.stats.step("filter"):
            for one in every:
                self._take(one, states)
        return True

    def growth(self, rows: int) -> int:
        """Return by how many bytes so many more right rows make what the index reduces grow at most."""
        return self._parts.windows["right"].index.reductions_growth(self._channels(), rows) if self._open else 0

    def _reduced(self, ask: Callable[[list[Channel]], Reduced | None]) -> Reduced | None:
        """Ask again while values need further channels."""
        while True:
            channels = self._channels()
            reduced = ask(channels)
            if any(column.refused for column in self._columns.values()):
                self._open = False
                return None
            if reduced is None or channels == self._channels():
                return reduced

    def _channels(self) -> list[Channel]:
        channels: dict[Channel, None] = {}
        for function in self._rule.functions:
            if function.column is not None:
                column = self._columns[function.column]
                for channel in column.wanted(function.function):
                    channels[channel] = None
        return list(channels)

    def _values(self, channels: Sequence[Channel], ordinals: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the values of right rows in channels; those that have left the window count as nothing."""
        payload, columns = self._parts.windows["right"].payload, self._columns
        first, last = int(ordinals[0]), int(ordinals[-1])
        whole = any(begin <= first and last < begin + rows for begin, rows in payload.stretches)
        here = None if whole else payload.holds(ordinals)
        names = list(dict.fromkeys(channel.name for channel in channels))
        taken = by_name(payload.take(names, ordinals if here is None else ordinals[here]))
        held = {name: _in_one(taken[name], columns[name].kind) for name in names}
        every = []
        for channel in channels:
            own = columns[channel.name].values(channel, held[channel.name])
            if here is not None:
                known, own = own, np.full(ordinals.size, channel.nothing)
                own[here] = known
            every.append(own)
        return every

    def _take(self, reduced: Reduced, states: Sequence[Accumulator]) -> None:
        pairs, *others = states
        assert isinstance(pairs, Counts)  # noqa: S101 - see `AggregateAnswers`
        pairs.add_counts(reduced.counts)
        for function, state in zip(self._rule.functions, others, strict=True):
            column = None if function.column is None else self._columns[function.column]
            counts = reduced.counts if column is None or not column.nulls else reduced.totals[column.valid]
            if column is not None and isinstance(state, Sums):
                state.add_totals(counts, reduced.totals[column.sums[0]].view(np.float64))
            elif column is not None and isinstance(state, ExactSums):
                state.add_totals(counts, _limbs([reduced.totals[channel] for channel in column.sums], counts))
            elif column is not None and isinstance(state, Extremes):
                channel = column.extreme(largest=function.function == "max")
                wrong = (reduced.totals[column.real] == 0) & (counts > 0) if column.nan else None
                state.take(column.restored(channel, reduced.totals[channel], counts == 0, wrong))
            elif isinstance(state, Counts):
                state.add_counts(counts)


def _in_one(column: pa.ChunkedArray[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return a column as one array of plain values of a type."""
    chunks = chunks_of([plain(chunk) for chunk in column.chunks], kind).combine_chunks()
    one: pa.Array[Any] = chunks if isinstance(chunks, pa.Array) else pa.concat_arrays(chunks.chunks)  # type: ignore[redundant-expr]
    return one


def _ones(some: NDArray[np.bool_] | None, count: int) -> NDArray[np.int64]:
    """Return 1 for some of so many, or for all, and 0 for the others."""
    return np.ones(count, np.int64) if some is None else some.astype(np.int64)


def _filled(column: pa.Array[Any], value: float) -> pa.Array[Any]:
    """Return values with a number for NULL."""
    if not column.null_count:
        return column
    filled: pa.Array[Any] = pc.fill_null(column, pa.scalar(value, column.type))
    return filled


def _limbs(totals: list[NDArray[np.int64]], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return sums, whole or of both parts, as limbs (2, n) int64."""
    limbs = np.zeros((2, counts.size), np.int64)
    if len(totals) == 1:
        limbs[0], limbs[1] = totals[0] & LOW, totals[0] >> LIMB
    else:
        limbs[0], limbs[1] = totals
    return limbs


INTERRUPTED = ". The join is as if the push had been interrupted"


class AggregateAnswers:
    """Answers left rows with aggregates over their pairs; what was folded is stored until their row expires.

    Parameters
    ----------
    parts : JoinParts
    """

    def __init__(self, parts: JoinParts) -> None:
        rule = parts.plan.rule
        assert isinstance(rule, AggregateRule)  # noqa: S101 - see `DeferredPath`
        self._rule, self._parts = rule, parts
        self._matches, self._search = Matches(parts), AggregateSearch.of(parts, rule)
        self._folded, self._first = empty_states(self._rule, 0), 0

    @property
    def nbytes(self) -> int:
        """Bytes of what was folded."""
        return sum(one.nbytes for one in self._folded)

    def growth(self, rows: int) -> int:
        """Return by how many bytes so many right rows make answers grow at most, in addition to the windows."""
        return 0 if self._search is None else self._search.growth(rows)

    @property
    def most_rows(self) -> int:
        """Left rows that are answered at once at most."""
        return self._parts.limit.rows

    # -- answers -------------------------------------------------------------------------------------------------------

    def tables(self, left: Intervals, order: NDArray[np.int64] | None) -> Iterator[pa.Table]:
        """Answer left rows and yield the output, rows in the `order` of their places, (n,) int64, if that is given.

        Raises
        ------
        AggregateOverflowError
            If a sum has no room in its type.
        """
        states, rows = self._answered(left), left.rows
        results = results_of(self._rule, states, lambda row: f"left row {rows[row]} (counted from 0)", INTERRUPTED)
        if order is not None:
            at = array_of(order)
            results, rows = [one.take(at) for one in results], rows[order]
        yield from self._output(rows, results, self._parts.plan.layout.schema)

    def partial(self, left: Intervals) -> Iterator[pa.Table]:
        """Yield left rows with their states instead of results, see `aggregate_states`: other pairs are elsewhere."""
        layout = self._parts.plan.layout
        schema = pa.schema([*list(layout.schema)[: len(layout.columns)], *state_schema(self._rule)])
        yield from self._output(left.rows, state_columns(self._answered(left)), schema)

    def _output(self, rows: NDArray[np.int64], results: list[pa.Array[Any]], schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield left rows, (n,) int64 ordinals, with the columns of their results."""
        plan, payload = self._parts.plan, self._parts.windows["left"].payload
        names, limit = plan.layout.names("left"), self._parts.limit
        step = limit.most_rows(payload.width(names) + sum(one.nbytes for one in results) // max(rows.size, 1))
        for start in range(0, rows.size, step):
            gathered = payload.gather(names, rows[start : start + step])
            first = 0
            for stop in [gathered.rows] if gathered.nbytes <= limit.nbytes else limit.stops(gathered.widths):
                own = [one.slice(start + first, stop - first) for one in results]
                yield plan.layout.aggregates(gathered.table(first, stop), own, schema)
                first = stop

    def _answered(self, left: Intervals) -> list[Accumulator]:
        """Return the state of left rows that are emitted now, whose pairs count."""
        states = self._added_up(left)
        pairs = states[0]
        assert isinstance(pairs, Counts)  # noqa: S101 - see `empty_states`
        self._parts.stats.pairs += int(pairs.counts.sum())
        return states

    def _added_up(self, left: Intervals) -> list[Accumulator]:
        """Return the state of left rows over all of their pairs, those that were folded included."""
        states = empty_states(self._rule, left.rows.size)
        if not left.rows.size:
            return states
        payload, names = self._parts.windows["right"].payload, self._rule.columns["right"]
        table = self._matches.probing(left)
        done = self._search is not None and self._search.add(left, table, states)
        for places, right in () if done else self._matches.of(left, table):
            with self._parts.stats.step("payload"):
                taken = by_name(payload.take(names, right)) if names else {}
                values = {name: _values(column) for name, column in taken.items()}
                states[0].add(PairValues(places, None))
                for function, state in zip(self._rule.functions, states[1:], strict=True):
                    state.add(PairValues(places, None if function.column is None else values[function.column]))
        self._merge_folded(left.rows, states)
        return states

    def _merge_folded(self, rows: NDArray[np.int64], states: list[Accumulator]) -> None:
        """Add what was folded of left rows, ascending; in a count window, where rows fold, they are consecutive."""
        if not self._folded[0].rows or not rows.size:
            return
        first, last = max(int(rows[0]), self._first), min(int(rows[-1]) + 1, self._first + self._folded[0].rows)
        if first < last:
            for state, old in zip(states, self._folded, strict=True):
                state.merge(old.part(first - self._first, last - self._first), first - int(rows[0]))

    # -- what was folded -----------------------------------------------------------------------------------------------

    def fold(self, left: Intervals, end: int) -> None:  # noqa: ARG002 - see `NearestAnswers`
        """Add up the right rows before `end` for all left rows that wait, so that they may leave the window."""
        self._folded, self._first = self._added_up(left), int(left.rows[0]) if left.rows.size else 0

    def forget(self, ordinal: int) -> None:
        """Forget the left rows before that ordinal."""
        gone = min(max(ordinal - self._first, 0), self._folded[0].rows)
        if gone:
            # Views: the memory goes with the last of them, or with the next fold.
            self._folded = [one.part(gone, one.rows) for one in self._folded]
            self._first += gone

    # -- state ---------------------------------------------------------------------------------------------------------

    def saved(self) -> tuple[dict[str, int], list[pa.Table]]:
        """Return what was folded, as numbers and tables."""
        return {"first": self._first}, [pa.table(one.columns()) for one in self._folded]

    def load(self, stored: StoredValue, tables: list[pa.Table], waiting: range, until: int) -> None:  # noqa: ARG002 - no right row is stored
        """Take what `saved` returned; these left rows wait, and right rows before `until` may have been folded.

        Raises
        ------
        StateError
            If that cannot have been folded.
        """
        rows = tables[0].num_rows
        self._first, self._folded = folded_from(stored, rows, waiting), empty_states(self._rule, rows)
        for state, table in zip(self._folded, tables, strict=True):
            if table.num_rows != rows:
                msg = f"the aggregates of {rows} left rows have {table.num_rows} states"
                raise StateError(msg)
            check_numbers(table)
            state.load({name: _values(column) for name, column in by_name(table).items()})

    @property
    def schemas(self) -> list[pa.Schema]:
        """The schemas of the saved tables."""
        return [pa.table(one.columns()).schema for one in empty_states(self._rule, 0)]


def _values(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """Return a column as one array of plain values."""
    chunks: list[pa.Array[Any]] = [plain(chunk) for chunk in column.chunks]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks or [empty_array(plain_type(column.type))])


def empty_array(kind: pa.DataType) -> pa.Array[Any]:
    """Return an array of a type without values."""
    return empty_of(pa.schema([("", kind)])).column(0).combine_chunks()
