"""Two checkouts of slidejoin in turns: is this one as fast as the other one?

    python benchmarks/versions.py OTHER_CHECKOUT [--turns 15] [--spark] [--cases band,equality]

Each checkout has a process of its own with the same data. They take turns of some pushes, first one, then the other,
then in the other order, so that a machine whose speed drifts is as fair to both. What is printed is the median of the
ratios pair by pair: above 1 this checkout is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parents[1]
WINDOW = 1 << 20
LARGE = 1 << 15
SPACE = 1 << 31
BAND = SPACE // WINDOW  # a row finds two partners

CASES: dict[str, dict[str, Any]] = {
    "band": {"on": f"l.k BETWEEN r.k - {BAND} AND r.k + {BAND}"},
    "equality": {"on": "l.k = r.k", "space": WINDOW},
    "one-sided": {"on": "l.k > r.k", "shape": "one-sided"},
    "float band": {"on": f"l.k BETWEEN r.k - {BAND}.5 AND r.k + {BAND}.5", "kind": "double"},
    "time window": {"on": f"l.k BETWEEN r.k - {BAND} AND r.k + {BAND}", "time": True},
    "count": {"on": f"l.k BETWEEN r.k - {BAND} AND r.k + {BAND}", "output": "count"},
    "pairs with columns": {"on": f"l.k BETWEEN r.k - {BAND} AND r.k + {BAND}", "output": "pairs"},
    "sorted runs": {"on": f"l.k BETWEEN r.k - {BAND} AND r.k + {BAND}", "algorithm": "bi_sort"},
    "two terms": {"on": "l.k BETWEEN r.k - 5000 AND r.k + 5000 AND l.t <> r.t"},
    "16 rows a push": {"on": f"l.k BETWEEN r.k - {BAND} AND r.k + {BAND}", "rows": 16, "pushes": 400},
    "256 rows a push": {"on": f"l.k BETWEEN r.k - {BAND} AND r.k + {BAND}", "rows": 256, "pushes": 200},
    "4096 rows a push": {"on": f"l.k BETWEEN r.k - {BAND} AND r.k + {BAND}", "rows": 4096, "pushes": 30},
}


def serve() -> None:
    """Be one of the two processes: read the names of cases, answer the seconds of some pushes each."""
    import numpy as np
    import pyarrow as pa

    import slidejoin as sj

    joins: dict[str, tuple[Any, Iterator[tuple[Any, Any]], int]] = {}

    def batches(case: dict[str, Any], rows: int) -> Iterator[tuple[Any, Any]]:
        random, now = np.random.default_rng(1), 0
        half = max(rows // 2, 1)
        # Drawn beforehand, so that turns measure pushes alone.
        drawn = []
        for _ in range(64):
            sides = []
            for side in (0, 1):
                keys = random.integers(0, case.get("space", SPACE), half)
                if case.get("shape") == "one-sided":
                    keys = random.integers(0, SPACE // 2, half) + side * (SPACE // 2 - SPACE // 2 * 10 // WINDOW)
                sides.append(keys.astype(np.float64) if case.get("kind") == "double" else keys)
            drawn.append(sides)
        while True:
            for left, right in drawn:
                times = np.arange(now, now + half)
                now += half
                yield pa.table({"k": left, "t": times}), pa.table({"k": right, "t": times})

    def join_of(name: str) -> tuple[Any, Iterator[tuple[Any, Any]], int]:
        case = CASES[name]
        kind = pa.float64() if case.get("kind") == "double" else pa.int64()
        schema = pa.schema([("k", kind), ("t", pa.int64())])
        window = sj.TimeWindow(WINDOW, on="t") if case.get("time") else sj.CountWindow(WINDOW)
        join = sj.StreamJoin(
            on=case["on"], window=window, output=case.get("output", "positions"),
            algorithm=case.get("algorithm", "auto"), schemas=(schema, schema), threads=2,
        )  # fmt: skip
        # The window is filled by large pushes, whatever is measured then.
        filling, rows = batches(case, 1 << 17), case.get("rows", LARGE)
        for _ in range(18):
            left, right = next(filling)
            join.push(left, right, order_by="t")
        last = 18 * (1 << 16)
        source = (
            (a.set_column(1, "t", pa.array(a["t"].to_numpy() + last)), b.set_column(1, "t", pa.array(b["t"].to_numpy() + last)))
            for a, b in batches(case, rows)
        )  # fmt: skip
        return join, source, case.get("pushes", 8)

    for line in sys.stdin:
        name = line.strip()
        if name not in joins:
            joins.clear()
            joins[name] = join_of(name)
        join, source, pushes = joins[name]
        ready = [next(source) for _ in range(pushes)]
        took = []
        for left, right in ready:
            start = perf_counter()
            join.push(left, right, order_by="t")
            took.append(perf_counter() - start)
        print(json.dumps({"seconds": statistics.median(took), "pairs": join.stats.pairs}), flush=True)


class Version:
    """The process of one checkout."""

    def __init__(self, checkout: Path) -> None:
        environment = os.environ | {
            "PYTHONPATH": str(checkout / "src"),
            "NUMBA_CACHE_DIR": str(checkout / ".cache" / "versions"),
        }
        self._process = subprocess.Popen(  # noqa: S603 - this program, this interpreter
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def ask(self, name: str) -> dict[str, float]:
        """Return the median seconds of a push in one turn."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        answer: dict[str, float] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


SPARK = """
import sys, time, json, pathlib
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
import slidejoin as sj
from pyspark.sql import SparkSession
from slidejoin.spark import advised_settings, stream_join
folder, rows, files = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
spark = SparkSession.builder.master("local[2]").config(map=advised_settings(2)).config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
sides = [spark.readStream.schema("k long, ts timestamp").option("maxFilesPerTrigger", 1).parquet(str(folder / side)) for side in ("left", "right")]
pairs = stream_join(*sides, on="l.k BETWEEN r.k - 2048 AND r.k + 2048", window=sj.TimeWindow("1000 seconds", on="ts"))
query = pairs.writeStream.format("noop").option("checkpointLocation", str(folder / f"checkpoint-{time.time_ns()}")).trigger(availableNow=True).start()
query.awaitTermination()
took = [p["durationMs"]["triggerExecution"] for p in map(lambda p: json.loads(p.json) if hasattr(p, "json") else p, query.recentProgress) if p["numInputRows"] > 0]
print(json.dumps({"ms": float(np.median(took[2:]))}))
"""


def spark_turns(checkouts: list[Path], rows: int, files: int, turns: int) -> list[float]:
    """Return the ratios of micro-batches of so many rows, the other checkout's milliseconds over this one's."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    ratios = []
    with tempfile.TemporaryDirectory() as temporary:
        folder, random = Path(temporary), np.random.default_rng(3)
        for side in ("left", "right"):
            (folder / side).mkdir()
            for number in range(files):
                times = np.sort(random.integers(number * 1_000_000, (number + 1) * 1_000_000, rows // 2))
                table = pa.table(
                    {"k": random.integers(0, 1 << 31, rows // 2), "ts": pa.array(times, pa.timestamp("us", "UTC"))}
                )
                pq.write_table(table, folder / side / f"{number:05}.parquet")
        for turn in range(turns):
            took: dict[Path, float] = {}
            for checkout in checkouts[:: 1 if turn % 2 else -1]:
                done = subprocess.run(  # noqa: S603 - this program's own text
                    [sys.executable, "-c", SPARK, str(folder), str(rows), str(files)],
                    env=os.environ | {
                        "PYTHONPATH": str(checkout / "src"),
                        "NUMBA_CACHE_DIR": str(checkout / ".cache" / "versions"),
                        "PYSPARK_PYTHON": sys.executable,
                        "SPARK_LOCAL_IP": "127.0.0.1",
                    },
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
                took[checkout] = json.loads(done.stdout.splitlines()[-1])["ms"]
            ratios.append(took[checkouts[1]] / took[checkouts[0]])
    return ratios


def main() -> None:
    """Compare this checkout with another one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--spark", action="store_true", help="micro-batches on a local Spark too, five turns")
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if options.other is None:
        parser.error("give the folder of another checkout")
    ours, theirs = Version(HERE), Version(options.other.resolve())
    print(f"{'case':<20} {'this':>10} {'other':>10} {'other/this':>11}   range")
    for name in filter(None, options.cases.split(",")):
        seconds: list[tuple[float, float]] = []
        for turn in range(options.turns + 2):
            order = (ours, theirs) if turn % 2 else (theirs, ours)
            answers = {version: version.ask(name) for version in order}
            if answers[ours]["pairs"] != answers[theirs]["pairs"]:
                print(f"{name}: pairs differ, {answers[ours]['pairs']} and {answers[theirs]['pairs']}")
            if turn >= 2:  # noqa: PLR2004 - the first turns load kernels
                seconds.append((answers[ours]["seconds"], answers[theirs]["seconds"]))
        ratios = [other / this for this, other in seconds]
        this, other = (statistics.median(column) * 1e6 for column in zip(*seconds, strict=True))
        print(
            f"{name:<20} {this:>7,.0f} µs {other:>7,.0f} µs {statistics.median(ratios):>11.3f}   "
            f"{min(ratios):.2f} to {max(ratios):.2f}",
            flush=True,
        )
    ours.close()
    theirs.close()
    if options.spark:
        for rows, files in ((1000, 40), (400_000, 8)):
            ratios = spark_turns([HERE, options.other.resolve()], rows, files, 5)
            print(
                f"{f'Spark, {rows:,} rows':<20} {'':>21} {statistics.median(ratios):>11.3f}   "
                f"{min(ratios):.2f} to {max(ratios):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
