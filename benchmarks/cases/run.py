"""The cases by name, and how each is run: what it times is compiled first."""

from __future__ import annotations

import sys
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.cases import (
    inequality,
    latency,
    multi,
    overload,
    routing,
    scaling,
    startup,
    terms,
    throughput,
    topologies,
    types,
)
from benchmarks.cases.plots import plot_into
from benchmarks.command import main
from slidejoin.bench import CASES as CASES_OF_THE_WHEEL
from slidejoin.bench.case import compile_kernels
from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slidejoin.bench.report import Report

__all__ = ["CASES", "command", "run_case"]


class Case(NamedTuple):
    """A function that measures, and what it measures in a line."""

    run: Callable[..., Report]
    about: str


CASES = {
    "terms": Case(terms.run, "predicates of several terms in rows a second, beside Polars, DuckDB and po_join"),
    "multi": Case(multi.run, "three and four streams in rows a second, beside DuckDB, which joins each push"),
    "band": Case(
        partial(throughput.run, operation="band"),
        "rows a second of a band join, beside Polars, DuckDB, NumPy and a nested loop",
    ),
    "equi": Case(partial(throughput.run, operation="equi"), "the same for equality"),
    "less": Case(partial(throughput.run, operation="less"), "the same for a one-sided range, l.k < r.k - distance"),
    "inequality": Case(inequality.run, "SPO-Join's figures: two inequalities, beside the paper's baselines and auto"),
    "types": Case(
        types.run, "outer, semi, anti and as-of joins and aggregates, beside the inner join, Polars and counts"
    ),
    "topologies": Case(
        topologies.run, "SplitJoin's and CellJoin's figures: joins over 1 and 2 cores, more of them simulated"
    ),
    "latency": Case(latency.run, "times of single pushes, beside the machine's own jitter"),
    "overload": Case(
        overload.run, "latency and rows a second over the offered load, through a Feed and pushing each put alone"
    ),
    "scaling": Case(scaling.run, "rows a second over the size of the window, with one thread and with several"),
    "startup": Case(startup.run, "import, first push and compilation in fresh processes"),
    "routing": Case(
        routing.run, "copies that the strategies on Spark send, and the balance of the buckets; needs no Spark"
    ),
}
"""The cases of ``python -m benchmarks.cases``, in the order in which README.md has them."""

USAGE = "\n".join(
    [
        "usage: python -m benchmarks.cases CASE [options]",
        "",
        "Measure one case on this machine; each has --help, --json and, where there is one, --plot. The cases are:",
        "",
        *(f"  {name:<12}{case.about}" for name, case in CASES.items()),
        "",
    ]
)


def run_case(case: str, **options: Any) -> Report:
    """Compile what is timed, measure one case, and return its report.

    Parameters
    ----------
    case : str
        One of `CASES`.
    **options
        See ``run`` in the module of the case, such as `benchmarks.cases.throughput.run`.

    Raises
    ------
    ConfigError
        For an unknown case or an impossible option.
    """
    return _measuring(case)(**options)


def command(arguments: Sequence[str]) -> int:
    """Run the case that a command line names, print its report, and return the exit status."""
    if not arguments or arguments[0] in {"-h", "--help"}:
        (sys.stdout if arguments else sys.stderr).write(USAGE)
        return 0 if arguments else 2
    case, *others = arguments
    try:
        run = _measuring(case)
    except ConfigError as error:
        sys.stderr.write(f"benchmarks.cases: {error}\n")
        return 2
    return main(run, others, program=f"python -m benchmarks.cases {case}", plot=partial(plot_into, case))


def _measuring(case: str) -> Callable[..., Report]:
    """Return what measures a case once its kernels are compiled, with the options of the case."""
    if case not in CASES:
        if case in CASES_OF_THE_WHEEL:
            raise ConfigError(f"the case {case} is one of the command of users: slidejoin bench {case}")
        raise ConfigError(f"unknown case {case!r}; the cases are {', '.join(CASES)}.{nearest(case, CASES)}")
    run = CASES[case].run

    @wraps(run)
    def compiled(**options: Any) -> Report:
        if case != "startup":
            compile_kernels()
        return run(**options)

    compiled.__doc__ = CASES[case].about
    return compiled
