"""Reductions of ranges of sorted runs agree with loops over the rows, whatever was merged, halved and expired."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.index.deferred import Channel
from slidejoin.index.sorted_runs import reduced_rows
from slidejoin.index.sorted_runs.bi_sort import BiSortIndex, build_run
from slidejoin.index.sorted_runs.kernels.summarising import PLACES
from slidejoin.runtime.threads import Workers
from tests.index.test_bi_sort import i64, in_any, probes_of
from tests.law.checks import examples
from tests.narrow import tune

LARGEST = int(np.iinfo(np.int64).max)
CHANNELS = (
    Channel("a", "whole", "sum", 0),
    Channel("a", "smallest", "smallest", LARGEST),
    Channel("b", "whole", "double_sum", 0),
    Channel("b", "largest", "smallest", LARGEST),
)


def values_of(channels: Any, ordinals: Any) -> list[Any]:
    """Values that follow from the ordinal; those of doubles are sums of powers of two, which are exact."""
    found = []
    for channel in channels:
        mixed = ordinals * 7919 % 1009 - 500
        doubles = (mixed / 8).view(np.int64) if channel.name == "b" else mixed
        found.append(doubles if channel.how == "double_sum" else mixed)
    return found


def expected(channel: Channel, ordinals: Any) -> int:
    (values,) = values_of([channel], ordinals)
    if not ordinals.size:
        return channel.nothing
    if channel.how == "smallest":
        return int(values.min())
    if channel.how == "sum":
        return int(values.sum())
    return int(np.array([values.view(np.float64).sum()]).view(np.int64)[0])


def check(
    index: BiSortIndex, rows: Any, channels: list[Channel], ranges: Any, seen: Any, threads: int, aux: Any
) -> None:
    """Assert what probes have; `rows` are the ordinals, keys and further values of all rows that are left."""
    probes = probes_of([ranges], seen, aux)
    found = index.reduced(probes, channels, values_of, Workers(threads))
    assert list(found.totals) == channels
    ordinals, keys, further = rows
    for i, (low, high) in enumerate(seen):
        inside = in_any(keys, probes.lo[:, i], probes.hi[:, i]) & (low <= ordinals) & (ordinals < high)
        for piece in range(len(probes.aux_dims)):
            inside &= (probes.aux_lo[piece, i] <= further) & (further <= probes.aux_hi[piece, i])
        assert found.counts[i] == inside.sum()
        for channel in channels:
            assert found.totals[channel][i] == expected(channel, ordinals[inside]), channel


@st.composite
def chains(draw: st.DrawFn) -> dict[str, Any]:
    """Pushes of rows, what is asked after each, and how."""
    return {
        "sizes": draw(st.lists(st.sampled_from([1, 3, PLACES, 5 * PLACES, 9 * PLACES + 1]), min_size=1, max_size=7)),
        "spread": draw(st.sampled_from([1, 7, 200, 1 << 40])),
        "channels": draw(st.lists(st.sampled_from(CHANNELS), unique=True, max_size=4)),
        "threads": draw(st.sampled_from([1, 2])),
        "window": draw(st.sampled_from([PLACES, 8 * PLACES, 1000])),
        "dims": draw(st.sampled_from([0, 0, 1])),
        "later": draw(st.booleans()),
        "seed": draw(st.integers(0, 1 << 16)),
    }


@pytest.mark.nojit
@examples(400)
@given(drawn=chains())
def test_any_chain_of_runs(drawn: dict[str, Any]) -> None:
    rng, dims, window = np.random.default_rng(drawn["seed"]), drawn["dims"], drawn["window"]
    index, base = BiSortIndex(dims), 5
    rows = np.empty((0, 3), np.int64)
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, halved_from=2, reduction_spread=2)
        for number, size in enumerate(drawn["sizes"]):
            new = np.stack([np.arange(base, base + size), *rng.integers(0, drawn["spread"], (2, size))], axis=1)
            index.append(build_run(base, size, new[:, 1].copy(), new[:, 2:].copy()[:, :dims], None), len(rows) + size)
            rows, base = np.concatenate([rows, new]), base + size
            if drawn["later"] and number + 1 < len(drawn["sizes"]):
                continue
            n = int(rng.integers(1, 9))
            # Probes see ever newer rows; those of a self-join ask twice, once from the middle of the window on.
            since = np.sort(rng.integers(max(base - window - size, 0), max(base - window, 0) + 1, n))
            until = np.sort(rng.integers(max(base - size, 0), base + 1, n))
            for first, last in ((since, until), ((since + until) // 2, until), (since, until)):
                key, other = (
                    [(int(low), int(high)) for low, high in np.sort(rng.integers(-1, drawn["spread"] + 1, (n, 2)))]
                    for _ in range(2)
                )
                seen = [(int(low), int(high)) for low, high in zip(first, last, strict=True)]
                check(index, rows.T, drawn["channels"], key, seen, drawn["threads"], [(0, other)][:dims])
            index.expire(int(since[0]))


def test_a_leaving_run_is_halved_where_rows_leave() -> None:
    run = build_run(0, 1 << 15, i64(range(1 << 15)), np.empty((1 << 15, 0), np.int64), None)
    leaving, workers = reduced_rows.LeavingRun(run), Workers(2)
    parts = leaving.parts(10, 100, workers)
    assert (parts[0].base, parts[-1].base + parts[-1].rows) == (10, 1 << 15)
    assert [one.base + one.rows for one in parts[:-1]] == [one.base for one in parts[1:]]
    assert parts[0].rows <= workers.tuning.halved_from < parts[0].rows + parts[1].rows
    assert parts[0].keys.tolist() == list(range(10, parts[0].base + parts[0].rows))
    assert leaving.nbytes == sum(one.nbytes for one in parts)
    later = leaving.parts(parts[1].base, parts[1].base + 5, workers)
    assert later[1:][-1] is parts[-1]
    # Rows that were dropped come back if they are asked for again.
    assert leaving.parts(10, 100, workers)[0].base == 10


def test_values_of_dropped_rows_are_forgotten() -> None:
    index, channels = BiSortIndex(0), [CHANNELS[0]]
    asked: list[int] = []

    def values(of: Any, ordinals: Any) -> list[Any]:
        asked.extend(ordinals.tolist())
        return values_of(of, ordinals)

    sizes = []
    for push in range(12):
        rows = np.arange(push * 5000, (push + 1) * 5000)
        index.append(build_run(push * 5000, 5000, rows, np.empty((5000, 0), np.int64), None), 10_000)
        first = max(0, (push - 1) * 5000)
        index.expire(first)
        probes = probes_of([[(0, 1 << 20)]], [(first, (push + 1) * 5000)], [])
        found = index.reduced(probes, channels, values, Workers(1))
        assert found.counts.tolist() == [(push + 1) * 5000 - first]
        sizes.append(index.nbytes)
    assert asked == list(range(60_000))
    assert max(sizes) <= 2 * max(sizes[:4])
