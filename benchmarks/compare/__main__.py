"""The same four joins in slidejoin, Flink SQL, Pathway, Quix Streams, DuckDB, Polars and ClickHouse.

``python -m benchmarks.compare`` installs each system into an environment of its own, in ``.cache/compare``, and prints
rows a second. Flink and the broker that Quix Streams reads need Java, the broker Maven too.
"""

from __future__ import annotations

import sys

from benchmarks.command import main
from benchmarks.compare.measure import run

if __name__ == "__main__":
    sys.exit(main(run, program="python -m benchmarks.compare"))
