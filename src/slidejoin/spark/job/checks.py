"""Checks of a Spark session before a join runs on it, each with an error that says what to set.

Settings are checked, never changed: the state store and the shuffle partitions belong to the whole session.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from importlib import metadata
from typing import TYPE_CHECKING

from slidejoin.arguments import shown
from slidejoin.errors import ArgumentTypeError, SlideJoinError
from slidejoin.spark.job.settings import CHANGELOG, PROVIDER, RETAINED, ROCKSDB, SHUFFLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "SparkJoinError",
    "check_frame",
    "check_java",
    "check_output",
    "check_packages",
    "check_running",
    "check_session",
    "check_spark",
    "check_state_store",
    "is_connect",
]

log = logging.getLogger(__name__)

NEEDED = {"pyspark": "4.1", "pyarrow": "18", "pandas": "2.2", "protobuf": "6.33.5"}
"""Oldest versions that work; transformWithStateInPandas uses protobuf, which pyspark[sql] does not install."""

OLDEST_JAVA = 17
TASKS_A_CORE = 4
MANY_VERSIONS = 100


class SparkJoinError(SlideJoinError, ValueError):
    """The join cannot be built on Spark as requested, or the session lacks what it needs."""


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def check_packages() -> None:
    """Check the Python packages that the pipeline needs in addition to slidejoin's own.

    Raises
    ------
    SparkJoinError
        Naming each package that is missing or too old, and the command that installs them.
    """
    wrong = []
    for package, oldest in NEEDED.items():
        try:
            installed = metadata.version(package)
        except metadata.PackageNotFoundError:
            wrong.append(f"{package} is missing")
            continue
        if _version(installed) < _version(oldest):
            wrong.append(f"{package} is {installed}")
    if wrong:
        needed = ", ".join(f"{package} {oldest}" for package, oldest in NEEDED.items())
        msg = (
            f"{'; '.join(wrong)}. Joins on Spark need at least {needed}, on the driver and on every executor: "
            "pip install 'slidejoin[spark]'"
        )
        raise SparkJoinError(msg)


def check_java() -> int:
    """Find Java, the way that Spark does, and return its major version.

    Raises
    ------
    SparkJoinError
        If there is none, or one older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else shutil.which("java")  # noqa: PTH118 - a command, not a path
    where = "JAVA_HOME" if home else "PATH"
    how = f"install Java {OLDEST_JAVA} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME"
    if not program or not shutil.which(program):
        msg = f"{where} has no Java; {how}"
        raise SparkJoinError(msg)
    shown = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - Java itself
    version = re.search(r'version "(\d+)(?:\.(\d+))?', shown.stderr + shown.stdout)
    major = 0
    if version:
        major = int(version[2] or 0) if version[1] == "1" else int(version[1])
    if major < OLDEST_JAVA:
        msg = f"{where} has Java {major or 'of unknown version'}; {how}"
        raise SparkJoinError(msg)
    return major


def _is_of_pyspark(value: object) -> bool:
    """Whether an object is of a class of pyspark's: classic ones and those of Connect have no base class in common."""
    return any(base.__module__.partition(".")[0] == "pyspark" for base in type(value).__mro__)


def check_frame(name: str, value: object) -> None:
    """Check that an argument is a DataFrame of Spark.

    Raises
    ------
    ArgumentTypeError
        For anything else.
    """
    if _is_of_pyspark(value) and hasattr(value, "isStreaming"):
        return
    msg = (
        f"{name} must be a DataFrame of Spark, got {shown(value)}. Convert other tables with "
        "spark.createDataFrame(…), or join them without Spark by slidejoin.StreamJoin"
    )
    raise ArgumentTypeError(msg)


def check_spark(value: object) -> None:
    """Check that an argument is a session of Spark.

    Raises
    ------
    ArgumentTypeError
        For anything else.
    """
    if _is_of_pyspark(value) and hasattr(value, "readStream"):
        return
    msg = f"spark must be a SparkSession, got {shown(value)}; get one by SparkSession.builder.getOrCreate()"
    raise ArgumentTypeError(msg)


def check_output(output: str) -> None:
    """Refuse ordinals of rows as output.

    Raises
    ------
    SparkJoinError
        For ``output="positions"``.
    """
    if output == "positions":
        msg = (
            "output='positions' numbers rows in arrival order, which on Spark no one process sees; use output='pairs' "
            "with select= and a column that names the row"
        )
        raise SparkJoinError(msg)


def check_state_store(session: SparkSession) -> None:
    """Check that the session keeps state in RocksDB, the only provider that arbitrary stateful processing runs on.

    Raises
    ------
    SparkJoinError
        If another provider is set.
    """
    provider = session.conf.get(PROVIDER, "")
    if provider is None or "RocksDB" not in provider:
        msg = (
            f"{PROVIDER} is {provider or 'not set'}; streaming joins keep their windows in RocksDB. "
            f'Set it before the query starts: spark.conf.set("{PROVIDER}", "{ROCKSDB}"); '
            f'also spark.conf.set("{CHANGELOG}", "true"), which makes small micro-batches cheap. '
            "These settings apply to the whole session, so slidejoin does not change them."
        )
        raise SparkJoinError(msg)


def shuffle_partitions(session: SparkSession) -> int:
    """Return how many partitions the session's state stores have."""
    return int(session.conf.get(SHUFFLE, "200") or 200)


def cores(session: SparkSession) -> int | None:
    """Return how many tasks run at once, None where that is not known (Spark Connect)."""
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - Connect sessions raise one of several errors here
        return None


def check_running(session: SparkSession) -> None:
    """Check that a session has not been stopped.

    Raises
    ------
    SparkJoinError
        If it has.
    """
    if not is_connect(session) and getattr(session.sparkContext, "_jsc", session) is None:
        msg = "the Spark session of the DataFrames is stopped; make them again with a session that runs"
        raise SparkJoinError(msg)


def is_connect(session: SparkSession) -> bool:
    """Whether the session is one of Spark Connect, which has no Java machine, context or accumulators at hand."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def is_local(session: SparkSession) -> bool:
    """Whether the executors are in the driver's own process; not known to be so with Spark Connect."""
    try:
        return str(session.sparkContext.master).startswith("local")
    except Exception:  # noqa: BLE001 - Connect sessions raise one of several errors here
        return False


def is_here(session: SparkSession) -> bool:
    """Whether all executors are on this machine; not known to be so with Spark Connect."""
    try:
        return _reaches_here_alone(str(session.sparkContext.master))
    except Exception:  # noqa: BLE001 - Connect sessions raise one of several errors here
        return False


def _reaches_here_alone(master: str) -> bool:
    """Tell whether no other machine can have registered with a master of that address.

    Examples
    --------
    >>> [_reaches_here_alone(one) for one in ("local[2]", "spark://127.0.0.1:7077", "spark://10.0.0.7:7077", "yarn")]
    [True, True, False, False]
    """
    return master.startswith(("local", "spark://127.", "spark://localhost:"))


def check_session(session: SparkSession) -> None:
    """Warn about settings that make each micro-batch slow, and mention one that makes the checkpoint large."""
    partitions, known = shuffle_partitions(session), cores(session)
    if known is not None and partitions > TASKS_A_CORE * known:
        log.warning(
            "%s is %d on %d cores: every micro-batch opens that many state stores, which takes longer than the join "
            "itself. Set it to about the number of cores before the query first starts; the checkpoint pins it.",
            SHUFFLE,
            partitions,
            known,
        )
    versions = int(session.conf.get(RETAINED, None) or MANY_VERSIONS)
    if versions >= MANY_VERSIONS:
        log.info(
            "%s is %d: the checkpoint keeps the rows of that many micro-batches in addition to the window. A restart "
            "needs only the last one; 10 is usually enough.",
            RETAINED,
            versions,
        )
