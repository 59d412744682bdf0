"""Tables of Delta and Iceberg as sources and sinks of jobs on Spark, with the real connectors."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from slidejoin.cli.connectors import coordinates, without_connector
from slidejoin.cli.lake_tables import LAKES
from tests.brokers import PROVIDED, jars
from tests.cli.shell import Shell
from tests.cli.test_stops import Running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.shell import Result

pytestmark = [pytest.mark.spark, pytest.mark.smoke]

START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 20

SPARK = """
[spark]
master = "local[1]"
jars = {jars}
conf = {{ "spark.sql.shuffle.partitions" = "1" }}
"""
JOB = (
    """
sources.a = {{ {source} }}
sink = {{ {sink} }}
[join]
self_join = "a"
on = "l.k = r.k AND l.id < r.id"
select = ["l.id", "r.id", "l.k"]
window = {{ length = "1 hour", on = "ts", lateness = "1 hour" }}
"""
    + SPARK
)
READ = (
    """
sources.a = {{ format = "{kind}", path = "{name}", table = true }}
sources.none = {{ format = "{kind}", path = "{name}", table = true, where = "false" }}
join = {{ left = "a", right = "none", on = "l.id = r.id", how = "left_anti" }}
sink = {{ format = "parquet", path = "back" }}
"""
    + SPARK
)
FILES = 'format = "parquet", path = "in", max_files_per_trigger = 1'


class Lake:
    """The command with the connectors, and a folder."""

    def __init__(self, command: Shell, folder: Path, jars: list[str]) -> None:
        self.command, self.folder, self.jars = command, folder, jars

    def run(self, source: str, sink: str) -> Result:
        (self.folder / "job.toml").write_text(JOB.format(source=source, sink=sink, jars=self.jars))
        return self.command("run", self.folder / "job.toml", "--json")

    def ends(self, source: str, sink: str) -> dict[str, Any]:
        """Run a job and return what it says at its end."""
        ended = self.run(source, sink)
        assert ended.status == 0, ended.err
        return ended.events()[-1]

    def put(self, *numbers: int, count: int = ROWS) -> None:
        """Write files of rows, of which four have one key."""
        (self.folder / "in").mkdir(exist_ok=True)
        for number in numbers:
            ids = range(number * count, (number + 1) * count)
            times = pa.array([START + timedelta(seconds=n) for n in ids], pa.timestamp("us", "UTC"))
            columns = {"id": pa.array(ids, pa.int64()), "k": pa.array([n // 4 for n in ids], pa.int64()), "ts": times}
            pq.write_table(pa.table(columns), self.folder / "in" / f"{number}.parquet")

    def rows(self, kind: str, name: str) -> list[tuple[int, int]]:
        """Return the pairs in a table: of Iceberg a job without streams reads it."""
        if kind == "delta":
            table = DeltaTable(self.folder / name).to_pyarrow_table(columns=["id", "id_right"])
            return sorted((row["id"], row["id_right"]) for row in table.to_pylist())
        shutil.rmtree(self.folder / "back", ignore_errors=True)
        (self.folder / "back.toml").write_text(READ.format(kind=kind, name=name, jars=self.jars))
        ended = self.command("run", self.folder / "back.toml", "--json")
        assert ended.status == 0, ended.err
        return sorted((row["id"], row["id_right"]) for row in pq.read_table(self.folder / "back").to_pylist())


@pytest.fixture(scope="module")
def connectors() -> list[str]:
    """Return the folders of the jars of connectors for this Spark."""
    without = (*PROVIDED, "org.apache.spark:*")
    return [str(jars(kind, (str(coordinates(kind)),), without)) for kind in LAKES if without_connector(kind) is None]


@pytest.fixture(scope="module")
def command(connectors: list[str]) -> Iterator[Shell]:
    """The command in a process of its own, whose Java has the connectors."""
    del connectors  # which say what is missing before Spark starts
    with Shell() as shell:
        yield shell


@pytest.fixture(params=LAKES)
def kind(request: pytest.FixtureRequest) -> str:
    """A format that this Spark has a connector of: `make matrix` runs these tests on others, too."""
    reason = without_connector(request.param)
    if reason is not None:
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture
def lake(command: Shell, tmp_path: Path, connectors: list[str]) -> Lake:
    return Lake(command, tmp_path, connectors)


def expected(count: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(count) for b in range(a + 1, a // 4 * 4 + 4)]


DELETE = """
import sys
from pyspark.sql import SparkSession
settings = {"spark.jars": sys.argv[1], "spark.ui.enabled": "false"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
tables = spark._jvm.org.apache.iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())
rows = spark._jvm.org.apache.iceberg.expressions.Expressions.equal("k", 0)
tables.load(sys.argv[2]).newDelete().deleteFromRowFilter(rows).commit()
"""
"""A program that deletes rows of a table of Iceberg."""


def without_key_0(kind: str, lake: Lake) -> None:
    """Delete rows of the table of pairs."""
    path = lake.folder / "pairs"
    if kind == "delta":
        DeltaTable(path).delete("k = 0")
    else:
        files = ",".join(str(file) for folder in lake.jars for file in Path(folder).glob("*.jar"))
        subprocess.run([sys.executable, "-c", DELETE, files, path], check=True, capture_output=True)


def test_a_table_as_sink_and_as_source(kind: str, lake: Lake):
    """Files to a table, and that table, which grows and then loses rows, to another one."""
    sink = f'format = "{kind}", path = "pairs", partition_by = ["k"], checkpoint = "one"'
    source = f'format = "{kind}", path = "pairs", columns = ["id", "id_right AS k", "match_time AS ts"]'
    some = f"{source}, max_files_per_trigger = 6"
    again = f'format = "{kind}", path = "again", checkpoint = "two"'
    for numbers in ((0, 1), (2,)):
        lake.put(*numbers)
        done = lake.ends(FILES, sink)
        count = (numbers[-1] + 1) * ROWS
        new = len(expected(count)) - len(expected(numbers[0] * ROWS))
        assert (done["batches"], done["rows_in"], done["rows_out"]) == (len(numbers), len(numbers) * ROWS, new)
        done = lake.ends(some, again)
        assert (done["batches"], done["rows_in"]) == (len(numbers), new)
    assert lake.rows(kind, "pairs") == expected(3 * ROWS)
    assert {folder.name for folder in (lake.folder / "pairs").rglob("k=*")} == {f"k={k}" for k in range(3 * ROWS // 4)}
    described = lake.command("explain", lake.folder / "job.toml")
    assert f"source a: streaming {kind} table, {lake.folder}/pairs" in described.out

    without_key_0(kind, lake)
    lake.put(3)
    lake.ends(FILES, sink)
    ended = lake.run(source, again)
    assert ended.status == 1
    option = "skipChangeCommits" if kind == "delta" else "streaming-skip-delete-snapshots"
    assert f"the query failed: sources.a: {'version' if kind == 'delta' else 'snapshot'} " in ended.err
    assert " removes or replaces rows, and a stream of a table has appended rows alone" in ended.err
    assert f'write options = {{ "{option}" = true }}' in ended.err
    done = lake.ends(f'{source}, options = {{ "{option}" = true }}', again)
    assert done["rows_in"] == len(expected(4 * ROWS)) - len(expected(3 * ROWS))
    pairs = expected(4 * ROWS)
    assert lake.rows(kind, "again") == sorted((a, c) for a, b in pairs for c, d in pairs if b == d and a < c)


RATED = (
    """
sources.a = {{ format = "parquet", path = "in" }}
sources.rates = {{ format = "{kind}", path = "pairs", table = true, refresh = "10 minutes" }}
sink = {{ format = "parquet", path = "rated", checkpoint = "three" }}
join = {{ left = "a", right = "rates", on = "l.k = r.k", how = "left", select = ["l.id", "r.id"] }}
"""
    + SPARK
)


def test_a_micro_batch_that_runs_again_meets_the_version_that_it_met(kind: str, lake: Lake):
    def rated() -> set[tuple[int, int | None]]:
        (lake.folder / "rated.toml").write_text(RATED.format(kind=kind, jars=lake.jars))
        ended = lake.command("run", lake.folder / "rated.toml", "--json")
        assert ended.status == 0, ended.err
        return {(row["id"], row["id_right"]) for row in pq.read_table(lake.folder / "rated").to_pylist()}

    def met(first: int, last: int, count: int) -> set[tuple[int, int | None]]:
        """Return what rows meet in a table with the pairs of so many rows."""
        found: set[tuple[int, int | None]] = {
            (n, m) for n in range(first, min(last, count)) for m in range(n // 4 * 4, n // 4 * 4 + 3)
        }
        return found | {(n, None) for n in range(count, last)}

    sink = f'format = "{kind}", path = "pairs", checkpoint = "one"'
    lake.put(0)
    lake.ends(FILES, sink)
    lake.put(1)
    assert rated() == met(0, 2 * ROWS, ROWS)
    # The table gets the pairs of the second file; the last micro-batch was killed before it ended.
    lake.ends(FILES, sink)
    (lake.folder / "three" / "commits" / "0").unlink()
    shutil.rmtree(lake.folder / "rated")
    assert rated() == met(0, 2 * ROWS, ROWS)
    shutil.copy(lake.folder / "in" / "1.parquet", lake.folder / "in" / "2.parquet")
    assert rated() == met(0, 2 * ROWS, ROWS) | met(ROWS, 2 * ROWS, 2 * ROWS)
    lines = (lake.folder / "three" / "slidejoin_tables" / "rates.json").read_text().splitlines()
    notes = [json.loads(line) for line in lines]
    assert len({note["version"] for note in notes}) == 2


@pytest.mark.nightly
def test_whenever_the_driver_is_killed_each_pair_is_in_the_table_once(kind: str, lake: Lake):
    kills, files, rows, draw = 5, 40, 400, random.Random(44)
    lake.put(*range(files), count=rows)
    sink = f'format = "{kind}", path = "pairs", partition_by = ["day"], checkpoint = "one"'
    job = JOB.replace('"l.k"]', '"l.k", "l.day"]')
    source = f'{FILES}, columns = ["*", "k % 3 AS day"]'
    (lake.folder / "job.toml").write_text(job.format(source=source, sink=sink, jars=lake.jars))
    amid = 0
    for _ in range(kills):
        running = Running(lake.folder)
        with suppress(AssertionError):  # it has come to its end
            running.until(partial(lambda batches, of: of.events().count("batch") > batches, draw.randrange(3), running))
            time.sleep(draw.uniform(0, 1))
        running.kill()
        begun, done = (len(list((lake.folder / "one" / name).glob("[0-9]*"))) for name in ("offsets", "commits"))
        amid += begun > done
    status, errors, _ = Running(lake.folder).end()
    assert status == 0, errors
    assert amid
    assert lake.rows(kind, "pairs") == expected(files * rows)
