"""Benchmarks to run on your own machine, each beside its baselines: the cases of ``slidejoin bench CASE``."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from slidejoin.bench.report import Report

__all__ = ["CASES", "run_case"]

CASES = {
    "tasks": "five real tasks in rows a second, beside Polars, DuckDB and, with --spark, Spark's own join",
    "terms": "predicates of several terms in rows a second, beside Polars, DuckDB and po_join",
    "multi": "three and four streams in rows a second, beside DuckDB asked once a push",
    "band": "rows a second of a band join, beside Polars, DuckDB, NumPy and a nested loop",
    "equi": "the same for equality",
    "less": "the same for a one-sided range, l.k < r.k - distance",
    "inequality": "SPO-Join's figures: two inequalities, beside the paper's baselines and auto",
    "types": "outer, semi, anti and as-of joins and aggregates, beside the inner join, Polars and counts",
    "topologies": "SplitJoin's and CellJoin's figures: joins over 1 and 2 cores, more of them simulated",
    "latency": "times of single pushes, beside the machine's own jitter",
    "overload": "latency and rows a second over the offered load, through a Feed and pushing each put alone",
    "scaling": "rows a second over the size of the window, with one thread and with several",
    "startup": "import, first push and compilation in fresh processes",
    "spark": "the join on Spark Structured Streaming, beside Spark's own join and a query that only reads",
    "routing": "copies that the strategies on Spark send, and the balance of the buckets; needs no Spark",
    "machine": "random cache lines and bytes a second that memory gives",
}
"""Each case in a line."""

THROUGHPUT = ("band", "equi", "less")


def run_case(case: str, **options: Any) -> Report:
    """Run one case and return its report.

    Parameters
    ----------
    case : str
        One of `CASES`.
    **options
        See ``run`` in the module of the case, such as `slidejoin.bench.throughput.run`; None counts as not given.

    Raises
    ------
    ConfigError
        For an unknown case, or an option that it does not take.
    """
    if case not in CASES:
        msg = f"bench: unknown case {case!r}; the cases are {', '.join(CASES)}.{nearest(case, CASES)}"
        raise ConfigError(msg)
    # Loaded now: they load NumPy, Numba and PyArrow.
    run: Callable[..., Report] = import_module(f"slidejoin.bench.{'throughput' if case in THROUGHPUT else case}").run
    if case in THROUGHPUT:
        run = partial(run, operation=case)
    given = {name: value for name, value in options.items() if value is not None}
    taken = _options(run)
    for name in given:
        if name not in taken:
            msg = f"bench {case}: takes no {name}; it takes {', '.join(taken)}"
            raise ConfigError(msg)
    if case != "startup":
        _compile()
    return run(**given)


def _compile() -> None:
    """Compile everything before timing starts, so that neither this process nor the background one compiles later."""
    from slidejoin.kernels.jit.compiling import load  # noqa: PLC0415 - loads Numba
    from slidejoin.kernels.jit.registry import KERNELS  # noqa: PLC0415
    from slidejoin.kernels.jit.warming import compile_all  # noqa: PLC0415

    compile_all()
    for kernel, _ in KERNELS:
        if kernel.__module__.startswith(f"{__name__}."):
            load(kernel)


def _options(run: Callable[..., Report]) -> tuple[str, ...]:
    """Return the names of the options that a case takes, those of `Workload` where it passes them on."""
    from dataclasses import fields  # noqa: PLC0415 - see below

    from slidejoin.bench.workload import Workload  # noqa: PLC0415 - loads NumPy and PyArrow

    parameters = signature(run).parameters.values()
    names = [one.name for one in parameters if one.kind is not Parameter.VAR_KEYWORD and one.name != "operation"]
    if any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
        names += [one.name for one in fields(Workload) if one.name not in {"operation", *names}]
    return tuple(names)
