"""Every path of a push, and every hand-over between two of them, gives what the law says, row order included."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.fused import cells, small_push, sorted_runs
from slidejoin.operator.general import GeneralPath
from tests.law.checks import assert_counts, assert_pairs, examples
from tests.narrow import A, B, tune
from tests.oracle import CountScope, TimeScope
from tests.strategies import Case, Push, WindowCase

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = tuple[int, bool, bool]
"""Rows a side, whether some keys are NULL, whether rows come in order."""

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("ts", pa.int64()), ("o", pa.int64())])
BAND = ("between", A, ("-", B, ("lit", 1)), ("+", B, ("lit", 1)))
PREDICATES = {"equality": ("=", A, B), "band": BAND, "one-sided": ("<", A, B)}
PATHS = {
    "small": small_push.SmallPush,
    "cells": cells.FusedCells,
    "runs": sorted_runs.FusedRuns,
    "general": GeneralPath,
}


@pytest.fixture
def taken() -> Iterator[list[str]]:
    """The path of each push, in order; with limits so small that a few rows reach all of them."""
    names: list[str] = []

    def watch(patch: pytest.MonkeyPatch, name: str, owner: Any) -> None:
        run = owner.run

        def watched(*args: Any, **options: Any) -> Any:
            names.append(name)
            return run(*args, **options)

        patch.setattr(owner, "run", watched)

    with pytest.MonkeyPatch.context() as patch:
        tune(patch, small_push_rows=8, small_push_pairs=400, push_spread=12, write_spread=6)
        tune(patch, run_matches=1, most_run_matches=100, run_rest=2)
        tune(patch, cell_matches=80)
        for name, owner in PATHS.items():
            watch(patch, name, owner)
        yield names


def rows(count: int, now: int, chosen: random.Random, *, nulls: bool, ordered: bool) -> pa.Table:
    """`count` rows from event time `now` on."""
    times = [now + i // 3 for i in range(count)]
    if not ordered:
        chosen.shuffle(times)
    keys = [[chosen.randrange(12) for _ in range(count)] for _ in "ab"]
    if nulls and count:
        keys[0][0] = keys[1][0] = None
    return pa.table([[*range(count)], *keys, times, times], SCHEMA)


def pushes(kinds: list[Kind], seed: int) -> list[Push]:
    """A push for each (rows a side, NULLs, in order): event times go on from one to the next."""
    chosen, made, now = random.Random(seed), [], 0
    for count, nulls, ordered in kinds:
        sides = [rows(count, now, chosen, nulls=nulls, ordered=ordered) for _ in "lr"]
        made.append(Push(*sides, "ts"))
        now += count // 3 + 1
    return made


def windows() -> dict[str, WindowCase]:
    return {
        "count": WindowCase(sj.CountWindow(left=40, right=30, slide=4), CountScope(40, 30, 4)),
        "time": WindowCase(sj.TimeWindow(12, on="ts"), TimeScope(12, 12, "ts", "ts", 0)),
    }


def follow(case: Case, output: str, **options: Any) -> None:
    if output == "count":
        assert_counts(case, **options)
    else:
        assert_pairs(case, output, **options)


KINDS = st.lists(
    st.tuples(st.sampled_from([0, 1, 3, 4, 9, 25, 60]), st.booleans(), st.booleans()), min_size=2, max_size=9
)


@pytest.mark.parametrize("algorithm", ["auto", "bi_sort"])
@pytest.mark.parametrize("window", ["count", "time"])
@pytest.mark.parametrize("predicate", PREDICATES)
@examples(12)
@given(
    kinds=KINDS,
    calm=st.sampled_from([True, True, False]),
    seed=st.integers(0, 1 << 20),
    output=st.sampled_from(["probe", "none", "strict", "count"]),
    threads=st.sampled_from([1, 2]),
)
def test_any_sequence_of_paths_follows_the_law(
    predicate: str, window: str, algorithm: str, kinds: list[Kind], calm: bool, seed: int, output: str,
    threads: int,
) -> None:  # fmt: skip
    if calm:  # NULLs and disorder in few pushes, so that the fused path is left and found again
        kinds = [
            (count, nulls and at % 3 == 1, ordered or at % 4 != 2) for at, (count, nulls, ordered) in enumerate(kinds)
        ]
    case = Case(
        PREDICATES[predicate], windows()[window], SCHEMA.empty_table(), SCHEMA.empty_table(), pushes(kinds, seed)
    )
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, small_push_rows=8, small_push_pairs=60, push_spread=12)
        tune(patch, run_matches=1, most_run_matches=100, run_rest=2)
        follow(case, output, algorithm=algorithm, threads=threads)
    event(f"{len(kinds)} pushes")


HAND_OVERS = {
    # All that a table of cells has: a few rows in one call, more rows, and what the fused path does not take.
    "auto": {(one, two) for one in ("small", "cells", "general") for two in ("small", "cells", "general")},
    "bi_sort": {(one, two) for one in ("runs", "general") for two in ("runs", "general")},
}


@pytest.mark.parametrize("output", ["probe", "none"])
@pytest.mark.parametrize("algorithm", ["auto", "bi_sort"])
def test_every_hand_over_happens(algorithm: str, output: str, taken: list[str]) -> None:
    small, larger, general = (3, False, True), (9, False, True), (9, False, False)
    order = [
        small,
        small,
        small,
        general,
        small,
        small,
        general,
        larger,
        larger,
        small,
        general,
        general,
        small,
        larger,
        general,
        larger,
        small,
    ] * 3
    case = Case(
        BAND, windows()["count"], SCHEMA.empty_table(), SCHEMA.empty_table(), pushes([(60, False, True), *order], 7)
    )
    follow(case, output, algorithm=algorithm, threads=2)
    seen = set(pairwise(taken))
    assert seen >= HAND_OVERS[algorithm]


def test_a_batch_that_was_not_accepted_is_not_run() -> None:
    join = sj.StreamJoin(on="l.a = r.b", window=sj.CountWindow(9), schemas=(SCHEMA, SCHEMA))
    fused = join._state.operator.fused
    assert fused is not None
    with pytest.raises(RuntimeError, match="accepted just before"):
        fused.run(None, {})


def test_accepting_changes_nothing_that_a_snapshot_or_an_answer_shows() -> None:
    from slidejoin.operator.push import PushBatch

    join = sj.StreamJoin(on="l.a = r.b", window=sj.CountWindow(40), schemas=(SCHEMA, SCHEMA))
    for push in pushes([(25, True, True), (3, False, True), (9, False, True)], 3):
        join.push(**push.arguments())
    operator, before = join._state.operator, join.snapshot()
    assert operator is not None
    assert operator.fused is not None
    for kind in ((3, False, True), (9, False, True), (3, True, True), (9, False, False)):
        (push,) = pushes([kind], 4)
        batch = PushBatch({"left": push.left, "right": push.right}, "ts", operator.clock, operator.ingest)
        for _ in range(2):
            operator.fused.accepts(batch)
        again = join.snapshot()
        assert len(again) == len(before)
        restored, same = sj.StreamJoin.restore(before), sj.StreamJoin.restore(again)
        assert restored.push(**push.arguments()).equals(same.push(**push.arguments()))
        assert restored.stats.rows_left == same.stats.rows_left
