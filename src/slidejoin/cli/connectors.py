"""Connectors that Spark does not bring: their coordinates, jars in a folder, and what to add where one is missing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from slidejoin.cli.job import Session

__all__ = ["connector_settings", "coordinates", "what_is_missing", "without_connector"]

ARTEFACTS = {
    "kafka": ("org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}", "4.2.0"),
    "avro": ("org.apache.spark:spark-avro_{scala}:{version}", "4.2.0"),
    "delta": ("io.delta:delta-spark_{minor}_{scala}:4.4.0", "4.2"),
    "iceberg": ("org.apache.iceberg:iceberg-spark-runtime-{minor}_{scala}:1.12.0", "4.1"),
}
"""The connector of a format, and the newest Spark that there is one for."""

OWN = ("kafka", "avro")
"""Formats whose connectors are Spark's own, and run on the Spark that follows; others do not."""

JARS, PACKAGES, EXCLUDES = "spark.jars", "spark.jars.packages", "spark.jars.excludes"
BROUGHT = (
    *("org.slf4j:slf4j-api", "org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime"),
    "org.scala-lang:scala-library",
)
"""What connectors need and Spark has: 60 MB, and where Maven's own folder has half of it, Spark's resolver fails."""

NOT_FOUND = re.compile(r"Failed to find (?:the )?data source: `?([\w.-]+)`?|DATA_SOURCE_NOT_FOUND", re.IGNORECASE)
NO_AVRO = "AVRO_NOT_LOADED"
NUMBERS = re.compile(r"\d+")
SCALA = "2.13"
"""Of all Spark 4, where its own jars do not say."""


def without_connector(kind: str) -> str | None:
    """Return why the Spark that is installed has no connector of a format; None if it has one, or none is known."""
    from pyspark import __version__ as spark  # noqa: PLC0415 - belongs to an extra

    newest = ARTEFACTS[kind][1] if kind in ARTEFACTS and kind not in OWN else None
    if newest is None or _numbers(spark)[:2] <= _numbers(newest):
        return None
    return (
        f"the newest connector of {kind} that is known here is for Spark {newest}, and pyspark {spark} is installed: "
        f'pip install "pyspark=={newest}.*", or name another connector in spark.packages.'
    )


def coordinates(kind: str) -> str | None:
    """Return the connector of a format for the Spark that is installed, or the newest one; None if none is known."""
    from pyspark import __version__ as spark  # noqa: PLC0415 - belongs to an extra

    if kind not in ARTEFACTS:
        return None
    template, newest = ARTEFACTS[kind]
    version = min(spark, newest, key=_numbers)
    return template.format(scala=_scala(), version=version, minor=".".join(version.split(".")[:2]))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in NUMBERS.findall(version)[:3])


def _scala() -> str:
    """Return the version of Scala that the installed Spark is of, as coordinates have it."""
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415 - as above

    files = sorted(Path(_find_spark_home(), "jars").glob("scala-library-*.jar"))
    numbers = _numbers(files[0].stem) if files else ()
    return ".".join(map(str, numbers[:2])) if numbers else SCALA


def connector_settings(session: Session) -> dict[str, str]:
    """Return the settings that give Spark its connectors, those of `conf` included.

    Raises
    ------
    ConfigError
        If there is no jar where jars should be, or no connector of a format for this Spark.
    """
    packages, jars = list(session.packages), list[str]()
    for kind in session.formats if session.auto_packages else ():
        reason = without_connector(kind)
        if reason is not None:
            msg = f"spark.packages: {reason}"
            raise ConfigError(msg)
    if session.auto_packages:
        packages += filter(None, map(coordinates, session.formats))
    for place in session.jars:
        path = Path(place)
        files = sorted(path.glob("*.jar")) if path.is_dir() else [path]
        if not files or not files[0].is_file():
            msg = f"spark.jars: there is no jar in {place}; expected a folder of jars, or a jar."
            raise ConfigError(msg)
        jars += map(str, files)
    made = {}
    excluded = BROUGHT if packages else ()
    for name, values in ((JARS, jars), (PACKAGES, packages), (EXCLUDES, excluded)):
        if values:
            given = session.conf.get(name)
            made[name] = ",".join([*([given] if given else []), *values])
    return made


def what_is_missing(error: BaseException, kind: str) -> str | None:
    """Return what to add if an error of Spark says that it has no such format; None for other errors."""
    text = str(error)
    if NO_AVRO in text:  # of records, whatever the format is that they are in
        kind = "avro"
    elif NOT_FOUND.search(text) is None:
        return None
    known, reason = coordinates(kind), without_connector(kind)
    if reason is not None:
        return f"Spark has no format {kind!r} of its own, and {reason}"
    if known is None:
        return (
            f'Spark has no format {kind!r}: give its connector in [spark], as packages = ["GROUP:ARTEFACT:VERSION"], '
            'or as jars = "FOLDER", or correct the name.'
        )
    return (
        f'Spark has no format {kind!r} of its own: write packages = "auto" in [spark], for {known}, or '
        'jars = "FOLDER" for a folder with its jars.'
    )
