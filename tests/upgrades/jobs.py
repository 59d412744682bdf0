"""Jobs whose checkpoints are fixtures, in one process and on Spark: their files, and what they must give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.oracle import Oracle, TimeScope
from tests.pipeline import jobs as pipeline_jobs
from tests.spark.feeds import Clock, Feed, finish, oracle_row, underway
from tests.spark.scenarios import LATENESS, LENGTH, rich_batches
from tests.spark.test_join_types_on_spark import PREDICATES, WINDOW
from tests.upgrades.archives import LATER

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

# -- in one process ----------------------------------------------------------------------------------------------------

JOB = "job"
JOB_FILE = "job.toml"
JOB_FILES, JOB_BEFORE = 5, 3
"""Files of each source, and how many of them the checkpoint has seen."""


def run_job(folder: Path) -> list[list[int]]:
    """Run the job of a folder in this process, and return the pairs of all its runs."""
    pipeline_jobs.run(folder, (folder / JOB_FILE).read_text("utf-8"))
    return [[*pair] for pair in pipeline_jobs.pairs(folder)]


def make_job(folder: Path) -> list[list[int]]:
    """Write a job and its files, run it on the first ones, and return its pairs of all files."""
    pipeline_jobs.put_all(folder, JOB_FILES)
    hide_later(folder, ("a", "b"), JOB_BEFORE - 1)
    (folder / JOB_FILE).write_text(pipeline_jobs.JOB, "utf-8")
    run_job(folder)
    return [[*pair] for pair in pipeline_jobs.expected(JOB_FILES)]


def hide_later(folder: Path, names: tuple[str, ...], last: int) -> None:
    """Move the files of sources behind a number to where their job does not see them."""
    for name in names:
        for path in sorted((folder / name).glob("*.parquet")):
            if int(path.stem) > last:
                (folder / LATER / name).mkdir(parents=True, exist_ok=True)
                path.rename(folder / LATER / name / path.name)


def show_later(folder: Path) -> None:
    """Let the job see all files."""
    for path in sorted((folder / LATER).glob("*/*.parquet")):
        path.rename(folder / path.parent.name / path.name)


# -- on Spark ----------------------------------------------------------------------------------------------------------

QUERIES: dict[str, dict[str, Any]] = {
    "spark-grid": {"predicate": "grid", "strategy": "grid", "partitions": 4},
    "spark-sub-windows": {"predicate": "grid", "strategy": "sub_windows", "partitions": 3},
    "spark-cell": {"predicate": "cell", "strategy": "cell", "how": "full", "partitions": 2},
}
"""By name: the predicate, and further arguments of ``stream_join``."""

SPARK_BEFORE = 3
"""Micro-batches that the checkpoint has seen."""

PLACE = "/place/of/the/fixture"
"""Begins the paths in an archive's checkpoint."""


def query_of(feed: Feed, name: str) -> DataFrame:
    from slidejoin.spark import stream_join

    options = dict(QUERIES[name])
    on = PREDICATES[options.pop("predicate")][0]
    return stream_join(feed.stream("left"), feed.stream("right"), on=on, window=WINDOW, **options)


def run_query(feed: Feed, name: str) -> list[list[int | None]]:
    """Let a query read what there is, on the checkpoint of the feed's folder; the ids of the rows of this run."""
    found: list[dict[str, Any]] = []
    writer = query_of(feed, name).writeStream.foreachBatch(
        lambda rows, _: found.extend(row.asDict() for row in rows.collect())
    )
    query = writer.option("checkpointLocation", str(feed.folder / "checkpoint")).trigger(availableNow=True).start()
    underway(query)
    finish(query)
    return sorted(([row["id"], row["id_right"]] for row in found), key=repr)


def law_of_query(name: str) -> list[list[int | None]]:
    """The ids of all rows of a query by the law, with the last micro-batch, which only advances the watermark."""
    options = QUERIES[name]
    scope = TimeScope(LENGTH * 1000, LENGTH * 1000, "ts", "ts")
    oracle, clock = Oracle(PREDICATES[options["predicate"]][1], scope, options.get("how", "inner")), Clock(LATENESS)
    rows: list[list[int | None]] = []
    for batch in [*rich_batches(), {}]:
        sides = {side: [oracle_row(row) for row in batch.get(side, [])] for side in ("left", "right")}
        low = None if clock.watermark is None else clock.watermark * 1000
        output = oracle.micro_batch(sides["left"], sides["right"], low)
        rows += [[left and left["id"], right and right["id"]] for left, right in output]
        if batch:
            clock.advance(batch)
    return sorted(rows, key=repr)


def make_query(spark: SparkSession, folder: Path, name: str) -> list[list[int | None]]:
    """Write the streams of a query, run it on the first micro-batches, and return the rows that must come behind."""
    feed = Feed(spark, folder)
    feed.add(rich_batches())
    hide_later(folder, ("left", "right"), SPARK_BEFORE)
    given = run_query(feed, name)
    rest = law_of_query(name)
    for row in given:
        rest.remove(row)
    return rest


def moved(path: Path, data: bytes, old: str, new: str) -> bytes:
    """Return a file's bytes with another folder in the paths that it holds: they are in texts alone."""
    return data.replace(old.encode(), new.encode()) if {"sources", "_metadata"} & {*path.parts} else data


def members_of(folder: Path) -> tuple[dict[str, bytes], dict[str, int]]:
    """Return the files of a folder for an archive, and the times of sources' files.

    Files that say of others whether they are whole do not fit their new place; a lock belongs to a process.
    """
    members, times = {}, {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if not path.is_file() or path.suffix == ".crc" or path.name.endswith(".lock"):
            continue
        members[inside.as_posix()] = moved(inside, path.read_bytes(), str(folder), PLACE)
        times[inside.as_posix()] = int(path.stat().st_mtime)
    return members, times


def settled(folder: Path) -> None:
    """Let the paths in an unpacked checkpoint be those of its folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            inside, data = path.relative_to(folder), path.read_bytes()
            if (there := moved(inside, data, PLACE, str(folder))) != data:
                path.write_bytes(there)
