"""SPO-Join: a mutable part with a B+-tree for each term, merged into linked PO-Join structures (SPO-Join, 4).

Rows are inserted into the mutable part. When it holds a slide interval, or its share of one, it is merged into an
immutable structure, which is linked behind the others; rows that arrive meanwhile go into other trees, and the merged
ones are probed as before until their structure is there (section 4.3). A structure is dropped as a whole when all its
rows have expired. Each probe looks for rows in all parts.

A merge reads the leaves of the mutable part's trees in linear time (section 4.2). It is done in steps, so that it can
continue while pushes arrive. Meanwhile the trees take no rows, and are still probed.

Where a push brings many probes, the mutable part is read into an immutable structure for them, as by a merge: that
takes as long as a few probes of its trees, and all probes are then answered together.

The paper's two terms are the key and the first further dimension. With one term alone there is no second, and a
structure is sorted keys; more terms than two are checked on candidates.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.answer import Answer, CountedMatches
from slidejoin.index.parallel_search import search
from slidejoin.index.protocol import Probing
from slidejoin.papers.kernels.walking import WalkMatches
from slidejoin.papers.matches import MatchesByPosition
from slidejoin.papers.pim_tree.css_tree import CssTree
from slidejoin.papers.pim_tree.kernels.chains import weave_links
from slidejoin.papers.pim_tree.tasks import run_together
from slidejoin.papers.sealed_rows import sealed_format
from slidejoin.papers.spo_join.kernels.permuting import (
    LEAF,
    OUT,
    READING,
    read_first,
    read_second,
    read_values,
)
from slidejoin.papers.spo_join.options import POJoin
from slidejoin.papers.spo_join.part import PermutedRows, ProbeBoxes, bounds_of
from slidejoin.papers.spo_join.two_trees import CssTrees, MutableRows
from slidejoin.papers.structure import AT_FIRST, Structure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from slidejoin.index.answer import BatchMatches
    from slidejoin.index.part_format import PartFormat
    from slidejoin.index.probe import ProbeBatch, Probes
    from slidejoin.index.protocol import Request
    from slidejoin.papers.spo_join.part import Part
    from slidejoin.papers.stored_dims import StoredDims
    from slidejoin.spec.options import Options

__all__ = ["POJoinIndex"]

INTERVALS = 10
"""Slide intervals in a window, as in the paper's experiments."""

AHEAD = 4
"""A merge is finished when the mutable part has grown by this part of the threshold of the next."""

WALKED_AT_ONCE = 1 << 12
"""Probes that are answered together before it is known how many candidates they have."""


class POJoinIndex(Structure):
    """The index of one side's window; see `Structure`.

    Attributes
    ----------
    linked : deque of Part
        The immutable structures, the oldest first.
    merges : int
        How many were made.
    seconds : dict of str to float
        Time by step, of all threads together: ``insert``, ``merge``, ``mutable`` and ``immutable`` (probing those).
    """

    name = "po_join"
    takes = POJoin

    read_from: int = 48
    """Probes for which the mutable part is read into a PO-Join structure: as many in its trees take as long."""

    def __init__(self, options: POJoin, dims: int, rows: int | None, first: int) -> None:
        super().__init__(options, dims, rows, first)
        self._po = options
        self.seconds = dict.fromkeys(("insert", "merge", "mutable", "immutable"), 0.0)
        self.merges = 0
        self._lock, self._reading = Lock(), Lock()
        # Not for the paper's way, nor for its baselines.
        self._together = options.mutable == "bit_set" and options.immutable == "po_join" and not options.tuple_by_tuple
        self.linked: deque[Part] = deque()
        self._active = self._new_rows()
        self._merging: PartMerge | None = None
        # Empty, for the next rows to come when the active one is merged.
        self._idle: MutableRows | None = None

    @property
    def _terms(self) -> int:
        return 2 if self.dims else 1

    def _new_rows(self) -> MutableRows:
        hashed = self._po.mutable == "hash_set"
        return MutableRows(self._terms, self._po.fan_out, self.seconds, hashed=hashed)

    # -- insert and merge --------------------------------------------------------------------------------------------

    def threshold(self, coming: int = 0) -> int:
        """Return how many rows of the mutable part are merged, the paper's delta, when so many more have come."""
        interval = self._po.slide_interval
        if interval is not None:
            return -(-interval // self._po.sub_intervals)
        window = self.next + coming - self.floor if self.rows is None else self.rows
        return max(-(-window // (INTERVALS * self._po.sub_intervals)), AT_FIRST)

    def insert_keys(self, keys: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Insert the rows into the mutable part, and merge it whenever it is full."""
        columns, done = [keys], 0
        if self.dims:
            ring = self.stored.values
            columns.append(ring[ordinals & (ring.shape[0] - 1), 0])
        while done < keys.size:
            some = slice(done, done + max(self.threshold() - self._active.rows, 0))
            self._active.insert([column[some] for column in columns], ordinals[some])
            done += ordinals[some].size
            start = perf_counter()
            if self._active.rows >= self.threshold():
                self._freeze()
            self._spent("merge", start)
        start = perf_counter()
        self._go_on(1 + 2 * self._terms * AHEAD * keys.size)
        self._spent("merge", start)

    def _freeze(self) -> None:
        """Begin a merge of what the mutable part holds; the one before is done by now, unless a push is large."""
        self._go_on(None)
        self._merging = PartMerge(self._active, self._po)
        self._active, self._idle = self._new_rows() if self._idle is None else self._idle, None
        if self._po.blocking:
            self._go_on(None)

    def _go_on(self, steps: int | None) -> None:
        """Do so many steps of the merge, or all; link what it made."""
        merging = self._merging
        if merging is not None and (steps is None or merging.work(steps)):
            self.linked.append(merging.finish())
            self.merges += 1
            self._thaw(merging)

    def _thaw(self, merging: PartMerge) -> None:
        """Empty the trees of a merge that is over, for the next rows."""
        merging.frozen.clear()
        self._merging, self._idle = None, merging.frozen

    @classmethod
    def part_format(cls, options: Options) -> PartFormat:
        """Return how a segment's rows are sealed: as one immutable structure."""
        assert isinstance(options, POJoin)  # noqa: S101 - the factory gives its own
        if options.immutable == "po_join":
            return sealed_format("po_join", PermutedRows.sealed, PermutedRows.of_arrays)
        fan_out = options.immutable_fan_out
        return sealed_format(f"css_trees {fan_out}", partial(CssTrees.sealed, fan_out), CssTrees.of_arrays)

    def attach_rows(self, own: PermutedRows | CssTrees, first: int, end: int) -> None:  # noqa: ARG002 - see Structure
        """Link a sealed structure behind the others; what the mutable part holds is merged before."""
        if self._active.rows:
            self._freeze()
        self._go_on(None)
        if isinstance(own, PermutedRows):
            self.linked.append(own.rebased(first, tuple_by_tuple=self._po.tuple_by_tuple))
        else:
            self.linked.append(own.rebased(first, hashed=self._po.immutable == "css_hash_set"))

    def leave(self, ordinal: int) -> None:
        """Drop the structures whose rows have all expired."""
        while self.linked and self.linked[0].newest < ordinal:
            self.linked.popleft()
        if self._merging is not None and self._merging.frozen.newest < ordinal:
            self._thaw(self._merging)
        if self._active.rows and self._active.newest < ordinal:
            self._active.clear()

    # -- probe -------------------------------------------------------------------------------------------------------

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Answer a batch by counts, see `Index`; where those suffice, no row is written."""
        if not request.only_counts:
            return super().probe(batch, request)
        counts = search(_CountsOnly(self), batch.probes, request.workers)
        return Probing([], lambda: Answer(ranges=counts))

    def search(self, probes: Probes) -> MatchesByPosition:
        """Find every probe's matches, see `Structure`; only the terms beyond the second are left to check."""
        boxes = ProbeBoxes(probes.seeing_from(self.floor))
        return MatchesByPosition(_BoxWalk(self, boxes), boxes.rest)

    def walk(
        self, probes: Probes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Find the rows that pass the first two terms, see `Structure.walk`."""
        return self.walk_boxes(ProbeBoxes(probes), begin, end, counts, ordinals)

    def _parts(self) -> list[Part]:
        """Return all parts with rows: those that take longest to probe first, so that threads end together."""
        frozen = [] if self._merging is None else [self._merging.frozen]
        mutable: list[Part] = [one for one in (self._active, *frozen) if one.rows]
        return [*mutable, *self.linked]

    def _read_as(self, part: Part, probes: int) -> Part:
        """Return what answers so many probes of a part."""
        if not (self._together and probes >= self.read_from and isinstance(part, MutableRows)):
            return part
        with self._reading:
            if part.permuted is None:
                part.permuted = PartMerge(part, self._po).finish()
        return part.permuted

    def _each(self, parts: list[Part], work: Callable[[int, Part], None]) -> None:
        """Let each thread take the next part that none has taken, until there are no more (Algorithm 4)."""
        numbers, lock = iter(range(len(parts))), Lock()

        def take() -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                start = perf_counter()
                work(number, parts[number])
                self._spent("mutable" if isinstance(parts[number], MutableRows) else "immutable", start)

        run_together([take] * max(min(self._po.threads, len(parts)), 1))

    def walk_boxes(
        self, boxes: ProbeBoxes, begin: int, end: int, counts: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> tuple[int, int]:
        """Walk all parts, and join their candidates for each probe, see `Structure.walk`."""
        parts, done, matches = self._parts(), begin, WalkMatches(counts, ordinals, np.array([begin, 0]))
        if not parts:
            counts[begin:end] = 0
            return end, 0
        if boxes.counted is not None and boxes.counted[0] != parts:
            boxes.counted = None  # merged since
        entries, part_counts = np.empty(ordinals.size, np.int64), np.empty((len(parts), end), np.int64)
        while done < end:
            room = ordinals.size - int(matches.done[1])
            if boxes.counted is None:
                # As if few matched: each part gets an equal share of the room, at the end of which all have to stop.
                tried = min(done + WALKED_AT_ONCE, end)
                shares = np.full(len(parts), room // len(parts))
            else:
                each = boxes.counted[1][:, done:end].astype(np.int64)
                tried = done + int(np.searchsorted(each.sum(axis=0).cumsum(), room, "right"))
                shares = each[:, : tried - done].sum(axis=1)
                if tried == done:
                    break
            last = self._walk_parts(parts, boxes, (done, tried), shares, entries, part_counts)
            weave_links(entries, np.cumsum(shares) - shares, part_counts, done, last, *matches)
            if last < tried:
                boxes.counted = parts, self._counted(parts, boxes, last)
            done = last
        return done, int(matches.done[1])

    def _walk_parts(
        self,
        parts: list[Part],
        boxes: ProbeBoxes,
        probes: tuple[int, int],
        shares: NDArray[np.int64],
        entries: NDArray[np.int64],
        part_counts: NDArray[np.int64],
    ) -> int:
        """Let each part find the rows of these probes in its share of the room; return the first left unanswered."""
        ends, past = np.empty(len(parts), np.int64), np.cumsum(shares)

        def ask(number: int, part: Part) -> None:
            into = entries[past[number] - shares[number] : past[number]]
            ends[number] = self._read_as(part, probes[1] - probes[0]).walk(boxes, *probes, part_counts[number], into)[0]

        self._each(parts, ask)
        return int(ends.min())

    def _counted(
        self, parts: list[Part], boxes: ProbeBoxes, begin: int = 0, of_parts: Sequence[ProbeBoxes] | None = None
    ) -> NDArray[np.int32]:
        """Return how many rows each part has for each probe from `begin` on, (parts, n) int32; 0 for those before.

        Each part may have `of_parts` boxes of its own, in which probes see other rows.
        """
        n = len(boxes)
        counted = np.zeros((len(parts), n), np.int32)

        def count(number: int, part: Part) -> None:
            counts = np.zeros(n, np.int64)
            own = boxes if of_parts is None else of_parts[number]
            self._read_as(part, n - begin).count(own, begin, n, counts)
            counted[number] = counts

        self._each(parts, count)
        return counted

    def count_boxes(self, boxes: ProbeBoxes) -> NDArray[np.int64] | None:
        """Return how many rows each probe finds of those it sees, (n,) int64.

        None if that depends on further dimensions beyond the second term, such as event times that do not ascend.
        """
        parts = self._parts()
        of_parts: list[ProbeBoxes] = []
        for part in parts if boxes.rest.aux_dims.size else ():
            own = self._in_dimensions(part, boxes)
            if own is None:
                return None
            of_parts.append(own)
        total: NDArray[np.int64] = self._counted(parts, boxes, 0, of_parts or None).sum(axis=0, dtype=np.int64)
        return total

    def _in_dimensions(self, part: Part, boxes: ProbeBoxes) -> ProbeBoxes | None:
        """Return boxes of probes that see only the rows of a part which are in their ranges of the dimensions left.

        Where all rows of the part are in all of them, these are the boxes themselves. Where a dimension ascends, as
        event times do, a range of it is a range of ordinals. None if it is neither.
        """
        # The values of rows that have expired may have been overwritten; no probe sees these.
        rest, oldest, end = boxes.rest, max(part.oldest, self.floor), part.newest + 1
        if oldest >= end or not len(boxes):
            return boxes
        if np.unique(rest.aux_dims).size < rest.aux_dims.size:
            return None
        if part.bounds is None:
            columns = [self.stored.column(dimension, oldest, end) for dimension in range(self.dims)]
            part.bounds = bounds_of(np.stack(columns, axis=1))
        seen_from, seen_to = boxes.seen_from, boxes.seen_to
        for dimension, low, high in zip(rest.aux_dims.tolist(), rest.aux_lo, rest.aux_hi, strict=True):
            smallest, largest = part.bounds[:, dimension]
            if low.max() <= smallest and largest <= high.min():
                continue
            values = self.stored.column(dimension, oldest, end)
            if (values[1:] < values[:-1]).any():
                return None
            seen_from = np.maximum(seen_from, oldest + np.searchsorted(values, low, "left"))
            seen_to = np.minimum(seen_to, oldest + np.searchsorted(values, high, "right"))
        return boxes if seen_from is boxes.seen_from else boxes.seeing(seen_from, seen_to)

    def _spent(self, step: str, start: float) -> None:
        with self._lock:
            self.seconds[step] += perf_counter() - start

    # -- size --------------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Stored rows, including expired ones whose structure has not expired."""
        return sum(part.rows for part in self._parts())

    @property
    def held_bytes(self) -> int:
        """Bytes of all parts, of a running merge, and of empty trees."""
        held = self._active.nbytes + sum(part.nbytes for part in self.linked)
        held += 0 if self._idle is None else self._idle.nbytes
        return held + (0 if self._merging is None else self._merging.frozen.nbytes + self._merging.nbytes)

    def held_growth(self, rows: int) -> int:
        """Return the bytes of larger trees, and of the structures and trees that merges need."""
        growth, threshold = self._active.growth(rows), self.threshold()
        if self._together:
            mutable = [self._active] if self._merging is None else [self._active, self._merging.frozen]
            read = sum(0 if one.permuted is None else one.permuted.nbytes for one in mutable)
            growth += PermutedRows.bytes_of(sum(one.rows for one in mutable) + rows) - read
        if self._active.rows + rows < threshold:
            return growth
        most = max(threshold, self.threshold(rows))
        held = self._active.rows + rows
        more = 2 * MutableRows.most_bytes(self._terms, self._po.fan_out, min(rows, most))
        return growth + more + merged_bytes(held, 1 + held // threshold, self._po)


class _BoxWalk:
    """ProbeBoxes that probe an index, see `slidejoin.papers.matches.Walked`."""

    def __init__(self, index: POJoinIndex, boxes: ProbeBoxes) -> None:
        self._index, self._boxes = index, boxes

    def walk(
        self,
        probes: Probes,  # noqa: ARG002 - the boxes are theirs
        begin: int,
        end: int,
        counts: NDArray[np.int64],
        ordinals: NDArray[np.int64],
    ) -> tuple[int, int]:
        """Find the rows in the boxes, see `Structure.walk`."""
        return self._index.walk_boxes(self._boxes, begin, end, counts, ordinals)

    @property
    def stored(self) -> StoredDims:
        """The further dimensions."""
        return self._index.stored


class _CountsOnly:
    """The index as one that is searched for counts, see `slidejoin.index.parallel_search.search`."""

    def __init__(self, index: POJoinIndex) -> None:
        self._index = index

    def search(self, probes: Probes) -> BatchMatches:
        """Count every probe's matches; several threads may search at once."""
        boxes = ProbeBoxes(probes.seeing_from(self._index.floor))
        counts = self._index.count_boxes(boxes)
        return (
            self._index.search(probes)
            if counts is None
            else CountedMatches(counts, partial(self._index.search, probes))
        )


class PartMerge:
    """A running merge.

    Parameters
    ----------
    frozen : MutableRows
        What is merged, at least a row; it may not change meanwhile.
    options : POJoin
        Which structure is made.
    """

    def __init__(self, frozen: MutableRows, options: POJoin) -> None:
        self.frozen, self._options = frozen, options
        rows, terms = frozen.rows, len(frozen.trees)
        self._states = [np.zeros(READING, np.int64) for _ in range(terms)]
        for state, tree in zip(self._states, frozen.trees, strict=True):
            state[LEAF] = tree.first_leaf
        self._css = [CssTree(rows, options.immutable_fan_out) for _ in range(terms if self._in_trees else 0)]
        self._filled = 0
        permuted = 0 if self._in_trees else rows
        self._keys, self._ordinals = (np.empty(permuted, np.int64) for _ in range(2))
        # The paper's tmp; no structure has it.
        self._place_of = np.empty(permuted, np.int32)
        second = permuted if terms > 1 else 0
        self._keys_2, self._permutation = np.empty(second, np.int64), np.empty(second, np.int32)

    @property
    def _in_trees(self) -> bool:
        return self._options.immutable != "po_join"

    def work(self, steps: int) -> bool:
        """Do so much of it, a row each; return whether all is done."""
        for term, state in enumerate(self._states):
            before = int(state[OUT])
            if before < self.frozen.rows:
                self._read(term, steps, state)
                steps -= int(state[OUT]) - before
                if steps <= 0:
                    break
        if self._states[-1][OUT] < self.frozen.rows:
            return False
        if self._css and steps > 0:
            first, leaves = self._filled, self._css[0].leaves
            self._filled = min(leaves, first + steps)
            for tree in self._css:
                tree.fill(first, self._filled)
        return not self._css or self._filled == self._css[0].leaves

    def _read(self, term: int, steps: int, state: NDArray[np.int64]) -> None:
        """Read so many rows of a term's tree."""
        tree = self.frozen.trees[term].words
        if self._css:
            read_values(tree, steps, state, self._css[term].keys, self._css[term].values)
        elif term == 0:
            read_first(tree, steps, state, self.frozen.ordinals, self._keys, self._ordinals, self._place_of)
        else:
            read_second(tree, steps, state, self._keys_2, self._permutation, self._place_of)

    def finish(self) -> Part:
        """Do the rest, and return the structure."""
        while not self.work(3 * self.frozen.rows):
            pass
        options = self._options
        if self._css:
            return CssTrees(self._css, self.frozen.ordinals.copy(), hashed=options.immutable == "css_hash_set")
        return PermutedRows(
            self._keys, self._ordinals, self._keys_2, self._permutation, tuple_by_tuple=options.tuple_by_tuple
        )

    @property
    def nbytes(self) -> int:
        """Bytes of what is written."""
        made = (self._keys, self._ordinals, self._place_of, self._keys_2, self._permutation)
        return sum(one.nbytes for one in made) + sum(tree.nbytes for tree in self._css)


def merged_bytes(rows: int, parts: int, options: POJoin) -> int:
    """Return the bytes of so many rows in so many structures at most, with those of a merge."""
    if options.immutable == "po_join":
        return PermutedRows.bytes_of(rows) + 4 * rows
    return CssTrees.bytes_of(rows, options.immutable_fan_out) + parts * CssTrees.bytes_of(1, options.immutable_fan_out)
