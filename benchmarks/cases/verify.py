"""Verifying a push: its expected pairs, computed by NumPy from the definition of the join alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.bench.streams import BLOCK
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.bench.comparison import Comparison
    from slidejoin.bench.streams import Streams

__all__ = ["check_pairs", "check_push", "expected_pairs", "in_scope", "sampled_ordinals"]

ALL_CHECKED = 1 << 22
"""Windows up to which all rows of the push are checked; above it is a sample, against the whole window all the same."""

SAMPLE = 4096
MOST_PAIRS = 1 << 22
"""Expected pairs that are held at once to be compared: beyond them too it is a sample of the rows."""


def sampled_ordinals(first: int, last: int, window: int, match_rate: float, seed: int) -> NDArray[np.int64]:
    """Return the ordinals of the push whose pairs are checked: all, or a random sample where that would be too much."""
    rows = last - first
    most = rows if window <= ALL_CHECKED else SAMPLE
    most = min(most, max(1, int(MOST_PAIRS / max(1.0, 2 * match_rate))))
    if most >= rows:
        return np.arange(first, last)
    chosen = np.random.default_rng(seed).choice(rows, most, replace=False)
    return np.sort(chosen + first)


def expected_pairs(
    streams: Streams, comparison: Comparison, window: int, ordinals: NDArray[np.int64], first: int
) -> NDArray[np.int64]:
    """Return the pairs that the rows with these ordinals, of both sides, produce, by a simple, slow algorithm.

    A left row sees the last `window` right rows that arrived before it, a right row the last `window` left rows. The
    windows' keys are made again block by block, so that memory does not grow with them.

    Parameters
    ----------
    streams : Streams
        Where the rows come from.
    comparison : Comparison
    window : int
        Rows kept of each side.
    ordinals : int64 array (n,)
        Ascending ordinals of the probes, the same on both sides, all at least `first`.
    first : int
        Ordinal of the first row of the push.

    Returns
    -------
    int64 array of shape (pairs, 2)
        Ordinals of the left and the right row, in ascending order.
    """
    start, end = int(ordinals[0]), int(ordinals[-1]) + 1
    found = []
    for probe_side in (0, 1):
        keys = streams.keys(probe_side, start, end)[ordinals - start]
        order = np.argsort(keys, kind="stable")
        keys, numbers = keys[order], ordinals[order]
        for block in range(max(first - window, 0), end, BLOCK):
            last = min(block + BLOCK, end)
            stored = streams.keys(1 - probe_side, block, last)
            # low <= right - left <= high, seen from the stored row: a range of the probes' sorted keys.
            low, high = (comparison.low, comparison.high) if probe_side else (-comparison.high, -comparison.low)
            places = np.searchsorted(keys, stored + low, side="left")
            counts = np.searchsorted(keys, stored + high, side="right") - places
            of_stored = np.repeat(np.arange(block, last), counts)
            offsets = np.arange(of_stored.size) - np.repeat(np.cumsum(counts) - counts, counts)
            of_probes = numbers[offsets + np.repeat(places, counts)]
            pairs = (of_probes, of_stored) if probe_side == 0 else (of_stored, of_probes)
            both = np.stack(pairs, axis=1)
            by_left = both[:, 0] > both[:, 1]  # right row n arrives after left row n
            found.append(both[in_scope(both, window) & (by_left == (probe_side == 0))])
    return _sorted(np.concatenate(found))


def in_scope(pairs: NDArray[np.int64], window: int) -> NDArray[np.bool_]:
    """Return for each pair of ordinals whether the later row sees the other; left row n is just before right row n."""
    ahead = pairs[:, 0] - pairs[:, 1]
    return np.where(ahead > 0, ahead <= window, -ahead < window)


def check_pairs(got: NDArray[np.int64], expected: NDArray[np.int64], who: str) -> None:
    """Compare pairs of ordinals, in any order, with the expected ones.

    Raises
    ------
    SlideJoinError
        If they differ.
    """
    ordered = _sorted(got)
    if not np.array_equal(ordered, expected):
        msg = f"{who} found {len(got):,} pairs in the last push, but NumPy finds {len(expected):,}"
        both, times = np.unique(np.concatenate([np.unique(ordered, axis=0), expected]), axis=0, return_counts=True)
        wrong = both[times == 1]
        if len(wrong):
            left, right = wrong[0]
            msg += f"; the first of {len(wrong):,} that differ is left row {left} with right row {right}"
        raise SlideJoinError(msg + "; please report it")


def check_push(
    out: pa.Table,
    streams: Streams,
    comparison: Comparison,
    *,
    window: int,
    first: int,
    last: int,
    output: str,
    order: str,
) -> int:
    """Compare the output of the push of the ordinals from `first` to `last` with what NumPy finds.

    Parameters
    ----------
    out : pyarrow.Table
        Pairs as ordinals (``positions``), as arrival numbers in ``i`` and ``i_right``, or counts in ``match_count``.
    order : str
        With ``probe`` and ``strict`` the pairs must come by probe, probes in arrival order.

    Returns
    -------
    int
        How many pairs were compared.

    Raises
    ------
    SlideJoinError
        If they differ.
    """
    ordinals = sampled_ordinals(first, last, window, comparison.match_rate, streams.seed)
    expected = expected_pairs(streams, comparison, window, ordinals, first)
    if output == "count":
        counts = np.bincount(_probe(expected) - 2 * first, minlength=2 * (last - first))
        arrivals = (2 * (ordinals - first)[:, None] + np.array([0, 1])).ravel()
        given = out["match_count"].to_numpy()
        if given.size != 2 * (last - first) or not np.array_equal(given[arrivals], counts[arrivals]):
            msg = f"the last push counted {int(given.sum()):,} pairs, with other counts than NumPy; please report it"
            raise SlideJoinError(msg)
        return len(expected)
    names = ("left", "right") if output == "positions" else ("i", "i_right")
    pairs = np.stack([out[name].to_numpy() for name in names], axis=1)
    if output != "positions":
        pairs //= 2
    probes = _probe(pairs)
    if order != "none" and np.any(np.diff(probes) < 0):
        msg = "the last push did not emit its pairs in the order of the probes' arrival; please report it"
        raise SlideJoinError(msg)
    check_pairs(pairs[np.isin(probes // 2, ordinals)], expected, "slidejoin")
    return len(expected)


def _probe(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the arrival number of the later row of each pair, (n,)."""
    latest: NDArray[np.int64] = np.maximum(2 * pairs[:, 0], 2 * pairs[:, 1] + 1)
    return latest


def _sorted(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
