"""Two attempts at one micro-batch may both leave their state behind: whichever Spark goes on with, pairs are the same.

A speculative task, or one that outlives its driver, writes the same version of a state store as the attempt that
counted, and Spark keeps whichever came last. Later versions are changes to the other one.
"""

from __future__ import annotations

import copy
import shutil
from typing import TYPE_CHECKING

import pytest

import slidejoin as sj
from tests.spark.feeds import SECOND, Row, expected
from tests.spark.killing import LAW, ON, streams
from tests.spark.stores import Query, apply_changes, changes, wire

if TYPE_CHECKING:
    from pathlib import Path

LATENESS = 5 * SECOND
WINDOW = sj.TimeWindow("20 seconds", on="ts")


def attempt(query: Query, batch: dict[str, list[Row]]) -> Query:
    """Run a micro-batch on a copy of a query's state."""
    one = Query(query.spec, LATENESS)
    one.number, one.clock, one.state = query.number, copy.deepcopy(query.clock), copy.deepcopy(query.state)
    one.micro_batch(batch)
    return one


def backwards(batch: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Rows of one time, and blocks of a shuffle, come in another order to another attempt."""
    return {side: rows[::-1] for side, rows in batch.items()}


@pytest.mark.parametrize("restarts", [(3, 7, 11), (5, 6), ()])
def test_changes_of_different_attempts_fit_together(tmp_path: Path, restarts: tuple[int, ...]) -> None:
    batches = streams(12)
    query = Query(wire(tmp_path, ON, WINDOW, "cell", partitions=2), LATENESS)
    checkpoint = copy.deepcopy(query.state)
    pairs = []
    for number, batch in enumerate(batches):
        if number in restarts:
            query.state = copy.deepcopy(checkpoint)
            shutil.rmtree(tmp_path)
        counted, late = attempt(query, batch), attempt(query, backwards(batch))
        # what counted on the node is not what the checkpoint has, every second time
        for bucket, after in (late if number % 2 else counted).state.items():
            apply_changes(changes(query.state[bucket].store, after.store), checkpoint[bucket].store)
        pairs += counted.pairs()
        query = counted
    query.state = copy.deepcopy(checkpoint)
    shutil.rmtree(tmp_path)
    query.rows = []
    query.micro_batch({"left": [(9999, 3, None, 160 * SECOND)], "right": []})
    batches.append({"left": [(9999, 3, None, 160 * SECOND)], "right": []})
    assert sorted(pairs + query.pairs()) == expected(batches, LAW, 20 * SECOND, LATENESS)
