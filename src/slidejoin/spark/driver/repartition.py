"""Another number of buckets for a query that is stopped: its checkpoint is made again, offline.

::

    OLD state ─▶ segments in files ─▶ one copy of each row ─▶ files of rows for each new bucket
                                                                        │
    a query of one micro-batch, in which each new bucket takes its file into its state ─▶ state, version 1
                                                                        │
    OLD logs of the last micro-batch M, sources ───────────────────────▶ NEW: state after micro-batch M

Spark itself writes the new state, with all that it notes of it; only the names of files change. The query goes on with
micro-batch M + 1, as it would have on OLD, which is only read.
"""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slidejoin.arguments import shown, whole_number
from slidejoin.errors import ArgumentError, ArgumentTypeError, StateError
from slidejoin.spark.bucket.adoption import FormerBucket, LastBatch, move_rows
from slidejoin.spark.bucket.tasks import AdoptHomeTask, AdoptTask, AdoptTotalsTask
from slidejoin.spark.driver.assembly import TIMERS, TIMERS_BY_WATERMARK
from slidejoin.spark.driver.checkpoints import (
    copy_operator,
    copy_without_state,
    kept_settings,
    local_checkpoints,
    logs_of,
    move_operator,
    point_at,
)
from slidejoin.spark.driver.inspect import (
    HOMES,
    JOIN,
    SEQUENCER,
    first_line,
    frame_of,
    inspect_state,
    kept_join,
    operators_of,
    values_of,
    variables_of,
)
from slidejoin.spark.driver.stream_join import MOST_BUCKETS
from slidejoin.spark.job.checks import SparkJoinError, check_packages, check_spark, is_connect, is_local
from slidejoin.spark.job.interpreter import check_python, workers_run_this_python
from slidejoin.spark.job.settings import CHANGELOG, PROVIDER, ROCKSDB, SHUFFLE
from slidejoin.spark.job.workers import compile_ahead
from slidejoin.spark.route.moved_rows import check_movable
from slidejoin.spark.state.described import spec_from_state, with_buckets
from slidejoin.spark.state.variables import KeptVariables, write_out

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from slidejoin.spark.driver.checkpoints import Logs
    from slidejoin.spark.driver.inspect import CheckpointInfo, KeptJoin
    from slidejoin.spark.job.join_spec import SparkJoinSpec

__all__ = ["repartition_state"]

KEYS = {AdoptTask: "bucket", AdoptHomeTask: "home", AdoptTotalsTask: "sequencer"}
"""What the operator is grouped by whose state a task writes."""


def repartition_state(
    spark: SparkSession,
    checkpoint: str,
    partitions: int,
    to: str,
    *,
    stores: int | None = None,
    strategy: str | None = None,
    spread: int = 1,
) -> CheckpointInfo:
    """Make a new checkpoint of a stopped query, with another number of buckets; the former one is only read.

    The same program, with that number as ``partitions`` and the new checkpoint, goes on where the query stopped: with
    the same pairs, rows, watermark and numbers of micro-batches.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        A session with a local master; its settings do not matter.
    checkpoint : str
        What the query has as ``checkpointLocation``; a folder of this machine. The query must not run.
    partitions : int
        Number of buckets of each of its joins from then on.
    to : str
        The new checkpoint, which must not exist.
    stores : int, optional
        Number of state stores, as many as buckets by default. Where the query has other stateful operators, whose
        state cannot be divided again, it stays as it is.
    strategy : {"hash", "cell", "grid", "broadcast", "split", "sub_windows"}, optional
        How rows are routed from then on; as before by default. The program has to say the same.
    spread : int
        Beside `strategy`, as for `stream_join`.

    Returns
    -------
    CheckpointInfo
        The new checkpoint.

    Raises
    ------
    StateError
        If there is no such checkpoint, it is damaged, or of joins whose rows cannot be routed again.
    SparkJoinError
        For a session, a number, or a strategy that does not fit.
    ArgumentError
        For other arguments that cannot be used, such as a new checkpoint that exists.

    Examples
    --------
    >>> from slidejoin.spark import repartition_state
    >>> repartition_state(spark, "/data/matches.checkpoint", 8, "/data/matches.8.checkpoint")  # doctest: +SKIP
    """
    check_packages()
    check_spark(spark)
    if is_connect(spark) or not is_local(spark):
        msg = "buckets are changed by a session on this machine: give one with a local master, such as local[*]"
        raise SparkJoinError(msg)
    check_python(spark)
    old, new = _folder("checkpoint", checkpoint), _folder("to", to)
    if new.exists() or not new.parent.is_dir() or new.is_relative_to(old):
        msg = f"to must be a folder that does not exist, in one that does, and not inside of {old}; got {new}"
        raise ArgumentError(msg)
    if strategy == "auto":
        msg = "strategy='auto' is for a new join; name the one that the rows are to be routed by, or leave it out"
        raise ArgumentError(msg)
    count, places = _number("partitions", partitions), None if stores is None else _number("stores", stores)
    session = spark.newSession()
    rows = operators_of(session, str(old))
    logs = logs_of(old)
    if int(rows[0]["maxBatchId"]) != logs.done:
        msg = (
            f"{old} has the state after micro-batch {rows[0]['maxBatchId']}, and its log of commits says {logs.done}; "
            "start the query once more, and stop it"
        )
        raise StateError(msg)
    places = _stores(rows, count, places)
    joins = [kept_join(session, str(old), row, logs.done) for row in rows if variables_of(row) >= JOIN]
    if not joins:
        inspect_state(session, str(old))  # says what there is instead
    for name, value in kept_settings(old, logs.done).items():
        session.conf.set(name, value)
    session.conf.set(PROVIDER, ROCKSDB)
    # Each store then writes the whole state at once, in one file.
    session.conf.set(CHANGELOG, "false")
    session.conf.set(SHUFFLE, str(places))
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    local_checkpoints(session, str(new.parent))
    compile_ahead(None)
    work = Path(mkdtemp(prefix=f".{new.name}.", dir=new.parent))
    try:
        (work / "new").mkdir()
        copy_without_state(old, work / "new", logs, places)
        with workers_run_this_python(session):
            migration = _Migration(session, old, work, logs)
            _write_state(migration, rows, joins, count, strategy, spread)
        point_at(work / "new", work / "new")
        made = inspect_state(session, str(work / "new"))
        _check(made, migration, count)
        point_at(work / "new", new)
        (work / "new").rename(new)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return replace(made, checkpoint=str(new))


def _folder(name: str, given: object) -> Path:
    text = str(given)
    parsed = urlparse(text)
    if not text or (parsed.scheme not in {"", "file"}):
        msg = (
            f"{name} must be a folder of this machine, got {shown(given)}. Buckets of a checkpoint elsewhere cannot be "
            "changed, not by way of a copy either, since Spark notes in it where it is"
        )
        raise ArgumentTypeError(msg)
    return Path(unquote(parsed.path) if parsed.scheme else text).absolute()


def _number(name: str, given: object) -> int:
    number = whole_number(given)
    if number is None or not 1 <= number <= MOST_BUCKETS:
        msg = f"{name} must be a whole number, at least 1 and at most {MOST_BUCKETS:,}; got {shown(given)}"
        raise (ArgumentTypeError if number is None else ArgumentError)(msg)
    return number


def _is_ours(row: Row) -> bool:
    names = variables_of(row)
    return names >= JOIN or names in (SEQUENCER, HOMES)


def _stores(rows: list[Row], buckets: int, requested: int | None) -> int:
    """Return how many state stores the new checkpoint has."""
    others = {str(row["operatorName"]): int(row["numPartitions"]) for row in rows if not _is_ours(row)}
    if not others:
        return buckets if requested is None else requested
    stores = next(iter(others.values()))
    if requested not in {None, stores}:
        msg = (
            f"the query also has the stateful operators {', '.join(sorted(others))}, whose state in {stores} stores "
            f"cannot be divided again; got stores={requested}. Leave it out"
        )
        raise StateError(msg)
    return stores


def _check(made: CheckpointInfo, migration: _Migration, count: int) -> None:
    """Check that the new state has what was routed to it."""
    for join in made.joins:
        rows, expected = sum(segment.rows for segment in join.segments), migration.rows[join.operator]
        if (len(join.buckets), rows) != (count, expected):
            msg = (
                f"operator {join.operator} of the new checkpoint has {len(join.buckets)} buckets with {rows} rows, "
                f"expected {count} with {expected}: this version of Spark writes state otherwise. Use one that "
                "slidejoin was tested with: 4.3"
            )
            raise StateError(msg)


class _Migration:
    """What all operators of one checkpoint need while they are made again."""

    def __init__(self, session: SparkSession, old: Path, work: Path, logs: Logs) -> None:
        self.session, self.old, self.work, self.logs = session, old, work, logs
        self.queries = 0
        self.rows: dict[int, int] = {}

    def adopt(self, task: type[AdoptTask], spec: SparkJoinSpec, folder: str, last: LastBatch, operator: int) -> None:
        """Write the state of an operator by a query of one micro-batch."""
        self.queries += 1
        place = self.work / f"query-{self.queries}"
        keys = [0] if task is AdoptTotalsTask else list(spec.buckets)
        _write_calls(place / "calls", keys)
        key, timers = KEYS[task], task is AdoptTask and spec.has_timers
        calls = self.session.readStream.schema("key bigint, at timestamp").parquet(str(place / "calls"))
        calls = calls.withColumnRenamed("key", key)
        # As the join's operator has one; with the first micro-batch there is none yet.
        calls = calls.withWatermark("at", "0 seconds") if timers else calls
        processor = task(pickle.dumps(spec), folder, last)
        mode = TIMERS_BY_WATERMARK if timers else TIMERS
        nothing = calls.groupBy(key).transformWithStateInPandas(processor, f"{key} bigint", "Append", mode)
        writer = nothing.writeStream.format("noop").option("checkpointLocation", str(place / "checkpoint"))
        try:
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
        except Exception as error:
            msg = f"the state of operator {operator} cannot be written: {first_line(error)}"
            raise StateError(msg) from error
        move_operator(place / "checkpoint", self.work / "new", operator, self.logs.done)
        shutil.rmtree(place)


def _write_calls(folder: Path, keys: list[int]) -> None:
    folder.mkdir(parents=True)
    # Spark drops what is not above the watermark, with 0 for none.
    times = pa.array(np.ones(len(keys), np.int64)).cast(pa.timestamp("s", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"key": pa.array(keys, pa.int64()), "at": times}), folder / "calls.parquet")


def _write_state(
    migration: _Migration, rows: list[Row], joins: list[KeptJoin], count: int, strategy: str | None, spread: int
) -> None:
    """Write the state of all operators."""
    specs = []
    for join in joins:
        if not join.described:
            msg = f"operator {join.operator} has no state yet: let the query run a micro-batch with rows"
            raise StateError(msg)
        former = spec_from_state(join.described)
        made = with_buckets(former, count, strategy, spread)
        check_movable(former, made)
        specs.append((join, former, made))
    others = [row for row in rows if not _is_ours(row)]
    helpers = [
        (row, _described(migration, int(row["operatorId"]))) for row in rows if variables_of(row) in (SEQUENCER, HOMES)
    ]
    for join, former, made in specs:
        last = LastBatch.of(former, migration.logs.done, join.manifests.values(), join.idle)
        folder = migration.work / f"rows-{join.operator}"
        folder.mkdir()
        _route(migration, join, former, made, folder)
        migration.adopt(AdoptTask, made, str(folder), last, join.operator)
        shutil.rmtree(folder)
        for task, names in ((AdoptTotalsTask, SEQUENCER), (AdoptHomeTask, HOMES)):
            mine = [one for one in helpers if variables_of(one[0]) == names and one[1] == join.described]
            if mine:
                helpers.remove(mine[0])
                migration.adopt(task, made, "", last, int(mine[0][0]["operatorId"]))
    if helpers:
        msg = f"operator {helpers[0][0]['operatorId']} belongs to none of the joins: the checkpoint's state is damaged"
        raise StateError(msg)
    for row in others:
        copy_operator(migration.old, migration.work / "new", int(row["operatorId"]))


def _described(migration: _Migration, operator: int) -> Any:  # noqa: ANN401 - JSON
    """Return which join a sequencer, or the homes of a semi-join, belong to."""
    texts = values_of(migration.session, str(migration.old), operator, "join", migration.logs.done)
    return json.loads(texts[0]["value"][0]) if texts else None


def _route(migration: _Migration, join: KeptJoin, former: SparkJoinSpec, made: SparkJoinSpec, folder: Path) -> None:
    """Write the rows of all segments into files for the new buckets."""
    parts = migration.work / f"parts-{join.operator}"
    segments = frame_of(
        migration.session, str(migration.old), join.operator, "segments", migration.logs.done
    ).selectExpr("key.bucket", "user_map_key.part", "user_map_value.data")
    try:
        segments.foreachPartition(write_out(str(parts)))
    except Exception as error:
        msg = f"the state of operator {join.operator} in {migration.old} cannot be read: {first_line(error)}"
        raise StateError(msg) from error
    buckets = {
        bucket: FormerBucket(manifest, KeptVariables(parts, bucket)) for (_, bucket), manifest in join.manifests.items()
    }
    migration.rows[join.operator] = sum(move_rows(former, made, buckets, str(folder)).values())
    shutil.rmtree(parts, ignore_errors=True)
