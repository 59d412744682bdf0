"""What to write in a job file, where errors of the library say what to write in Python."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING

from slidejoin.errors import ConfigError
from slidejoin.sides import SIDES
from slidejoin.spark.job.column_names import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from slidejoin.cli.job import Job

__all__ = ["check_event_times", "in_toml"]

RENAMED = re.compile(r"""df\.withColumnRenamed\('(\w+)', …\) keeps its watermark""")
TEXT = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
MADE = re.compile(rf"df\.withColumn\({TEXT}, F\.expr\({TEXT}\)\)")
OPTION = re.compile(r"(?<![\w.])(how|output|late|strategy|order_by|suffix)='([^'\"\\]*)'")
NUMBER = re.compile(r"(?<![\w.])(partitions|spread)=(\d+)")
BARE = re.compile(r"(?<![\w.])(select|keep|strategy|spread|partitions|order_by|output|how)=(?=[\s,.;:)]|$)")
SETTING = re.compile(r"""spark\.conf\.set\("([^"]+)", "([^"]+)"\)""")


def check_event_times(job: Job, frames: Mapping[str, DataFrame]) -> None:
    """Check that the event time of each source is a timestamp, if there is such a column.

    Raises
    ------
    ConfigError
        If it is of another type; it says how the job file can convert it.
    """
    from pyspark.sql.types import TimestampType  # noqa: PLC0415 - an extra

    join = job.join
    named = zip(SIDES, (join.left, join.right or join.left), strict=True)
    for name, column in ((name, column) for side, name in named for column in join.window.event_times(side)):
        kinds = {field.name: field.dataType for field in frames[name].schema.fields}
        if column in kinds and not isinstance(kinds[column], TimestampType):
            own = quoted(column)
            columns = [f"* EXCEPT ({own})", f"CAST({own} AS TIMESTAMP) AS {own}"]
            msg = (
                f"join.window: the event time {column!r} of source {name} is {kinds[column].simpleString()}, expected "
                f"a timestamp. Convert it in [sources.{name}]: columns = {json.dumps(columns, ensure_ascii=False)}"
            )
            raise ConfigError(msg)


def in_toml(advice: str) -> str:
    """Return an error's advice as of a job file.

    Examples
    --------
    >>> in_toml('Set it before: spark.conf.set("spark.a", "b"); then')
    'Set it before: conf = { "spark.a" = "b" } in [spark]; then'
    >>> in_toml("leave it out of select=, set partitions=8, or use how='inner'")
    'leave it out of select, set partitions = 8, or use how = "inner"'
    """
    advice = SETTING.sub(r'conf = { "\1" = "\2" } in [spark]', advice)
    advice = RENAMED.sub(r'columns = ["* EXCEPT (\1)", "\1 AS other"] in its source', advice)
    advice = MADE.sub(_made, advice)
    advice = advice.replace("output=sj.Aggregate(n='count')", 'output = { n = "count" }')
    advice = OPTION.sub(r'\1 = "\2"', advice)
    return BARE.sub(r"\1", NUMBER.sub(r"\1 = \2", advice))


def _made(match: re.Match[str]) -> str:
    """Return a column made by Spark as a job file makes it."""
    try:
        name, sql = ast.literal_eval(match[1]), ast.literal_eval(match[2])
    except (ValueError, SyntaxError):
        return match[0]
    columns = [f"* EXCEPT ({quoted(name)})", f"{sql} AS {quoted(name)}"]
    return f"columns = {json.dumps(columns, ensure_ascii=False)} in its source"
