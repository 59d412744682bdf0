"""``slidejoin explain``: the plan of a job in words. Spark is started for the schemas, no row is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from slidejoin.cli.pipeline import load_all, result_of
from slidejoin.cli.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from slidejoin.cli.job import Job, Sink

__all__ = ["explain_job"]


def explain_job(job: Job, name: str) -> str:
    """Return how a job would run, and why.

    Raises
    ------
    ConfigError
        If the job could not be started as it is written.
    SlideJoinError
        If Spark does not start.
    """
    from slidejoin.config import make_config  # noqa: PLC0415 - loads Numba, as the next ones do
    from slidejoin.plan import make_plan  # noqa: PLC0415
    from slidejoin.spark.routing import choose_strategy  # noqa: PLC0415

    join = job.join
    with spark_session(job.session, f"slidejoin explain {name}") as spark:
        frames = load_all(spark, job)
        result = result_of(job, frames)
        config = make_config(
            on=join.on,
            window=join.window,
            how=join.how,
            output=join.output,
            select=join.select,
            suffix=join.suffix,
            self_join=join.self_join,
            aliases=join.aliases,
        )
        plan = make_plan(config, _schema(frames[join.left]), _schema(frames[join.right or join.left]))
        strategy = choose_strategy(join.strategy, plan.bound)
        partitions = join.partitions or int(spark.conf.get("spark.sql.shuffle.partitions") or 0)
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in result.schema.fields)
    kind = "streaming" if job.stream else "static"
    sources = [f"source {source.name}: {kind} {source.format} files, {source.path}" for source in job.sources.values()]
    return "\n".join(
        [
            *sources,
            plan.explain(),
            f"on Spark: strategy {strategy}, {partitions} buckets, {job.session.master}",
            f"result: {columns}",
            f"sink: {_sink(job.sink)}",
        ]
    )


def _schema(frame: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415 - slow to load

    fields = []
    for field in frame.schema.fields:
        try:
            kind = to_arrow_type(field.dataType, timezone="UTC")
        except Exception:  # noqa: BLE001 - Spark raises one of several errors for a type that Arrow has not
            kind = pa.null()
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def _sink(sink: Sink) -> str:
    trigger = "once, over all that is there" if sink.interval is None else f"every {sink.interval}"
    where = f", {sink.path}" if sink.path else ""
    return f"{sink.format}{where}; {trigger}"
