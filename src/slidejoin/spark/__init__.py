"""The join on Spark Structured Streaming: `stream_join`.

Rows of both sides are packed into Arrow blocks, one for each bucket, and joined in the state store by the same engine
as in one process. Importing this package loads neither Spark nor Numba: executors import it before they are ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slidejoin.spark.checks import SparkJoinError, check_java
    from slidejoin.spark.explaining import JoinExplanation, explain_join
    from slidejoin.spark.join import stream_join

__all__ = ["JoinExplanation", "SparkJoinError", "check_java", "explain_join", "stream_join"]

_HOME = {
    "JoinExplanation": "explaining",
    "SparkJoinError": "checks",
    "check_java": "checks",
    "explain_join": "explaining",
    "stream_join": "join",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562: whatever the name stands for
    """Load a public name when it is first used (PEP 562)."""
    from importlib import import_module

    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    if _HOME[name] == "checks":
        return getattr(import_module(f"{__name__}.checks"), name)
    from slidejoin.spark.workers import without_compiling

    with without_compiling():
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
