"""Join two live streams on any comparison, over sliding windows counted in rows or in time.

- `StreamJoin`: a join. Push batches of rows in, get tables of pairs out.
- `TableJoin`: a stream with a table: every row of each batch against all rows of the table.
- `join`: two tables at rest, frames or files, in one call.
- `MultiJoin`: a join of up to six streams, on a predicate over all of them.
- `join_streams`: two iterables of batches, joined to their end.
- `Feed`: a bounded queue in front of a join, which waits, drops rows or refuses them when too many come.
- `CountWindow`, `TimeWindow`: which rows can still meet.
- `Nearest`, `Aggregate`: of each left row only the nearest pairs, or aggregates of all.
- `left`, `right`, `stream`, `lit`, `function`, `case`: predicates in Python; SQL text does as well.
- `metrics`: the figures of a running join, under fixed names; `slidejoin.watch` shows them to Prometheus and others.
- `algorithms`: the indexes that ``algorithm=`` takes; `slidejoin.options` sets their parameters.
- `topologies`: the ways to spread a join over cores that ``topology=`` takes.
- `SlideJoinError`: the base class of all errors; `NoIndexWarning`: a predicate compares every row with every row;
  `PartialSchemaWarning`: a table has fewer columns than later ones.
- `slidejoin.spark`: the same join on Spark Structured Streaming.

Names are loaded when they are first used: ``import slidejoin`` alone reads neither Numba nor sqlglot nor Spark, so
that a Spark worker which only unpickles an error, or a command that only prints its version, starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slidejoin.jit.registry import ALL_KERNELS, PAPERS

if TYPE_CHECKING:
    from slidejoin.api.feed import Feed
    from slidejoin.api.join_streams import join_streams
    from slidejoin.api.join_tables import join
    from slidejoin.api.multi_join import MultiJoin
    from slidejoin.api.stream_join import StreamJoin
    from slidejoin.api.table_join import TableJoin
    from slidejoin.errors import (
        AggregateOverflowError,
        ArgumentError,
        ArgumentTypeError,
        ConfigError,
        FeedEmptyError,
        FeedFullError,
        JoinClosedError,
        MemoryLimitError,
        MissingPackageError,
        NoIndexWarning,
        PartialSchemaWarning,
        PredicateError,
        SchemaError,
        SlideJoinError,
        StateError,
    )
    from slidejoin.predicate import case, function, left, lit, right, stream
    from slidejoin.spec.aggregate import Aggregate
    from slidejoin.spec.join_spec import algorithms
    from slidejoin.spec.nearest import Nearest
    from slidejoin.spec.topologies import topologies
    from slidejoin.spec.window import CountWindow, TimeWindow
    from slidejoin.watch.collect import metrics

__version__ = "0.2.0"

__all__ = [
    "Aggregate",
    "AggregateOverflowError",
    "ArgumentError",
    "ArgumentTypeError",
    "ConfigError",
    "CountWindow",
    "Feed",
    "FeedEmptyError",
    "FeedFullError",
    "JoinClosedError",
    "MemoryLimitError",
    "MissingPackageError",
    "MultiJoin",
    "Nearest",
    "NoIndexWarning",
    "PartialSchemaWarning",
    "PredicateError",
    "SchemaError",
    "SlideJoinError",
    "StateError",
    "StreamJoin",
    "TableJoin",
    "TimeWindow",
    "__version__",
    "algorithms",
    "case",
    "function",
    "join",
    "join_streams",
    "left",
    "lit",
    "metrics",
    "right",
    "stream",
    "topologies",
]

_HOME = {
    "Aggregate": "slidejoin.spec.aggregate",
    "AggregateOverflowError": "slidejoin.errors",
    "ArgumentError": "slidejoin.errors",
    "ArgumentTypeError": "slidejoin.errors",
    "ConfigError": "slidejoin.errors",
    "CountWindow": "slidejoin.spec.window",
    "Feed": "slidejoin.api.feed",
    "FeedEmptyError": "slidejoin.errors",
    "FeedFullError": "slidejoin.errors",
    "JoinClosedError": "slidejoin.errors",
    "MemoryLimitError": "slidejoin.errors",
    "MissingPackageError": "slidejoin.errors",
    "MultiJoin": "slidejoin.api.multi_join",
    "Nearest": "slidejoin.spec.nearest",
    "NoIndexWarning": "slidejoin.errors",
    "PartialSchemaWarning": "slidejoin.errors",
    "PredicateError": "slidejoin.errors",
    "SchemaError": "slidejoin.errors",
    "SlideJoinError": "slidejoin.errors",
    "StateError": "slidejoin.errors",
    "StreamJoin": "slidejoin.api.stream_join",
    "TableJoin": "slidejoin.api.table_join",
    "TimeWindow": "slidejoin.spec.window",
    "algorithms": "slidejoin.spec.join_spec",
    "case": "slidejoin.predicate",
    "function": "slidejoin.predicate",
    "join": "slidejoin.api.join_tables",
    "join_streams": "slidejoin.api.join_streams",
    "left": "slidejoin.predicate",
    "lit": "slidejoin.predicate",
    "metrics": "slidejoin.watch.collect",
    "right": "slidejoin.predicate",
    "stream": "slidejoin.predicate",
    "topologies": "slidejoin.spec.topologies",
}


_MODULES = ("options", "spark", "watch")


def _import_kernels() -> None:
    import slidejoin.all_kernels  # noqa: F401, PLC0415 - loads Numba


def _import_papers() -> None:
    import slidejoin.papers  # noqa: F401, PLC0415 - loaded when they are requested


ALL_KERNELS.register(_import_kernels)
PAPERS.register(_import_papers)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562: whatever the name stands for
    """Load `name` from the module that defines it, once (PEP 562)."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    home = _HOME.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not, and what every module has."""
    return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))})
