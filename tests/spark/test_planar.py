"""Two ranges on Spark: segments are planar runs, mapped from the node's cache or built again from the state."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from slidejoin.index.planar.planar_index import PlanarIndex
from slidejoin.index.planar.run import PlanarRun
from tests.spark.feeds import SECOND, Row, expected
from tests.spark.stores import Query, wire

if TYPE_CHECKING:
    from pathlib import Path

ON = "l.x < r.x AND l.id > r.id - 520"
LAW = (
    "and", ("<", ("col", "left", "x"), ("col", "right", "x")),
    (">", ("col", "left", "id"), ("-", ("col", "right", "id"), ("lit", 520))),
)  # fmt: skip
WINDOW = sj.TimeWindow("5 seconds", on="ts")


def streams(batches: int) -> list[dict[str, list[Row]]]:
    chosen = random.Random(3)
    return [
        {
            side: [
                (first + 100 * number + i, chosen.choice([None, *range(9)]), None, (number + i // 9) * SECOND)
                for i in range(20)
            ]
            for side, first in (("left", 0), ("right", 500))
        }
        for number in range(batches)
    ]


@pytest.mark.parametrize("strategy", ["grid", "broadcast"])
def test_pairs_are_the_law_s_from_the_cache_and_without_it(
    tmp_path: Path, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Any] = []
    attach = PlanarIndex.attach

    def note(index: PlanarIndex, part: Any, first: int, live: int) -> None:
        loaded.append(part)
        attach(index, part, first, live)

    monkeypatch.setattr(PlanarIndex, "attach", note)
    batches, query = streams(6), Query(wire(tmp_path, ON, WINDOW, strategy, partitions=2), 0)
    for number, batch in enumerate(batches):
        if number == 4:
            shutil.rmtree(tmp_path)
        query.micro_batch(batch)
    assert sorted(query.pairs()) == expected(batches, LAW, 5 * SECOND, 0)
    assert len(query.pairs()) > 100
    assert loaded
    assert all(isinstance(part, PlanarRun) for part in loaded)
