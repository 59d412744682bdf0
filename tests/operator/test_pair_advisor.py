"""Cells or the planar index, by how many rows are in a band, and the same pairs whatever is chosen."""

from __future__ import annotations

import numpy as np
import pytest

import slidejoin as sj
from tests.narrow import set_limits

ON = "l.a BETWEEN r.a - 50 AND r.a + 50 AND l.b < r.b AND l.c > 0"


@pytest.mark.parametrize("self_join", [False, True])
def test_the_index_follows_how_many_rows_are_in_the_band(self_join: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, CHANGE_COST=20.0, ENOUGH=1 << 10)
    rng, used = np.random.default_rng(2), []
    joins = [
        sj.StreamJoin(
            on=ON, window=sj.CountWindow(6000), order="strict", output="count", self_join=self_join, **options
        )
        for options in ({"threads": 2}, {"algorithm": "bi_sort", "threads": 1})
    ]
    for span in (100_000, 1000, 100_000):
        for _ in range(9):
            batches = [
                {"a": rng.integers(0, span, 2000), "b": rng.integers(0, 50, 2000), "c": rng.integers(0, 9, 2000)}
                for _ in range(1 if self_join else 2)
            ]
            one, two = (join.push(*batches) for join in joins)
            assert one.equals(two)
        used.append(joins[0]._state.operator.windows["left"].index.name)
        told = joins[0].explain()
        assert "rows in the band of a row; expected time a row: cells" in told
        assert ("indexed with it: l.b < r.b" in told) == (used[-1] == "planar")
    assert used == ["band_cells", "planar", "band_cells"]
    assert "rows in the band" not in joins[1].explain()


@pytest.mark.parametrize(
    ("on", "together"),
    [
        ("l.a = r.a AND l.b BETWEEN r.b AND r.c", "planar"),
        ("l.a = r.a AND l.b < r.b", "bi_sort"),
        ("l.a = r.a AND l.d = r.d AND l.b < r.b AND l.c > r.c", "planar"),
    ],
)
def test_the_index_follows_how_many_rows_are_equal(on: str, together: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of a group: cells on the equality are cheaper; many: an index of all terms together."""
    set_limits(monkeypatch, CHANGE_COST=20.0, ENOUGH=1 << 10)
    rng, used = np.random.default_rng(2), []
    joins = [
        sj.StreamJoin(on=on, window=sj.CountWindow(6000), order="strict", output="count", **options)
        for options in ({"threads": 2}, {"algorithm": "nested_loop", "threads": 1})
    ]
    for groups in (3, 100_000, 3):
        for _ in range(9):
            batches = [
                {
                    "a": rng.integers(0, groups, 2000),
                    "b": rng.integers(0, 50, 2000),
                    "c": rng.integers(0, 90, 2000),
                    "d": rng.choice(["x", "y"], 2000).tolist(),
                }
                for _ in "lr"
            ]
            one, two = (join.push(*batches) for join in joins)
            assert one.equals(two)
        used.append(joins[0]._state.operator.windows["left"].index.name)
        told = joins[0].explain()
        assert "rows equal to a row; expected time a row: cells" in told
        assert ("indexed with it: l.b" in told) == (used[-1] == together)
    assert used == [together, "band_cells", together]
