"""The same join with its fused path and without, and what the outputs of both must have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import slidejoin as sj
from tests.law.checks import assert_same_output

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["Twins", "general", "given_once"]


def general(**options: Any) -> sj.StreamJoin:
    """Return a join, with `schemas` among its options, that takes the general path only."""
    join = sj.StreamJoin(**options)
    operator = join._state.operator
    assert operator is not None
    operator.fused = None
    return join


def given_once(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return pushes as a self-join takes them: without right rows."""
    return [{name: value for name, value in push.items() if name != "right"} for push in made]


class Twins:
    """Joins that are given the same pushes.

    Parameters
    ----------
    fused : StreamJoin
        The one with its fused path.
    options
        Its options, `schemas` among them.
    """

    def __init__(self, fused: sj.StreamJoin, **options: Any) -> None:
        self.fused, self.general = fused, general(**options)
        self._order = options.get("order", "probe")
        kept = {name: value for name, value in options.items() if name not in ("output", "order", "select")}
        # Tells which rows of the others' output belong to one probe.
        self._counting = None if options.get("output") == "count" else general(**kept, output="count")

    def push(self, push: dict[str, Any]) -> pa.Table:
        """Push to all, and return the fused output, which agrees with the general one."""
        return self.pushed(push)[0]

    def pushed(self, push: dict[str, Any]) -> tuple[pa.Table, pa.Table, NDArray[np.int64]]:
        """Do the same, and return both outputs, and the pairs of each arrival, (arrivals,) int64."""
        ours, theirs = self.fused.push(**push), self.general.push(**push)
        ours.validate(full=True)
        if self._counting is None:
            assert ours.equals(theirs)
            return ours, theirs, np.asarray(ours["match_count"])
        counts = np.asarray(self._counting.push(**push)["match_count"])
        self.check(ours, theirs, counts)
        return ours, theirs, counts

    def check(self, ours: pa.Table, theirs: pa.Table, counts: NDArray[np.int64]) -> None:
        """Assert that outputs of pairs agree; see `assert_same_output`."""
        assert_same_output(ours, theirs, counts, self._order)
