"""A checkpoint that has lost or altered anything of its state ends the query, or does not matter: never other rows.

Without Spark: what a state store has is harmed value by value, and version by version, as a lost changelog or snapshot
would do it. With Spark: the files themselves are harmed, and Spark's checksums of them taken away.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import zlib
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.errors import StateError
from slidejoin.spark.state.blocks import HEADER, MAGIC_WITHOUT_OWNER
from slidejoin.spark.state.lineage import STORE
from tests.spark.feeds import SECOND, Feed, Row, expected
from tests.spark.killing import LATENESS, LAW, LENGTH, ON, streams
from tests.spark.stores import Place, Query, apply_changes, changes, flat, wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

Store = dict[tuple[str, int], Any]
Batch = dict[str, list[Row]] | None
"""None: a micro-batch that calls no bucket."""

SEEDS, RESTARTS = 2, 1
"""Histories of state stores, of each join; restarts of Spark's query, each on a damaged checkpoint."""
NIGHTLY = int(os.environ.get("SLIDEJOIN_DAMAGED_RESTARTS", "200"))
"""The latter in ``make nightly``, and as many of the former."""
BEFORE, AFTER = 9, 3
"""Micro-batches before and behind the restart."""

JOINS: dict[str, dict[str, Any]] = {
    "pairs": {"window": sj.TimeWindow(f"{LENGTH} seconds", on="ts")},
    "counts": {"window": sj.TimeWindow(f"{LENGTH} seconds", on="ts"), "output": "count"},
    "rows": {"window": sj.CountWindow(left=37, right=29, slide=3), "order_by": "id"},
    "full": {"window": sj.TimeWindow(f"{LENGTH} seconds", on="ts"), "how": "full"},
    "semi": {
        "window": sj.TimeWindow(f"{LENGTH} seconds", on="ts"),
        "how": "left_semi",
        "strategy": "grid",
        "partitions": 3,
    },
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
        All versions of each state store, that of the sequencer of a count window and those of homes too.
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
        found |= {f"home {home}": variables.store for home, variables in self.query.homes.items()}
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
        # Timers are Spark's own; that a lost one is noticed is tested by itself.
        places = sorted((one for one in flat(store).items() if one[0][0] != "timers"), key=repr)
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
    spec = wire(cache, ON, **{"strategy": "cell", "partitions": 2} | JOINS[joined])
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
    for home, variables in query.homes.items():
        variables.store = stores[f"home {home}"]
    if "sequencer" in stores:
        query.sequencer.store = stores["sequencer"]
    return query


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.nightly] if seed >= SEEDS else []) for seed in range(NIGHTLY)]
)
def test_lost_or_altered_state_never_changes_the_rows(joined: str, tmp_path: Path, seed: int) -> None:
    outcomes = []
    draw = random.Random(f"{joined} {seed}")
    batches = batches_of(draw)
    if joined == "full":
        # A micro-batch that calls no bucket does not notice by itself that a timer is lost, only the next one does.
        batches[-AFTER:] = [batch or {"left": [], "right": []} for batch in batches[-AFTER:]]
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


def test_state_that_is_lost_is_not_taken_for_new(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, ON, sj.TimeWindow("10 seconds", on="ts"), "cell", partitions=2))
    query.micro_batch({"left": [(1, 1, None, SECOND)], "right": []})
    query.state[0].store.clear()
    with pytest.raises(
        StateError, match="bucket 0 has no state, but micro-batch 1 must continue from the state after micro"
    ):
        query.micro_batch({"left": [], "right": [(2, 1, None, SECOND)]})


def test_state_of_an_earlier_micro_batch_is_refused(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, ON, sj.TimeWindow("10 seconds", on="ts"), "cell", partitions=2))
    query.micro_batch({"left": [(1, 1, None, SECOND)], "right": []})
    before = copy.deepcopy(query.state[0].store)
    query.micro_batch({"left": [], "right": []})
    query.state[0].store = before
    with pytest.raises(
        StateError, match="bucket 0 has the state after micro-batch 0, but micro-batch 2 must continue from"
    ):
        query.micro_batch({"left": [], "right": [(2, 1, None, SECOND)]})


def test_micro_batches_that_call_no_bucket_are_none_that_were_lost(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, ON, sj.TimeWindow("10 seconds", on="ts"), "cell", partitions=2), one_store=True)
    query.idle()
    query.micro_batch({"left": [(1, 1, None, SECOND)], "right": []})
    query.idle()
    query.idle()
    query.micro_batch({"left": [], "right": [(2, 1, None, SECOND)]})
    query.micro_batch({"left": [], "right": []})
    query.idle()
    query.micro_batch({"left": [], "right": [(3, 1, None, SECOND)]})
    assert query.pairs() == [(1, 2), (1, 3)]


def test_segment_in_the_place_of_another_one_is_refused(tmp_path: Path) -> None:
    """Both have as many rows, and checksums that are right."""
    query = Query(wire(tmp_path, "l.x = r.x", sj.TimeWindow("10 seconds", on="ts"), "hash", partitions=1))
    query.micro_batch({"left": [(1, 1, None, SECOND)], "right": [(2, 2, None, SECOND)]})
    kept = query.state[0].segments.kept
    one, other = sorted(kept)
    kept[one], kept[other] = kept[other], kept[one]
    shutil.rmtree(tmp_path)
    with pytest.raises(
        StateError, match=r"segment 0-\d-\w+ of the join's state is damaged: .* do not match the checksum"
    ):
        query.micro_batch({"left": [(3, 2, None, SECOND)], "right": []})


def test_manifest_of_another_bucket_is_refused(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, ON, sj.TimeWindow("10 seconds", on="ts"), "cell", partitions=2))
    query.micro_batch({"left": [], "right": []})
    query.state[0].manifest.kept = query.state[2].manifest.kept
    with pytest.raises(StateError, match="the manifest of bucket 0 is that of bucket 2"):
        query.micro_batch({"left": [], "right": []})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "the description of the join is missing from the state of bucket 0"),
        (("{}",), "the description of the join in the state of bucket 0 is damaged: '{}'"),
        (("{",), "the description of the join in the state of bucket 0 is damaged: '{'"),
    ],
)
def test_description_of_the_join_is_checked(tmp_path: Path, value: Any, message: str) -> None:
    query = Query(wire(tmp_path, ON, sj.TimeWindow("10 seconds", on="ts"), "cell", partitions=2))
    query.micro_batch({"left": [], "right": []})
    query.state[0].join.kept = value
    with pytest.raises(StateError, match=message):
        query.micro_batch({"left": [], "right": []})


def test_sequencer_that_has_lost_its_totals_is_refused_by_the_buckets(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, "l.x = r.x", sj.CountWindow(2), "hash", order_by="ts", partitions=2))
    query.micro_batch({"left": [(1, 1, None, 0)], "right": []})
    query.sequencer.store.clear()
    message = (
        "the sequencer has numbered 0 left and 0 right rows before this micro-batch, but bucket 0 has received 1 left"
    )
    with pytest.raises(StateError, match=message):
        query.micro_batch({"left": [], "right": [(2, 1, None, 0)]})


def as_format_2(history: History) -> None:
    """Take from all stores what format 3 has and the one before had not."""
    stores = {id(variables.store): variables.store for variables in history.query.state.values()}
    for store in stores.values():
        for name, key in list(store):
            if key == STORE:
                del store[name, key]
            elif name == "manifest":
                plain = json.loads(store[name, key][0])
                for new in ("bucket", "batch", "join", "arrived", "crc"):
                    del plain[new]
                store[name, key] = (json.dumps(plain | {"format": 2}).encode(),)
            elif name == "segments":
                store[name, key] = {part: (without_owner(data),) for part, (data,) in store[name, key].items()}
    totals = history.query.sequencer.totals
    if totals.kept is not None:
        plain = json.loads(totals.kept[0])
        totals.kept = (json.dumps({"format": 2, "left": plain["left"], "right": plain["right"]}),)


def without_owner(data: bytes) -> bytes:
    header = np.frombuffer(data, HEADER, 1).copy()
    header["magic"], header["crc"] = MAGIC_WITHOUT_OWNER, zlib.crc32(data[HEADER.itemsize :])
    return header.tobytes() + data[HEADER.itemsize :]


@pytest.mark.parametrize("joined", [name for name in JOINS if name not in {"full", "semi"}], indirect=True)
def test_state_of_the_format_before_is_read(joined: str, tmp_path: Path) -> None:
    """It had inner joins alone."""
    batches = batches_of(random.Random(joined))
    if batches[-AFTER] is None:
        batches[-AFTER] = {"left": [], "right": []}
    history, rows = history_of(joined, tmp_path, batches)
    as_format_2(history)
    shutil.rmtree(tmp_path, ignore_errors=True)
    query = history.query
    assert outcome(query, batches[-AFTER:], rows, []) == "same"
    formats = {json.loads(one.manifest.kept[0])["format"] for one in query.state.values() if one.manifest.kept}
    assert formats == {3}


def test_one_flipped_bit_does_not_make_a_record_one_of_the_format_before(tmp_path: Path) -> None:
    query = Query(wire(tmp_path, ON, sj.TimeWindow("10 seconds", on="ts"), "cell", partitions=2))
    query.micro_batch({"left": [], "right": []})
    manifest = query.state[0].manifest
    assert manifest.kept is not None
    manifest.kept = (manifest.kept[0].replace(b'"format":3', b'"format":2'),)
    with pytest.raises(
        StateError, match="the manifest of bucket 0 is damaged: it says format 2, which has no checksum"
    ):
        query.micro_batch({"left": [], "right": []})


CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
CACHE = "spark.slidejoin.cacheDir"
KINDS = {"snapshots": (("false", 5),), "changelogs": (("false", 3), ("true", 3))}
"""How checkpoints were written: by snapshots (archives and tables) or changelogs, and how many micro-batches so."""
BEHIND = 2
"""Micro-batches behind the restart."""


def query_of(feed: Feed, checkpoint: Path, out: dict[int, list[tuple[int, int]]]) -> None:
    """Run a query to the end of its input, and take what each micro-batch puts out as a sink does: whole."""
    from slidejoin.spark import stream_join

    def take(rows: DataFrame, batch: int) -> None:
        out[batch] = sorted((row["id"], row["id_right"]) for row in rows.collect())

    window = sj.TimeWindow(f"{LENGTH} seconds", on="ts", lateness=f"{LATENESS} seconds")
    joined = stream_join(
        feed.stream("left"), feed.stream("right"), on=ON, window=window, strategy="cell", partitions=2
    ).select("id", "id_right")
    query = joined.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    assert query.trigger(availableNow=True).start().awaitTermination(300)


@dataclass
class Checkpoint:
    """A query that has stopped, with more input to come.

    Attributes
    ----------
    rows : dict of int to list
        What the micro-batches behind the restart put out if nothing is harmed.
    """

    feed: Feed
    folder: Path
    rows: dict[int, list[tuple[int, int]]]


@pytest.fixture(scope="module")
def checkpoint_of(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Checkpoint]]:
    """Make the checkpoint of a kind where it is needed first."""
    settings = {name: spark.conf.get(name) for name in (CHANGELOG, CACHE)}

    @cache
    def made(kind: str) -> Checkpoint:
        parts = KINDS[kind]
        feed, batches = Feed(spark, tmp_path_factory.mktemp(kind)), streams(sum(count for _, count in parts) + BEHIND)
        folder, place = feed.folder / "checkpoint", 0
        rows: dict[int, list[tuple[int, int]]] = {}
        spark.conf.set(CACHE, str(settings[CACHE]))
        for changelogs, count in parts:
            spark.conf.set(CHANGELOG, changelogs)
            feed.add(batches[place : place + count])
            place += count
            query_of(feed, folder, rows)
        feed.add(batches[place:])
        checkpoint = Checkpoint(feed, folder, {})
        spark.conf.set(CACHE, str(feed.folder / "no cache"))
        query_of(feed, copied(checkpoint, "undisturbed"), checkpoint.rows)
        rows |= checkpoint.rows
        assert sorted(pair for pairs in rows.values() for pair in pairs) == expected(
            batches, LAW, LENGTH * SECOND, LATENESS * SECOND
        )
        spark.conf.set(CACHE, str(settings[CACHE]))
        return checkpoint

    yield made
    for name, value in settings.items():
        spark.conf.set(name, str(value))


def copied(checkpoint: Checkpoint, name: str) -> Path:
    """A copy of a checkpoint for one more restart, without checksums of its files."""
    folder = checkpoint.feed.folder / name
    shutil.copytree(checkpoint.folder, folder)
    for path in list(folder.rglob("*.crc")):
        path.unlink()
    return folder


def harm_files(draw: random.Random, state: Path) -> list[str]:
    """Damage some of the files that the state is in."""
    files = sorted(path for path in state.rglob("*") if path.suffix in {".zip", ".sst", ".changelog"})
    told = []
    for path in draw.sample(files, draw.choice([1, 1, 2, 4])):
        kind, data = (
            draw.choice(["flipped", "flipped", "cut", "emptied", "gone", "older"]),
            bytearray(path.read_bytes()),
        )
        match kind:
            case "flipped":
                for _ in range(draw.choice([1, 3])):
                    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            case "cut":
                del data[draw.randrange(len(data)) :]
            case "emptied":
                data.clear()
            case "older":
                data[:] = draw.choice([one for one in files if one.suffix == path.suffix]).read_bytes()
        if kind == "gone":
            path.unlink()
        else:
            path.write_bytes(data)
        told.append(f"{kind} {path.relative_to(state)}")
    return told


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.nightly] if seed >= RESTARTS else []) for seed in range(NIGHTLY)]
)
def test_damaged_files_end_the_query_or_do_not_matter(
    checkpoint_of: Callable[[str], Checkpoint], spark: SparkSession, seed: int
) -> None:
    from pyspark.errors import StreamingQueryException

    draw = random.Random(seed)
    checkpoint = checkpoint_of(draw.choice(sorted(KINDS)))
    folder = copied(checkpoint, f"harmed {seed}")
    if draw.random() < 0.7:
        spark.conf.set(CACHE, str(checkpoint.feed.folder / f"no cache {seed}"))
    told = harm_files(draw, folder / "state")
    out: dict[int, list[tuple[int, int]]] = {}
    refused = ""
    try:
        query_of(checkpoint.feed, folder, out)
    except StreamingQueryException as error:
        refused = str(error)
    shutil.rmtree(folder)
    if refused:
        # An error in Python is ours; RocksDB and its files have Spark's.
        assert "PythonException" not in refused or "slidejoin.errors.StateError: " in refused, told
        assert all(checkpoint.rows.get(batch) == rows for batch, rows in out.items()), told
    else:
        assert out == checkpoint.rows, told
