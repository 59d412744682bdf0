"""The index of a table at rest for ranges of two keys: which intervals contain a value, which rows lie in a box."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import Answer, AnswerMemory, MatchPositions, joined
from slidejoin.index.at_rest.kernels.boxes import (
    FAN_OUT,
    FIELDS,
    BoxProbes,
    BoxRows,
    RowsAtRest,
    find_rows,
    link_rows,
    list_maxima,
    make_directory,
)
from slidejoin.index.keys import RowKeys
from slidejoin.index.planar.planar_index import PlanarIndex
from slidejoin.index.protocol import PLANAR, Index, Probing
from slidejoin.tuning import Tuning, tuning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.keys import Prepared
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Occupancy, Request
    from slidejoin.runtime.threads import Workers

__all__ = ["BoxIndex"]

SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1

MARGIN = 32
"""Places behind the last position: pairs are written eight at a time."""

ROW_BYTES, TABLE_BYTES = 8 * (FIELDS + 2) + 8 + 1, 256
"""Of a row its record, its keys, up to two places of the directory, and a sixteenth of a node; and of any table."""


class BoxIndex(Index):
    """Rows that never expire, in the order of one key, see `index.at_rest.kernels.boxes`.

    It is built by the first probe, of all rows inserted until then. Ranges that are open below in the first key and
    above in the second one are answered best; where those of the first probes are open at the other ends, keys are
    inverted.

    Parameters
    ----------
    own : Tuning, optional
        Thresholds.
    """

    name = PLANAR
    spans_ordinals = False

    def __init__(self, own: Tuning | None = None) -> None:
        self.tuning = own or tuning()
        self._parts: list[tuple[RowKeys, int]] = []
        self._next = self._count = 0
        self._built: RowsAtRest | None = None
        self._several: PlanarIndex | None = None
        self._inverted = False, False
        self._making, self._memory = Lock(), AnswerMemory()

    # -- insert ------------------------------------------------------------------------------------------------------

    def prepare(self, rows: RowKeys, first: int) -> RowKeys:  # noqa: ARG002 - see Index
        """Return the rows: all of them are sorted together."""
        return rows

    def insert(self, rows: Prepared, live: int) -> None:  # noqa: ARG002 - see Index
        """Add rows; the index is built again when it is probed."""
        assert isinstance(rows, RowKeys)  # noqa: S101 - as `prepare` gave them
        self._parts.append((rows, self._next))
        self._next += rows.rows
        self._count += rows.rows if rows.matchable is None else int(np.count_nonzero(rows.matchable))
        self._built = self._several = None

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals before that one."""
        self._next = ordinal

    def expire(self, ordinal: int) -> None:
        """Do nothing: rows of a table stay."""

    def _rows(self, probes: BoxProbes) -> RowsAtRest:
        """Return the rows in order, built by the first call, for probes like these. O(rows log rows)."""
        with self._making:
            if self._built is None:
                self._inverted = (
                    _open_above(probes.low, probes.high),
                    _open_above(~probes.most, ~probes.least),
                )
                self._built = self._build()
            return self._built

    def _build(self) -> RowsAtRest:
        records: NDArray[np.int64] = np.empty((self._count, FIELDS), np.int64)
        at = 0
        for rows, first in self._parts:
            chosen = slice(None) if rows.matchable is None else np.flatnonzero(rows.matchable)
            keys, ordinals = rows.keys[chosen], np.arange(first + 1, first + 1 + rows.rows)[chosen]
            seconds = rows.aux[chosen, 0] if rows.aux.shape[1] else np.zeros(keys.size, np.int64)
            part = records[at : at + keys.size]
            part[:, 0], part[:, 1], part[:, 2] = keys, seconds, ordinals
            at += keys.size
        for column, inverted in enumerate(self._inverted):
            if inverted:
                records[:, column] = ~records[:, column]
        keys = records[:, 0]
        if not bool((keys[1:] >= keys[:-1]).all()):
            records = np.ascontiguousarray(records[np.argsort(keys, kind="stable")])
        link_rows(records)
        size = records.shape[0]
        # Without rows the directory has one stretch, of the largest key.
        base, top = (int(records[place, 0]) for place in (0, -1)) if size else (LARGEST, LARGEST)
        # As many stretches as rows, about.
        shift = max((top - base).bit_length() - max(size - 1, 1).bit_length(), 0)
        directory: NDArray[np.uint32] = np.empty((top >> shift) - (base >> shift) + 2, np.uint32)
        make_directory(records, base, shift, directory)
        starts, nodes, level = [], 0, size
        while level > 1:
            level = -(-level // FAN_OUT)
            starts.append(nodes)
            nodes += level
        maxima: NDArray[np.int64] = np.empty(nodes, np.int64)
        list_maxima(records, np.array(starts, np.int64), maxima)
        return RowsAtRest(records, directory, maxima, np.array([base, top, shift, *starts], np.int64))

    # -- probe -------------------------------------------------------------------------------------------------------

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Begin to answer a batch by positions, in as many tasks as are worth it, see `Index`."""
        start, rest = request.start, len(batch) - request.start
        boxes = self._boxes(batch)
        if boxes is None:
            return self._planar().probe(batch, request)
        rows = self._rows(boxes)
        if any(self._inverted):
            boxes = self._turned(boxes)
        parts = max(1, round(rest / request.share))
        answers = (AnswerMemory() if request.lasting else self._memory).take(parts, len(batch))
        tasks = []
        for number, into in enumerate(answers):
            into.only_counts = request.only_counts
            begin, end = (start + rest * (number + at) // parts for at in (0, 1))
            tasks.append(partial(self._find, rows, boxes, begin, end, into))
        return Probing(tasks, lambda: Answer(positions=joined(answers)))

    def ranges(self, batch: ProbeBatch, workers: Workers) -> BatchMatches | None:
        """Return None, as matches beyond the room are written batch by batch; of several ranges a key all matches."""
        return self._planar().ranges(batch, workers) if self._boxes(batch) is None else None

    def _planar(self) -> PlanarIndex:
        """Return the index of the same rows for probes of several ranges, built by the first call."""
        with self._making:
            if self._several is None:
                self._several = PlanarIndex(1, own=self.tuning)
                for rows, first in self._parts:
                    self._several.insert(self._several.prepare(rows, first), self._count)
            return self._several

    def _boxes(self, batch: ProbeBatch) -> BoxProbes | None:
        """Return the boxes of probes; None if one has several ranges of a key."""
        ranges = batch.ranges
        least, most = ranges.aux_lo, ranges.aux_hi
        if not ranges.aux_dims.size:
            least, most = np.full((1, len(batch)), SMALLEST), np.full((1, len(batch)), LARGEST)
        if ranges.lo.shape[0] != 1 or least.shape[0] != 1:
            return None
        return BoxProbes(*map(np.ascontiguousarray, (ranges.lo, ranges.hi, least, most)))

    def _turned(self, boxes: BoxProbes) -> BoxProbes:
        """Return boxes in keys that are inverted as those of the rows are."""
        low, high, least, most = boxes
        if self._inverted[0]:
            # Pieces ascend.
            low, high = (np.ascontiguousarray(~ends[::-1]) for ends in (high, low))
        if self._inverted[1]:
            least, most = ~most, ~least
        return BoxProbes(low, high, least, most)

    def _find(self, rows: RowsAtRest, boxes: BoxProbes, begin: int, end: int, into: MatchPositions) -> None:
        """Answer probes begin…end-1, or as many of them as have `Tuning.cell_matches` rows, and at least one."""
        into.begin, done, total, written = begin, begin, 0, np.zeros(1, np.int64)
        if into.only_counts:
            find_rows(rows, boxes, begin, end, 0, -1, BoxRows(into.positions, into.counts, written))
            into.done, into.total = end, 0
            return
        into.room(2 * (end - begin) + 2 * MARGIN)
        while True:
            limit = into.positions.size - MARGIN
            answer = BoxRows(into.positions, into.counts, written)
            done = find_rows(rows, boxes, done, end, total, limit, answer)
            total = int(written[0])
            if done == end or (done > begin and into.positions.size >= self.tuning.cell_matches):
                break
            into.room(2 * into.positions.size)
        into.done, into.total = done, total

    # -- size --------------------------------------------------------------------------------------------------------

    @property
    def inexact(self) -> frozenset[int]:
        """Terms of which some key here was clipped."""
        return frozenset().union(*(rows.inexact for rows, _ in self._parts))

    @property
    def floor(self) -> int:
        """Ordinal of the oldest row."""
        return 0

    @property
    def nbytes(self) -> int:
        """Bytes of the keys, and of the rows in order."""
        built = 0 if self._built is None else sum(array.nbytes for array in self._built)
        built += 0 if self._several is None else self._several.nbytes
        return built + sum(rows.keys.nbytes + rows.aux.nbytes for rows, _ in self._parts)

    def growth(self, window: Occupancy, rows: int, keys: NDArray[np.int64] | None) -> int:  # noqa: ARG002 - see Index
        """Return by how many bytes that many more rows make it grow at most."""
        return (self._next + rows) * ROW_BYTES + TABLE_BYTES - self.nbytes

    # -- explanation -------------------------------------------------------------------------------------------------

    def explain(self) -> str | None:
        """Return how rows are looked for, in words; None without rows."""
        if not self._count:
            return None
        return "table at rest: rows in the order of one key, each with the nearest one before it whose second is larger"


def _open_above(low: NDArray[np.int64], high: NDArray[np.int64]) -> bool:
    """Tell whether ranges, (k, n) each, are open above and not below, as those of the first probes show."""
    some = low <= high
    if not some.any():
        return False
    return bool((high[some] == LARGEST).all()) and not bool((low[some] == SMALLEST).all())
