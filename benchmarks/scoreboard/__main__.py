"""``python -m benchmarks.scoreboard``: the table of the embedded join, with ``--spark`` or ``--terms`` another."""

from __future__ import annotations

import sys

from benchmarks.command import main
from benchmarks.scoreboard.run import run

if __name__ == "__main__":
    sys.exit(main(run))
