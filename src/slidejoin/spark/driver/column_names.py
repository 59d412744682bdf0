"""Names of columns for Spark: in SQL they stand in backticks, and by default case does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["folds_names", "quoted"]

CASE_SENSITIVE = "spark.sql.caseSensitive"


def folds_names(session: SparkSession) -> bool:
    """Whether names that differ by case alone are the same in a session."""
    return str(session.conf.get(CASE_SENSITIVE, "false")).lower() != "true"


def quoted(name: str) -> str:
    """Return a column's name as Spark's functions read it.

    Examples
    --------
    >>> quoted("Event `Time`")
    '`Event ``Time```'
    """
    return "`" + name.replace("`", "``") + "`"
