"""Two inequalities on streams of real life, whole results against DuckDB; skipped where the data is not at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from tests import real_data
from tests.real_data import Found, Streams, sums_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

pytest.importorskip("duckdb")

ALGORITHMS = ("auto", "po_join", "planar")
EACH = pytest.mark.parametrize("algorithm", ALGORITHMS)
ROWS = 1_000


@pytest.fixture(scope="module", params=["taxi_trips", "flights", "readings"])
def found(request: pytest.FixtureRequest) -> Iterator[Found]:
    streams: Streams = getattr(real_data, request.param)()
    pairs = streams.found_by_duckdb()
    yield pairs
    pairs.database.close()


def joined(streams: Streams, window: Any, size: int, algorithm: str, **options: Any) -> Iterator[pa.Table]:
    """What pushes of so many rows of a side give; two streams take turns, the left one first."""
    join = sj.StreamJoin(
        on=streams.on, window=window, self_join=streams.self_join, algorithm=algorithm, order="none",
        schemas=(streams.left.schema, streams.right.schema), **options,
    )  # fmt: skip
    for start in range(0, streams.left.num_rows, size):
        if streams.self_join:
            yield join.push(left=streams.left.slice(start, size))
        else:
            yield join.push(left=streams.left.slice(start, size), right=streams.right.slice(start, size), order_by="id")


def time_window(streams: Streams) -> sj.TimeWindow:
    whole = pa.types.is_integer(streams.left.schema.field(streams.time).type)
    return sj.TimeWindow(streams.seconds if whole else f"{streams.seconds} seconds", on=streams.time)


def check_pairs(found: Found, window: Any, scope: tuple[str, int], algorithm: str, fewest: int) -> None:
    streams, total = found.streams, 0
    expected, _ = found.within(*scope)
    sums = np.zeros_like(expected)
    for table in joined(streams, window, 2_500, algorithm, select=["l.id", "r.id"]):
        sums += sums_of(*(column.to_numpy() for column in table.columns), streams.left.num_rows)
        total += table.num_rows
    assert total > fewest
    assert np.array_equal(sums, expected)


def check_counts(found: Found, window: Any, scope: tuple[str, int], algorithm: str) -> None:
    streams, (_, expected) = found.streams, found.within(*scope)
    counts: NDArray[np.int64] = np.zeros_like(expected)
    for table in joined(streams, window, 700, algorithm, output="count"):
        for number, (side, name) in enumerate((("left", "id"), ("right", "id_right"))[: 2 - streams.self_join]):
            rows = table.filter(pa.compute.equal(table["side"], side))
            counts[number, rows[name].to_numpy()] = rows["match_count"].to_numpy()
    assert np.array_equal(counts, expected)


def test_all_pairs(found: Found) -> None:
    rows = found.streams.left.num_rows
    check_pairs(found, sj.CountWindow(rows), ("rows", rows), "auto", fewest=500_000)


@EACH
def test_all_counts(found: Found, algorithm: str) -> None:
    rows = found.streams.left.num_rows
    check_counts(found, sj.CountWindow(rows), ("rows", rows), algorithm)


@EACH
def test_pairs_of_a_count_window(found: Found, algorithm: str) -> None:
    check_pairs(found, sj.CountWindow(ROWS), ("rows", ROWS), algorithm, fewest=100_000)


@EACH
def test_pairs_of_a_time_window(found: Found, algorithm: str) -> None:
    check_pairs(found, time_window(found.streams), ("seconds", found.streams.seconds), algorithm, fewest=20_000)


@EACH
def test_counts_of_a_time_window(found: Found, algorithm: str) -> None:
    check_counts(found, time_window(found.streams), ("seconds", found.streams.seconds), algorithm)
