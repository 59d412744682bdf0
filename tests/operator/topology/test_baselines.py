"""The baselines: what passes a chain of cores, and cores that each have the whole windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.options import HandshakeLowLatency, RoundRobin, Topology


def rows(first: int, last: int) -> dict[str, Any]:
    """Rows with their numbers as keys and times."""
    return {"a": np.arange(first, last), "ts": np.arange(first, last)}


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_every_core_hears_what_has_expired(cores: int) -> None:
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(90), topology=HandshakeLowLatency(cores=cores), algorithm="band_cells"
    )
    for first in range(0, 300, 30):
        join.push(rows(first, first + 30), rows(first, first + 30))
    for side in ("left", "right"):
        floors = [region.index.floor for region in join._state.operator.windows[side].index.regions]
        assert floors == [180 // cores] * cores
    again = sj.StreamJoin.restore(join.snapshot(), topology=HandshakeLowLatency(cores=cores), algorithm="band_cells")
    for first in range(300, 420, 30):
        assert again.push(rows(first, first + 30), rows(first, first + 30)).num_rows == 30
    floors = [region.index.floor for region in again._state.operator.windows["left"].index.regions]
    assert floors == [300 // cores] * cores


def test_the_chain_expires_by_times() -> None:
    join = sj.StreamJoin(
        on="l.a <> r.a", window=sj.TimeWindow(5, on="ts"), topology=HandshakeLowLatency(cores=2), output="count"
    )
    join.push(rows(0, 10), rows(0, 10), order_by="ts")
    join.push(rows(10, 12), rows(10, 12), order_by="ts")
    coordinator = join._state.operator.topology._coordinator
    # The watermark was 9 when rows 10 and 11 came: rows from time 4 on may still be seen.
    assert [(first, times.tolist()) for first, times in coordinator._times["left"]] == [
        (4, [4, 5, 6, 7, 8, 9]),
        (10, [10, 11]),
    ]


@pytest.mark.parametrize("topology", [HandshakeLowLatency, RoundRobin])
def test_wrong_options_are_refused(topology: type[Topology]) -> None:
    with pytest.raises(sj.ArgumentError, match=f"cores of {topology.name} must be a whole number from 1 to 1,024"):
        topology(cores=0)


def test_round_robin_keeps_whole_windows() -> None:
    join = sj.StreamJoin(
        on="l.a = r.a", window=sj.CountWindow(50), topology=RoundRobin(cores=3), algorithm="bplus_tree"
    )
    join.push(rows(0, 40), rows(0, 40))
    index = join._state.operator.windows["left"].index
    assert [region.index.count for region in index.regions] == [40, 40, 40]
