"""The index protocol: insert rows, expire rows, and find the stored rows of one side whose keys are in given ranges.

An index knows keys and ordinals, both int64, and nothing of payload, Arrow, predicates or Spark. It holds one key and
any number of further dimensions for each row. The window of a side (`operator.window`) inserts rows in arrival order,
expires ordinals, and probes it in batches. No code outside this package depends on which index it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.index.answer import Answer, Found
    from slidejoin.index.keys import Prepared, RowKeys
    from slidejoin.index.probe import ProbeBatch
    from slidejoin.runtime.threads import Workers

__all__ = ["Index", "Occupancy", "Probing", "Request", "SealedPart"]


class SealedPart(Protocol):
    """The keys of some rows in a form that does not change any more: it can be written to a file and mapped."""

    @property
    def rows(self) -> int:
        """Ordinals that it spans."""
        ...

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return it as named arrays, from which `slidejoin.index.sealed.mapped` makes it again."""
        ...


class Occupancy(NamedTuple):
    """Which ordinals a window holds.

    Attributes
    ----------
    first, next : int
        The oldest row that is kept, and the row to come.
    rows : int
        Rows that are kept.
    capacity : int or None
        Rows that the window can hold; None for a window of time.
    """

    first: int
    next: int
    rows: int
    capacity: int | None


class Request(NamedTuple):
    """What is wanted of a batch of probes.

    Attributes
    ----------
    start : int
        The first probe to answer; those before it were answered already.
    share : int
        Probes that are worth a task of their own.
    counts : bool
        Whether counts are put out, not pairs.
    only_counts : bool
        Whether counts are all that is needed: no candidate is looked at again.
    workers : Workers
        Who does what is not left in tasks.
    """

    start: int
    share: int
    counts: bool
    only_counts: bool
    workers: Workers


class Probing(NamedTuple):
    """A batch of probes under way.

    Attributes
    ----------
    tasks : sequence of callable
        What is still to be done, in any order and by any threads.
    answer : callable
        Returns the answer once all tasks are done.
    """

    tasks: Sequence[Callable[[], None]]
    answer: Callable[[], Answer]


class Index(ABC):
    """The index of one side's window."""

    name: ClassVar[str]
    """As in ``algorithm=``."""

    spans_ordinals: ClassVar[bool] = True
    """Whether one old row that stays keeps the places of all that came after it."""

    # -- insert ------------------------------------------------------------------------------------------------------

    def prepare(self, rows: RowKeys, first: int) -> Prepared:  # noqa: ARG002 - for those that begin a part there
        """Do with rows what needs no other ones, such as sorting; `first` is the ordinal of the first of them.

        Changes nothing here: several threads may prepare at once.
        """
        return rows

    @abstractmethod
    def insert(self, rows: Prepared, live: int) -> None:
        """Insert the newest rows, prepared by this index; `live` rows are in the window with them."""

    @abstractmethod
    def skip_to(self, ordinal: int) -> None:
        """Leave out the ordinals before that one: rows that are gone already."""

    def attach(self, part: SealedPart, first: int, live: int) -> None:
        """Insert rows that were sealed before, the first with that ordinal; only sorted runs can.

        Raises
        ------
        TypeError
            Of an index that has no sealed parts.
        """
        msg = f"{self.name} takes no sealed parts, got {part!r} at {first} of {live} rows"
        raise TypeError(msg)

    # -- expire ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def expire(self, ordinal: int) -> None:
        """Let the rows before that ordinal go: no probe sees them any more."""

    def expire_below(self, dimension: int, value: int, first: int) -> None:  # noqa: ARG002 - see the overriding ones
        """Let rows go whose value in a dimension, -1 for the key, is smaller: no probe sees them any more.

        `first` is the ordinal of the oldest row that the window keeps.
        """
        self.expire(first)

    # -- probe -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def probe(self, batch: ProbeBatch, request: Request) -> Probing:
        """Begin to answer a batch of probes."""

    @abstractmethod
    def ranges(self, batch: ProbeBatch, workers: Workers) -> Found | None:
        """Answer by counts what `probe` gave up in the middle; None of an index that goes on from there instead."""

    def takes_order(self, *, counts: bool, only_counts: bool) -> bool:  # noqa: ARG002 - see the overriding ones
        """Tell whether a batch is better put in the order of the probes' own keys, if these are `Prepared`."""
        return False

    @property
    @abstractmethod
    def inexact(self) -> frozenset[int]:
        """Terms of which some key here was clipped: their pairs are checked again."""

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

    def outgrown(self, window: Occupancy, coming: int) -> Index | None:  # noqa: ARG002 - see the overriding ones
        """Return an empty index that should take the rows over before so many more come; None to stay."""
        return None

    def overtaxed(self, window: Occupancy) -> Index | None:  # noqa: ARG002 - see the overriding ones
        """Return an empty index that has to take the rows over after what was inserted; None to stay."""
        return None

    def oversized(self, window: Occupancy) -> Index | None:  # noqa: ARG002 - see the overriding ones
        """Return an empty index that would take less memory after what has left; None to stay."""
        return None

    def crowded(self, window: Occupancy) -> Index | None:  # noqa: ARG002 - see the overriding ones
        """Return an empty index with more room for keys that crowd, by what was seen since the last time; or None."""
        return None

    # -- explanation -------------------------------------------------------------------------------------------------

    def explain(self) -> str | None:
        """Return the sizes that were chosen and why, in words; None if there is nothing to say."""
        return None

    @property
    def spilled(self) -> int | None:
        """Rows that found their bucket full so far; None of an index without buckets."""
        return None
