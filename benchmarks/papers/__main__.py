"""``python -m benchmarks.papers`` measures the papers' experiments."""

from __future__ import annotations

import sys

from benchmarks.command import main
from benchmarks.papers.run import run

if __name__ == "__main__":
    sys.exit(main(run))
