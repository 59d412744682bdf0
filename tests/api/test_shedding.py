"""Load shedding of a `Feed`: which rows are dropped, how they are counted, and what is estimated to be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from tests.api.test_feed import held, until

if TYPE_CHECKING:
    from numpy.typing import NDArray

POLICIES = ("random", "oldest", "least_likely")


def ids(first: int, last: int) -> dict[str, Any]:
    return {"a": np.arange(first, last), "id": np.arange(first, last)}


def taken(feed: sj.Feed) -> list[int]:
    """The numbers of the left rows that the join got."""
    return [one for table in feed for one in table.column("id").to_pylist() if one is not None]


def shedding(policy: Any, capacity: int, **options: Any) -> sj.Feed:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(50), output="count", threads=1)
    return sj.Feed(join, capacity, "shed", shed=policy, seed=1, **options)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_finds_room_is_not_dropped(policy: str) -> None:
    feed = shedding(policy, 10)
    with held(feed), feed:
        feed.put(ids(0, 4), ids(0, 3))
        feed.put(ids(4, 7))
    assert taken(feed) == [0, 1, 2, 3, 4, 5, 6]
    assert (feed.stats.dropped_left, feed.stats.dropped_right, feed.stats.estimated_lost) == (0, 0, 0.0)


def test_oldest_drops_what_has_waited_longest() -> None:
    feed = shedding("oldest", 10)
    with held(feed), feed:
        feed.put(ids(0, 4))
        feed.put({"a": [7, 5, 6], "id": [-7, -5, -6]}, order_by="a")
        feed.put(ids(10, 18))  # 5 rows too many: the first put, and the first of the second by its order
        assert feed.stats.queued_rows == 10
    assert taken(feed) == [-6, -7, *range(10, 18)]
    assert (feed.stats.dropped_left, feed.stats.rows_left) == (5, 10)


def test_a_put_larger_than_the_queue_is_cut() -> None:
    feed = shedding("oldest", 5)
    with held(feed), feed:
        feed.put(ids(0, 2))
        feed.put(ids(2, 9), ids(0, 3))
        assert feed.stats.queued_rows == 5
    stats = feed.stats
    assert (stats.dropped_left, stats.dropped_right) == (7, 0)
    assert [row["side"] for table in feed for row in table.to_pylist()] == ["left"] * 2 + ["right"] * 3


def test_random_drops_of_those_that_arrive() -> None:
    feed = shedding("random", 100)
    with held(feed), feed:
        feed.put(ids(0, 60))
        feed.put(ids(60, 1060))
        feed.put(ids(2000, 2010))  # none of them fits
    found = taken(feed)
    assert found[:60] == list(range(60))
    assert found == sorted(found)
    assert len(found) == 100
    assert 400 < np.mean(found[60:]) < 720  # of everywhere
    assert feed.stats.dropped_left == 970


def test_least_likely_keeps_what_matches() -> None:
    # Every fourth right row has the key 0; left rows have it, or a key that no row has.
    feed = shedding("least_likely", 1000)
    right = {"a": np.where(np.arange(4000) % 4, -np.arange(4000), 0), "id": np.arange(4000)}
    for _ in range(6):
        feed.put({"a": np.zeros(500, np.int64), "id": np.zeros(500, np.int64)}, {k: v[:500] for k, v in right.items()})
        until(lambda: feed.stats.queued_rows == 0)
    before = feed.stats.rows_left
    with held(feed), feed:
        likely = np.arange(800) % 2
        feed.put({"a": np.where(likely, 0, 10**6 + np.arange(800)), "id": likely})
        feed.put({"a": np.where(likely, 0, 10**7 + np.arange(800)), "id": likely})
        stats = feed.stats
    assert (stats.queued_rows, stats.dropped_left) == (1000, 600)
    assert stats.rows_left - before == 1000
    found = [one for table in feed for one in table.filter(pa.compute.field("side") == "left").column("id").to_pylist()]
    assert sum(found[-1000:]) == 800  # all that match, and 200 of the others


def streams(skew: bool, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    random = np.random.default_rng(5)
    if not skew:
        return random.integers(0, 60, rows), random.integers(0, 60, rows)
    weights = 1 / np.arange(1, 301) ** 1.1
    left, right = (random.choice(300, rows, p=weights / weights.sum()) for _ in range(2))
    return left, right


STREAMS = {
    "rows": (sj.CountWindow(600), False),
    "rows, skewed keys": (sj.CountWindow(600), True),
    "time": (sj.TimeWindow("600 seconds", on="ts"), False),
}


@pytest.mark.parametrize(
    ("window", "skew", "policy"),
    [
        # By day each policy has two of the three.
        pytest.param(*given, policy, id=f"{name}-{policy}", marks=[pytest.mark.nightly] if (i + j) % 3 == 2 else [])
        for i, (name, given) in enumerate(STREAMS.items())
        for j, policy in enumerate(POLICIES)
    ],
)
def test_the_estimate_is_near_the_truth(policy: Any, skew: bool, window: Any) -> None:
    rows, burst = 16_000, 400
    keys = streams(skew, rows)
    tables = [
        pa.table({"a": key, "id": np.arange(rows), "ts": pa.array(np.arange(rows), pa.timestamp("s"))}) for key in keys
    ]
    options: dict[str, Any] = {"on": "l.a = r.a", "window": window, "select": ["l.id", "r.id"], "threads": 1}
    whole = sj.StreamJoin(**options).push(*tables, order_by="ts")
    feed = sj.Feed(sj.StreamJoin(**options), burst, "shed", shed=policy, seed=3)
    for first in range(0, rows, 2 * burst):
        for begin in range(first, first + burst, 100):  # rows that come slowly
            feed.put(*(table.slice(begin, 100) for table in tables), order_by="ts")
            until(lambda: feed.stats.queued_rows == 0)
        with held(feed):  # and as many at once
            for begin in range(first + burst, first + 2 * burst, 100):
                feed.put(*(table.slice(begin, 100) for table in tables), order_by="ts")
        until(lambda: feed.stats.queued_rows == 0)
    feed.close()
    found = pa.concat_tables(list(feed))
    stats = feed.stats
    assert stats.dropped_left + stats.dropped_right > rows / 3
    pairs, full = (table.column(0).to_numpy() * rows + table.column(1).to_numpy() for table in (found, whole))
    lost = 1 - np.isin(full, pairs).mean()
    # Few keys have most of the pairs of skewed streams, so that fewer of the sampled pairs are independent.
    assert stats.estimated_lost == pytest.approx(lost, abs=0.06 if skew else 0.04)
    assert stats.sampled_pairs > 300
