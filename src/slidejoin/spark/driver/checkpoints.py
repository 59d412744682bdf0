"""How Spark writes checkpoint files on a local disk: through the Hadoop API that starts the fewest processes.

Hadoop's ``FileContext``, Spark's default, starts commands such as ``readlink`` and ``chmod`` for each file on a local
disk: some 50 ms a file, and a micro-batch writes one for each state store, one for each source, and two more. Hadoop's
``FileSystem`` does most of that by system calls, and renames onto an existing file in one step, where ``FileContext``
deletes that file first. On HDFS it is the other way round, so this is for local disks alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slidejoin.spark.job.checks import is_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DELTAS", "MANAGER", "local_checkpoints", "snapshots_for"]

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"

DELTAS = "spark.sql.streaming.stateStore.minDeltasForSnapshot"

SNAPSHOTS = (10, 512)
"""Micro-batches, at least and at most, after which the whole state is written. 10 is Spark's default; a restart reads
the changes since then."""

PLACES = ("org.apache.spark.sql.execution.streaming.checkpointing.", "org.apache.spark.sql.execution.streaming.")
"""Where versions of Spark have the class, newest first."""

CLASS = "FileSystemBasedCheckpointFileManager"


def local_checkpoints(session: SparkSession, *folders: str) -> bool:
    """Make the session's queries use the faster API for checkpoints, if all folders are on this machine's disk.

    Nothing is changed if executors may be on other machines, a folder is elsewhere, or the session has a manager.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        A session of the caller's own: the setting holds for all of its queries.
    folders : str
        Where checkpoints and file sinks write.

    Returns
    -------
    bool
        Whether the setting was changed.
    """
    if not is_here(session) or session.conf.get(MANAGER, None) is not None:
        return False
    java = session.sparkContext._jvm  # noqa: SLF001 - PySpark's only way to Hadoop
    name = _found(java)
    if name is None or not all(_on_disk(session, java, folder) for folder in folders):
        return False
    session.conf.set(MANAGER, name)
    return True


def _found(java: Any) -> str | None:  # noqa: ANN401 - py4j's view of the Java machine
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    for place in PLACES:
        try:
            loader.loadClass(place + CLASS)
        except Exception:  # noqa: BLE001, S112 - what py4j makes of Java's errors
            continue
        return place + CLASS
    return None


def _on_disk(session: SparkSession, java: Any, folder: str) -> bool:  # noqa: ANN401 - as above
    settings = session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
    try:
        return str(java.org.apache.hadoop.fs.Path(folder).getFileSystem(settings).getScheme()) == "file"
    except Exception:  # noqa: BLE001 - no such scheme, which the query will say
        return False


def snapshots_for(spanned: int) -> int:
    """Return after how many micro-batches the whole state is to be written, if windows span so many of them.

    Examples
    --------
    >>> snapshots_for(1), snapshots_for(60), snapshots_for(2000)
    (10, 60, 512)
    """
    least, most = SNAPSHOTS
    return min(max(least, spanned), most)
