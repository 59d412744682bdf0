"""Which terms are indexed follows how many rows pass them, and the pairs are the same whatever is chosen."""

from __future__ import annotations

from typing import Any

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
        assert "candidates a row in the indexed terms" in told
        assert ("indexed with it: l.b < r.b" in told) == (used[-1] == "planar")
    assert used == ["band_cells", "planar", "band_cells"]
    assert "candidates a row" not in joins[1].explain()


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
        assert "candidates a row in the indexed terms" in told
        assert ("indexed with it: l.b" in told) == (used[-1] == together)
    assert used == [together, "band_cells", together]


THREE = "l.a < r.a AND l.b > r.b AND l.c < r.c"


def ranges(rng: np.random.Generator, side: str, rows: int, useless: str, *, apart: bool = True) -> dict[str, Any]:
    """Columns a, b and c, of which all pairs pass one; of the two others few pairs pass both, though half pass each.

    With `apart` they are far from each other in one row, so that neither closes the other's range.
    """
    near = rng.integers(0, 1 << 20, rows)
    columns = {name: near + rng.integers(0, 50, rows) for name in "abc"}
    if useless == "c":  # l.a < r.a and l.b > r.b are nearly opposite
        columns["c"] = rng.integers(0, 9, rows) + 20 * (side == "right")
    else:  # l.b > r.b and l.c < r.c are
        columns["a"] = rng.integers(0, 9, rows) + 20 * (side == "right")
    for name in "abc" if apart else "":
        columns[name][0] += (name == "b") << 22
    return columns


ROWS, TIME = sj.CountWindow(6000), sj.TimeWindow(30, on="ts")


@pytest.mark.parametrize(
    ("window", "together", "apart"),
    [
        pytest.param(
            window, together, apart,
            id=f"{'rows' if window is ROWS else 'time'}-{'both sides' if together else 'one side'} a push-"
            f"{'one interval is long' if apart else 'all are short'}",
            # By day two of any three options meet in each way.
            marks=[] if ((window is ROWS) + together + apart) % 2 else [pytest.mark.nightly],
        )
        for window in (ROWS, TIME)
        for together in (True, False)
        for apart in (True, False)
    ],
)  # fmt: skip
def test_the_pair_follows_the_data(window: Any, together: bool, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of all pairs pass each of two terms and few pass both: only a look at pairs of terms tells."""
    set_limits(monkeypatch, CHANGE_COST=1.0, ENOUGH=1 << 10)
    rng, used, time = np.random.default_rng(2), [], 0
    joins = [
        sj.StreamJoin(on=THREE, window=window, order="strict", output="positions", **options)
        for options in ({"threads": 2}, {"algorithm": "bi_sort", "threads": 1})
    ]
    for useless in ("c", "a", "c"):
        for _ in range(8):
            time += 20
            left, right = (
                ranges(rng, side, 1500, useless, apart=apart) | {"ts": np.full(1500, time)}
                for side in ("left", "right")
            )
            for push in ({"left": left, "right": right},) if together else ({"left": left}, {"right": right}):
                one, two = (join.push(**push) for join in joins)
                assert one.equals(two)
        told = joins[0].explain()
        used.append({name for name in "abc" if f"not indexed, checked row by row: l.{name} " not in told})
        assert ("index: runs sorted by one key with bounds of another" in told) == apart
        assert ("closed by the longest interval of the window" in told) == (not apart)
        assert "measured:" in told
        assert "candidates a row in the indexed terms" in told
    assert used == [{"a", "b"}, {"b", "c"}, {"a", "b"}]


def test_a_selective_range_is_indexed_before_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """One range beside the scope of a time window, which most stored rows pass."""
    set_limits(monkeypatch, CHANGE_COST=1.0, ENOUGH=1 << 10)
    rng = np.random.default_rng(2)
    joins = [
        sj.StreamJoin(on="l.a < r.a", window=sj.TimeWindow(100, on="ts"), order="strict", output="count", **options)
        for options in ({}, {"algorithm": "nested_loop"})
    ]
    assert "indexed: nothing" not in joins[0].explain()
    for time in range(10):
        rows = [{"a": rng.integers(low, low + 1000, 700), "ts": np.full(700, 20 * time)} for low in (980, 0)]
        one, two = (join.push(*rows) for join in joins)
        assert one.equals(two)
    assert "\nindexed: l.a < r.a" in joins[0].explain()


def test_changing_has_to_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is a little worse stays, and so does what is worse but was not for long."""
    set_limits(monkeypatch, ENOUGH=1 << 10)
    rng, chosen = np.random.default_rng(2), set()
    join = sj.StreamJoin(on=THREE, window=sj.CountWindow(20_000), output="count")
    for number in range(20):
        join.push(*(ranges(rng, side, 1000, "a" if number == 12 else "c") for side in ("left", "right")))
        chosen.add(join._state.operator.windows["left"].chosen)
    assert len(chosen) <= 2  # what the predicate alone says, and what is best


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "planar"},
        {"on": "l.a < r.a"},
        {"on": "l.a = r.a", "window": sj.TimeWindow(100, on="c")},
        {"on": "l.a BETWEEN r.a - 5 AND r.a + 5 AND l.b <> r.b"},
        {"on": f"{THREE} AND NULL"},
    ],
)
def test_nothing_is_chosen_where_there_is_no_choice(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, ENOUGH=1 << 10, CHANGE_COST=0)
    given = {"on": THREE, "window": sj.CountWindow(1000), "output": "count"} | options
    join, rng = sj.StreamJoin(**given), np.random.default_rng(2)
    for _ in range(3):
        join.push(*(ranges(rng, side, 1000, "c") for side in ("left", "right")))
    assert "candidates a row" not in join.explain()
