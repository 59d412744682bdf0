"""State variables in memory and micro-batches by hand: the pipeline without Spark, where Spark adds nothing."""

from __future__ import annotations

import pickle
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import StructType

from slidejoin.spark.bucket.counts import sum_counts
from slidejoin.spark.bucket.join_bucket import join_bucket
from slidejoin.spark.driver import assembly
from slidejoin.spark.job.buckets import bucket_ids
from slidejoin.spark.metrics.figures import Figures
from slidejoin.spark.route.pack import pack
from slidejoin.spark.route.sequencing import sequence
from slidejoin.spec.join_spec import make_join_spec
from tests.spark.feeds import Clock, Row, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spec.window import Window


class Value:
    def __init__(self) -> None:
        self.kept: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        return self.kept

    def update(self, value: tuple[Any, ...]) -> None:
        self.kept = value


class Mapped:
    def __init__(self) -> None:
        self.kept: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: N802 - Spark's name
        return self.kept.get(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802
        self.kept[key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802
        del self.kept[key]


class Variables:
    def __init__(self) -> None:
        self.join, self.manifest, self.segments = Value(), Value(), Mapped()


class SequenceVariables:
    def __init__(self) -> None:
        self.join, self.totals = Value(), Value()


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
    order_by = options.pop("order_by", None)
    config = make_join_spec(on=on, window=window, order="none", threads=1, **options)
    frames: Any = {"left": Frame()} if config.self_join else {"left": Frame(), "right": Frame()}
    plan, chosen_strategy = assembly.bound_to(config, frames, window, strategy, buckets=partitions, spread=spread)
    chosen = None if config.select is None else len(config.select)
    session: Any = Session(cache)
    wiring = assembly.wired(
        plan, chosen_strategy, bucket_ids(partitions), chosen, session, streaming=True, order_by=order_by
    )
    made: SparkJoinSpec = pickle.loads(pickle.dumps(wiring))
    return made


class Query:
    """One streaming query: its state, its watermark, and the rows that it has put out.

    The rows of a micro-batch come in as many tasks a side, and their blocks reach the sequencer in any order.
    """

    def __init__(self, wiring: SparkJoinSpec, lateness: int = 0, tasks: int = 1) -> None:
        self.wiring = wiring
        self.tasks = tasks
        self.sequencer = SequenceVariables()
        self.clock = Clock(lateness)
        self.state: dict[int, Any] = defaultdict(Variables)
        self.rows: list[dict[str, Any]] = []
        self.figures: list[dict[str, Any]] = []

    def micro_batch(self, batch: dict[str, list[Row]]) -> None:
        partial = []
        packed = pd.concat(
            [frame.to_pandas() for side, rows in batch.items() for frame in self._packed(side, rows)], ignore_index=True
        )
        if self.wiring.numbered:
            mixed = packed.sample(frac=1, random_state=len(packed))
            frames = sequence(self.wiring, self.sequencer, iter([mixed[:5], mixed[5:]]))
            packed = pd.concat(list(frames), ignore_index=True)
        watermark = None if self.wiring.numbered else self.clock.value // 1000
        for bucket, blocks in packed.groupby("bucket"):
            told = Figures(int(bucket))
            for frame in join_bucket(self.wiring, self.state[bucket], iter([blocks]), watermark, int(bucket), told):
                if self.wiring.partial:
                    partial.append(frame)
                else:
                    self.rows += frame.to_dict("records")
            self.figures.append(told.to_json())
        if partial:
            for _, group in pd.concat(partial).groupby("home"):
                self.rows += sum_counts(pa.Table.from_pandas(group)).to_pylist()
        self.clock.advance(batch)

    def _packed(self, side: str, rows: list[Row]) -> Iterator[pa.RecordBatch]:
        step = -(-len(rows) // self.tasks) or 1
        for task in range(self.tasks):
            part = table_of(rows[task * step : (task + 1) * step])
            yield from pack(self.wiring, side, iter(part.to_batches()), task)

    def pairs(self) -> list[tuple[int, int]]:
        return sorted((row["id"], row["id_right"]) for row in self.rows)

    def segments(self) -> dict[int, int]:
        """Number of segments in the state of each bucket."""
        return {
            bucket: len({key[0].split("/")[0] for key in state.segments.kept}) for bucket, state in self.state.items()
        }
