"""Checkpoints as an earlier version wrote them, and what their queries give when they go on.

``python -m tests.spark.former`` writes them anew, which only a new format of states needs. Each is a folder with the
rows that its query read, its checkpoint, and what it gave, in which paths begin with `PLACE`.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import slidejoin as sj
from tests.spark import many, test_join_types_on_spark, test_left_answers_on_spark
from tests.spark.feeds import Feed, Row, finish, underway
from tests.spark.scenarios import rich_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

FILE = Path(__file__).parent / "checkpoints.zip"
PLACE = "/former/place"
Batches = list[dict[str, list[Row]]]
Rows = list[dict[str, Any]]
Found = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Query:
    """A query, its rows, what counts of its output, and what that is by the law."""

    joined: Callable[[Feed], DataFrame]
    batches: Batches
    shown: Callable[[Rows], Found]
    law: Callable[[], Found]
    before: int = 3
    """Micro-batches that were read. All streams have rows in the next one: Spark forgets their watermarks."""


def of_pairs(name: str) -> Query:
    of = test_join_types_on_spark
    batches = rich_batches()

    def law() -> Found:
        return [one for rows in of.expected_of(batches, name) for one in rows]

    return Query(lambda feed: of.joined(feed, **of.JOINS[name]), batches, lambda rows: list(of.ids(rows)), law)


def of_left_rows(name: str) -> Query:
    of = test_left_answers_on_spark
    batches = rich_batches()

    def law() -> Found:
        return [one for rows in of.law(batches, name) for one in rows]

    return Query(lambda feed: of.joined(feed, name), batches, of.answers, law)


def of_many() -> Query:
    from slidejoin.spark import multi_join

    names, on, predicate = many.CASES["one"]
    batches = [{name: batch[name] for name in names} for batch in many.micro_batches("abcd")]
    shown = dict(zip("abcd", ("id", "id_b", "id_c", "id_d"), strict=True))

    def joined(feed: Feed) -> DataFrame:
        frames = {name: feed.stream(name) for name in names}
        return multi_join(
            frames, on=on, window=many.windows(names), select=[f"{one}.id" for one in names], partitions=2
        )

    def ids(rows: Rows) -> Found:
        return [tuple(row[shown[name]] for name in names) for row in rows]

    return Query(joined, batches, ids, lambda: list(many.law(batches, names, predicate)[0]), before=2)


def of_count_windows() -> Query:
    """Rows that are numbered, and then matched: their sequencer has a state too."""
    from slidejoin.spark import stream_join

    batches = rich_batches()

    def joined(feed: Feed) -> DataFrame:
        sides = (feed.stream(side) for side in ("left", "right"))
        return stream_join(
            *sides, on="l.x = r.x", window=sj.CountWindow(left=20, right=10), order_by="id", how="left", partitions=2
        )

    def law() -> Found:
        from tests.oracle import CountScope, Oracle
        from tests.spark.feeds import oracle_row

        of = test_join_types_on_spark
        oracle, found = Oracle(("=", of.L, of.R), CountScope(20, 10), "left"), []
        for batch in batches:
            rows = {side: [oracle_row(row) for row in batch[side]] for side in ("left", "right")}
            found += of.ids_of(oracle.micro_batch(rows["left"], rows["right"], None, "id"))
        return list(found)

    return Query(joined, batches, lambda rows: list(test_join_types_on_spark.ids(rows)), law)


QUERIES: dict[str, Callable[[], Query]] = {
    "full": lambda: of_pairs("full"),
    "scattered": lambda: of_pairs("scattered"),
    "once": lambda: of_pairs("once"),
    "asof": lambda: of_left_rows("asof"),
    "parts": lambda: of_left_rows("parts"),
    "many": of_many,
    "counted": of_count_windows,
}


def ran(feed: Feed, query: Query) -> Found:
    """Let a query read what there is, on the checkpoint of the feed's folder."""
    found: Rows = []
    writer = query.joined(feed).writeStream.foreachBatch(
        lambda rows, _: found.extend(row.asDict() for row in rows.collect())
    )
    started = writer.option("checkpointLocation", str(feed.folder / "checkpoint")).trigger(availableNow=True).start()
    underway(started)
    finish(started)
    return query.shown(found)


def moved(path: Path, data: bytes, old: str, new: str) -> bytes:
    """Return a file's bytes with another folder in the paths that it holds: they are in texts alone."""
    return data.replace(old.encode(), new.encode()) if {"sources", "_metadata"} & {*path.parts} else data


def write(spark: SparkSession) -> None:
    """Write all of them; files that say of others whether they are whole do not fit their new place."""
    with ZipFile(FILE, "w", ZIP_DEFLATED) as file, tempfile.TemporaryDirectory() as place:
        for name, made in QUERIES.items():
            query, folder = made(), Path(place) / name
            folder.mkdir()
            feed = Feed(spark, folder)
            feed.add(query.batches[: query.before])
            (folder / "given.json").write_text(json.dumps(ran(feed, query)))
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.suffix != ".crc":
                    inside = path.relative_to(folder)
                    data = moved(inside, path.read_bytes(), str(folder), PLACE)
                    file.writestr(ZipInfo(f"{name}/{inside}"), data, ZIP_DEFLATED)


def unpacked(spark: SparkSession, name: str, folder: Path) -> tuple[Feed, Found]:
    """Write one of them into a folder, and return its streams and what was given."""
    with ZipFile(FILE) as file:
        for member in file.namelist():
            if member.startswith(f"{name}/"):
                inside = Path(member.removeprefix(f"{name}/"))
                (folder / inside).parent.mkdir(parents=True, exist_ok=True)
                (folder / inside).write_bytes(moved(inside, file.read(member), PLACE, str(folder)))
    feed = Feed(spark, folder)
    for path in folder.glob("*/*.parquet"):
        feed.files = max(feed.files, int(path.stem))
        os.utime(path, (1_000_000_000 + int(path.stem),) * 2)
    return feed, [tuple(one) for one in json.loads((folder / "given.json").read_text())]


def main() -> None:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import SETTINGS

    session = SparkSession.builder.config(map=SETTINGS).getOrCreate()
    write(session)
    session.stop()


if __name__ == "__main__":
    main()
