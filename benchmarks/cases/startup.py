"""The case ``startup``: seconds to the first pairs in fresh processes, with and without compiled kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from slidejoin.bench.case import at_least
from slidejoin.bench.report import Report, Spread
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["StartupReport", "run"]

FIRST_PUSH = """
from json import dumps
from time import perf_counter
start = perf_counter()
import slidejoin
imported = perf_counter()
import numpy
keys = {"k": numpy.arange(1000)}
window = slidejoin.CountWindow(1000)
join = slidejoin.StreamJoin(on="l.k BETWEEN r.k - 1 AND r.k + 1", window=window, output="positions")
pairs = join.push(keys, keys).num_rows
print(dumps([imported - start, perf_counter() - imported, pairs]))
"""
PAIRS = 2998

FOUR_ROWS = """
from json import dumps
from time import perf_counter
start = perf_counter()
import slidejoin
imported = perf_counter()
join = slidejoin.StreamJoin(on="l.price BETWEEN r.bid - 5 AND r.ask + 5", window=slidejoin.CountWindow(1000))
join.push(right={"bid": [98, 140], "ask": [101, 144]})
pairs = join.push(left={"price": [103, 120]}).num_rows
seconds = perf_counter() - imported
from slidejoin.jit.background import BACKGROUND
BACKGROUND.end()
print(dumps([imported - start, seconds, pairs]))
"""

ALL_KERNELS = """
from json import dumps
from time import perf_counter
start = perf_counter()
from slidejoin.jit.warming import warm_up
kernels = warm_up()
print(dumps([perf_counter() - start, len(kernels)]))
"""
"""What ``slidejoin compile`` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupReport(Report):
    """Seconds in fresh processes; the start of the interpreter itself is left out.

    Modules are read as bytecode, as they are wherever a package has been installed by pip or imported before.

    Attributes
    ----------
    imported : Spread
        ``import slidejoin``.
    first_push : Spread
        From there to the pairs of a first push of 1,000 rows a side: Numba is loaded, and kernels are read from the
        cache on disk.
    first_push_from_source : float or None
        The same where Python is told to keep no bytecode and all modules are read as source; None if it is not.
    first_push_compiling : float or None
        With an empty cache of kernels: those that it calls are compiled by their calls, no others.
    four_rows_compiling : float or None
        The first two pushes, of four rows in all, with an empty cache: Python runs the kernels.
    all_kernels : float or None
        All kernels compiled from nothing.
    """

    imported: Spread
    first_push: Spread
    first_push_from_source: float | None
    first_push_compiling: float | None
    four_rows_compiling: float | None
    all_kernels: float | None

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        yield f"case {self.case}: fresh processes, 1,000 rows a side in the first push"
        yield ""
        for name, one in (
            ("import slidejoin", self.imported),
            ("first push, kernels in the cache", self.first_push),
        ):
            spread = f"median of {one.count} processes, {one.smallest:.3f} to {one.largest:.3f}"
            yield f"{name:<34}{one.median:8.3f} s   {spread}"
        for name, seconds in (
            ("the same without bytecode", self.first_push_from_source),
            ("first push, empty cache", self.first_push_compiling),
            ("four rows, empty cache", self.four_rows_compiling),
            ("all kernels, empty cache", self.all_kernels),
        ):
            if seconds is not None:
                yield f"{name:<34}{seconds:8.3f} s   once"
        yield ""


def run(*, runs: int = 5, compile_all: bool = True) -> StartupReport:
    """Measure fresh processes.

    Parameters
    ----------
    runs : int
        Processes with kernels in the cache; one more goes first and fills it.
    compile_all : bool
        Whether kernels are compiled from nothing too, in a cache folder that is thrown away.

    Raises
    ------
    SlideJoinError
        If such a process fails or finds other pairs.
    ConfigError
        If there are no runs.
    """
    at_least("runs", runs, 1)
    compiling = four = whole = source = None
    with TemporaryDirectory() as bytecode:
        # Of our own, because the environment may forbid to keep any; the empty value allows it again.
        kept = {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        _process(FIRST_PUSH, kept)
        warm = [_process(FIRST_PUSH, kept) for _ in range(runs)]
        if compile_all:
            with TemporaryDirectory() as folder:
                alone = {"NUMBA_CACHE_DIR": folder, "SLIDEJOIN_COMPILE": "now"}
                compiling = _process(FIRST_PUSH, kept | alone)[1]
            with TemporaryDirectory() as folder:
                four = _process(FOUR_ROWS, kept | {"NUMBA_CACHE_DIR": folder, "SLIDEJOIN_COMPILE": "background"})[1]
            with TemporaryDirectory() as folder:
                whole = _process(ALL_KERNELS, kept | {"NUMBA_CACHE_DIR": folder})[0]
    if sys.dont_write_bytecode:
        source = _process(FIRST_PUSH, {})[1]
    return StartupReport(
        case="startup",
        imported=Spread.of([one[0] for one in warm]),
        first_push=Spread.of([one[1] for one in warm]),
        first_push_from_source=source,
        first_push_compiling=compiling,
        four_rows_compiling=four,
        all_kernels=whole,
    )


def _process(program: str, variables: dict[str, str]) -> list[float]:
    """Run the program in a fresh interpreter and return the numbers that it prints."""
    done = subprocess.run(  # noqa: S603 - a program of ours, in our own interpreter
        [sys.executable, "-c", program], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    numbers: list[float] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else []
    if not numbers or (program == FIRST_PUSH and numbers[2] != PAIRS):
        msg = f"a fresh process left status {done.returncode} and {done.stdout!r}: {done.stderr.strip()[-500:]}"
        raise SlideJoinError(msg)
    return numbers
