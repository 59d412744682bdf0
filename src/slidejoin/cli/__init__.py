"""The command ``slidejoin``. Its parts are imported on first use, so ``slidejoin --version`` answers at once."""

from __future__ import annotations

import gc
import sys
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn

from slidejoin import __version__
from slidejoin.cli.stopping import stop_signals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

__all__ = ["compile_in_words", "main"]

PACKAGES = ("typer", "rich")
"""Those of the command line; Rich is loaded on a terminal alone."""

MISSING = """\
slidejoin: the command line needs the packages typer and rich, and {name} is not installed.
Install them: pip install "slidejoin[cli]"
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave the process: status 0 done, 1 failed, 2 bad usage or a wrong job file.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the program's name; that of this process by default.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["run"]:
        if arguments is None:
            # What is loaded stays: looking for cycles in it takes a tenth of the start. `run_embedded` begins again.
            gc.disable()
        # From the first moment on: loading what follows takes a second.
        with stop_signals(leaving=arguments is None) as stop:
            _main(given, stop, leaving=arguments is None)
    _main(given, None, leaving=arguments is None)


def _main(given: list[str], stop: Event | None, *, leaving: bool) -> NoReturn:
    if given == ["--version"]:
        sys.stdout.write(f"slidejoin {__version__}\n")
        sys.exit(0)
    missing = next((name for name in PACKAGES if find_spec(name) is None), None)
    if missing is not None:
        if given == ["compile"]:  # an image for embedded joins needs neither
            compile_in_words()
            sys.exit(0)
        sys.stderr.write(MISSING.format(name=missing))
        sys.exit(1)
    try:
        _called(given, stop, alone=leaving)
    finally:
        if leaving and "slidejoin.cli.java" in sys.modules:
            from slidejoin.cli.java import java  # noqa: PLC0415 - only where it was needed

            java.close()
    sys.exit(0)


def _called(given: list[str], stop: Event | None, *, alone: bool) -> None:
    if stop is not None:
        from slidejoin.cli.run_file import plain_options, run_file, with_port  # noqa: PLC0415 - belongs to an extra

        given = [*given[:1], *with_port(given[1:])]
        options = plain_options(given[1:])
        if options is not None:
            run_file(**options, stop=stop, alone=alone)
            return
    from slidejoin.cli.app import app  # noqa: PLC0415 - a fifth of the start of a command

    app(given, prog_name="slidejoin", obj=stop)


def compile_in_words() -> None:
    """Compile all kernels and say so in one line. It needs no package but those of a plain installation."""
    start = perf_counter()
    from slidejoin.jit.warming import check_saved, compile_all, kernels  # noqa: PLC0415 - loads Numba, part of what is measured

    compiled = len(compile_all())
    check_saved()
    sys.stdout.write(f"{kernels():,} kernels ready, {compiled} compiled now, {perf_counter() - start:.1f} s\n")
