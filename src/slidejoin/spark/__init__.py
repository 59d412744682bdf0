"""The join on Spark Structured Streaming.

- `stream_join`: two DataFrames, streaming or static, joined into one.
- `multi_join`: two or more DataFrames joined at once.
- `explain_join`: how a join would run, and why.
- `advised_settings`: settings to create a session for joins with.
- `watch`: the progress of joins, micro-batch by micro-batch.
- `inspect_state`: the state of the joins of a checkpoint.
- `repartition_state`: another number of buckets for a stopped query, in a new checkpoint.
- `SparkJoinError`: a join that cannot be built as requested.

Rows of both sides are packed into Arrow blocks, one for each bucket, and joined in the state store by the same operator
as in one process. Importing this package loads neither Spark nor Numba: executors import it before they are ready.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slidejoin.spark.driver.explain import JoinExplanation, StreamsExplanation, explain_join
    from slidejoin.spark.driver.inspect import BucketInfo, CheckpointInfo, JoinInfo, SegmentInfo, inspect_state
    from slidejoin.spark.driver.multi_join import multi_join
    from slidejoin.spark.driver.repartition import repartition_state
    from slidejoin.spark.driver.stream_join import stream_join
    from slidejoin.spark.driver.table_join import TableExplanation
    from slidejoin.spark.job.checks import SparkJoinError, check_java
    from slidejoin.spark.job.settings import advised_settings
    from slidejoin.spark.metrics.watch import JoinProgress, Watch, watch

__all__ = [
    "BucketInfo",
    "CheckpointInfo",
    "JoinExplanation",
    "JoinInfo",
    "JoinProgress",
    "SegmentInfo",
    "SparkJoinError",
    "StreamsExplanation",
    "TableExplanation",
    "Watch",
    "advised_settings",
    "check_java",
    "explain_join",
    "inspect_state",
    "multi_join",
    "repartition_state",
    "stream_join",
    "watch",
]

_HOME = dict.fromkeys(("BucketInfo", "CheckpointInfo", "JoinInfo", "SegmentInfo", "inspect_state"), "driver.inspect")
_HOME |= {
    "SparkJoinError": "job.checks",
    "check_java": "job.checks",
    "stream_join": "driver.stream_join",
    "multi_join": "driver.multi_join",
    "repartition_state": "driver.repartition",
    "advised_settings": "job.settings",
}
_HOME |= dict.fromkeys(("JoinExplanation", "explain_join"), "driver.explain")
_HOME |= {"StreamsExplanation": "driver.explain", "TableExplanation": "driver.table_join"}
_HOME |= dict.fromkeys(("JoinProgress", "Watch", "watch"), "metrics.watch")


# What joins use of pandas is tested with pandas 3; pyspark warns of it at the start of a session and in every worker.
warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562: whatever the name stands for
    """Load a public name when it is first used (PEP 562)."""
    from importlib import import_module

    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in {"pyspark", "pandas", "google"}:
            raise
        from slidejoin.errors import MissingPackageError

        package = "protobuf" if missing == "google" else missing
        msg = f"{__name__}.{name} needs {package}, which is not installed: pip install 'slidejoin[spark]'"
        raise MissingPackageError(msg, name=error.name) from error


def __dir__() -> list[str]:
    """List the public names, loaded or not, and what every module has."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
