"""``slidejoin explain``: the plan of a job in words. Spark is started for the schemas, no row is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.cli.checking import check_job
from slidejoin.cli.pipeline import explained, load_all, result_of
from slidejoin.cli.session import spark_session

if TYPE_CHECKING:
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
    check_job(job)
    with spark_session(job.session, f"slidejoin explain {name}") as spark:
        frames = load_all(spark, job)
        result = result_of(job, frames)
        told = explained(job, frames)
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in result.schema.fields)
    kind = "streaming" if job.stream else "static"
    sources = [f"source {source.name}: {kind} {source.format} files, {source.path}" for source in job.sources.values()]
    return "\n".join(
        [
            *sources,
            f"on Spark: {job.session.master}",
            told,
            f"result: {columns}",
            f"sink: {_sink(job.sink)}",
        ]
    )


def _sink(sink: Sink) -> str:
    trigger = "once, over all that is there" if sink.interval is None else f"every {sink.interval}"
    where = f", {sink.path}" if sink.path else ""
    return f"{sink.format}{where}; {trigger}"
