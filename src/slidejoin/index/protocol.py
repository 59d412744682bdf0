"""The index protocol: insert rows, expire rows, and find the stored rows of one side whose keys are in given ranges.

An index knows keys and ordinals, both int64, and nothing of payload, Arrow, predicates or Spark. It holds one key and
any number of further dimensions for each row. The window of a side (`operator.window`) inserts rows in arrival order,
expires ordinals, and probes it in batches. No code outside this package depends on which index it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from slidejoin.index.keys import StoredKeys
from slidejoin.index.part_format import STORED_KEYS
from slidejoin.spec.options import BiSort, Planar, structure_named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.index.answer import Answer, BatchMatches
    from slidejoin.index.deferred import Channel, NearestProbes, NearestRows, Reduced, ValuesOf
    from slidejoin.index.keys import Prepared, RowKeys
    from slidejoin.index.part_format import PartFormat, SealedPart
    from slidejoin.index.probe import ProbeBatch, Probes
    from slidejoin.runtime.threads import Workers
    from slidejoin.spec.options import Options

__all__ = ["CELLS", "PLANAR", "RUNS", "Index", "IndexKind", "Occupancy", "Probing", "Request", "Unfit", "kind_of"]


class Occupancy(NamedTuple):
    """Which ordinals a window holds.

    Attributes
    ----------
    first, next : int
        The oldest row that is stored, and the row to come.
    rows : int
        Rows that are stored.
    capacity : int or None
        Rows that the window can hold; None for a window of time.
    """

    first: int
    next: int
    rows: int
    capacity: int | None


class Request(NamedTuple):
    """How a batch of probes is to be answered.

    Attributes
    ----------
    start : int
        The first probe to answer; those before it were answered already.
    share : int
        Probes from which on a further task pays.
    counts : bool
        Whether the output is counts, not pairs.
    only_counts : bool
        Whether counts are sufficient: no candidate is rechecked.
    workers : Workers
        Threads for the work that is not returned as tasks.
    lasting : bool
        Whether the answer must outlive the next batch of probes, which reuses memory otherwise.
    """

    start: int
    share: int
    counts: bool
    only_counts: bool
    workers: Workers
    lasting: bool = False


class Probing(NamedTuple):
    """A batch of probes under way.

    Attributes
    ----------
    tasks : sequence of callable
        The remaining work, to be run in any order and by any threads.
    answer : callable
        Returns the answer once all tasks are done.
    """

    tasks: Sequence[Callable[[], None]]
    answer: Callable[[], Answer]


class Unfit(Enum):
    """Why an index may not suit any more, so that its rows move to another one of its kind."""

    FULL = "the rows that come have no room"
    INDISTINCT = "it does not distinguish all keys inserted so far"
    SPARSE = "it has room for far more rows than are left"
    CROWDED = "keys crowd in some places, as the rows since the last look show"


class Index(ABC):
    """The index of one side's window."""

    name: str
    """As in ``algorithm=``."""

    spans_ordinals: bool = True
    """Whether the room grows with the range of ordinals, so that one old row keeps the places of all newer ones."""

    dear_probes: bool = False
    """Whether a probe takes so long that several threads pay for a hundred of them."""

    refits: bool = False
    """Whether `refitted` may return an index; if not, nobody calls it, which each push would do several times."""

    copies: bool = False
    """Whether it keeps copies of the keys that `prepare` gets, so that their memory is free after `insert`."""

    ranges_by_view: bool = False
    """Whether answers by ranges may hold rows that the view of a batch shows, but its probes do not see."""

    # -- insert ------------------------------------------------------------------------------------------------------

    def prepare(self, rows: RowKeys, first: int) -> Prepared:  # noqa: ARG002 - for those that begin a part there
        """Do the work that needs no other rows, such as sorting; `first` is the ordinal of the first row.

        It does not change the index: several threads may prepare at once.
        """
        return rows

    @abstractmethod
    def insert(self, rows: Prepared, live: int) -> None:
        """Insert the newest rows, prepared by this index; `live` rows are in the window with them."""

    @abstractmethod
    def skip_to(self, ordinal: int) -> None:
        """Skip the ordinals before that one: rows that have expired already."""

    @classmethod
    def part_format(cls, options: Options) -> PartFormat:  # noqa: ARG003 - see those with parts of their own
        """Return how its rows are sealed: here as keys, which are inserted again."""
        return STORED_KEYS

    def attach(self, part: SealedPart, first: int, live: int) -> None:
        """Insert rows that were sealed before, the first with that ordinal.

        Raises
        ------
        TypeError
            For a part that is another index's.
        """
        if not isinstance(part, StoredKeys):
            msg = f"{self.name} has no sealed parts of its own, got {part!r} at {first} of {live} rows"
            raise TypeError(msg)
        self.insert(self.prepare(part.keys, first), live)

    # -- expire ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def expire(self, ordinal: int) -> None:
        """Expire the rows before that ordinal: no probe sees them any more."""

    def expire_below(self, dimension: int, value: int, first: int) -> None:  # noqa: ARG002 - see the overriding ones
        """Expire the rows whose value in a dimension, -1 for the key, is smaller: no probe sees them any more.

        `first` is the ordinal of the oldest row that the window keeps.
        """
        self.expire(first)

    # -- probe -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Begin to answer a batch of probes."""

    @abstractmethod
    def ranges(self, batch: ProbeBatch, workers: Workers) -> BatchMatches | None:
        """Answer by counts if `probe` stopped early; None if the index continues from there instead."""

    def nearest(self, batch: NearestProbes, workers: Workers) -> NearestRows | None:  # noqa: ARG002 - see sorted runs
        """Return the nearest rows of probes; None of an index that does not order rows by their keys."""
        return None

    def reduced(
        self,
        probes: Probes,  # noqa: ARG002 - see sorted runs
        channels: Sequence[Channel],  # noqa: ARG002
        values: ValuesOf,  # noqa: ARG002
        workers: Workers,  # noqa: ARG002
    ) -> Reduced | None:
        """Return reductions of the rows that probes have; None of an index that cannot but list them."""
        return None

    def reductions_growth(self, channels: Sequence[Channel], rows: int) -> int:  # noqa: ARG002 - see sorted runs
        """Return by how many bytes reductions in these channels make it grow at most, with so many more rows."""
        return 0

    def takes_order(self, *, counts: bool, only_counts: bool) -> bool:  # noqa: ARG002 - see the overriding ones
        """Tell whether a batch is better processed in the order of the probes' own keys, if these are `Prepared`."""
        return False

    @property
    @abstractmethod
    def inexact(self) -> frozenset[int]:
        """Terms of which some key here was clipped: their pairs are rechecked."""

    @property
    @abstractmethod
    def floor(self) -> int:
        """Ordinal of the oldest row that may be here, by which positions become ordinals."""

    # -- size --------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of everything."""

    @abstractmethod
    def growth(self, window: Occupancy, rows: int, keys: NDArray[np.int64] | None) -> int:
        """Return by how many bytes that many more rows make it grow at most; `keys` are theirs, (m,), if known."""

    def refitted(self, window: Occupancy, why: Unfit, coming: int = 0) -> Index | None:  # noqa: ARG002 - see `BandCells`
        """Return an empty index of this kind to move the rows to, if this one does not suit for that reason; or None.

        Parameters
        ----------
        window : Occupancy
        why : Unfit
            What is looked at.
        coming : int
            Rows that are inserted next; only where that is what is looked at.
        """
        return None

    # -- explanation -------------------------------------------------------------------------------------------------

    def explain(self) -> str | None:
        """Return the sizes that were chosen and why, in words; None if there is nothing to say."""
        return None

    @property
    def spilled(self) -> int | None:
        """Rows that did not fit into their bucket so far; None of an index without buckets."""
        return None


CELLS, RUNS, PLANAR = "band_cells", BiSort.name, Planar.name
"""Those that ``auto`` chooses from: a table of cells, sorted runs, and runs with bounds of a second key."""


class IndexKind(NamedTuple):
    """What an index can do.

    Attributes
    ----------
    fixed_width : bool
        Whether ranges of its key need one narrow width, as cells are as wide.
    two_keys : bool
        Whether it answers ranges of two keys at once.
    equality_only : bool
        Whether it finds single keys only.
    """

    fixed_width: bool = False
    two_keys: bool = False
    equality_only: bool = False


KINDS = {CELLS: IndexKind(fixed_width=True), PLANAR: IndexKind(two_keys=True)}


def kind_of(name: str) -> IndexKind:
    """Return what the index of a name that ``algorithm=`` takes can do; ``"auto"`` as sorted runs.

    Examples
    --------
    >>> kind_of("planar").two_keys, kind_of("hash").equality_only, kind_of("bi_sort")
    (True, True, IndexKind(fixed_width=False, two_keys=False, equality_only=False))
    """
    structure = structure_named(name)
    if structure is None:
        return KINDS.get(name, IndexKind())
    return IndexKind(two_keys=structure.two_terms, equality_only=structure.equality_only)
