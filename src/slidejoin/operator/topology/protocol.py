"""The protocol of topologies: a topology inserts a slice of arrivals into both windows and finds its candidates.

It decides two things: of which indexes the index of a side's window is made, and which thread does what with them. All
else of a push (ordinals, scope, late rows, filters, output, expiry, snapshots) is the operator's and the same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from slidejoin.index.factory import make_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from slidejoin.index.factory import Keyspace
    from slidejoin.index.protocol import Index, Occupancy
    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.output import Candidates, PairOutput
    from slidejoin.sides import Side

__all__ = ["JoinTopology"]


class JoinTopology(ABC):
    """How insert and probe of one join are spread over cores."""

    @property
    def largest_slice(self) -> int | None:
        """How many arrivals are emitted together at most; None if that is nothing to the topology."""
        return None

    def make_index(self, algorithm: str, keys: Keyspace, window: Occupancy) -> Index:
        """Return an empty index for one side's window, with that algorithm inside."""
        return make_index(algorithm, keys, window)

    @abstractmethod
    def insert(self, part: Push, first: dict[Side, int]) -> None:
        """Only insert the rows of a slice, with ordinals from `first` on."""

    @abstractmethod
    def run(self, part: Push, first: dict[Side, int]) -> tuple[Iterator[Candidates], set[int]]:
        """Insert the rows with ordinals from `first` on, and return the candidates of all slots in turn.

        The set holds the terms that are not exact for these rows: their candidates have to be rechecked.
        """

    def tables_of(
        self,
        output: PairOutput,
        part: Push,  # noqa: ARG002 - for a topology that adds rows of its own
        first: dict[Side, int],  # noqa: ARG002 - see above
    ) -> Callable[[Candidates], Iterator[pa.Table]]:
        """Return what makes output tables of the candidates of a slice that `run` has been given."""
        return output.pairs

    @abstractmethod
    def explain(self) -> str:
        """Return what was chosen and why, in words."""

    def close(self) -> None:  # noqa: B027 - most have nothing to end
        """End what runs in addition to the caller, such as threads; the topology may not be used after it."""
