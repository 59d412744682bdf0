"""What `explain_join` says is what `stream_join` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.errors import PredicateError
from slidejoin.spark import SparkJoinError, explain_join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW = sj.TimeWindow("10 seconds", on="ts")


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(3).selectExpr("id", "id x", "timestamp_seconds(id) ts")


def rows(x: Any) -> pa.Table:
    ids = np.arange(len(x))
    return pa.table({"id": ids, "x": np.asarray(x, np.int64), "ts": pa.array(ids, pa.timestamp("s"))})


def test_without_a_sample(frame: DataFrame) -> None:
    told = explain_join(frame, frame, on="abs(l.x - r.x) <= 5 AND l.id <> r.id", window=WINDOW, partitions=8)
    assert str(told).splitlines() == [
        "strategy: cell of width 40, in turns",
        "because no equality, but a band of constant width, which overlaps few cells",
        "buckets: 8",
        "rows sent, and stored while in the window: 1 for each left row, 1.25 for each right row",
        "bytes sent: 24 for each left row, 30 for each right row; stored: 24 for each left row, 30 for each right row",
        "expected load: equal in all buckets, assuming many keys and no hot one",
        "in each bucket:",
        "  inner join on abs(l.x - r.x) <= 5 AND l.id <> r.id",
        "  window: 10 seconds on ts",
        "  index: sorted runs (PanJoin, section III-D)",
        "  indexed: abs(l.x - r.x) <= 5 (band of fixed width)",
        "  not indexed, checked row by row: the window, 10 seconds on ts",
        "  not indexed, checked row by row: l.id <> r.id (inequality, all values but one)",
    ]
    assert (told.copies, told.sample, told.spreads) == ({"left": 1.0, "right": 1.25}, None, {})


@pytest.mark.parametrize(
    ("algorithm", "parts"),
    [
        ("auto", ""),
        ("po_join", "each micro-batch inserts its own rows; those of the window are mapped as they were sealed"),
        ("bplus_tree", "each micro-batch inserts all rows of the window again: bplus_tree has no sealed parts"),
    ],
)
@pytest.mark.parametrize("on", ["l.x < r.x AND l.id > r.id", "l.x = r.x OR l.id < r.id"])
def test_what_is_mapped(frame: DataFrame, algorithm: str, parts: str, on: str) -> None:
    lines = explain_join(frame, frame, on=on, window=WINDOW, algorithm=algorithm).plan.splitlines()
    assert [line.strip() for line in lines if "each micro-batch" in line] == ([parts] if parts else [])


@pytest.mark.parametrize("strategy", ["split", "sub_windows"])
def test_rows_that_are_stored_once(frame: DataFrame, strategy: Any) -> None:
    told = explain_join(frame, frame, on="l.x < r.x", window=WINDOW, strategy=strategy, partitions=8)
    assert (told.copies, told.stored) == ({"left": 8.0, "right": 8.0}, {"left": 1.0, "right": 1.0})
    assert told.row_bytes == {"left": 26.0, "right": 26.0}
    lines = str(told).splitlines()
    assert lines[3] == "rows sent: 8 for each left row, 8 for each right row"
    assert lines[4] == "stored while in the window: 1 for each left row, 1 for each right row"
    assert lines[5].startswith("bytes sent: 208 for each left row, 208 for each right row; stored: 26 for each left")
    assert told.loads == (1.0,) * 8


@pytest.mark.parametrize(
    ("on", "how", "known"),
    [
        ("l.x = r.x", "full", "left and right rows without a partner: known in the one bucket that has all partners"),
        (
            "l.x < r.x",
            "left",
            "left rows without a partner: known when one more exchange has put together what several",
        ),
        ("l.x < r.x", "left_semi", "left rows with a partner: known in the one bucket that has all partners of a row"),
        ("abs(l.x - r.x) <= 5", "right", "right rows without a partner: known in the one bucket that has all"),
    ],
)
def test_it_says_where_it_is_known_which_rows_have_a_partner(frame: DataFrame, on: str, how: Any, known: str) -> None:
    told = explain_join(frame, frame, on=on, window=WINDOW, how=how, partitions=8)
    assert f"\n{known}" in str(told)
    assert f"\n  {how} join on {on}" in str(told)
    assert "slidejoin" not in str(told)
    if how == "right":
        assert told.copies == {"left": pytest.approx(1.25), "right": pytest.approx(1.25)}


def test_it_says_that_several_buckets_answer_a_left_row(frame: DataFrame) -> None:
    keep = sj.Nearest("l.ts", "r.ts")
    told = explain_join(frame, frame, on="l.x < r.x", window=WINDOW, keep=keep, strategy="grid", partitions=8)
    assert "\nleft rows: answered as they leave, when one more exchange has put together what several" in str(told)
    assert "slidejoin" not in str(told)


def test_it_says_that_a_second_operator_outputs_the_rows_of_a_semi_join(frame: DataFrame) -> None:
    told = explain_join(frame, frame, on="l.x < r.x", window=WINDOW, how="left_semi", strategy="grid", partitions=8)
    assert "\nleft rows with a partner: output once by a second operator, which keeps the ids of those" in str(told)
    assert "slidejoin" not in str(told)


def test_a_grid_says_what_it_sends(frame: DataFrame) -> None:
    told = explain_join(frame, frame, on="l.x < r.x", window=WINDOW, partitions=8)
    assert "strategy: sub_windows of length" in str(told)
    assert "grid sends 5.75 copies and stores 5.75 (cost 2" in str(told)
    assert "sub_windows sends 16 copies and stores 2 (cost 2" in str(told)
    told = explain_join(frame, frame, on="l.x < r.x", window=WINDOW, strategy="grid", partitions=8)
    assert "expected load, assuming uniform hashes: 0.99, 0.99," in str(told)
    assert told.copies == {"left": 3.0, "right": pytest.approx(2.75)}
    given: dict[str, Any] = {"window": WINDOW, "strategy": "grid", "partitions": 9, "self_join": True}
    told = explain_join(frame, on="l.x < r.x AND l.x > 1", **given)
    assert told.copies == {"left": pytest.approx(5)}, "three buckets as left, three as right, one of them as both"
    assert "slidejoin_as" not in str(told)
    assert "filter on left rows, before the index: l.x > 1" in str(told)


def test_a_sample_shows_what_is_hot(spark: SparkSession, frame: DataFrame) -> None:
    random = np.random.default_rng(1)
    x = np.where(random.random(4000) < 0.5, 7, random.integers(0, 10**6, 4000))
    given: dict[str, Any] = {"on": "l.x = r.x", "window": WINDOW, "partitions": 8}
    told = explain_join(frame, frame, **given, sample=(rows(x), rows(x).to_pandas()))
    assert told.sample == {"left": 4000, "right": 4000}
    assert max(told.loads) > 4
    assert 1 < told.spreads[2] < 2
    assert "load, counted from 4,000 left and 4,000 right rows: " in str(told)
    assert f"with spread=2 the fullest bucket would have {told.spreads[2]:.2f} of the mean" in str(told)
    table = spark.createDataFrame(rows(x).to_pandas())
    of_frames = explain_join(frame, frame, **given, spread=2, sample=(table, table))
    assert of_frames.strategy == "hash, spread 2"
    assert of_frames.copies == {"left": 2.0, "right": 2.0}
    assert max(of_frames.loads) == pytest.approx(told.spreads[2], rel=0.1)


@pytest.mark.parametrize(
    ("error", "message", "sample"),
    [
        (SparkJoinError, r"sample: got 1 table, expected two, \(left rows, right rows\)", {"x": [1]}),
        (PredicateError, "sample: the left rows have no column 'id'.* Did you mean 'idd'", ({"idd": [1]}, {"x": [1]})),
        (PredicateError, "sample: the types of the left rows differ", (rows([1]).set_column(1, "x", [["a"]]),) * 2),
    ],
)
def test_samples_that_cannot_be(frame: DataFrame, error: type[Exception], message: str, sample: Any) -> None:
    with pytest.raises(error, match=message):
        explain_join(frame, frame, on="l.x = r.x", window=WINDOW, sample=sample)


def test_a_stream_is_no_sample(spark: SparkSession, frame: DataFrame) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(SparkJoinError, match="sample: the left sample is a streaming DataFrame"):
        explain_join(frame, frame, on="l.x = r.x", window=WINDOW, sample=(stream, stream))


def test_it_says_which_index_a_bucket_would_choose_for_the_sample(frame: DataFrame) -> None:
    on = "l.x < r.x AND l.id >= r.id - 5 AND l.id <= r.id + 5"
    told = explain_join(frame, frame, on=on, window=WINDOW, partitions=4)
    assert "\n  to begin with: each bucket chooses by the rows that come" in str(told)
    low, high = rows(np.arange(1000)), rows(np.arange(1000, 2000))
    of_sample = explain_join(frame, frame, on=on, window=WINDOW, partitions=4, sample=(low, high))
    assert "\n  measured in the sample: " in str(of_sample)
    assert "\n  not indexed, checked row by row: l.x < r.x" in str(of_sample)
    one = explain_join(frame, on=on, window=WINDOW, partitions=4, self_join=True, sample=low)
    assert "\n  measured in the sample: " in str(one)
