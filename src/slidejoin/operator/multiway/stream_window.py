"""The window of one stream: its rows, stored once, and an index for each step that probes them."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from slidejoin.index.protocol import RUNS
from slidejoin.operator.window.side import SideWindow
from slidejoin.rows.payload import Payload
from slidejoin.rows.widths import SLICE, TableLimit, in_one_chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.operator.multiway.arrivals import ArrivedRows
    from slidejoin.plan.multiway.multi_plan import MultiPlan, Step

__all__ = ["StepIndex", "StreamWindow", "gathered"]


class StepIndex:
    """The index over a stream's rows for one step.

    Attributes
    ----------
    step : Step
    window : SideWindow
        The right window of the step's join of two, whose rows are the stream's.
    lock : Lock
        Held while a batch of probes begins: that may change what an index keeps for the next one.
    """

    def __init__(self, step: Step, payload: Payload, rows_seen: int) -> None:
        self.step = step
        self.window = SideWindow(step.plan, "right", payload, chosen=step.plan.index_terms(step.plan.algorithm))
        self.lock = Lock()
        if rows_seen:
            self.window.rows_seen = rows_seen
            # The rows that are there already.
            far = self.window.index.spans_ordinals and self.window.stretched()
            self.window.change_index(step.plan.index_terms(RUNS) if far else self.window.chosen)


class StreamWindow:
    """Rows of one stream that arriving rows of the others may still see.

    Attributes
    ----------
    rows_seen : int
        Ordinal of the next row. The operator assigns ordinals, before it inserts rows.
    payload : Payload
        The rows.
    links : dict
        The indexes over them, by `Step.key`.
    """

    def __init__(self, plan: MultiPlan, number: int) -> None:
        self._plan, self._number = plan, number
        window = plan.spec.windows[number]
        self.payload = Payload(plan.stored[number], expected=window.capacity("left") or 0, own=plan.tuning)
        self.links: dict[tuple[int, tuple[int, ...]], StepIndex] = {}
        self.rows_seen = 0

    def use(self, steps: Iterable[Step]) -> None:
        """Have an index for each of these steps, and for no other one."""
        wanted = {step.key: step for step in steps}
        self.links = {
            key: self.links.get(key) or StepIndex(step, self.payload, self.rows_seen) for key, step in wanted.items()
        }

    # -- coming --------------------------------------------------------------------------------------------------------

    def start_at(self, ordinal: int) -> None:
        """Give the first row that ordinal; the window is empty."""
        self.rows_seen = ordinal
        for link in self.links.values():
            link.window.start_at(ordinal)

    def inserting(self, rows: ArrivedRows, first: int) -> list[Callable[[], None]]:
        """Return tasks for several threads that take rows, the first with that ordinal: one for each index.

        Whichever runs first keeps the rows; the others of this window wait for that.
        """
        if not rows.rows:
            return []
        hold = Held(self.payload, rows, first)
        return [partial(_insert, hold, link, self.rows_seen) for link in self.links.values()] or [hold]

    def load(self, table: pa.Table, stretches: Sequence[tuple[int, int]], rows_seen: int) -> None:
        """Load rows with their former ordinals: the first and the number of each stretch; the window is empty."""
        start = 0
        for first, rows in stretches:
            self.payload.skip_to(first)
            # In parts, because only whole ones expire.
            parts, ordinal = TableLimit(max(rows // 8, self._plan.tuning.loaded_rows), SLICE.nbytes), first
            for part in map(in_one_chunk, parts.cut(table.slice(start, rows))):
                newest = self._plan.newest(self._number, part)
                self.payload.append_rows(ordinal, part, newest, self.payload.rows + part.num_rows)
                ordinal += part.num_rows
            start += rows
        self.payload.skip_to(rows_seen)
        self.rows_seen = rows_seen
        self.links = {key: StepIndex(link.step, self.payload, rows_seen) for key, link in self.links.items()}

    # -- leaving -------------------------------------------------------------------------------------------------------

    def expire(self, ordinal: int) -> None:
        """Drop the rows of a count window before that ordinal, in whole chunks."""
        self.payload.expire(ordinal)
        for link in self.links.values():
            link.window.expire(ordinal)

    def expire_below(self, oldest: int) -> None:
        """Drop the rows of a time window that are older than this event time, in whole chunks."""
        self.payload.expire_below(oldest)
        for link in self.links.values():
            link.window.expire_below(oldest, oldest)

    def own(self, first: int) -> None:
        """Free the rows from that ordinal on of larger memory that they are slices of."""
        if self.payload.keeps_pieces:
            self.payload.own(first)

    def adapt(self, coming: int) -> None:
        """Continue with sorted runs where an index would span too many rows."""
        for link in self.links.values():
            if link.window.index.spans_ordinals and link.window.stretched(coming):
                link.window.change_index(link.step.plan.index_terms(RUNS))

    def relieve(self) -> None:
        """Rebuild an index in which keys crowd; one at a time, so that no push waits for several."""
        for link in self.links.values():
            if link.window.relieve():
                return

    # -- memory --------------------------------------------------------------------------------------------------------

    def growth(self, table: pa.Table, *, closely: bool) -> int:
        """Return by how many bytes these rows, as they are held, make rows and indexes grow at most."""
        links = sum(link.window.growth(table, closely=closely) for link in self.links.values())
        return self.payload.growth(table) + links

    @property
    def nbytes(self) -> int:
        """Bytes of rows and indexes."""
        return self.payload.nbytes + sum(link.window.nbytes for link in self.links.values())


class Held:
    """Rows that are put into a payload by the first of the threads that need them there."""

    def __init__(self, payload: Payload, rows: ArrivedRows, first: int) -> None:
        self.payload, self.rows, self.first = payload, rows, first
        self._lock, self._done = Lock(), False

    def __call__(self) -> None:
        """Put them there, or wait until they are."""
        with self._lock:
            if not self._done:
                times, table = self.rows.times, self.rows.table
                newest = None if times is None else int(times.max())
                self.payload.append_rows(self.first, table, newest, self.payload.rows + table.num_rows)
                self._done = True


def _insert(held: Held, link: StepIndex, rows_seen: int) -> None:
    held()
    link.window.rows_seen = rows_seen
    link.window.append(held.rows.table, held.rows.times, held.first)


def gathered(
    payloads: Sequence[Payload],
    names: Mapping[int, Sequence[str]],
    ordinals: Mapping[int, NDArray[np.int64]],
    rows: int,
    limit: TableLimit,
    *,
    decoded: bool = False,
) -> Iterator[tuple[slice, dict[int, pa.Table]]]:
    """Yield columns of each stream's rows, in tables that have at most the limit's bytes together.

    Parameters
    ----------
    names : dict from int to sequence of str
        The columns of each stream, by its number; streams without any are left out of the tables.
    ordinals : dict from int to (rows,) int64
        The row of each stream in each combination.
    decoded : bool
        See `slidejoin.rows.gather.Located`.
    """
    wanted = {stream: columns for stream, columns in names.items() if columns}
    most = limit.most_rows(sum(payloads[stream].width(columns) for stream, columns in wanted.items()))
    for first in range(0, rows, most):
        last = min(first + most, rows)
        columns_of = {
            stream: payloads[stream].gather(columns, ordinals[stream][first:last], decoded=decoded)
            for stream, columns in wanted.items()
        }
        stops = [last - first]
        if sum(one.nbytes for one in columns_of.values()) > limit.nbytes:
            widths = None
            for one in columns_of.values():
                widths = one.widths if widths is None else widths.joined(one.widths)
            stops = stops if widths is None else limit.stops(widths)
        start = 0
        for stop in stops:
            tables = {stream: one.table(start, stop) for stream, one in columns_of.items()}
            yield slice(first + start, first + stop), tables
            start = stop
