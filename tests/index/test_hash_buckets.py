"""Hash buckets: rows that left are cleared away little by little."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from slidejoin.index.keys import RowKeys
from slidejoin.options import Hash
from slidejoin.papers.cell_join import hash_buckets
from slidejoin.papers.cell_join.hash_buckets import HashIndex
from slidejoin.papers.cell_join.kernels.hash_buckets import free_windows

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW, PUSH = 4096, 64


def pushed(index: HashIndex, pushes: int, each: Callable[[], None]) -> None:
    rng = np.random.default_rng(1)
    for _ in range(pushes):
        index.insert(RowKeys(rng.integers(0, 1000, PUSH), np.empty((PUSH, 0), np.int64), None), 0)
        index.expire(index.next - WINDOW)
        each()


@pytest.mark.parametrize("buckets", [None, 1, 7])
def test_a_push_looks_at_its_share_of_the_buckets(buckets: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def counted(*arguments: int) -> None:
        looked.append(arguments[-1] - arguments[-2])
        free_windows(*arguments)

    monkeypatch.setattr(hash_buckets, "free_windows", counted)
    index = HashIndex(Hash(buckets=buckets), 0, WINDOW, 0)
    pushed(index, WINDOW // PUSH, lambda: None)
    assert not looked  # nothing has left
    sizes = []
    pushed(index, 10 * WINDOW // PUSH, lambda: sizes.append(index.nbytes))
    every = buckets or WINDOW // hash_buckets.ROWS_A_BUCKET
    assert max(looked) <= -(-every * PUSH // WINDOW) + 1
    assert 9 * every <= sum(looked) <= 10 * every
    assert max(sizes) == max(sizes[: 3 * WINDOW // PUSH])  # as large as it ever gets after a few windows
    assert WINDOW <= index.count <= 2 * WINDOW + (every + 1) * index.size


def test_rows_that_are_seen_stay() -> None:
    index = HashIndex(Hash(), 0, WINDOW, 0)

    def all_there() -> None:
        here = np.arange(index.size) < index.windows.filled[:, None]
        ordinals = np.sort(index.windows.ordinals.reshape(here.shape)[here])
        assert np.isin(np.arange(max(0, index.next - WINDOW), index.next), ordinals).all()
        assert index.count == ordinals.size

    pushed(index, 5 * WINDOW // PUSH, all_there)
