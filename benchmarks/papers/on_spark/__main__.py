"""``python -m benchmarks.papers.on_spark --paper spo`` measures a paper's figures on Spark."""

from __future__ import annotations

import sys

from benchmarks.command import main
from benchmarks.papers.on_spark.run import run

if __name__ == "__main__":
    sys.exit(main(run))
