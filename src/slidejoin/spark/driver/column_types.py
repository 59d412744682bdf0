"""The types that columns of Spark have: which can pass to Python; and the columns whose values are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import YearMonthIntervalType

from slidejoin.predicate import columns_of
from slidejoin.spark.driver.column_names import quoted
from slidejoin.spark.job.checks import SparkJoinError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["check_type", "compared_columns"]


def check_type(frame: DataFrame, whose: str, name: str) -> None:
    """Check that a column that a join reads is of a type that Spark passes to Python.

    `whose` is the input in words, such as "the left side".

    Raises
    ------
    SparkJoinError
        For intervals of months and of the calendar, and structs without fields or with two of one name, at any depth.
    """
    kind = frame.schema[name].dataType
    try:
        arrow = to_arrow_type(kind, timezone="UTC", error_on_duplicated_field_names_in_struct=True)
    except Exception:  # noqa: BLE001 - whatever Spark says of a type that Arrow does not have
        arrow = None
    if arrow is None or _has_empty_struct(arrow):
        how = ""
        if isinstance(kind, YearMonthIntervalType):
            sql = f"cast(cast({quoted(name)} AS interval month) AS int)"
            how = f", or make months of it before: df.withColumn({name!r}, F.expr({sql!r}))"
        msg = (
            f"column {name!r} of {whose} is {kind.simpleString()}, which cannot pass to Python and back; leave it out "
            f"with select={how}"
        )
        raise SparkJoinError(msg)


def compared_columns(config: JoinSpec, side: Side) -> list[str]:
    """Return the columns of a side whose values are compared: in the predicate, by nearest matches, by aggregates."""
    names = [*columns_of(config.on, side)]
    if config.keep is not None:
        names.append(config.keep.names(config.aliases)[side == "right"])
    if config.aggregate is not None and side == "right":
        ordered = [one for one in config.aggregate.functions if one.function in ("min", "max")]
        names += [name for one in ordered if (name := one.column_name(config.aliases)) is not None]
    return names


def _has_empty_struct(kind: pa.DataType) -> bool:
    """Tell whether there is a struct without fields in a type, which the state cannot keep."""
    fields = [kind.field(number).type for number in range(kind.num_fields)]
    return (pa.types.is_struct(kind) and not fields) or any(map(_has_empty_struct, fields))
