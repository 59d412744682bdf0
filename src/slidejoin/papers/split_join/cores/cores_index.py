"""The index of a window that is divided among join cores, behind the one protocol of indexes.

::

    rows ─▶ core 0: rows 0, k, 2k, …    ─▶ an index of any kind
            core 1: rows 1, k + 1, …    ─▶ another one
            …
    probe ─▶ every core, which sees its share of the rows ─▶ mergers ─▶ one answer

A core's part of one side's window is a region (SplitJoin, section 3). Its index counts the rows of the core alone, so
that it holds consecutive ordinals, as any index does; see `slidejoin.papers.split_join.cores.dealing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from slidejoin.index.answer import Answer
from slidejoin.index.protocol import Index, Probing, Unfit
from slidejoin.papers.split_join.cores.answers import MatchesInCore, MatchesInCores, matches_in_core
from slidejoin.papers.split_join.cores.dealing import core_occupancy, core_probes, core_rows, number_in_core
from slidejoin.runtime.threads import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.index.keys import Prepared, RowKeys
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.index.protocol import Occupancy, Request

__all__ = ["CoresIndex", "DealtRows", "Region"]

ALONE = Workers(1)
"""A core is one thread."""


@dataclass(frozen=True, slots=True)
class DealtRows:
    """Rows on their way to the cores: each takes its own out of them."""

    keys: RowKeys
    first: int

    @property
    def rows(self) -> int:
        """How many."""
        return self.keys.rows

    def orders(self, around: tuple[int, int], rows: int) -> bool:  # noqa: ARG002 - see Prepared
        """Return False: they are in arrival order."""
        return False


class Region:
    """One core's part of one side's window: its own index, of its own rows, numbered from 0 on.

    Parameters
    ----------
    index : Index
    core, cores : int
        Which of how many.
    taken : int
        The number before which it has taken all rows.
    """

    __slots__ = ("core", "cores", "index", "taken")

    def __init__(self, index: Index, core: int, cores: int, taken: int) -> None:
        self.index, self.core, self.cores, self.taken = index, core, cores, taken

    def store(self, rows: DealtRows, live: int) -> None:
        """Take those of the newest rows whose turn is this core's; `live` rows are in the window with all of them."""
        first = number_in_core(rows.first, self.core, self.cores)
        mine = number_in_core(rows.first + rows.rows, self.core, self.cores) - first
        if mine and self.taken <= first:
            own = core_rows(rows.keys, rows.first, self.core, self.cores)
            self.index.insert(self.index.prepare(own, first), -(-live // self.cores))
            self.taken = first + mine

    def process(self, batch: ProbeBatch, request: Request, least: int = 0) -> MatchesInCore:
        """Answer all probes of a batch among the rows of this core, those from the ordinal `least` on."""
        mine, exact = core_probes(batch, self.core, self.cores, least)
        alone = request._replace(start=0, share=max(len(batch), 1), workers=ALONE)
        return matches_in_core(self.index, mine, alone, self.core, self.cores, exact=exact)

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals of the stream before that one."""
        number = number_in_core(ordinal, self.core, self.cores)
        if self.taken < number:
            self.index.skip_to(number)
            self.taken = number

    def expire(self, ordinal: int) -> None:
        """Expire the rows before that ordinal of the stream."""
        self.index.expire(number_in_core(ordinal, self.core, self.cores))

    def expire_below(self, dimension: int, value: int, first: int) -> None:
        """Expire the rows with a smaller time, see `Index`; `first` is an ordinal of the stream."""
        self.index.expire_below(dimension, value, number_in_core(first, self.core, self.cores))

    # -- size --------------------------------------------------------------------------------------------------------

    def occupancy(self, window: Occupancy) -> Occupancy:
        """Return which of the rows of a window are here, about, as its index numbers them."""
        return core_occupancy(window, self.core, self.cores)

    def coming(self, window: Occupancy, rows: int) -> int:  # noqa: ARG002 - see `WindowSegment`
        """Return how many rows its index takes at most when so many more come into the window."""
        return -(-rows // self.cores)

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return self.index.nbytes

    def growth(self, window: Occupancy, rows: int) -> int:
        """Return by how many bytes it grows at most when so many more rows come into the window."""
        return self.index.growth(self.occupancy(window), self.coming(window, rows), None)

    def replaced(self, index: Index, window: Occupancy) -> Region:
        """Return the same part with an empty index, which takes the rows when they are inserted again."""
        return Region(index, self.core, self.cores, self.occupancy(window).first)


class CoresIndex(Index):
    """The index of one side's window.

    Parameters
    ----------
    name : str
        What each core uses.
    regions : sequence of Region
        One for each core.
    fan_in : int
        Inputs of a merger.
    alone : bool
        Whether cores expire their rows by themselves: then nobody else does.
    """

    refits = True

    def __init__(self, name: str, regions: Sequence[Region], fan_in: int, *, alone: bool) -> None:
        self.name = name
        self.regions = list(regions)
        self.fan_in, self.alone = fan_in, alone
        self.spans_ordinals = any(one.index.spans_ordinals for one in regions)
        self.dear_probes = any(one.index.dear_probes for one in regions)

    @staticmethod
    def of(
        make: Callable[[Occupancy], Index], window: Occupancy, name: str, cores: int, fan_in: int, *, alone: bool
    ) -> CoresIndex:
        """Return an index with so many cores; `make` makes the index of one of them."""
        regions = []
        for core in range(cores):
            share = core_occupancy(window, core, cores)
            regions.append(Region(make(share), core, cores, share.first))
        return CoresIndex(name, regions, fan_in, alone=alone)

    # -- insert ------------------------------------------------------------------------------------------------------

    def prepare(self, rows: RowKeys, first: int) -> DealtRows:
        """Return the rows with their first ordinal: each core prepares its own."""
        return DealtRows(rows, first)

    def insert(self, rows: Prepared, live: int) -> None:
        """Insert the newest rows, each into the core whose turn it is, see `Index`."""
        assert isinstance(rows, DealtRows)  # noqa: S101 - as `prepare` gave them
        for region in self.regions:
            region.store(rows, live)

    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals before that one: rows that have expired already."""
        for region in self.regions:
            region.skip_to(ordinal)

    # -- expire ------------------------------------------------------------------------------------------------------

    def expire(self, ordinal: int) -> None:
        """Expire the rows before that ordinal, unless cores do so by themselves."""
        for region in () if self.alone else self.regions:
            region.expire(ordinal)

    def expire_below(self, dimension: int, value: int, first: int) -> None:
        """Expire the rows with a smaller time, see `Index`, unless cores do so by themselves."""
        for region in () if self.alone else self.regions:
            region.expire_below(dimension, value, first)

    # -- probe -------------------------------------------------------------------------------------------------------

    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Begin to answer a batch, a task for each core, see `Index`. All probes are answered, whichever is first."""
        _ = batch.probes  # all cores need them
        answers: dict[Region, MatchesInCore] = {}

        def run(region: Region) -> None:
            answers[region] = region.process(batch, request)

        def answer() -> Answer:
            parts = [answers[region] for region in self.regions]
            return Answer(ranges=MatchesInCores(parts, request.workers, self.fan_in))

        return Probing([partial(run, region) for region in self.regions], answer)

    def ranges(self, batch: ProbeBatch, workers: Workers) -> None:
        """Return None: `probe` never stops early."""

    @property
    def inexact(self) -> frozenset[int]:
        """Terms of which some key here was clipped."""
        return frozenset().union(*(region.index.inexact for region in self.regions))

    @property
    def floor(self) -> int:
        """Ordinal of the oldest row that may be here."""
        return min(region.index.floor * region.cores + region.core for region in self.regions)

    # -- size --------------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return sum(region.nbytes for region in self.regions)

    def growth(self, window: Occupancy, rows: int, keys: NDArray[np.int64] | None) -> int:  # noqa: ARG002 - of all cores
        """Return by how many bytes that many more rows make it grow at most."""
        return sum(region.growth(window, rows) for region in self.regions)

    def refitted(self, window: Occupancy, why: Unfit, coming: int = 0) -> CoresIndex | None:
        """Return an index with others in cores where these do not suit, see `Index`."""
        indexes = [one.index.refitted(one.occupancy(window), why, one.coming(window, coming)) for one in self.regions]
        return self._replaced(indexes, window)

    def _replaced(self, indexes: Sequence[Index | None], window: Occupancy) -> CoresIndex | None:
        """Return an index with others in some cores, which alone take the rows that are inserted again."""
        if not any(index is not None for index in indexes):
            return None
        regions = [
            one if index is None else one.replaced(index, window)
            for one, index in zip(self.regions, indexes, strict=True)
        ]
        return type(self)(self.name, regions, self.fan_in, alone=self.alone)

    # -- explanation -------------------------------------------------------------------------------------------------

    def explain(self) -> str | None:
        """Return the sizes that the first core chose, in words; None if there is nothing to say."""
        text = self.regions[0].index.explain()
        return None if text is None else f"each of {len(self.regions)} cores, {text}"

    @property
    def spilled(self) -> int | None:
        """Rows that did not fit into their bucket so far; None of an index without buckets."""
        counts = [one for region in self.regions if (one := region.index.spilled) is not None]
        return sum(counts) if counts else None
