"""A query that is started on the state of another join is told what differs, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from slidejoin.errors import StateError
from slidejoin.spark.state.bucket_state import differences
from tests.spark.stores import Query, wire

if TYPE_CHECKING:
    from pathlib import Path

WINDOW = sj.TimeWindow("10 seconds", on="ts")


@pytest.mark.parametrize(
    ("changes", "told", "advice"),
    [
        (
            {"partitions": 5},
            "partitions was 3 and is now 5",
            r"Set partitions=3 \(for another number see slidejoin state --repartition\), or start",
        ),
        ({"strategy": "grid"}, "strategy was 'hash' and is now 'grid'", "as they were: hash, or start"),
        ({"select": ["l.id"]}, "right columns: the state also has id int64", "Name id int64 in select= again, or"),
        (
            {"select": ["l.id", "l.name", "r.id"]},
            "left columns: the state lacks name string",
            "Leave columns that the state lacks out of select= and the predicate, or start the query with a new",
        ),
        (
            {"window": sj.TimeWindow("9 seconds", on="ts")},
            "window was .*10 seconds.* and is now .*9 seconds",
            "Give the",
        ),
        ({"on": "l.x = r.x + 1"}, "on was 'l.x = r.x' and is now", "Give on as it was, or start the query with a new"),
    ],
    ids=str,
)
def test_what_differs_and_what_to_do(tmp_path: Path, changes: dict[str, Any], told: str, advice: str) -> None:
    given: dict[str, Any] = {"on": "l.x = r.x", "window": WINDOW, "strategy": "hash", "partitions": 3}
    given["select"] = ["l.id", "r.id"]
    query = Query(wire(tmp_path, **given), one_store=True)
    query.micro_batch({"left": [(1, 1, "a", 5)], "right": [(2, 1, "b", 6)]})
    query.spec = wire(tmp_path, **given | changes)
    with pytest.raises(StateError, match=f"the checkpoint holds the state of another join: .*{told}.*{advice}"):
        query.micro_batch({"left": [(3, 1, "a", 7)], "right": [(4, 1, "b", 8)]})


def test_types_with_commas_are_one_column() -> None:
    one = {"left columns": "k int64, m map<string, int64>, s struct<a: int64, b: string>"}
    other = {"left columns": "k int64, m map<string, string>, s struct<a: int64, b: string>"}
    told = differences(one, other) or ""
    assert told.startswith(
        "left columns: the state lacks m map<string, string> and the state also has m map<string, int64>."
    )
    assert differences(one, one) is None


def test_columns_in_another_order_are_told_whole() -> None:
    told = differences({"left columns": "a int64, b int64"}, {"left columns": "b int64, a int64"}) or ""
    assert "they were a int64, b int64 and are now b int64, a int64. Give the inputs their columns in the order" in told
