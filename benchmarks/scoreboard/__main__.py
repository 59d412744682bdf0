"""``python -m benchmarks.scoreboard`` measures the table of the embedded join, with ``--spark`` that of Spark."""

from __future__ import annotations

import sys

from benchmarks.command import main
from benchmarks.scoreboard.run import run

if __name__ == "__main__":
    sys.exit(main(run))
