"""Benchmarks on synthetic streams, each beside its baselines in one run. `slidejoin bench CASE` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from slidejoin.bench.report import Report

__all__ = ["CASES", "run_case"]

CASES = ("band",)


def run_case(case: str, **options: Any) -> Report:
    """Run one case and return its report.

    Parameters
    ----------
    case : str
        One of `CASES`.
    **options
        See the module of the case, such as `slidejoin.bench.band.run`.

    Raises
    ------
    ConfigError
        For an unknown case.
    """
    if case not in CASES:
        msg = f"bench: unknown case {case!r}; the cases are {', '.join(CASES)}.{nearest(case, CASES)}"
        raise ConfigError(msg)
    from slidejoin.bench import band  # noqa: PLC0415 - loads NumPy, Numba and PyArrow

    return band.run(**options)
