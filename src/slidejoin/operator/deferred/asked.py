"""The path of joins whose left rows are answered when the caller asks: in a bucket on Spark, which knows who leaves.

::

    slice ─▶ rows are inserted                  `answers` of left rows ─▶ tables

Right rows are those that the window has: the caller keeps them as long as a left row that waits may meet them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.operator.deferred.intervals import Intervals
from slidejoin.operator.deferred.nearest import NearestAnswers
from slidejoin.operator.deferred.path import answers_of, insert_rows
from slidejoin.plan.window_term import CountScope, displacing, first_seen

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.parts import JoinParts
    from slidejoin.rows.payload import Payload
    from slidejoin.sides import Side

__all__ = ["AskedPath"]

NO_ROWS = np.empty(0, np.int64)


class AskedPath:
    """Inserts any slice of arrivals, and answers left rows of the window when it is asked to.

    Parameters
    ----------
    parts : JoinParts
    """

    def __init__(self, parts: JoinParts) -> None:
        self._parts, self._answers = parts, answers_of(parts)

    def run(self, part: Push, first: dict[Side, int]) -> Generator[pa.Table]:
        """Insert the rows of a slice with ordinals from `first` on; nothing is put out."""
        self.insert(part, first)
        yield from ()

    def insert(self, part: Push, first: dict[Side, int]) -> None:
        """Insert the rows of a slice with ordinals from `first` on."""
        insert_rows(self._parts, part, first)

    def answers(self, rows: NDArray[np.int64]) -> Generator[pa.Table]:
        """Yield the answers of left rows, (n,) int64 ordinals, ascending, in bounded tables."""
        for left in self._parts_of(rows):
            yield from self._answers.tables(left, None)

    def partial(self, rows: NDArray[np.int64]) -> Generator[pa.Table]:
        """Yield what these left rows have among the right rows here, where they have more elsewhere.

        Nearest matches are as in answers; of aggregates there are states, see `aggregate_states`.
        """
        answers = self._answers
        for left in self._parts_of(rows):
            yield from answers.tables(left, None) if isinstance(answers, NearestAnswers) else answers.partial(left)

    def _parts_of(self, rows: NDArray[np.int64]) -> Iterator[Intervals]:
        left, most = self._intervals(rows), self._answers.most_rows
        for first in range(0, rows.size, most):
            yield left.part(first, first + most)

    def _intervals(self, rows: NDArray[np.int64]) -> Intervals:
        """Return which right rows each left row meets: of a time window all, of which the time scope is a term."""
        right, scope = self._parts.windows["right"], self._parts.plan.scope
        if not isinstance(scope, CountScope):
            return Intervals(rows, np.full(rows.size, right.first), np.full(rows.size, right.rows_seen))
        numbers, window = (scope.ordinal, scope.seen), scope.window
        taken = self._parts.windows["left"].payload.take(numbers, rows)
        ordinals, seen = (np.asarray(column).astype(np.int64) for column in taken.columns)
        others, others_seen = _columns(right.payload, numbers)
        # From the first one that the row saw as it came, to the last one that came before the row was displaced.
        since = np.searchsorted(others, first_seen(window, "right", seen))
        until = np.searchsorted(others_seen, displacing(window, "left", ordinals), side="right")
        return Intervals(rows, right.first + since, right.first + until)


def _columns(payload: Payload, names: Sequence[str]) -> list[NDArray[np.int64]]:
    """Return columns of numbers of all rows, (rows,) each."""
    tables = [piece.table for piece in payload]
    return [np.concatenate([NO_ROWS, *(np.asarray(table.column(name)) for table in tables)]) for name in names]
