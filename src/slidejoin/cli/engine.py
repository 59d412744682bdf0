"""Which engine runs a job: Spark, or this process.

``engine = "auto"`` takes Spark where the job file has a table [spark], where its checkpoint is one of Spark, and where
a source, the sink or an expression needs Spark; otherwise this process.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, NamedTuple

from slidejoin.cli.paths import STANDARD, local_path
from slidejoin.errors import ConfigError, MissingPackageError
from slidejoin.pipeline.checkpoint import SPARK, is_embedded
from slidejoin.pipeline.source import OnlySparkError

if TYPE_CHECKING:
    from pathlib import Path

    from slidejoin.cli.embedded import EmbeddedJob
    from slidejoin.cli.job import Engine, Job

__all__ = ["ChosenEngine", "check_engine_of_checkpoint", "chosen_engine"]

EMBEDDED_ONLY = ("arrow",)
"""Formats that Spark has not."""

ENOUGH = "nothing in the job file needs Spark"


class ChosenEngine(NamedTuple):
    """An engine, why it was chosen, and for this process the job as it is ready to run."""

    name: Literal["spark", "embedded"]
    why: str
    prepared: EmbeddedJob | None = None


def chosen_engine(job: Job, engine: Engine | None = None) -> ChosenEngine:
    """Choose the engine of a job.

    Parameters
    ----------
    job : Job
    engine : str, optional
        What the command line says, which goes before the job file.

    Raises
    ------
    ConfigError
        If the engine that is wanted cannot run the job, or for what is wrong with it.
    """
    chosen = _chosen(job, engine)
    if chosen.prepared is None:
        _check_for_spark(job)
    return chosen


def _check_for_spark(job: Job) -> None:
    keys = {f"sources.{source.name}.format": source.format for source in job.sources.values()}
    for where, path in [(f"sources.{one.name}", one.path) for one in job.sources.values()] + [("sink", job.sink.path)]:
        if path == STANDARD:
            msg = f'{where}.path: "-" is for jobs in one process, and this one runs on Spark; give a folder.'
            raise ConfigError(msg)
    if job.join.late_sink is not None:
        msg = (
            "join.late: a sink of late rows is for jobs in one process, and this one runs on Spark; write late = "
            '"emit", and partition_by = ["late_side"] in [sink].'
        )
        raise ConfigError(msg)
    for source in job.sources.values():
        if source.kafka is None and source.bad_rows is not None:
            msg = (
                f"sources.{source.name}.bad_rows: of files is for jobs in one process, and this one runs on Spark; use "
                "the options mode and columnNameOfCorruptRecord of Spark."
            )
            raise ConfigError(msg)
    for key, kind in (keys | {"sink.format": job.sink.format}).items():
        if kind in EMBEDDED_ONLY:
            msg = f"{key}: {kind!r} is for jobs in one process, and this one runs on Spark; use parquet."
            raise ConfigError(msg)


def _chosen(job: Job, engine: Engine | None) -> ChosenEngine:
    wanted = engine or job.engine
    said = f"--engine {engine}" if engine else f'engine = "{job.engine}"'
    if wanted == "spark":
        return ChosenEngine("spark", said)
    checkpoint = _checkpoint(job)
    if wanted == "auto":
        if job.has_spark:
            return ChosenEngine("spark", "the job file has a table [spark]")
        if checkpoint is not None and not is_embedded(checkpoint) and _of_spark(checkpoint):
            return ChosenEngine("spark", "the checkpoint is one of Spark")
    from slidejoin.cli.embedded import prepared  # noqa: PLC0415 - loads PyArrow

    try:
        ready = prepared(job)
    except OnlySparkError as error:
        if wanted == "auto":
            return ChosenEngine("spark", str(error).rstrip("."))
        msg = f'{error} Use another one, or write engine = "spark".'
        raise ConfigError(msg) from error
    except MissingPackageError as error:
        if wanted == "auto" and find_spec("pyspark") is not None:
            return ChosenEngine("spark", str(error).rstrip("."))
        raise
    return ChosenEngine("embedded", ENOUGH if wanted == "auto" else said, ready)


def check_engine_of_checkpoint(job: Job) -> None:
    """Refuse to run a job on Spark whose checkpoint is of a job in one process.

    Raises
    ------
    ConfigError
        If it is one.
    """
    checkpoint = _checkpoint(job)
    if checkpoint is not None and is_embedded(checkpoint):
        msg = (
            f"sink.checkpoint: {checkpoint} is a checkpoint of a job in one process, which Spark cannot read; write "
            'engine = "embedded", or give another checkpoint and another path for the results.'
        )
        raise ConfigError(msg)


def _checkpoint(job: Job) -> Path | None:
    return local_path(job.sink.checkpoint, job.session) if job.sink.checkpoint else None


def _of_spark(folder: Path) -> bool:
    return any((folder / name).exists() for name in SPARK)
