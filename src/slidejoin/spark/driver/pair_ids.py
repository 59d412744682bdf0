"""Ids of pairs: 128 bits from the values of both rows, the same in every run, strategy and micro-batch.

Each input row gets two numbers of 64 bits before the join, which pass through it as columns; behind it the id is made
of those of both rows. So an id depends on nothing but the two rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from slidejoin.errors import ArgumentError, PredicateError
from slidejoin.plan.output_schema import one_name
from slidejoin.spark.job.column_names import folds_names, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["PairIds"]

NUMBERS = ("__slidejoin_row_1", "__slidejoin_row_2")
"""Columns of the numbers of a row."""

WHOLE = {
    "timeZone": "UTC",
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How nested values are written as text, with all that is in them."""


class PairIds:
    """The column of ids of a join's result.

    Parameters
    ----------
    name : str
        Of the column.
    """

    row_bytes = 16
    """What the numbers add to a row."""

    def __init__(self, name: object) -> None:
        if not isinstance(name, str) or not name.strip():
            msg = f"pair_id must be the name of a column, got {name!r}"
            raise ArgumentError(msg)
        self._name = name

    def numbered(self, frame: DataFrame) -> DataFrame:
        """Return the rows of an input with their numbers.

        Raises
        ------
        PredicateError
            If two columns have the same name.
        """
        fold = folds_names(frame.sparkSession)
        names = [one_name(name, fold=fold) for name in frame.columns]
        for name in frame.columns:
            if names.count(one_name(name, fold=fold)) > 1:
                msg = f"pair_id={self._name!r} is made of all columns, and two are named {name!r}; rename one of them"
                raise PredicateError(msg)
        values = [part for name in frame.columns for part in _parts(frame, name)]
        return frame.withColumns(
            {name: F.xxhash64(F.lit(number), *values) for number, name in enumerate(NUMBERS, start=1)}
        )

    @staticmethod
    def selected(select: Iterable[str] | None, aliases: tuple[str, str], sides: int) -> Iterable[str] | None:
        """Return the columns to select of a join, the numbers among them; None for all.

        Parameters
        ----------
        sides : int
            1 if the result has the left side's columns alone.
        """
        if select is None or isinstance(select, str):  # the latter is refused with the other arguments
            return select
        return [*select, *(f"{alias}.{name}" for alias in aliases[:sides] for name in NUMBERS)]

    def made(self, joined: DataFrame, config: JoinSpec) -> DataFrame:
        """Return a result with the ids instead of the numbers of rows.

        Raises
        ------
        PredicateError
            If the result has a column of that name.
        """
        numbers = [*NUMBERS, *(f"{name}{config.suffix}" for name in NUMBERS)]
        columns = [name for name in joined.columns if name not in numbers]
        fold = folds_names(joined.sparkSession)
        if one_name(self._name, fold=fold) in {one_name(name, fold=fold) for name in columns}:
            msg = (
                f"pair_id={self._name!r}: the result has a column of that name; give another, or leave it out with "
                "select="
            )
            raise PredicateError(msg)
        own = [part for name in numbers if name in joined.columns for part in (F.col(name), F.col(name).isNull())]
        words = [F.lpad(F.lower(F.hex(F.xxhash64(F.lit(number), *own))), 16, "0") for number in (1, 2)]
        return joined.select(*(F.col(quoted(name)) for name in columns), F.concat(*words).alias(self._name))


def _parts(frame: DataFrame, name: str) -> list[Column]:
    """Return what is hashed of a column: its value, and whether that is NULL, which Spark's hash passes over."""
    column, kind = F.col(quoted(name)), frame.schema[name].dataType
    if isinstance(kind, (ArrayType, MapType, StructType, VariantType)):
        column = F.to_json(F.struct(column), WHOLE)
    return [column, F.col(quoted(name)).isNull()]
