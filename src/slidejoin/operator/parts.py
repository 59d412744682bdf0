"""What the two paths of a push share: windows, threads, memory, and common steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slidejoin.operator.output import PairOutput
from slidejoin.operator.topology.shared import SharedTopology

if TYPE_CHECKING:
    from collections.abc import Collection

    from slidejoin.operator.counts import CountTables
    from slidejoin.operator.ingest.ingest import Ingest
    from slidejoin.operator.join_type import JoinTypeOutput
    from slidejoin.operator.pair_tables import PairTables
    from slidejoin.operator.stats import Stats
    from slidejoin.operator.topology.join_topology import JoinTopology
    from slidejoin.operator.window.latest_rows import LatestRows
    from slidejoin.operator.window.side import SideWindow
    from slidejoin.plan.plan import Plan
    from slidejoin.rows.widths import TableLimit
    from slidejoin.runtime.array_pool import ArrayPool
    from slidejoin.runtime.threads import Workers
    from slidejoin.sides import Side

__all__ = ["JoinParts"]


@dataclass(frozen=True, slots=True)
class JoinParts:
    """The parts of one join's operator.

    Attributes
    ----------
    plan : Plan
    algorithm : str
        The index to begin with.
    limit : TableLimit
        What an output table may hold. As many candidates as it has rows are held at once.
    windows : dict from side to SideWindow
    ingest : Ingest
    topology : JoinTopology
        Inserts the rows of a slice and finds its candidates.
    count_tables : CountTables
    workers : Workers
    stats : Stats
    memory : ArrayPool
        What pairs are written into.
    pair_tables : PairTables or None
        Writes output columns by address, where records hold all of them.
    join_type : JoinTypeOutput or None
        Makes the rows of a join that is not inner out of pairs.
    latest : LatestRows or None
        Tells nearest rows of streams in order, in place of the index of right rows.
    """

    plan: Plan
    algorithm: str
    limit: TableLimit
    windows: dict[Side, SideWindow]
    ingest: Ingest
    topology: JoinTopology
    count_tables: CountTables
    workers: Workers
    stats: Stats
    memory: ArrayPool
    pair_tables: PairTables | None
    join_type: JoinTypeOutput | None = None
    latest: LatestRows | None = None

    @property
    def shared(self) -> SharedTopology:
        """The topology of a join that is fused: one index a side, which its pushes use directly."""
        assert isinstance(self.topology, SharedTopology)  # noqa: S101 - no other join is fused
        return self.topology

    def output(self, inexact: Collection[int] = ()) -> PairOutput:
        """Return what makes tables of candidates; terms that are `inexact` are checked pair by pair."""
        shared = self.count_tables, self.workers, self.limit, self.pair_tables
        return PairOutput(self.plan, self.windows, self.stats, inexact, *shared)
