"""What all cases share: their options are checked, kernels compiled, and it is shown what goes on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["at_least", "choice", "compile_kernels", "say", "whole_number"]

KERNELS_OF_CASES = ("slidejoin.bench.", "benchmarks.")
"""Beginnings of the names of modules with kernels that are no part of a join."""


def whole_number(text: str | int) -> int:
    """Read a whole number, also written as a power.

    Raises
    ------
    ConfigError
        If it is none.

    Examples
    --------
    >>> whole_number("2^20"), whole_number("1000")
    (1048576, 1000)
    """
    base, power, exponent = str(text).strip().partition("^")
    try:
        return int(base) ** int(exponent) if power else int(base)
    except ValueError:
        raise ConfigError(f"got {text!r}, expected a whole number or a power such as 2^20") from None


def at_least(name: str, value: int, least: int) -> None:
    """Check that the value of an option is not too small.

    Raises
    ------
    ConfigError
        Otherwise.
    """
    if value < least:
        msg = f"{name}: got {value}, expected at least {least}"
        raise ConfigError(msg)


def choice(name: str, value: str, possible: Iterable[str]) -> None:
    """Check that the value of an option is one of the possible ones.

    Raises
    ------
    ConfigError
        Otherwise, with the nearest of them.
    """
    names = tuple(possible)
    if value not in names:
        msg = f"{name}: got {value!r}, expected one of {', '.join(names)}.{nearest(value, names)}"
        raise ConfigError(msg)


def compile_kernels() -> None:
    """Compile everything before timing starts, so that neither this process nor the background one compiles later."""
    from slidejoin.jit.compiling import load  # noqa: PLC0415 - loads Numba
    from slidejoin.jit.registry import KERNELS  # noqa: PLC0415
    from slidejoin.jit.warming import compile_all  # noqa: PLC0415

    compile_all()
    for kernel, _ in KERNELS:
        if kernel.__module__.startswith(KERNELS_OF_CASES):
            load(kernel)


def say(text: str) -> None:
    """Show on a terminal what is going on."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{text} …\n")
