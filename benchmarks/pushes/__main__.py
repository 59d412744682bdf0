"""Pushes of the joins that people write, and of this checkout and another one in turns.

Twenty queries over ten mixed columns a side, and a band with ten columns of one kind; full windows of 2^17 rows a side,
all columns of both sides in the output. Printed are microseconds a push, by how many rows it has, and nanoseconds a
pair; with another checkout the same of that, and the median ratio, above 1 this one is faster.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from benchmarks.pushes.queries import QUERIES
from benchmarks.pushes.worker import pushes_of
from benchmarks.versions.turns import LOADING, ROOT, Version, in_turns, say

PROGRAM = ("benchmarks.pushes.worker",)


def alone(case: str, turns: int) -> tuple[float, float]:
    """Return the median seconds of a push, and how many pairs it has."""
    version = Version(ROOT, PROGRAM)
    answers = [version.turn(case) for _ in range(turns + LOADING)][LOADING:]
    version.close()
    seconds, pairs = (statistics.median(column) for column in zip(*answers, strict=True))
    return seconds, pairs


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser("python -m benchmarks.pushes", description=__doc__)
    parser.add_argument("other", type=Path, nargs="?", help="folder of another checkout")
    parser.add_argument("--queries", default=",".join(QUERIES), help="names, separated by commas (default: all)")
    parser.add_argument("--rows", default="16,256,2048,32768", help="rows of both sides in a push")
    parser.add_argument("--windows", default="count,time")
    parser.add_argument("--turns", type=int, default=5, help="turns of each case (default 5)")
    options = parser.parse_args()
    beside = "" if options.other is None else f"{'other':>12}{'other/this':>12}"
    say(f"{'query':<24}{'window':>7}{'rows':>7}{'this':>12}{'ns a pair':>12}{beside}")
    for query in options.queries.split(","):
        for window in options.windows.split(","):
            for rows in options.rows.split(","):
                case = f"{query}|{rows}|{window}"
                seconds, pairs = alone(case, options.turns)
                rest = ""
                if options.other is not None:
                    found = in_turns(options.other.resolve(), PROGRAM, case, options.turns)
                    seconds, other = (statistics.median(column) for column in zip(*found, strict=True))
                    rest = f"{other * 1e6:>9,.0f} µs{statistics.median(b / a for a, b in found):>12.3f}"
                a_pair = f"{seconds * 1e9 * pushes_of(int(rows)) / pairs:,.0f}" if pairs else "-"
                say(f"{query:<24}{window:>7}{int(rows):>7,}{seconds * 1e6:>9,.0f} µs{a_pair:>12}{rest}")


if __name__ == "__main__":
    main()
