"""Names of columns for Spark: in SQL they stand in backticks, and by default case does not count.

Those of the columns that a task gets differ: ``mapInArrow`` looks columns up by names, where a dot means a field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.predicate import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["compared_columns", "folds_names", "quoted", "task_column"]

CASE_SENSITIVE = "spark.sql.caseSensitive"

PREFIX = "#slidejoin:"
"""Of names of columns that tasks get by number."""


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


def task_column(number: int, name: str) -> str:
    """Return the name under which tasks get the input column of that number among those that they need.

    Examples
    --------
    >>> task_column(0, "price"), task_column(1, "order.id")
    ('price', '#slidejoin:1')
    """
    return f"{PREFIX}{number}" if name == "*" or {".", "`"} & set(name) or name.startswith(PREFIX) else name


def compared_columns(config: JoinSpec, side: Side) -> list[str]:
    """Return the columns of a side whose values are compared: in the predicate, by nearest matches, by aggregates."""
    names = [*columns_of(config.on, side)]
    if config.keep is not None:
        names.append(config.keep.names(config.aliases)[side == "right"])
    if config.aggregate is not None and side == "right":
        ordered = [one for one in config.aggregate.functions if one.function in ("min", "max")]
        names += [name for one in ordered if (name := one.column_name(config.aliases)) is not None]
    return names
