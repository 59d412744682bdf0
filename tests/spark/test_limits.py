"""What a bucket may hold: refused before anything is joined, and nothing lost by it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import slidejoin as sj
from slidejoin.errors import MemoryLimitError
from slidejoin.spark.bucket.limits import parse_bytes
from slidejoin.spark.job.checks import SparkJoinError
from tests.spark.feeds import SECOND, expected
from tests.spark.killing import LAW, ON, streams
from tests.spark.stores import Query, wire

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

WINDOW = sj.TimeWindow("20 seconds", on="ts")


@pytest.mark.parametrize("text", ["2 gallons", "-1", "0", "g", "1e9"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(SparkJoinError, match=r"spark\.slidejoin\.bucketBytes is '.*'; expected a size such as '2g'"):
        parse_bytes(text)


def test_refused_with_what_it_holds_and_goes_on_with_more(tmp_path: Path) -> None:
    batches = iter(streams(8))
    query = Query(replace(wire(tmp_path, ON, WINDOW, "cell", partitions=1), bucket_bytes=8_000), 5 * SECOND)
    told = r"bucket 0 of 1 would hold \d\.\d KiB: \d\.\d KiB in \d segments \(\d+ left, \d+ right rows\) and .* of "
    taken: list[Any] = []

    def go_on() -> None:
        while batch := next(batches, None):
            taken.append(batch)
            query.micro_batch(batch)

    with pytest.raises(
        MemoryLimitError, match=told + r"this micro-batch; spark\.slidejoin\.bucketBytes allows 7\.8 KiB"
    ):
        go_on()
    assert 1 < len(taken) < 8
    query.spec = replace(query.spec, bucket_bytes=None)
    query.micro_batch(taken[-1])
    go_on()
    assert query.pairs() == expected(taken, LAW, 20 * SECOND, 5 * SECOND)


def test_rows_that_alone_are_too_many_are_not_even_collected(tmp_path: Path) -> None:
    query = Query(replace(wire(tmp_path, ON, WINDOW, "cell", partitions=1), bucket_bytes=100), 5 * SECOND)
    told = r"bucket 0 of 1 would hold [0-9.]+ KiB: [0-9.]+ KiB of this micro-batch"
    with pytest.raises(MemoryLimitError, match=told):
        query.micro_batch(streams(1)[0])
    assert query.rows == []
    assert query.state[0].manifest.kept is None
