"""Tables of Delta and Iceberg in jobs on Spark: settings of the session, streams of appends, tables that are missing.

As a source a table is a stream of what its versions append. As a sink it has each micro-batch once: both formats keep
the number of the last one that a query has written.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from slidejoin.cli.paths import local_path
from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from slidejoin.cli.job import Job, Session, Sink, Source
    from slidejoin.spark.driver.table_versions import TableRefresh

__all__ = ["LAKES", "TablePins", "lake_options", "lake_settings", "pinned_tables", "refused_change", "table_made"]

JARS = ("spark.jars", "spark.jars.packages")
VERSION = "versionAsOf"
"""The option for one version of a table at rest, of both formats."""

EXTENSIONS = "spark.sql.extensions"
SNAPSHOTS = "spark.databricks.delta.snapshotPartitions"


class Lake(NamedTuple):
    """What differs between the formats.

    Attributes
    ----------
    named : str
        A table of the format, in words.
    settings : Mapping of str to str
        Of a session that reads and writes such tables.
    files : str
        The option for the most files of a micro-batch.
    change : re.Pattern
        The error of a version that does not only append, with its number.
    skips : Mapping of str to str
        Options that leave such versions out, by a word of the error.
    """

    named: str
    settings: Mapping[str, str]
    files: str
    change: re.Pattern[str]
    skips: Mapping[str, str]


FOLDER = "slidejoin_tables"
"""Of the checkpoint: the versions of tables."""

LAKES = {
    "delta": Lake(
        "a delta table",
        {
            EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
        "maxFilesPerTrigger",
        re.compile(r"Detected (a data update|deleted data).*? at version (\d+)", re.DOTALL),
        {"update": "skipChangeCommits", "deleted": "skipChangeCommits"},
    ),
    "iceberg": Lake(
        "an iceberg table",
        {},
        "streaming-max-files-per-micro-batch",
        re.compile(r"Cannot process (delete|overwrite) snapshot:? (\d+)"),
        {"delete": "streaming-skip-delete-snapshots", "overwrite": "streaming-skip-overwrite-snapshots"},
    ),
}
"""The formats of tables, by name."""


def lake_settings(session: Session, cores: int) -> dict[str, str]:
    """Return the settings of a session that reads or writes tables of these formats, unless `conf` has them.

    `cores` are those of a local master; 0 for others.
    """
    if not (session.auto_packages or session.packages or session.jars or session.conf.keys() & {*JARS}):
        return {}
    made = {}
    if cores and "delta" in session.formats and SNAPSHOTS not in session.conf:
        made[SNAPSHOTS] = str(cores)  # of 50 tasks, which read a log of some files
    for kind in session.formats:
        for name, value in LAKES[kind].settings.items() if kind in LAKES else ():
            given = session.conf.get(name)
            if name == EXTENSIONS and given is not None and value not in given.split(","):
                made[name] = f"{given},{value}"
            elif given is None:
                made[name] = value
    return made


def lake_options(source: Source) -> dict[str, str]:
    """Return the options of Spark's reader of a table; none for other formats."""
    if source.format not in LAKES or source.max_files_per_trigger is None:
        return {}
    return {LAKES[source.format].files: str(source.max_files_per_trigger)}


def refused_change(error: BaseException, job: Job) -> str | None:
    """Return why a query over tables has ended if a version of one does not only append; None for other errors."""
    text = str(error)
    for kind, lake in LAKES.items():
        change = lake.change.search(text)
        of_kind = [source for source in job.sources.values() if source.format == kind and source.stream]
        if change is None or not of_kind:
            continue
        named = [source for source in of_kind if source.path is not None and source.path in text] or of_kind
        option = next(option for word, option in lake.skips.items() if word in change[1])
        version = "version" if kind == "delta" else "snapshot"
        names = " or ".join(f"sources.{source.name}" for source in named)
        return (
            f"{names}: {version} {change[2]} of the {kind} table removes or replaces rows, and a stream of a table has "
            f"appended rows alone. To leave such versions out, with the rows that they add, write options = "
            f'{{ "{option}" = true }}. Or begin with a new checkpoint and another place for the results'
        )
    return None


def table_made(result: DataFrame, sink: Sink) -> bool:
    """Create the table of a sink if it is of Iceberg and missing, and return whether it was.

    Spark's writer of Delta creates tables itself.

    Raises
    ------
    ConfigError
        If the result lacks a column of `partition_by`.
    """
    if sink.format != "iceberg" or sink.path is None:
        return False
    spark = result.sparkSession
    java = spark._jvm  # noqa: SLF001 - Iceberg makes tables in folders from Java alone
    session = spark._jsparkSession  # noqa: SLF001 - as above
    tables = java.org.apache.iceberg.hadoop.HadoopTables(session.sessionState().newHadoopConf())  # type: ignore[union-attr]
    if tables.exists(sink.path):
        return False
    # Whatever a column of the result holds, a table that lasts takes NULLs.
    schema = java.org.apache.iceberg.spark.SparkSchemaUtil.convert(result._jdf.schema().asNullable())  # type: ignore[union-attr]  # noqa: SLF001
    spec = java.org.apache.iceberg.PartitionSpec.builderFor(schema)  # type: ignore[union-attr]
    for column in sink.partition_by:
        if column not in result.columns:
            msg = f"sink.partition_by: the result has no column {column!r}; it has {', '.join(result.columns)}."
            raise ConfigError(msg + nearest(column, result.columns))
        spec = spec.identity(column)
    tables.create(schema, spec.build(), java.java.util.HashMap(), sink.path)  # type: ignore[union-attr]
    return True


# -- versions in the checkpoint ----------------------------------------------------------------------------------------


def pinned_tables(
    job: Job, frames: dict[str, DataFrame], load: Callable[[Source], DataFrame]
) -> tuple[dict[str, DataFrame], TableRefresh | None]:
    """Return the frames of a job and how its table is read again, if it is.

    The checkpoint has the versions of tables of Delta and Iceberg: before micro-batches meet another one, it has its
    number and the time from which on they do. A micro-batch that runs again when the job starts again has the
    time of its first run, and so meets the same version.

    Parameters
    ----------
    job : Job
    frames : dict from name to DataFrame
    load : callable
        Returns the DataFrame of a source.
    """
    from slidejoin.spark.driver.table_versions import TableRefresh  # noqa: PLC0415 - belongs to an extra

    source = next((one for one in job.sources.values() if one.refresh is not None), None)
    if source is None or source.refresh is None:
        return frames, None
    checkpoint = None if job.sink.checkpoint is None else local_path(job.sink.checkpoint, job.session)
    if source.format not in LAKES or checkpoint is None:
        return frames, TableRefresh(source.refresh)
    pins = TablePins(checkpoint, source.name)
    table = _Versions(frames[source.name].sparkSession, source, pins, load)
    first = table.first()
    return frames | {source.name: first}, TableRefresh(source.refresh, table.newest, table.taken, soon=table.again)


class TablePins:
    """The versions of a table that a checkpoint has, each with a time in milliseconds.

    Parameters
    ----------
    checkpoint : Path
    name : str
        Of the source.
    """

    def __init__(self, checkpoint: Path, name: str) -> None:
        self._checkpoint, self._file = checkpoint, checkpoint / FOLDER / f"{name}.json"

    def pending(self) -> int | None:
        """Return the time of the micro-batch that is planned and not done, which runs again first; None without one."""
        numbers = [int(path.name) for path in (self._checkpoint / "offsets").glob("[0-9]*") if path.name.isdecimal()]
        if not numbers or (self._checkpoint / "commits" / str(max(numbers))).exists():
            return None
        lines = (self._checkpoint / "offsets" / str(max(numbers))).read_text(encoding="utf-8").splitlines()
        return int(json.loads(lines[1])["batchTimestampMs"])

    def version(self, at: int) -> int | None:
        """Return the version that a micro-batch of this time meets; None if that is not noted."""
        if not self._file.is_file():
            return None
        # A line that a kill has cut is of a version that no micro-batch has met.
        lines = [line for line in self._file.read_text(encoding="utf-8").splitlines(keepends=True) if line[-1] == "\n"]
        notes = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n")]
        fitting = [note["version"] for note in notes if note["from"] <= at]
        return int(fitting[-1]) if fitting else None

    def note(self, version: int, start: int) -> None:
        """Note that micro-batches from a time on meet a version."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        whole = not self._file.is_file() or self._file.read_bytes()[-1:] in {b"", b"\n"}
        with self._file.open("a", encoding="utf-8") as file:
            file.write(("" if whole else "\n") + json.dumps({"from": start, "version": version}) + "\n")
            file.flush()
            os.fsync(file.fileno())


class _Versions:
    """Reads versions of one table."""

    def __init__(
        self, spark: SparkSession, source: Source, pins: TablePins, load: Callable[[Source], DataFrame]
    ) -> None:
        self._spark, self._source, self._pins, self._load = spark, source, pins, load
        self._version = -1
        self.again = False
        """Whether the first version is one of a micro-batch that runs again, and may be an old one."""

    def first(self) -> DataFrame:
        """Return the version that the first micro-batch meets."""
        pending = self._pins.pending()
        version = None if pending is None else self._pins.version(pending)
        if version is None:
            frame = self.newest()
            self.taken(int(time.time() * 1000))
            return frame
        self.again = True
        return self._at(version)

    def newest(self) -> DataFrame:
        """Return the newest version."""
        path = self._source.path or ""
        reader = self._spark.read.format(self._source.format)
        if self._source.format == "delta":
            quoted = path.replace("`", "``")
            row = self._spark.sql(f"DESCRIBE HISTORY delta.`{quoted}` LIMIT 1").select("version").first()
        else:
            row = reader.load(f"{path}#refs").where("name = 'main'").select("snapshot_id").first()
        self._version = -1 if row is None else int(row[0])
        return self._at(self._version)

    def _at(self, version: int) -> DataFrame:
        source = self._source
        if version >= 0:
            source = replace(source, options={**source.options, VERSION: str(version)})
        return self._load(source)

    def taken(self, start: int) -> None:
        """Note that micro-batches from a time on meet the version that was read last."""
        self._pins.note(self._version, start)
