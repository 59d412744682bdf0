"""One step of a chain: wide rows probe a stored stream, and what they find becomes wider rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.index.kernels.view import view_of
from slidejoin.index.probe import ProbeBatch
from slidejoin.operator.candidates import candidates_of, written
from slidejoin.operator.multiway.kernels.widening import rank_probes
from slidejoin.operator.multiway.stream_window import gathered
from slidejoin.operator.probe_batch import key_ranges
from slidejoin.plan.multiway.multi_plan import NOTHING
from slidejoin.plan.multiway.scope import NEWEST, UNTIL
from slidejoin.predicate.expression.streams import stream_and_name, wide_name
from slidejoin.rows.arrow_buffers import array_of, by_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from slidejoin.operator.candidates import ProbeCandidates
    from slidejoin.operator.multiway.partial import Partial
    from slidejoin.operator.multiway.stream_window import StepIndex, StreamWindow
    from slidejoin.plan.multiway.multi_plan import MultiPlan
    from slidejoin.predicate.bind import BoundFilter
    from slidejoin.rows.widths import TableLimit
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers

__all__ = ["Prober", "SeenRows"]


class SeenRows(NamedTuple):
    """What producing rows see of a stored stream.

    Attributes
    ----------
    arrived : int
        Its rows from before the slice.
    before : (arrivals + 1,) int64
        How many of its rows had arrived before each arrival of the stretch.
    ranks : (p,) int64
        Which arrivals the producing rows are, ascending.
    """

    arrived: int
    before: NDArray[np.int64]
    ranks: NDArray[np.int64]


class Prober:
    """Probes the windows of a join of many streams; several threads may do so at once.

    Parameters
    ----------
    plan : MultiPlan
    windows : sequence of StreamWindow
    limit : TableLimit
        As many candidates as it has rows are held at once.
    memory : ArrayPool
        What candidates are written into.
    alone : Workers
        Of one thread: whole chains run at once, not parts of a step.
    """

    def __init__(
        self, plan: MultiPlan, windows: Sequence[StreamWindow], limit: TableLimit, memory: ArrayPool, alone: Workers
    ) -> None:
        self._plan, self._windows, self._limit = plan, windows, limit
        self._memory, self._alone = memory, alone
        self.payloads = [window.payload for window in windows]

    def extend(self, wide: Partial, stored: int, seen: SeenRows, own: pa.Table | None = None) -> Iterator[Partial]:
        """Yield the combinations with the rows of one more stream that fit, in bounded parts; wide rows in order.

        `own` are the wide rows themselves, where they are rows of one stream that have just arrived.
        """
        link = self._link(wide, stored)
        for cut, batch, condition in self._batches(link, wide, seen, own):
            part = wide.part(cut)
            for candidates in self._candidates(link, batch, only_counts=False):
                if (
                    condition is None
                    and candidates.positions is not None
                    and candidates.positions.total <= self._limit.rows
                ):
                    if candidates.positions.total:
                        yield self._timed(
                            part.with_matches(stored, candidates.positions, link.window.index.floor, self._memory)
                        )
                    continue
                for places, ordinals in written(candidates.of, self._limit):
                    pairs = (places, ordinals)
                    if condition is not None:
                        holds = self._holds(link, condition, part, *pairs)
                        pairs = places[holds], ordinals[holds]
                    if pairs[0].size:
                        yield self._timed(part.with_pairs(stored, *pairs, self._memory))

    def count(
        self, wide: Partial, stored: int, seen: SeenRows, into: NDArray[np.int64], own: pa.Table | None = None
    ) -> None:
        """Add to `into`, (producers,) int64, with how many rows of one more stream each combination fits.

        `own` as of `extend`.
        """
        link = self._link(wide, stored)
        for cut, batch, condition in self._batches(link, wide, seen, own):
            part = wide.part(cut)
            for candidates in self._candidates(link, batch, only_counts=condition is None):
                if condition is None:
                    _add(
                        into,
                        part.producers[candidates.first : candidates.first + candidates.of.slots],
                        candidates.of.counts,
                    )
                    continue
                for places, ordinals in written(candidates.of, self._limit):
                    holds = self._holds(link, condition, part, places, ordinals)
                    into += np.bincount(part.producers[places[holds]], minlength=into.size)

    def places(self, ranks: NDArray[np.int64], producers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of producing rows in the arrival order, (n,) int64, in memory of the pool."""
        out = self._memory.take(producers.size)
        if ranks.size and ranks[-1] - ranks[0] == ranks.size - 1:
            np.add(producers, ranks[0], out=out)
        else:
            np.take(ranks, producers, out=out, mode="clip")  # all are in range; the default copies to be sure
        return out

    def _link(self, wide: Partial, stored: int) -> StepIndex:
        return self._windows[stored].links[self._plan.step(stored, wide.bound).key]

    def _timed(self, wide: Partial) -> Partial:
        """Return combinations with the event times of their newest stream's rows, if there are any."""
        if self._plan.scopes:
            stored = wide.streams[-1]
            scope = self._plan.scopes[stored]
            table = self.payloads[stored].take(scope.columns("right"), wide.ordinals[stored])
            wide.at_times(scope.ticks("right", by_name(table))[0], scope.right_length)
        return wide

    # -- probes --------------------------------------------------------------------------------------------------------

    def _batches(
        self, link: StepIndex, wide: Partial, seen: SeenRows, own: pa.Table | None
    ) -> Iterator[tuple[slice, ProbeBatch, BoundFilter | None]]:
        """Yield batches of probes, which wide rows they are, and what is checked of the rows that they find."""
        step, window = link.step, link.window
        most = min(self._limit.rows, step.plan.most_probes)
        columns: Iterable[tuple[slice, dict[int, pa.Table]]]
        if own is None:
            columns = gathered(self.payloads, step.left, wide.ordinals, len(wide), self._limit._replace(rows=most))
        else:
            # They lie side by side, and in the window they would have to be looked up again.
            of_streams = {stream: own.select(list(names)) for stream, names in step.left.items()}
            columns = [(slice(0, len(wide)), of_streams)]
            if len(wide) > most:
                cuts = [slice(begin, min(begin + most, len(wide))) for begin in range(0, len(wide), most)]
                columns = [(cut, {stream: table[cut] for stream, table in of_streams.items()}) for cut in cuts]
        for cut, tables in columns:
            table = self._wide_table(tables, wide.part(cut))
            # Their places in an arrival order of these probes and the stored rows.
            ranks = self._memory.take(cut.stop - cut.start)
            rank_probes(seen.before, seen.ranks, wide.producers[cut], seen.arrived, ranks)
            size, slide = self._plan.spec.windows[step.stored].view("right")
            batch = ProbeBatch(
                first=0,
                rank=ranks,
                view=view_of(seen.arrived, size, slide),
                ranges=partial(key_ranges, step.plan, "left", table, window.layout),
            )
            inexact = {*step.plan.loose, *batch.inexact, *window.index.inexact}
            yield cut, batch, step.plan.filter(inexact)

    def _wide_table(self, tables: dict[int, pa.Table], wide: Partial) -> pa.Table:
        columns = {
            wide_name(self._plan.spec.streams[stream], name): table.column(name)
            for stream, table in tables.items()
            for name in table.column_names
        }
        if wide.timed:
            columns[NEWEST], columns[UNTIL] = (
                pa.chunked_array([array_of(np.ascontiguousarray(own))]) for own in (wide.newest, wide.until)
            )
        if not columns:
            columns[NOTHING] = pa.chunked_array([array_of(np.zeros(len(wide), np.int64))])
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))

    # -- candidates ----------------------------------------------------------------------------------------------------

    def _candidates(self, link: StepIndex, batch: ProbeBatch, *, only_counts: bool) -> Iterator[ProbeCandidates]:
        """Yield the candidates of all probes in turn."""
        return candidates_of(
            link.window.index, batch, self._alone, self._memory, only_counts=only_counts, lock=link.lock
        )

    def _holds(
        self,
        link: StepIndex,
        condition: BoundFilter,
        wide: Partial,
        places: NDArray[np.int64],
        ordinals: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Evaluate a condition on candidates and return where it holds, (k,) bool."""
        names: dict[int, list[str]] = {link.step.stored: list(condition.columns("right"))}
        number = {stream: at for at, stream in enumerate(self._plan.spec.streams)}
        for column in condition.columns("left"):
            stream, name = stream_and_name(column)
            names.setdefault(number[stream], []).append(name)
        bound = wide.ordinals
        rows = {stream: bound[stream][places] for stream in names if stream != link.step.stored}
        rows[link.step.stored] = ordinals
        holds = np.empty(places.size, np.bool_)
        for cut, tables in gathered(self.payloads, names, rows, places.size, self._limit, decoded=True):
            right = tables.pop(link.step.stored, None)
            left = {
                wide_name(self._plan.spec.streams[stream], name): table.column(name)
                for stream, table in tables.items()
                for name in table.column_names
            }
            holds[cut] = condition.holds(left, {} if right is None else by_name(right), cut.stop - cut.start)
        return holds


def _add(into: NDArray[np.int64], producers: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """Add the counts of probes to those of their producers, which ascend; sums are exact."""
    if producers.size:
        starts = np.flatnonzero(np.concatenate([np.ones(1, np.bool_), producers[1:] != producers[:-1]]))
        into[producers[starts]] += np.add.reduceat(counts, starts)
