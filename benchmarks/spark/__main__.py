"""``python -m benchmarks.spark`` measures the join on Spark with checkpoint bytes, memory, restarts or a cluster."""

from __future__ import annotations

import sys

from benchmarks.command import main
from benchmarks.spark.run import run

if __name__ == "__main__":
    sys.exit(main(run))
