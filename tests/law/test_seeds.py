"""Hash tables have random secrets, which are no part of results: not of their rows, not of their order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import slidejoin as sj

if TYPE_CHECKING:
    import pyarrow as pa

SEEDS = 3


def streams(rows: int, seed: int) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    texts = [f"text {number}" for number in draw.integers(0, 12, rows)]
    return {"k": draw.integers(0, 12, rows), "x": draw.integers(0, 300, rows), "s": texts}


@pytest.mark.nojit
@pytest.mark.parametrize("order", ["strict", "probe"])
@pytest.mark.parametrize("on", ["l.s = r.s", "l.s < r.s", "l.s = r.s AND l.k = r.k"])
def test_results_and_their_order_do_not_depend_on_secrets(on: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[pa.Table]] = []
    for secret in range(SEEDS):
        draw = np.random.default_rng(secret)
        monkeypatch.setattr(os, "urandom", draw.bytes)
        join = sj.StreamJoin(on, sj.CountWindow(60), output="positions", order=order, threads=1, algorithm="auto")
        found.append([join.push(left=streams(40, 2 * n), right=streams(40, 2 * n + 1)) for n in range(5)])
    assert found[0][-1].num_rows > 0
    for other in found[1:]:
        assert all(one.equals(two) for one, two in zip(found[0], other, strict=True))
