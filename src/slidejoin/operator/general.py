"""The general path: any join, slice by slice of the arrival order.

::

    slice ─▶ insert left, insert right ─▶ probe left→right, right→left ─▶ candidates ─▶ filter ─▶ output
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from slidejoin.operator.candidates import RangeCandidates

if TYPE_CHECKING:
    import pyarrow as pa

    from slidejoin.operator.ingest.ingest import Push
    from slidejoin.operator.parts import JoinParts
    from slidejoin.sides import Side

__all__ = ["GeneralPath"]


class GeneralPath:
    """Inserts and probes any slice of arrivals, see `slidejoin.operator.push`; it accepts all."""

    def __init__(self, parts: JoinParts) -> None:
        self._parts = parts
        self.output = parts.output()
        """Turns ordinals into output rows."""

    def run(self, part: Push, first: dict[Side, int]) -> Generator[pa.Table]:
        """Insert the rows of a slice with ordinals from `first` on, and yield what they produce, in bounded tables.

        If the generator of a join that is not inner is closed early, the remaining pairs are still made: they decide
        what comes later.
        """
        parts, plan = self._parts, self._parts.plan
        results, inexact = parts.topology.run(part, first)
        if plan.bound.never:
            slots = part.rows * (2 if plan.config.self_join else 1)
            results = iter([RangeCandidates(slots, parts.workers, parts.memory)])
        output = parts.output(inexact)
        tables = parts.topology.tables_of(output, part, first)
        if plan.config.output == "count":
            yield from output.counts(map(output.counted, results), part.tables, part.arrivals)
            return
        join_type = parts.join_type
        try:
            if join_type is not None:
                departed = join_type.arrive(part.arrivals, part.times, first, part.marks)
                yield from join_type.tables(output, results, departed)
                return
            for candidates in results:
                yield from tables(candidates)
        finally:
            # Threads may look for further candidates, also where the reader of the tables stops early.
            if isinstance(results, Generator):
                results.close()

    def insert(self, part: Push, first: dict[Side, int]) -> None:
        """Only insert the rows: their results are no longer needed, except that they decide which rows have a match."""
        if self._parts.join_type is None:
            self._parts.topology.insert(part, first)
            return
        tables = self.run(part, first)
        next(tables, None)
        tables.close()
