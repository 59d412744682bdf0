"""Aggregates of left rows: added up over their pairs, merged with what was added up before, and emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.errors import StateError
from slidejoin.operator.deferred.accumulators import Accumulator, Counts, PairValues
from slidejoin.operator.deferred.aggregate_search import AggregateSearch
from slidejoin.operator.deferred.aggregate_states import (
    check_numbers,
    empty_states,
    results_of,
    state_columns,
    state_schema,
)
from slidejoin.operator.deferred.intervals import folded_from
from slidejoin.operator.deferred.matches import Matches
from slidejoin.plan.deferred import AggregateRule
from slidejoin.rows.arrow_buffers import array_of, by_name, empty_of
from slidejoin.rows.held_types import plain, plain_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.operator.deferred.intervals import Intervals
    from slidejoin.operator.parts import JoinParts
    from slidejoin.stored import StoredValue

__all__ = ["AggregateAnswers"]

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

    def load(self, stored: StoredValue, tables: list[pa.Table], waiting: range) -> None:
        """Take what `saved` returned; these left rows wait.

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
