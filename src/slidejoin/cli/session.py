"""The Spark session of the command: quiet, local unless the job file says otherwise, with RocksDB state."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.runtime.cores import cores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from slidejoin.cli.job import Session

__all__ = ["spark_session"]


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
def spark_session(settings: Session, name: str, *, json: bool = False) -> Iterator[SparkSession]:
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

    Raises
    ------
    SlideJoinError
        If pyspark is missing or Spark does not start.
    """
    _check(settings)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra, and slow to load

    from slidejoin.spark.job.quiet import output_of_children  # noqa: PLC0415 - belongs to it
    from slidejoin.spark.job.spark_home import use_unzipped_home  # noqa: PLC0415 - belongs to it

    _quiet()
    builder = SparkSession.builder.appName(name).master(settings.master)
    for key, value in (defaults(cores_of(settings.master)) | dict(settings.conf)).items():
        builder = builder.config(key, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    use_unzipped_home(settings.master, settings.conf)
    handle, file = tempfile.mkstemp(prefix="slidejoin-spark-", suffix=".log")
    log = Path(file)
    try:
        with output_of_children(handle, json=json):
            spark = builder.getOrCreate()
    except Exception as error:
        raise SlideJoinError(_start_failure(error, log, settings)) from error
    finally:
        os.close(handle)
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
        if not keep:
            log.unlink(missing_ok=True)


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
    check_packages()
    if settings.master.startswith("local"):
        check_java()


def _start_failure(error: Exception, log: Path, settings: Session) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    first = str(error).strip().partition("\n")[0]
    last = f" The last of its log: {' / '.join(lines[-3:])}." if lines else ""
    return f"Spark did not start with master {settings.master!r}: {first}.{last} Spark's log: {log}"
