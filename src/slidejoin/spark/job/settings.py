"""Recommended settings of a Spark session for joins, to pass when the session is created."""

from __future__ import annotations

from slidejoin.arguments import shown, whole_number
from slidejoin.errors import ArgumentError, ArgumentTypeError

__all__ = ["CHANGELOG", "PROVIDER", "RETAINED", "ROCKSDB", "SHUFFLE", "advised_settings"]

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
SHUFFLE = "spark.sql.shuffle.partitions"
RETAINED = "spark.sql.streaming.minBatchesToRetain"


def advised_settings(partitions: int) -> dict[str, str]:
    """Return the settings that a session with joins should have; each with its reason in docs/spark.md.

    Parameters
    ----------
    partitions : int
        State stores of each query, from its first start on; about as many as Spark has cores.

    Returns
    -------
    dict of str to str
        Some hold for the Java machine, so they have to be there before Spark starts.

    Notes
    -----
    No setting names the Python of the workers: with a local master a join has them run the driver's, on a cluster
    ``PYSPARK_PYTHON`` in the environment of the driver says which.

    Raises
    ------
    ArgumentError
        If `partitions` is no whole number of at least 1.

    Examples
    --------
    >>> from slidejoin.spark import advised_settings
    >>> advised_settings(2)["spark.sql.shuffle.partitions"]
    '2'

    ::

        spark = SparkSession.builder.master("local[2]").config(map=advised_settings(2)).getOrCreate()
    """
    number = whole_number(partitions)
    if number is None or number < 1:
        msg = (
            f"partitions must be a whole number, at least 1, about as many as Spark has cores; got {shown(partitions)}"
        )
        raise (ArgumentTypeError if number is None else ArgumentError)(msg)
    # Blocks of rows are large arrays, for which the default collector marks the whole heap in every micro-batch.
    collector = "-XX:+UseParallelGC"
    return {
        # The default of 200 state partitions takes 28 s for a micro-batch of 1,000 rows on two cores, 2 take 0.7 s.
        SHUFFLE: str(number),
        PROVIDER: ROCKSDB,
        CHANGELOG: "true",
        # 100 versions of the state would stay by default; a restart needs the last one.
        RETAINED: "10",
        # Any other value makes Spark add up the size of all columns after each row that goes to Python, which took
        # longer than writing them. This one leaves the limit of rows, `maxRecordsPerBatch`.
        "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
        # Rows are packed and joined by workers with the same environment then: half as many Python processes.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        "spark.driver.extraJavaOptions": collector,
        "spark.executor.extraJavaOptions": collector,
    }
