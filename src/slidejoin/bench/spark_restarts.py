"""The time to the first new result of queries that go on with their checkpoints in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import Any

from slidejoin.bench.relation import Relation
from slidejoin.bench.spark_files import Files
from slidejoin.bench.spark_queries import Load, empty, joined, session
from slidejoin.bench.spark_running import run_query
from slidejoin.bench.streams import Streams
from slidejoin.errors import SlideJoinError

__all__ = ["RESTARTS", "restarted", "restarts"]

QUERIES = {"join": joined, "empty": empty}
"""By the names of their folders."""

TURNS = 3
"""Restarts of each kind: one took twice as long as the same one minutes later."""

RESTARTS = {"with the node's cache": "join", "without it": "join", "reading": "empty"}

PROGRAM = """
import json, sys
from slidejoin.bench.spark_restarts import restarted
print(json.dumps(restarted(**json.loads(sys.argv[1]))))
"""


def restarts(root: Path, inputs: dict[str, Files], load: Load, threads: int, buckets: int) -> dict[str, float]:
    """Go on with the node's cache, then without, then with the query that only reads, and so some times in turns.

    Parameters
    ----------
    root : pathlib.Path
        Where the queries' folders are, and the cache.
    inputs : dict of str to Files
        By the name of the query. Each gets one more micro-batch, as large as its last.
    load : Load
        What is joined.
    threads, buckets : int
        As the queries had them.

    Returns
    -------
    dict of str to float
        Seconds from the start of the query, Spark being up, to the end of its first micro-batch, as a median.

    Raises
    ------
    SlideJoinError
        If a query fails.
    """
    given = {"load": asdict(load), "threads": threads, "buckets": buckets, "root": str(root)}
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
        [sys.executable, "-c", PROGRAM, json.dumps(given)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        msg = f"the restarted query ended with status {done.returncode}: {done.stderr.strip()[-500:]}"
        raise SlideJoinError(msg)
    return float(done.stdout.splitlines()[-1])


def restarted(*, root: str, query: str, load: dict[str, Any], threads: int, buckets: int) -> float:
    """Go on with a query in this process; return the seconds to the end of its first micro-batch."""
    place, joining = Path(root), Load(**load | {"relation": Relation(**load["relation"])})
    with session(f"local[{threads}]", buckets, place / "cache") as spark:
        files = Files(place / query, Streams())
        return run_query(spark, QUERIES[query], files, joining, place / query / "checkpoint").seconds
