"""Processes of two checkouts that take turns, in one order and then in the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LOADING", "ROOT", "Version", "in_turns", "say"]

ROOT = Path(__file__).resolve().parents[2]
LOADING = 2
"""Turns that are left out: they load kernels and fill windows."""


def environment(checkout: Path) -> dict[str, str]:
    """Return the environment of a process that runs a checkout's sources with the benchmark of this one."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(ROOT)]),
        "NUMBA_CACHE_DIR": str(checkout / ".cache" / "versions"),
        "SLIDEJOIN_COMPILE": "now",  # nothing is compiled beside what is timed
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


class Version:
    """The process of one checkout."""

    def __init__(self, checkout: Path, program: Sequence[str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, programs of this folder
            [sys.executable, "-m", *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(checkout),
        )

    def turn(self, case: str) -> tuple[float, int]:
        """Return the median seconds of a push in one turn, and the pairs of the join so far."""
        sent, received = self._process.stdin, self._process.stdout
        if sent is None or received is None:
            raise RuntimeError(case)
        sent.write(case + "\n")
        sent.flush()
        answer = json.loads(received.readline())
        return float(answer["seconds"]), int(answer["pairs"])

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def in_turns(other: Path, program: Sequence[str], case: str, turns: int) -> list[tuple[float, float]]:
    """Return the seconds of this and of the other checkout, turn by turn, of a case in processes of a program."""
    ours, theirs, seconds = Version(ROOT, program), Version(other, program), []
    for turn in range(turns + LOADING):
        order = (ours, theirs) if turn % 2 else (theirs, ours)
        answers = {version: version.turn(case) for version in order}
        if answers[ours][1] != answers[theirs][1]:
            say(f"{case}: pairs differ, {answers[ours][1]:,} here and {answers[theirs][1]:,} there")
        if turn >= LOADING:
            seconds.append((answers[ours][0], answers[theirs][0]))
    ours.close()
    theirs.close()
    return seconds
