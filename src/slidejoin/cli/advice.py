"""What to write in a job file, where errors of the library say what to write in Python."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from slidejoin.errors import ConfigError
from slidejoin.sides import SIDES
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from slidejoin.cli.job import Job

__all__ = ["check_event_times", "in_toml"]

RENAMED = re.compile(r"""df\.withColumnRenamed\('(\w+)', …\) keeps its watermark""")
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
    if not isinstance(join.window, TimeWindow):
        return
    for side, name in zip(SIDES, (join.left, join.right or join.left), strict=True):
        column = join.window.on(side)
        kinds = {field.name: field.dataType for field in frames[name].schema.fields}
        if column in kinds and not isinstance(kinds[column], TimestampType):
            quoted = f"`{column.replace('`', '``')}`"
            columns = [f"* EXCEPT ({quoted})", f"CAST({quoted} AS TIMESTAMP) AS {quoted}"]
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
    """
    advice = SETTING.sub(r'conf = { "\1" = "\2" } in [spark]', advice)
    return RENAMED.sub(r'columns = ["* EXCEPT (\1)", "\1 AS other"] in its source', advice)
