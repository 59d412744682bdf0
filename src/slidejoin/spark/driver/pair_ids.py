"""Ids of pairs on Spark, by its own functions; see `slidejoin.plan.pair_ids`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from slidejoin.errors import PredicateError
from slidejoin.plan.output_schema import one_name
from slidejoin.plan.pair_ids import NUMBERS, PairIdColumn
from slidejoin.spark.job.column_names import folds_names, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["PairIds"]

WHOLE = {
    "timeZone": "UTC",
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How nested values are written as text, with all that is in them."""


class PairIds(PairIdColumn):
    """The column of ids of a join's result on Spark."""

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
                msg = f"pair_id={self.name!r} is made of all columns, and two are named {name!r}; rename one of them"
                raise PredicateError(msg)
        values = [part for name in frame.columns for part in _parts(frame, name)]
        return frame.withColumns(
            {name: F.xxhash64(F.lit(number), *values) for number, name in enumerate(NUMBERS, start=1)}
        )

    def made(self, joined: DataFrame, config: JoinSpec) -> DataFrame:
        """Return a result with the ids instead of the numbers of rows.

        Raises
        ------
        PredicateError
            If the result has a column of that name.
        """
        numbers = self.numbers(config.suffix)
        columns = [name for name in joined.columns if name not in numbers]
        fold = folds_names(joined.sparkSession)
        self.check_free(columns, fold=fold)
        own = [part for name in numbers if name in joined.columns for part in (F.col(name), F.col(name).isNull())]
        words = [F.lpad(F.lower(F.hex(F.xxhash64(F.lit(number), *own))), 16, "0") for number in (1, 2)]
        return joined.select(*(F.col(quoted(name)) for name in columns), F.concat(*words).alias(self.name))


def _parts(frame: DataFrame, name: str) -> list[Column]:
    """Return what is hashed of a column: its value, and whether that is NULL, which Spark's hash passes over."""
    column, kind = F.col(quoted(name)), frame.schema[name].dataType
    if isinstance(kind, (ArrayType, MapType, StructType, VariantType)):
        column = F.to_json(F.struct(column), WHOLE)
    return [column, F.col(quoted(name)).isNull()]
