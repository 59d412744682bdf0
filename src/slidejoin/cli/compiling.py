"""``slidejoin compile``: compile all kernels ahead of time."""

from __future__ import annotations

import sys
from time import perf_counter

__all__ = ["compile_in_words", "compiled_kernels"]


def compiled_kernels() -> dict[str, object]:
    """Compile all kernels that are not compiled yet, and return the seconds and the outcome for each kernel."""
    start = perf_counter()
    from slidejoin.jit.warming import warm_up  # noqa: PLC0415 - loads Numba, part of what is measured

    done = warm_up()
    _check_saved()
    return {"seconds": perf_counter() - start, "kernels": [kernel._asdict() for kernel in done]}


def compile_in_words() -> None:
    """Do that and say so in one line. It needs no package but those of a plain installation."""
    start = perf_counter()
    from slidejoin.jit.warming import compile_all, kernels  # noqa: PLC0415 - see above

    compiled = len(compile_all())
    _check_saved()
    sys.stdout.write(f"{kernels():,} kernels ready, {compiled} compiled now, {perf_counter() - start:.1f} s\n")


def _check_saved() -> None:
    from slidejoin.errors import ConfigError  # noqa: PLC0415 - see above
    from slidejoin.jit.warming import uncompiled  # noqa: PLC0415 - see above

    left = len(uncompiled())
    if left:
        msg = f"{left} compiled kernels could not be saved; set NUMBA_CACHE_DIR to a folder that you can write to"
        raise ConfigError(msg)
