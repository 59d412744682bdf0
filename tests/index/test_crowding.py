"""Tables of cells get more buckets where cells crowd, not where single cells are dense, and find the same rows."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.tuning import Tuning
from tests.law.checks import assert_same_output
from tests.narrow import tune

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOW, PUSH, WIDTH = 2048, 128, 16
CELLS = np.random.default_rng(1).integers(0, 1 << 20, WINDOW // 4)


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, crowding_check_rows=64, smallest_crowded=256, explained_rows=64)


def crowded(random: np.random.Generator) -> NDArray[np.int64]:
    """Four rows of the window in each of some cells, wherever these are."""
    return random.choice(CELLS, PUSH) * WIDTH + random.integers(0, WIDTH, PUSH)


def dense(random: np.random.Generator) -> NDArray[np.int64]:
    """Cells so far apart and full that none shares a bucket with another but by chance."""
    return random.integers(0, 16, PUSH) * 1000 * WIDTH


def even(random: np.random.Generator) -> NDArray[np.int64]:
    return random.integers(0, WINDOW * WIDTH, PUSH)


def windows_of(join: sj.StreamJoin) -> Any:
    operator = join._state.operator
    assert operator is not None
    return operator.windows.values()


def joined(keys: Any, pushes: int = 60, **options: Any) -> tuple[sj.StreamJoin, list[tuple[bool, ...]], list[pa.Table]]:
    """Push; return the join, whether either table was roomy after each push, and what came out."""
    join = sj.StreamJoin(
        on=f"l.k BETWEEN r.k - {WIDTH // 2} AND r.k + {WIDTH // 2 - 1}", window=sj.CountWindow(WINDOW),
        algorithm="band_cells", **{"output": "positions"} | options,
    )  # fmt: skip
    random, out = np.random.default_rng(5), []
    roomy: list[tuple[bool, ...]] = []
    for _ in range(pushes):
        out.append(join.push(pa.table({"k": keys(random)}), pa.table({"k": keys(random)})))
        roomy.append(tuple(window.index.roomy for window in windows_of(join)))
    return join, roomy, out


def test_crowded_keys_get_more_buckets_one_side_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    join, roomy, out = joined(crowded)
    # First the whole window has to be of rows that came since the table was made.
    assert roomy[: WINDOW // PUSH] == [(False, False)] * (WINDOW // PUSH)
    assert roomy[-1] == (True, True)
    assert all(sum(after) - sum(before) <= 1 for before, after in pairwise(roomy))
    assert "(a third more than usual, because keys are skewed), 1.5 rows each" in join.explain()
    tune(monkeypatch, spilled_share=9.0)
    same, never, expected = joined(crowded)
    assert never[-1] == (False, False)
    assert "(fastest setting measured), 2 rows each" in same.explain()
    _, _, numbers = joined(crowded, output="count")
    for ours, theirs, counts in zip(out, expected, numbers, strict=True):
        assert_same_output(ours, theirs, np.asarray(counts["match_count"]))
    assert sum(table.num_rows for table in out) > 10_000


def test_fewer_rows_find_their_bucket_full_then(monkeypatch: pytest.MonkeyPatch) -> None:
    spilled = []
    for share in (Tuning().spilled_share, 9.0):
        tune(monkeypatch, spilled_share=share)
        join, _, _ = joined(crowded)
        index, random = next(iter(windows_of(join))).index, np.random.default_rng(6)
        before = index.spilled
        for _ in range(16):
            join.push(pa.table({"k": crowded(random)}), pa.table({"k": crowded(random)}))
        assert index is next(iter(windows_of(join))).index
        spilled.append(index.spilled - before)
    roomy, other = spilled
    assert 0 < roomy < 0.8 * other


@pytest.mark.parametrize("keys", [dense, even])
def test_dense_cells_and_even_keys_do_not(keys: Any) -> None:
    _, roomy, _ = joined(keys)
    assert set(roomy) == {(False, False)}


def test_nothing_is_made_anew_where_memory_is_limited() -> None:
    _, roomy, _ = joined(crowded, memory_limit=1 << 30)
    assert set(roomy) == {(False, False)}


def test_small_tables_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, smallest_crowded=2 * WINDOW)
    _, roomy, _ = joined(crowded)
    assert set(roomy) == {(False, False)}
