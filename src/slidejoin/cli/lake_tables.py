"""Tables of Delta and Iceberg in jobs on Spark: settings of the session, streams of appends, tables that are missing.

As a source a table is a stream of what its versions append. As a sink it has each micro-batch once: both formats keep
the number of the last one that a query has written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from slidejoin.cli.job import Job, Session, Sink, Source

__all__ = ["LAKES", "lake_options", "lake_settings", "refused_change", "table_made"]

EXTENSIONS = "spark.sql.extensions"


class Lake(NamedTuple):
    """What differs between the formats.

    Attributes
    ----------
    settings : Mapping of str to str
        Of a session that reads and writes such tables.
    files : str
        The option for the most files of a micro-batch.
    change : re.Pattern
        The error of a version that does not only append, with its number.
    skips : Mapping of str to str
        Options that leave such versions out, by a word of the error.
    """

    settings: Mapping[str, str]
    files: str
    change: re.Pattern[str]
    skips: Mapping[str, str]


LAKES = {
    "delta": Lake(
        {
            EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
        "maxFilesPerTrigger",
        re.compile(r"Detected (a data update|deleted data).*? at version (\d+)", re.DOTALL),
        {"update": "skipChangeCommits", "deleted": "skipChangeCommits"},
    ),
    "iceberg": Lake(
        {},
        "streaming-max-files-per-micro-batch",
        re.compile(r"Cannot process (delete|overwrite) snapshot:? (\d+)"),
        {"delete": "streaming-skip-delete-snapshots", "overwrite": "streaming-skip-overwrite-snapshots"},
    ),
}
"""The formats of tables, by name."""


def lake_settings(session: Session) -> dict[str, str]:
    """Return the settings of a session that reads or writes tables of these formats, unless `conf` has them."""
    if not (session.auto_packages or session.packages or session.jars):
        return {}
    made = {}
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
