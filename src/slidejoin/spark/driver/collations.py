"""Texts with a collation: compared by a key whose bytes compare as the texts do, or refused.

The key of ``UTF8_LCASE``, texts without regard to case, is written with Spark's own functions. It is a column that is
added to an input; the predicate reads it where it compares two such columns, and the result does not have it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import ArrayType, MapType, StringType, StructType

from slidejoin.plan.output_schema import named
from slidejoin.predicate.expression.expr import Column, Compare, IsNull, rewritten
from slidejoin.sides import SIDES
from slidejoin.spark.job.checks import SparkJoinError
from slidejoin.spark.job.column_names import folds_names, quoted
from slidejoin.spec.join_options import ONE_SIDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from slidejoin.predicate.expression.expr import Expr
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["Keyed", "check_collations", "keyed_join", "with_keys"]

BY_BYTES = "UTF8_BINARY"
"""The collation of texts that compare by their bytes, as all texts of a join do."""

KEYS = {"UTF8_LCASE": "lower(translate({} COLLATE UTF8_BINARY, '\u03a3\u03c2', '\u03c3\u03c3'))"}
"""Collations whose texts have a key, and how it is written. Spark takes every sigma for the same, `lower` does not."""

Input = TypeVar("Input")


class Keyed(NamedTuple):
    """A predicate over the keys of collated texts, and the names of the columns that hold these, by input."""

    on: Expr
    added: dict[object, dict[str, str]]

    def frame(self, own: object, frame: DataFrame) -> DataFrame:
        """Return an input with the keys of its texts."""
        keys = self.added.get(own, {})
        return frame.withColumns({key: F.expr(written) for key, written in keys.items()}) if keys else frame


def with_keys(
    on: Expr, input_of: Callable[[Column], tuple[Input, DataFrame, str]], renamed: Callable[[Column, str], Column]
) -> Keyed:
    """Let a predicate compare keys where it compares two columns of one collation that has such.

    Parameters
    ----------
    on : Expr
    input_of : callable
        Returns whose a column is, the frame, and the column's name in it.
    renamed : callable
        Returns another column of the same input, by its name.

    Returns
    -------
    Keyed
        Comparisons of other texts with a collation are left as they are, for `check_collations` to refuse.
    """
    added: dict[object, dict[str, str]] = {}

    def keyed(expr: Expr) -> tuple[Column, object, str, str] | None:
        """Return of a column whose collation has a key: itself, whose it is, its name, and the collation."""
        if not isinstance(expr, Column):
            return None
        own, frame, name = input_of(expr)
        field = named(name, {one.name: one for one in frame.schema.fields}, fold=folds_names(frame.sparkSession))
        collation = _collation(field.dataType) if field is not None and isinstance(field.dataType, StringType) else None
        return None if field is None or collation not in KEYS else (expr, own, field.name, str(collation))

    def key(column: tuple[Column, object, str, str]) -> Column:
        expr, own, name, collation = column
        hidden = f"{name} COLLATE {collation}"
        added.setdefault(own, {})[hidden] = KEYS[collation].format(quoted(name))
        return renamed(expr, hidden)

    def compared(expr: Expr) -> Expr | None:
        if isinstance(expr, Compare):
            left, right = keyed(expr.left), keyed(expr.right)
            if left is not None and right is not None and left[-1] == right[-1]:
                return replace(expr, left=key(left), right=key(right))
        if isinstance(expr, IsNull) and (column := keyed(expr.operand)) is not None:
            return IsNull(key(column))
        return None

    return Keyed(rewritten(on, compared), added)


def keyed_join(frames: dict[Side, DataFrame], config: JoinSpec) -> tuple[dict[Side, DataFrame], JoinSpec]:
    """Return the frames and the join with keys of the collated texts that are compared, which no result has."""

    def input_of(column: Column) -> tuple[Side, DataFrame, str]:
        side: Side = column.side if column.side in frames else "left"
        return side, frames[side], column.name

    keyed = with_keys(config.on, input_of, lambda column, name: replace(column, name=name))
    if not keyed.added:
        return frames, config
    select = config.select
    if select is None:
        shown = SIDES[:1] if config.how in ONE_SIDED or config.aggregate is not None else SIDES
        alias = dict(zip(SIDES, config.aliases, strict=True))
        select = tuple(f"{alias[side]}.{name}" for side in shown for name in frames.get(side, frames["left"]).columns)
    return {side: keyed.frame(side, frame) for side, frame in frames.items()}, replace(
        config, on=keyed.on, select=select
    )


def check_collations(frame: DataFrame, whose: str, compared: Iterable[str]) -> None:
    """Check that texts that are compared have no collation, as a join compares them by their bytes.

    `whose` is the input in words. Columns that it does not have are for others to refuse.

    Raises
    ------
    SparkJoinError
        If one has a collation.
    """
    fields = {field.name: field for field in frame.schema.fields}
    fold = folds_names(frame.sparkSession)
    for written in compared:
        field = named(written, fields, fold=fold)
        collation = None if field is None else _collation(field.dataType)
        if field is None or collation is None:
            continue
        name, kind = field.name, field.dataType
        column, how = quoted(name), ""
        by_bytes = f"{column} COLLATE {BY_BYTES}"
        if isinstance(kind, StringType):
            how = (
                f". Compare its bytes: df.withColumn({name!r}, F.expr({by_bytes!r})); or, without regard to case, "
                f"{f'lower({by_bytes})'!r}"
            )
            if collation in KEYS:
                how = f" unless it compares two columns of that collation with each other{how}"
        elif isinstance(kind, ArrayType):
            by_bytes = f"transform({column}, one -> one COLLATE {BY_BYTES})"
            how = f". Compare its bytes: df.withColumn({name!r}, F.expr({by_bytes!r}))"
        msg = f"column {name!r} of {whose} is {kind.simpleString()}, but a join compares texts by their bytes{how}"
        raise SparkJoinError(msg)


def _collation(kind: DataType) -> str | None:
    """Return a collation of texts in a type, at any depth, other than that of their bytes; None if there is none."""
    if isinstance(kind, StringType):
        collation = getattr(kind, "collation", BY_BYTES)
        return None if collation == BY_BYTES else str(collation)
    inner: list[DataType] = []
    if isinstance(kind, ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, MapType):
        inner = [kind.keyType, kind.valueType]
    elif isinstance(kind, StructType):
        inner = [field.dataType for field in kind.fields]
    return next((name for one in inner if (name := _collation(one)) is not None), None)
