"""The Spark session of the command: quiet, local unless the job file says otherwise, with RocksDB state.

Python workers start, and load what a join needs, while the query is being prepared.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import uuid
import warnings
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from threading import Event, Thread
from typing import TYPE_CHECKING

from slidejoin.cli.connectors import connector_settings
from slidejoin.cli.java import java
from slidejoin.cli.lake_tables import lake_settings
from slidejoin.cli.run_folder import run_folder
from slidejoin.cli.secrets import NAMES
from slidejoin.cli.stopping import interruptible
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.runtime.threads import cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from slidejoin.cli.job import Session
    from slidejoin.cli.run_folder import RunFolder

__all__ = ["spark_session", "workers_starting"]


def defaults(cores: int) -> dict[str, str]:
    """Return the settings of a job on one machine, those advised among them; a job file may replace any of them."""
    from slidejoin.spark.job.settings import advised_settings  # noqa: PLC0415 - belongs to an extra

    return advised_settings(cores) | {
        "spark.sql.session.timeZone": "UTC",
        # Spark's own default is a format that other readers take for wall times, in nanoseconds.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": NAMES,
        "spark.sql.redaction.options.regex": f"{NAMES}|url",
    }


def cores_of(master: str) -> int:
    """Return how many cores a local master has; those of this machine for other masters.

    Examples
    --------
    >>> cores_of("local[4]"), cores_of("local")
    (4, 1)
    """
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if local is None or local[1] == "*":
        return cores()
    return int(local[1] or 1)


@contextmanager
def spark_session(
    settings: Session, name: str, *, json: bool = False, stop: Event | None = None, locks: Sequence[int] = ()
) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end.

    What the Java machine and Python workers write to their standard error goes to a file, which is named in a note of
    an error and removed otherwise.

    Parameters
    ----------
    settings : Session
        From the job file.
    name : str
        Of the application.
    json : bool
        Standard output is for machines: what Spark itself prints there (the console sink) goes to standard error.
    stop : threading.Event, optional
        Set when the command is to stop.
    locks : sequence of int
        Descriptors of locks that the Java process holds as long as it runs.

    Raises
    ------
    SlideJoinError
        If pyspark is missing or Spark does not start.
    Stopped
        If a stop is requested while Spark starts.
    """
    _check(settings)
    _quiet()
    folder = run_folder()
    _environment(settings, folder)
    handle, log = folder.new_log()
    try:
        spark = interruptible(
            lambda: _started(settings, name, handle, json=json, locks=locks), stop or Event(), java.give_up
        )
    except Exception as error:
        folder.keep(log)
        raise SlideJoinError(_start_failure(error, log, settings)) from error
    finally:
        os.close(handle)
    java.serves()
    _activate(spark)
    keep = False
    try:
        yield spark
    except ConfigError:
        raise  # the message says it all
    except Exception as error:
        keep = True
        error.add_note(f"Spark's log: {log}")
        raise
    finally:
        spark.stop()
        if keep:
            folder.keep(log)
        else:
            log.unlink(missing_ok=True)


def _activate(spark: SparkSession) -> None:
    """Make the session that of this thread in Java too: it was started by another one."""
    of_java = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]  # noqa: SLF001 - the only way
    with suppress(Exception):  # a version of Spark where it has another name looks for the default one
        of_java.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - as above


def _environment(settings: Session, folder: RunFolder) -> None:
    """Let Python workers run this Python, and a local Spark listen on this machine alone."""
    from slidejoin.spark.job.spark_home import use_unzipped_home  # noqa: PLC0415 - belongs to an extra

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    use_unzipped_home(settings.master, settings.conf, folder.path / "home")


def _started(settings: Session, name: str, log: int, *, json: bool, locks: Sequence[int]) -> SparkSession:
    """Start Java and a session in it."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra, and slow to load

    folder = run_folder()
    values = defaults(cores_of(settings.master)) | _local(folder) | dict(settings.conf) | connector_settings(settings)
    values |= lake_settings(settings, cores_of(settings.master) if settings.master.startswith("local") else 0)
    java.start(
        {"spark.master": settings.master, "spark.app.name": name} | values,
        folder.path,
        log,
        json=json,
        locks=(folder.lock, *locks),
    )
    builder = SparkSession.builder.appName(name).master(settings.master)
    for key, value in values.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _local(folder: RunFolder) -> dict[str, str]:
    """Return the settings by which Spark keeps its own temporary files in that folder."""
    settings = {}
    if "SPARK_LOCAL_DIRS" not in os.environ:
        settings["spark.local.dir"] = str(folder.folder("local"))
    if not re.search(r"""[\s"'\\]""", str(folder.path)):  # it would have to be quoted
        settings["spark.driver.defaultJavaOptions"] = f"-Djava.io.tmpdir={folder.folder('java')}"
    return settings


def _quiet() -> None:
    """Keep pyspark from writing errors to standard error that it raises too, and warnings about itself."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - an extra

    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _check(settings: Session) -> None:
    """Check packages and, where Spark runs on this machine, Java, before anything slow is loaded."""
    try:
        from slidejoin.spark.job.checks import check_java, check_packages  # noqa: PLC0415 - belongs to an extra
    except ModuleNotFoundError as error:
        msg = f'running jobs needs Spark, and {error.name} is not installed: pip install "slidejoin[spark]"'
        raise SlideJoinError(msg) from error
    try:
        check_packages()
    except SlideJoinError as error:
        if find_spec("pyspark") is None:
            msg = f"{error}. Or run the job in this process: --engine embedded"
            raise SlideJoinError(msg) from error
        raise
    if settings.master.startswith("local"):
        check_java()


def _start_failure(error: Exception, log: Path, settings: Session) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    first = str(error).strip().partition("\n")[0]
    last = f" The last of its log: {' / '.join(lines[-3:])}." if lines else ""
    return f"Spark did not start with master {settings.master!r}: {first}.{last} Spark's log: {log}"


log = logging.getLogger(__name__)

CANCELLING = 0.2
"""Seconds between two attempts to cancel the job that starts workers."""


@contextmanager
def workers_starting(session: SparkSession, cache: str | None) -> Iterator[None]:
    """Start the Python workers of a local session meanwhile, one for each core, and let them load what a join needs.

    The first micro-batch of a query would wait a second for that. If it fails, the query tells why.
    """
    context, over, tag = session.sparkContext, Event(), f"slidejoin-workers-{uuid.uuid4().hex}"

    def start() -> None:
        from slidejoin.spark.job.interpreter import workers_run_this_python  # noqa: PLC0415 - belongs to an extra

        count = min(context.defaultParallelism, cores())
        try:
            context.addJobTag(tag)
            # As for a join's functions, or it would get other workers.
            with workers_run_this_python(session):
                rows = session.range(0, count, 1, count).mapInArrow(_loading(cache), "id long")
            if not over.is_set():
                rows.write.format("noop").mode("overwrite").save()
        except Exception:
            log.debug("Python workers could not be started ahead", exc_info=True)

    thread = Thread(target=start, name="slidejoin-workers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        while thread.is_alive():
            # It may not have begun yet.
            context.cancelJobsWithTag(tag)
            thread.join(CANCELLING)


def _loading(cache: str | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for workers that loads what a join needs; nested, so that it is pickled by value."""

    def loading(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from slidejoin.spark.bucket import join_bucket  # noqa: F401, PLC0415 - to be loaded
        from slidejoin.spark.job.workers import ready  # noqa: PLC0415 - in the worker

        ready(cache)
        yield from batches

    return loading
