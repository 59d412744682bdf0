"""State variables in memory and micro-batches by hand: the pipeline without Spark, where Spark adds nothing."""

from __future__ import annotations

import pickle
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import StructType

from slidejoin.spark.bucket.counts import sum_counts
from slidejoin.spark.bucket.first_partners import output_once
from slidejoin.spark.bucket.join_bucket import join_bucket
from slidejoin.spark.bucket.left_answers import answered
from slidejoin.spark.bucket.scattered_rows import gathered
from slidejoin.spark.driver import assembly
from slidejoin.spark.driver.binding import bound_to
from slidejoin.spark.job.buckets import bucket_ids
from slidejoin.spark.metrics.figures import Figures
from slidejoin.spark.route.pack import pack
from slidejoin.spark.route.sequencing import sequence
from slidejoin.spark.state.lineage import note_idle
from slidejoin.spec.join_spec import make_join_spec
from tests.spark.feeds import Clock, Row, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spec.window import Window


class Value:
    """A `ValueState`: what a store has of one variable under the key that its owner points at."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    @property
    def kept(self) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self.owner.store.get((self.name, self.owner.key))
        return found

    @kept.setter
    def kept(self, value: tuple[Any, ...] | None) -> None:
        self.owner.store[self.name, self.owner.key] = value

    def get(self) -> tuple[Any, ...] | None:
        return self.kept

    def update(self, value: tuple[Any, ...]) -> None:
        self.kept = value


class Mapped:
    """A `MapState` in the same way."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    @property
    def kept(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        found: dict[tuple[Any, ...], tuple[Any, ...]] = self.owner.store.setdefault((self.name, self.owner.key), {})
        return found

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: N802 - Spark's name
        return self.kept.get(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802
        self.kept[key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802
        self.kept.pop(key, None)


class Variables:
    """The variables of a bucket; its state store is its own, or one that buckets share."""

    def __init__(self, store: dict[tuple[str, int], Any] | None = None) -> None:
        self.store = {} if store is None else store
        self.key = 0
        self.join, self.manifest, self.segments = Value(self, "join"), Value(self, "manifest"), Mapped(self, "segments")
        self.timers = Mapped(self, "timers")

    def move_timer(self, before: int | None, after: int | None) -> None:
        if before is not None:
            self.timers.removeKey((before,))
        if after is not None:
            self.timers.updateValue((after,), (b"",))

    def point_at(self, key: int) -> None:
        self.key = key


Place = tuple[str, int, tuple[Any, ...] | None]
"""Of a value in a store: variable, key, and of a `MapState` the key in there."""


def flat(store: dict[tuple[str, int], Any]) -> dict[Place, tuple[Any, ...]]:
    """All values of a store, as Spark has them in one key space."""
    found: dict[Place, tuple[Any, ...]] = {}
    for (name, key), value in store.items():
        inner = value if isinstance(value, dict) else {None: value}
        found |= {(name, key, part): one for part, one in inner.items() if one is not None}
    return found


def changes(before: dict[tuple[str, int], Any], after: dict[tuple[str, int], Any]) -> dict[Place, Any]:
    """What led from one state of a store to another: a changelog, None for what was removed."""
    old, new = flat(before), flat(after)
    changed = {place: value for place, value in new.items() if old.get(place) != value}
    return changed | dict.fromkeys(old.keys() - new.keys())


def apply_changes(changed: dict[Place, Any], store: dict[tuple[str, int], Any]) -> None:
    """Do to a store what a changelog says."""
    for (name, key, part), value in changed.items():
        if part is None:
            store[name, key] = value
        elif value is None:
            store.get((name, key), {}).pop(part, None)
        else:
            store.setdefault((name, key), {})[part] = value


class SequenceVariables:
    def __init__(self) -> None:
        self.store: dict[tuple[str, int], Any] = {}
        self.key = 0
        self.join, self.totals = Value(self, "join"), Value(self, "totals")


class Frame:
    """What building a join reads of a DataFrame."""

    def __init__(self) -> None:
        from pyspark.sql.types import LongType, StringType, StructField, TimestampType

        kinds = {"id": LongType(), "x": LongType(), "name": StringType(), "ts": TimestampType()}
        self.schema = StructType([StructField(name, kind) for name, kind in kinds.items()])


class Session:
    """What building a join reads of a session."""

    def __init__(self, cache: Path) -> None:
        self.conf = {"spark.slidejoin.cacheDir": str(cache)}


def wire(
    cache: Path, on: str, window: Window, strategy: str, partitions: int = 3, spread: int = 1, **options: Any
) -> SparkJoinSpec:
    """A join as it reaches the workers."""
    order_by, streaming = options.pop("order_by", None), options.pop("streaming", True)
    config = make_join_spec(on=on, window=window, order="none", threads=1, **options)
    frames: Any = {"left": Frame()} if config.self_join else {"left": Frame(), "right": Frame()}
    bound = bound_to(config, frames, window, strategy, buckets=partitions, spread=spread)
    chosen = None if config.select is None else len(config.select)
    session: Any = Session(cache)
    spec = assembly.wired(bound, bucket_ids(partitions), chosen, session, streaming=streaming, order_by=order_by)
    made: SparkJoinSpec = pickle.loads(pickle.dumps(spec))
    return made


class Query:
    """One streaming query: its state, its watermark, and the rows that it has put out.

    The rows of a micro-batch come in as many tasks a side, and their blocks reach the sequencer in any order. Each
    bucket has a state store of its own, or all are in one.

    Attributes
    ----------
    number : int
        Of the micro-batch that comes next.
    mixes : bool
        Whether blocks reach buckets in any order, too.
    """

    def __init__(self, spec: SparkJoinSpec, lateness: int = 0, tasks: int = 1, *, one_store: bool = False) -> None:
        self.spec = spec
        self.tasks = tasks
        self.number = 0
        self.mixes = False
        self.sequencer = SequenceVariables()
        self.clock = Clock(lateness)
        store: dict[tuple[str, int], Any] | None = {} if one_store else None
        self.state: dict[int, Any] = defaultdict(partial(Variables, store))
        # Of an operator behind the buckets, if there is one.
        of_homes: dict[tuple[str, int], Any] | None = {} if one_store else None
        self.homes: dict[int, Any] = defaultdict(partial(Variables, of_homes))
        self.rows: list[dict[str, Any]] = []
        self.figures: list[dict[str, Any]] = []

    def micro_batch(self, batch: dict[str, list[Row]]) -> None:
        packed = pd.concat(
            [frame.to_pandas() for side, rows in batch.items() for frame in self._packed(side, rows)], ignore_index=True
        )
        if self.spec.numbered:
            mixed = packed.sample(frac=1, random_state=len(packed))
            frames = sequence(self.spec, self.sequencer, iter([mixed[:5], mixed[5:]]))
            packed = pd.concat(list(frames), ignore_index=True)
        elif self.mixes:
            packed = packed.sample(frac=1)
        blocks = [frame for bucket, rows in packed.groupby("bucket") for frame in self._bucket(int(bucket), rows)]
        self._output(blocks)
        self.clock.advance(batch)
        self.number += 1

    def _bucket(self, bucket: int, blocks: pd.DataFrame | None, fired: int | None = None) -> Iterator[pd.DataFrame]:
        watermark = None if self.spec.numbered else self.clock.value // 1000
        told, variables = Figures(bucket), self.state[bucket]
        variables.point_at(bucket)
        rows = iter([] if blocks is None else [blocks])
        batch = self.number if self.spec.streaming else None
        yield from join_bucket(self.spec, variables, rows, watermark, bucket, batch, told, fired)
        self.figures.append(told.to_json())

    def _output(self, frames: list[pd.DataFrame]) -> None:
        if not self.spec.blocks:
            for frame in frames:
                self.rows += frame.to_dict("records")
        elif frames:
            for home, group in pd.concat(frames).groupby("home"):
                table = pa.Table.from_pandas(group, preserve_index=False)
                if self.spec.partial:
                    self.rows += sum_counts(table).to_pylist()
                elif self.spec.once:
                    for frame in self._once(int(home), group):
                        self.rows += frame.to_dict("records")
                else:
                    gather = answered if self.spec.deferred else gathered
                    for found in gather(self.spec, iter(table.to_batches(max_chunksize=2))):
                        self.rows += found.to_pylist()

    def _once(self, home: int, blocks: pd.DataFrame) -> Iterator[pd.DataFrame]:
        variables = self.homes[home]
        variables.point_at(home)
        mixed = blocks.sample(frac=1, random_state=len(blocks))
        batch = self.number if self.spec.streaming else None
        yield from output_once(self.spec, variables, iter([mixed[:2], mixed[2:]]), home, batch)

    def idle(self) -> None:
        """A micro-batch without any task in front of the buckets, as Spark has them to move the watermark."""
        watermark = self.clock.value // 1000
        frames: list[pd.DataFrame] = []
        for variables in {id(one.store): one for one in map(self.state.__getitem__, self.spec.buckets)}.values():
            own = [bucket for bucket in self.spec.buckets if self.state[bucket].store is variables.store]
            fired = []
            for bucket in own:
                self.state[bucket].point_at(bucket)
                for (timer,) in [due for due in self.state[bucket].timers.kept if due[0] <= watermark]:
                    fired.append(bucket)
                    frames += self._bucket(bucket, None, timer)
                    self.state[bucket].point_at(bucket)
                    self.state[bucket].timers.removeKey((timer,))
            note_idle(variables, self.number, watermark if self.spec.has_timers else None, fired)
        if self.spec.once:
            for variables in {id(one.store): one for one in map(self.homes.__getitem__, self.spec.buckets)}.values():
                note_idle(variables, self.number)
        self._output(frames)
        self.number += 1

    def _packed(self, side: str, rows: list[Row]) -> Iterator[pa.RecordBatch]:
        step = -(-len(rows) // self.tasks) or 1
        for task in range(self.tasks):
            part = table_of(rows[task * step : (task + 1) * step])
            yield from pack(self.spec, side, iter(part.to_batches()), task)

    def pairs(self) -> list[tuple[int, int]]:
        return sorted((row["id"], row["id_right"]) for row in self.rows)

    def segments(self) -> dict[int, int]:
        """Number of segments in the state of each bucket."""
        return {
            bucket: len({key[0].split("/")[0] for key in state.segments.kept}) for bucket, state in self.state.items()
        }
