"""Keys that are chosen so that they share a bucket: the table gets a secret, and they are apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.index.cells.kernels.buckets import BUCKETS, MULTIPLIER, SHIFT, new_state
from slidejoin.index.cells.layout import REGULAR, draw_multiplier
from tests.narrow import tune

if TYPE_CHECKING:
    from slidejoin.index.cells.band_cells import BandCells

ROWS, PUSH = 6000, 1500
BAND = "l.k BETWEEN r.k - 2 AND r.k + 2"


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, crowding_check_rows=2 * PUSH)


def multiplier_of(state: np.ndarray[Any, Any]) -> int:
    return int(state[MULTIPLIER : MULTIPLIER + 1].view(np.uint64)[0])


def buckets_of(cells: np.ndarray[Any, Any], multiplier: int, buckets: int) -> np.ndarray[Any, Any]:
    hashed = (cells.astype(np.uint64) * np.uint64(multiplier)) >> np.uint64(32)
    return ((hashed * np.uint64(buckets)) >> np.uint64(32)).astype(np.int64)


def colliding(state: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    """Different keys of one bucket."""
    found: list[np.ndarray[Any, Any]] = []
    at, buckets = 0, int(state[BUCKETS])
    while sum(map(len, found)) < rows:
        cells = np.arange(at, at + (1 << 22))
        found.append(cells[buckets_of(cells, multiplier_of(state), buckets) == 7])
        at += 1 << 22
    return np.concatenate(found)[:rows] << int(state[SHIFT])


def joined(on: str, keys: np.ndarray[Any, Any], rows: int = ROWS, **options: Any) -> tuple[BandCells, pa.Table]:
    made: dict[str, Any] = {"algorithm": "band_cells", "output": "positions", "threads": 1, **options}
    join = sj.StreamJoin(on, sj.CountWindow(rows), **made)
    out = []
    for start in range(0, keys.size, PUSH):
        part = {"k": keys[start : start + PUSH]}
        out.append(join.push(left=part, right=part))
    operator: Any = join._state.operator
    return operator.windows["left"].index, pa.concat_tables(out)


def crowd(index: BandCells, keys: np.ndarray[Any, Any]) -> int:
    """How many of the keys share the fullest bucket."""
    state = index.state
    return int(np.bincount(buckets_of(keys >> int(state[SHIFT]), multiplier_of(state), int(state[BUCKETS]))).max())


@pytest.mark.parametrize("on", ["l.k = r.k", BAND])
def test_chosen_keys_are_apart_soon(on: str) -> None:
    plain, _ = joined(on, np.arange(ROWS) * 64)
    assert not plain.secret
    chosen = colliding(plain.state, ROWS)
    assert crowd(plain, chosen) == ROWS
    index, pairs = joined(on, chosen)
    assert pairs["left"].to_pylist() == pairs["right"].to_pylist()
    assert np.sort(pairs["left"].to_numpy()).tolist() == list(range(ROWS))
    assert index.secret
    assert crowd(index, chosen) < ROWS // 20  # 4 as a rule, 27 the worst of 300


def test_a_flood_that_comes_late_is_seen() -> None:
    plain, _ = joined("l.k = r.k", np.arange(ROWS) * 64)
    even = np.random.default_rng(1).permutation(8 * ROWS) * 64
    chosen = colliding(plain.state, ROWS) | np.int64(1 << 40 if plain.wide else 0)
    index, pairs = joined("l.k = r.k", np.concatenate([even, chosen]))
    assert pairs.num_rows >= 9 * ROWS
    assert index.secret


@pytest.mark.parametrize("on", ["l.k = r.k", BAND])
def test_the_order_of_strict_does_not_depend_on_the_secret(on: str) -> None:
    plain, _ = joined(on, np.arange(ROWS) * 64)
    chosen = colliding(plain.state, ROWS // 2).repeat(2)
    (one, first), (two, second) = (joined(on, chosen, order="strict") for _ in range(2))
    assert one.secret
    assert two.secret
    assert multiplier_of(one.state) != multiplier_of(two.state)
    assert first.equals(second)
    assert first.num_rows == 2 * ROWS


@pytest.mark.parametrize("each", [40, 400])
@pytest.mark.parametrize("on", ["l.k = r.k", BAND])
def test_keys_that_many_rows_have_are_no_flood(on: str, each: int) -> None:
    index, pairs = joined(on, np.random.default_rng(3).permutation(np.arange(ROWS) // each * 1000))
    assert pairs.num_rows == ROWS * each
    assert index.spilled > 1024
    assert not index.secret


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("step", [1, *REGULAR])
def test_keys_at_regular_distances_fill_no_bucket_whatever_the_secret(step: int, wide: bool) -> None:
    buckets, slots = 1 << 12, 7
    cells = np.arange(4 * buckets) * step
    for _ in range(3):
        state = new_state(0, 0, buckets, wide=wide)
        low = multiplier_of(state) & 0xFFFFFFFF
        draw_multiplier(state, wide=wide)
        assert wide or multiplier_of(state) & 0xFFFFFFFF == low
        taken = np.bincount(buckets_of(cells, multiplier_of(state), buckets), minlength=buckets)
        assert np.maximum(taken - slots, 0).sum() < cells.size // 2  # of chosen keys nearly all
