"""Two topics joined by slidejoin in one process and by Quix Streams: ``python -m benchmarks.quix_streams``.

Quix Streams joins records of one key whose times are near (`join_interval`); the band over prices is a filter behind
it. It needs a version of Kafka's client of its own, so an environment of its own::

    python -m venv quix && quix/bin/pip install quixstreams
    python -m benchmarks.quix_streams --python quix/bin/python

Both read the same records of the same broker, which is started for it. Printed are rows a second from the first record
to the last, the start of either left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slidejoin.bench.broker import Broker
from slidejoin.bench.pipeline import JOIN, KAFKA, SCHEMA, _columns
from slidejoin.pipeline.json_rows import json_objects
from slidejoin.runtime.processes import python_command

if TYPE_CHECKING:
    from collections.abc import Sequence

QUIX = """
import json, sys, time
from datetime import datetime, timedelta
from quixstreams import Application

broker, left, right, folder, rows = sys.argv[1:]
ends = []
app = Application(broker, consumer_group="bench", auto_offset_reset="earliest", state_dir=folder, loglevel="ERROR",
                  use_changelog_topics=False, on_message_processed=lambda *_: ends.append(time.perf_counter()))

def at(value, headers, timestamp, kind):
    return int(datetime.fromisoformat(value["ts"]).timestamp() * 1000)

frames = [app.dataframe(app.topic(name, key_deserializer="str", timestamp_extractor=at)) for name in (left, right)]
minute, pairs = timedelta(minutes=1), 0
joined = frames[0].join_interval(frames[1], on_merge=lambda l, r: {"l": l, "r": r}, grace_ms=minute,
                                 backward_ms=minute, forward_ms=minute)

def count(value):
    global pairs
    pairs += 1

joined.filter(lambda v: v["r"]["price"] - 0.1 <= v["l"]["price"] <= v["r"]["price"] + 0.1).update(count)
app.run(timeout=20)
assert len(ends) == int(rows), (len(ends), rows)
print(json.dumps({"pairs": pairs, "seconds": ends[-1] - ends[0]}))
"""


def quix(python: str, address: str, topics: Sequence[str], folder: Path, rows: int) -> tuple[int, float]:
    """Return the pairs and the seconds of Quix Streams."""
    folder.mkdir()
    command = [python, "-W", "ignore", "-c", QUIX, address, *topics, str(folder), str(rows)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the caller's Python
    if ended.returncode:
        raise SystemExit(ended.stderr[-4000:])
    said = json.loads(ended.stdout.splitlines()[-1])
    return int(said["pairs"]), float(said["seconds"])


def embedded(address: str, topic: str, folder: Path) -> tuple[int, float]:
    """Return the pairs and the seconds of a job file in one process."""
    folder.mkdir()
    sources = KAFKA.format(brokers=address, topic=topic, schema=SCHEMA)
    (folder / "job.toml").write_text(sources + JOIN, encoding="utf-8")
    program = "from slidejoin.cli import main\nmain(arguments)"
    command = python_command(program, "run", str(folder / "job.toml"), "--json", "--engine", "embedded")
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this interpreter
    if ended.returncode:
        raise SystemExit(ended.stderr)
    said = json.loads(ended.stdout.splitlines()[-1])
    return int(said["rows_out"]), float(said["seconds"])


def main() -> None:
    """Read the command line, write the topics, and join them both ways."""
    parser = argparse.ArgumentParser("python -m benchmarks.quix_streams", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="of an environment that has quixstreams")
    parser.add_argument("--rows", type=int, default=20_000, help="of each topic (default 20,000)")
    options = parser.parse_args()
    random, rows = np.random.default_rng(1), options.rows
    with tempfile.TemporaryDirectory() as name, Broker(Path(name)) as broker:
        folder, topics = Path(name), ("t-a", "t-b")
        broker.create(*topics)
        for topic in topics:
            columns = _columns(random, 0, rows)
            keys = [str(key).encode() for key in columns["k"].tolist()]
            del columns["quantity"]
            broker.send(topic, map(str.encode, json_objects(pa.table(columns))), keys)
        runs = [embedded(broker.address, "t", folder / f"job-{number}") for number in range(2)][
            1:
        ]  # the first compiles
        runs.append(quix(options.python, broker.address, topics, folder / "quix", 2 * rows))
    for engine, (pairs, seconds) in zip(("embedded", "quix"), runs, strict=True):
        sys.stdout.write(f"{engine:<10}{2 * rows / seconds:>12,.0f} rows/s, {pairs:,} pairs\n")


if __name__ == "__main__":
    main()
