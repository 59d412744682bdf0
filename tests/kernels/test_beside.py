"""What lies beside the words of a run, and runs of some of its rows, beside NumPy's masks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.index.planar.run import build_planar
from slidejoin.index.sorted_runs.run import Run, build_run
from tests.law.checks import examples

NEAR, FAR = [-3, 0, 1, 2, 7], [-(1 << 63), -1, 0, 1 << 40, (1 << 63) - 1]


def check(run: Run, keys: np.ndarray, aux: np.ndarray, kept: np.ndarray, base: int, first: int, end: int) -> None:
    """The run has the rows first…end-1 of those from ordinal `base` on that are kept."""
    rows = np.arange(first - base, end - base)
    rows = rows[kept[rows]]
    order = rows[np.argsort(keys[rows], kind="stable")]
    assert (run.base, run.rows, run.size) == (first, end - first, rows.size)
    assert run.keys.tolist() == keys[order].tolist()
    assert run.offsets.tolist() == (order - (first - base)).tolist()
    assert run.aux.tolist() == aux[order].tolist()
    if rows.size:
        assert run.aux_min.tolist() == aux[order].min(axis=0).tolist()
        assert run.aux_max.tolist() == aux[order].max(axis=0).tolist()
    else:
        assert (run.aux_min > run.aux_max).all()


@pytest.mark.nojit
@examples(200)
@given(
    seed=st.integers(0, 1 << 16), rows=st.integers(1, 40), dims=st.integers(0, 2), far=st.booleans(),
    share=st.sampled_from([0.0, 0.5, 1.0]), cuts=st.tuples(st.integers(0, 40), st.integers(0, 40)),
)  # fmt: skip
def test_runs_of_some_rows(seed: int, rows: int, dims: int, far: bool, share: float, cuts: tuple[int, int]) -> None:
    rng, base = np.random.default_rng(seed), 5
    keys, aux = rng.choice(FAR if far else NEAR, rows), rng.choice(FAR, (rows, dims)).astype(np.int64)
    kept = rng.random(rows) < share
    run = build_run(base, rows, keys, aux, kept)
    check(run, keys, aux, kept, base, base, base + rows)
    first, end = sorted(base + cut % (rows + 1) for cut in cuts)
    check(run.stretch(first, end), keys, aux, kept, base, first, end)
    if run.size:
        check(run.trimmed(first), keys, aux, kept, base, first, base + rows)


@pytest.mark.nojit
@examples(100)
@given(seed=st.integers(0, 1 << 16), rows=st.integers(2, 40), cuts=st.sets(st.integers(1, 39), max_size=6))
def test_planar_runs_are_cut(seed: int, rows: int, cuts: set[int]) -> None:
    rng, base = np.random.default_rng(seed), 3
    keys, aux = rng.choice(NEAR, rows), rng.choice(NEAR, (rows, 2)).astype(np.int64)
    bounds = [base, *sorted(base + cut for cut in cuts if cut < rows), base + rows]
    parts = build_planar(base, rows, keys, aux, None).cut(bounds)
    everything = np.ones(rows, np.bool_)
    for part, (first, end) in zip(parts, pairwise(bounds), strict=True):
        check(part.x, keys, aux[:, 1:], everything, base, first, end)
        check(part.y, aux[:, 0], aux[:, :0], everything, base, first, end)
        # The rank by the second key of each row, in the order of the first one.
        places = np.empty(end - first, np.int64)
        places[part.y.offsets] = np.arange(end - first)
        assert part.ranks[: part.size].tolist() == places[part.x.offsets].tolist()
