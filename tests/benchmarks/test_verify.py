from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.cases import verify
from benchmarks.cases.verify import check_push, expected_pairs
from slidejoin.bench.comparison import NO_END, Comparison
from slidejoin.bench.streams import Streams
from slidejoin.errors import SlideJoinError

BAND = Comparison("band", -60_000_000, 60_000_000, 1, 2.0)
LESS = Comparison("less", 1 << 30, NO_END, 1, 2.0)
EQUI = Comparison("equi", 0, 0, 1 << 28, 2.0)


def plain(streams: Streams, comparison: Comparison, window: int, first: int, last: int) -> list[list[int]]:
    keys = [streams.keys(side, 0, last).tolist() for side in (0, 1)]
    pairs = []
    for a in range(last):
        for b in range(last):
            # a left row sees right rows a - window .. a - 1, a right row sees left rows b - window + 1 .. b
            seen = a - window <= b < a if a > b else b - window < a
            if seen and max(a, b) >= first and comparison.low <= keys[1][b] - keys[0][a] <= comparison.high:
                pairs.append([a, b])
    return pairs


@pytest.mark.parametrize("comparison", [BAND, LESS, EQUI], ids=lambda comparison: comparison.operation)
@pytest.mark.parametrize("window", [7, 30, 1000])
def test_expected_pairs_are_those_of_a_plain_loop(comparison: Comparison, window: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(verify, "BLOCK", 16)
    streams = Streams("uniform", 3, comparison.grain, window)
    found = expected_pairs(streams, comparison, window, np.arange(60, 90), 60)
    assert found.tolist() == plain(streams, comparison, window, 60, 90)
    assert len(found) > 10


def test_a_sample_of_the_push_is_checked_in_large_windows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(verify, "ALL_CHECKED", 8)
    monkeypatch.setattr(verify, "SAMPLE", 10)
    ordinals = verify.sampled_ordinals(60, 90, 20, BAND.match_rate, 3)
    assert len(set(ordinals.tolist())) == 10
    streams = Streams("uniform", 3, 1, 20)
    every = expected_pairs(streams, BAND, 20, np.arange(60, 90), 60)
    some = expected_pairs(streams, BAND, 20, ordinals, 60)
    assert some.tolist() == [pair for pair in every.tolist() if max(pair) in ordinals]
    out = in_order_of_probes(every)
    assert check(out, streams) == len(some) < len(every)


def test_rows_with_many_matches_are_sampled_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(verify, "MOST_PAIRS", 1000)
    assert len(verify.sampled_ordinals(60, 90, 20, 10.0, 1)) == 30
    assert len(verify.sampled_ordinals(60, 90, 20, 100.0, 1)) == 5
    assert len(verify.sampled_ordinals(60, 90, 20, 1e9, 1)) == 1


def in_order_of_probes(pairs: np.ndarray) -> pa.Table:
    order = np.argsort(np.maximum(2 * pairs[:, 0], 2 * pairs[:, 1] + 1), kind="stable")
    return pa.table({"left": pairs[order, 0], "right": pairs[order, 1]})


def check(out: pa.Table, streams: Streams, output: str = "positions", order: str = "probe") -> int:
    return check_push(out, streams, BAND, window=20, first=60, last=90, output=output, order=order)


def test_results_are_compared_pair_by_pair():
    streams = Streams("uniform", 3, 1, 20)
    out = in_order_of_probes(expected_pairs(streams, BAND, 20, np.arange(60, 90), 60))
    assert check(out, streams) == out.num_rows > 10
    with pytest.raises(SlideJoinError, match=rf"found {out.num_rows - 1} pairs .* but NumPy finds {out.num_rows}"):
        check(out.slice(1), streams)
    moved = out.set_column(0, "left", pa.array(out["left"].to_numpy() + 1))
    with pytest.raises(SlideJoinError, match=r"that differ is left row \d+ with right row \d+; please report it"):
        check(moved, streams, order="none")


def test_the_order_of_the_probes_is_checked():
    streams = Streams("uniform", 3, 1, 20)
    out = in_order_of_probes(expected_pairs(streams, BAND, 20, np.arange(60, 90), 60))
    backwards = out.take(np.arange(out.num_rows)[::-1])
    assert check(backwards, streams, order="none") == out.num_rows
    with pytest.raises(SlideJoinError, match="did not emit its pairs in the order of the probes' arrival"):
        check(backwards, streams)


def test_counts_are_compared_row_by_row():
    streams = Streams("uniform", 3, 1, 20)
    pairs = expected_pairs(streams, BAND, 20, np.arange(60, 90), 60)
    counts = np.bincount(np.maximum(2 * pairs[:, 0], 2 * pairs[:, 1] + 1) - 120, minlength=60)
    assert check(pa.table({"match_count": counts}), streams, "count") == len(pairs)
    counts[5] += 1
    with pytest.raises(SlideJoinError, match=f"counted {len(pairs) + 1} pairs, with other counts than NumPy"):
        check(pa.table({"match_count": counts}), streams, "count")
