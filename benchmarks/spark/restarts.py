"""The time to the first new result of queries that continue from their checkpoints in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import TYPE_CHECKING, Any

from slidejoin.bench.comparison import Comparison
from slidejoin.bench.spark import BandJoin, input_tables, read_only, slidejoin_join
from slidejoin.bench.spark_pipeline import InputFiles, run_query, session
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RESTARTS", "measure_restarts", "restarted"]

ROOT = Path(__file__).parents[2]

QUERIES = {"join": slidejoin_join, "reading": read_only}
"""By the names of their folders."""

TURNS = 3
"""Restarts of each kind: one took twice as long as the same one minutes later."""

RESTARTS = {"with the node's cache": "join", "without it": "join", "reading": "reading"}

PROGRAM = """
import json, sys
from benchmarks.spark.restarts import restarted
print(json.dumps(restarted(**json.loads(sys.argv[1]))))
"""


def measure_restarts(
    root: Path, inputs: Mapping[str, InputFiles], join: BandJoin, threads: int, buckets: int
) -> dict[str, float]:
    """Restart with the node's cache, without it, and the query that only reads; repeat in turns.

    Parameters
    ----------
    root : pathlib.Path
        Folder of the queries' folders and of the cache.
    inputs : dict of str to InputFiles
        By the name of the query. Each gets one more micro-batch, as large as its last.
    join : BandJoin
    threads, buckets : int
        As the queries had them.

    Returns
    -------
    dict of str to float
        Seconds from the start of the query, with Spark running, to the end of its first micro-batch, as a median.

    Raises
    ------
    SlideJoinError
        If a query fails.
    """
    given = {"join": asdict(join), "threads": threads, "buckets": buckets, "root": str(root)}
    found: dict[str, list[float]] = {name: [] for name in RESTARTS}
    for _ in range(TURNS):
        for name, query in RESTARTS.items():
            inputs[query].add(inputs[query].rows[-1] // 2)
            if name == "without it":
                rmtree(root / "cache")
            found[name].append(_in_a_fresh_process({**given, "query": query}))
    return {name: median(seconds) for name, seconds in found.items()}


def _in_a_fresh_process(given: dict[str, Any]) -> float:
    done = subprocess.run(  # noqa: S603 - a program of ours, in our own interpreter
        [sys.executable, "-c", PROGRAM, json.dumps(given)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode != 0:
        msg = f"the restarted query ended with status {done.returncode}: {done.stderr.strip()[-500:]}"
        raise SlideJoinError(msg)
    return float(done.stdout.splitlines()[-1])


def restarted(*, root: str, query: str, join: dict[str, Any], threads: int, buckets: int) -> float:
    """Continue a query in this process; return the seconds to the end of its first micro-batch."""
    folder, joining = Path(root), BandJoin(**join | {"comparison": Comparison(**join["comparison"])})
    with session(f"local[{threads}]", buckets, folder / "cache") as spark:
        files = InputFiles(folder / query, input_tables(joining, 1))
        return run_query(partial(QUERIES[query], spark, files, joining), folder / query / "checkpoint").first_result
