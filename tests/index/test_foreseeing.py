"""What an index is said to grow by at most is never less than what it grows by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.index.cells.band_cells import Axis, BandCells
from slidejoin.index.cells.layout import cells_growth, new_cells, widens
from slidejoin.index.keys import RowKeys
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex, build_run, runs_growth
from tests.law.checks import examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

SPREADS = st.sampled_from([1, 3, 40, 1000, 1 << 31])


def keys_of(chosen: np.random.Generator, rows: int, spread: int) -> NDArray[np.int64]:
    """Uniform keys with one of them repeated."""
    keys = chosen.integers(0, spread, rows)
    return np.where(chosen.random(rows) < 0.2, 7 % spread, keys)


@examples(60)
@given(data=st.data(), seed=st.integers(0, 1 << 30), made_for=st.sampled_from([20, 100, 600]), wide=st.booleans())
def test_cells(data: st.DataObject, seed: int, made_for: int, wide: bool) -> None:
    chosen = np.random.default_rng(seed)
    table = BandCells(Axis(data.draw(st.sampled_from([0, 2])), None, ""), 0, made_for, 0, wide=wide)
    spread = data.draw(SPREADS)
    for _ in range(data.draw(st.integers(1, 12))):
        rows = data.draw(st.sampled_from([1, 5, 30, 200]))
        keys = keys_of(chosen, rows, spread)
        kept = chosen.random(rows) < 0.8 if data.draw(st.booleans()) else None
        loosely = cells_growth(table, rows)
        closely = cells_growth(table, rows, keys if kept is None else keys[kept])
        before = table.nbytes
        table.insert(RowKeys(keys, np.empty((rows, 0), np.int64), kept), 0)
        assert table.nbytes - before <= closely <= loosely
        if data.draw(st.booleans()):
            table.expire(table.next - data.draw(st.sampled_from([0, 10, made_for, 10 * made_for])))


def test_a_window_that_moves_on_is_not_said_to_grow() -> None:
    chosen, said, grown = np.random.default_rng(1), 0, 0
    table = BandCells(Axis(0, None, ""), 0, 4096, 0, wide=False)
    for _ in range(400):
        keys = chosen.integers(0, 30, 256)  # each of which fills its bucket and all lines behind
        said += cells_growth(table, 256, keys)
        grown -= table.nbytes
        table.insert(RowKeys(keys, np.empty((256, 0), np.int64), None), 0)
        grown += table.nbytes
        table.expire(table.next - 4096)
    assert 0 < grown <= said <= 1.1 * grown


@examples(60)
@given(seed=st.integers(0, 1 << 30), made_for=st.sampled_from([20, 600]), spread=SPREADS, rows=st.integers(0, 3000))
def test_a_new_table(seed: int, made_for: int, spread: int, rows: int) -> None:
    keys = keys_of(np.random.default_rng(seed), rows, spread)
    for columns in (0, 1):
        table = BandCells(Axis(0, None, ""), 0, made_for, 0, wide=bool(columns))
        table.insert(RowKeys(keys, np.empty((rows, 0), np.int64), None), 0)
        assert table.nbytes <= new_cells(made_for, rows, rows, columns)


def test_keys_too_far_apart_are_foreseen() -> None:
    table = BandCells(Axis(0, None, ""), 0, 20, 0, wide=False)
    assert widens(table, None)
    table.insert(RowKeys(np.array([5]), np.empty((1, 0), np.int64), None), 0)
    assert not widens(table, np.array([5 + table.reach]))
    assert widens(table, np.array([6 + table.reach]))
    assert not widens(table, np.array([], np.int64))


@pytest.mark.parametrize("dims", [0, 2])
@examples(60)
@given(data=st.data(), seed=st.integers(0, 1 << 30))
def test_runs(dims: int, data: st.DataObject, seed: int) -> None:
    chosen, runs, base = np.random.default_rng(seed), BiSortIndex(dims), 0
    for step in range(data.draw(st.integers(1, 12))):
        rows = data.draw(st.sampled_from([1, 5, 200, 3000]))
        keys = keys_of(chosen, rows, data.draw(SPREADS)) + step * data.draw(st.sampled_from([0, 1 << 30]))
        loosely, closely = (runs_growth(runs.runs, dims, rows, known) for known in (None, keys))
        before = runs.nbytes
        runs.append(build_run(base, rows, keys, np.zeros((rows, dims), np.int64), None), base + rows)
        base += rows
        assert runs.nbytes - before <= closely <= loosely
