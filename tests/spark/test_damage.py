"""A checkpoint that has lost or altered anything of its state ends the query, or does not matter: never other rows.

Without Spark: what a state store has is harmed value by value, and version by version, as a lost changelog or snapshot
would do it. With Spark: the files themselves are harmed, and Spark's checksums of them taken away.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from slidejoin.errors import StateError
from tests.spark.feeds import SECOND, Row
from tests.spark.killing import LENGTH, ON, streams
from tests.spark.stores import Place, Query, apply_changes, changes, flat, wire

if TYPE_CHECKING:
    from pathlib import Path

Store = dict[tuple[str, int], Any]
Batch = dict[str, list[Row]] | None
"""None: a micro-batch that calls no bucket."""

SEEDS = int(os.environ.get("SLIDEJOIN_DAMAGE_SEEDS", "6"))
BEFORE, AFTER = 9, 3
"""Micro-batches before and behind the restart."""

JOINS: dict[str, dict[str, Any]] = {
    "pairs": {"window": sj.TimeWindow(f"{LENGTH} seconds", on="ts")},
    "counts": {"window": sj.TimeWindow(f"{LENGTH} seconds", on="ts"), "output": "count"},
    "rows": {"window": sj.CountWindow(left=37, right=29, slide=3), "order_by": "id"},
}
ONE_STORE = {"counts"}
"""Joins whose buckets all lie in one state store."""


def batches_of(draw: random.Random) -> list[Batch]:
    """Micro-batches of two streams, some of them without any rows, and some without even a call of the buckets."""
    made: list[Batch] = []
    for batch in streams(BEFORE + AFTER, rows=10, seed=draw.randrange(1000)):
        made.append(draw.choice([batch, batch, batch, {"left": [], "right": []}]))
        made += [None] * draw.choice([0, 0, 1, 2])
    return [None] * draw.choice([0, 0, 1]) + made


@dataclass
class History:
    """A query whose state was kept after each of its micro-batches.

    Attributes
    ----------
    stores : dict of str to list
        All versions of each state store, that of the sequencer of a count window too.
    """

    query: Query
    one_store: bool
    stores: dict[str, list[Store]] = field(default_factory=dict)

    def step(self, batch: Batch) -> None:
        if batch is None:
            self.query.idle()
        else:
            self.query.micro_batch(batch)
        for name, store in self.now().items():
            self.stores.setdefault(name, [{}] * self.query.number).append(copy.deepcopy(store))

    def now(self) -> dict[str, Store]:
        found = {self.name(bucket): variables.store for bucket, variables in self.query.state.items()}
        return found | ({"sequencer": self.query.sequencer.store} if self.query.spec.numbered else {})

    def name(self, bucket: int) -> str:
        return "all buckets" if self.one_store else f"bucket {bucket}"


def lost_versions(draw: random.Random, versions: list[Store]) -> tuple[str, Store]:
    """A store that Spark puts together from a snapshot and changelogs, some of which are not what they were."""
    last = len(versions) - 1
    snapshot = draw.randrange(last + 1)
    if draw.random() < 0.3:
        told, store = f"nothing instead of version {snapshot}", {}
    else:
        told, store = f"from version {snapshot}", copy.deepcopy(versions[snapshot])
    for version in range(snapshot, last):
        changed = changes(versions[version], versions[version + 1])
        if version == last - 1 or draw.random() < 0.3:
            match draw.choice(["whole", "none", "part", "again"]):
                case "none":
                    told, changed = f"{told}, none of {version + 1}", {}
                case "part":
                    kept = dict(draw.sample(sorted(changed.items(), key=repr), draw.randrange(len(changed) + 1)))
                    told, changed = f"{told}, {len(kept)} of {len(changed)} changes of {version + 1}", kept
                case "again":
                    other = draw.randrange(last)
                    told = f"{told}, {other + 1} instead of {version + 1}"
                    changed = changes(versions[other], versions[other + 1])
        apply_changes(changed, store)
    return told, store


def harmed_values(draw: random.Random, versions: list[Store]) -> tuple[str, Store]:
    """A store in which some values are gone, altered, or those of another key or time."""
    store = copy.deepcopy(versions[-1])
    told = []
    for _ in range(draw.choice([1, 1, 2, 3])):
        places = sorted(flat(store).items(), key=repr)
        if not places:
            break
        place, value = draw.choice(places)
        kind = draw.choice(["gone", "flipped", "cut", "older", "other", "moved"])
        told.append(f"{kind} {place}")
        apply_changes({place: harmed(draw, kind, place, value, versions)}, store)
        if kind == "moved":
            same = [other for other, _ in places if other[0] == place[0]]
            apply_changes({draw.choice(same): value}, store)
    return ", ".join(told), store


def harmed(draw: random.Random, kind: str, place: Place, value: tuple[Any, ...], versions: list[Store]) -> Any:
    if kind in {"gone", "moved"}:
        return None
    if kind == "older":
        return flat(draw.choice(versions)).get(place)
    if kind == "other":
        everyone = [other for store in versions for at, other in flat(store).items() if at[0] == place[0]]
        return draw.choice(everyone)
    text = isinstance(value[0], str)
    data = bytearray(value[0].encode() if text else value[0])
    if kind == "cut":
        del data[draw.randrange(len(data)) :]
    else:
        for _ in range(draw.choice([1, 2])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(7 if text else 8)
    return (data.decode() if text else bytes(data),)


@pytest.fixture(scope="module", params=JOINS)
def joined(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def history_of(joined: str, cache: Path, batches: list[Batch]) -> tuple[History, list[list[dict[str, Any]]]]:
    """Run a query up to its restart, and on without one; return the rows of all micro-batches behind the restart."""
    spec = wire(cache, ON, strategy="cell", partitions=2, **JOINS[joined])
    query = Query(spec, 5 * SECOND, one_store=joined in ONE_STORE)
    history, rows = History(query, joined in ONE_STORE), []
    for batch in batches[:-AFTER]:
        history.step(batch)
    undisturbed = copy.deepcopy(query)
    for batch in batches[-AFTER:]:
        undisturbed.rows = []
        undisturbed.idle() if batch is None else undisturbed.micro_batch(batch)
        rows.append(sorted(undisturbed.rows, key=repr))
    return history, rows


def restarted(history: History, stores: dict[str, Store]) -> Query:
    """A query that goes on with other stores, and without a cache."""
    query = copy.deepcopy(history.query)
    query.rows = []
    for bucket, variables in query.state.items():
        variables.store = stores[history.name(bucket)]
    if "sequencer" in stores:
        query.sequencer.store = stores["sequencer"]
    return query


@pytest.mark.parametrize("seed", range(SEEDS))
def test_lost_or_altered_state_never_changes_the_rows(joined: str, tmp_path: Path, seed: int) -> None:
    outcomes = []
    draw = random.Random(f"{joined} {seed}")
    batches = batches_of(draw)
    history, expected = history_of(joined, tmp_path, batches)
    for _ in range(8):
        stores = {name: copy.deepcopy(versions[-1]) for name, versions in history.stores.items()}
        told = []
        for name in draw.sample(sorted(stores), draw.choice([1, 1, len(stores)])):
            how = draw.choice([lost_versions, harmed_values])
            what, stores[name] = how(draw, history.stores[name])
            told.append(f"{name}: {what}")
        shutil.rmtree(tmp_path, ignore_errors=True)
        outcomes.append(outcome(restarted(history, stores), batches[-AFTER:], expected, told))
    assert set(outcomes) <= {"refused", "same"}


def outcome(query: Query, batches: list[Batch], expected: list[list[dict[str, Any]]], told: list[str]) -> str:
    for batch, rows in zip(batches, expected, strict=True):
        query.rows = []
        try:
            query.idle() if batch is None else query.micro_batch(batch)
        except StateError:
            return "refused"  # what other buckets have put out of this micro-batch goes nowhere
        assert sorted(query.rows, key=repr) == rows, told
    return "same"
