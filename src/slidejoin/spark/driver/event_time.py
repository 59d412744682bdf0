"""Event time: setting the watermark on the raw rows, before any other operator.

It is set on the raw rows, not on the packed blocks: Spark would drop a whole block whose stamp is at or below the
watermark, and pass late rows inside newer blocks. A second ``withWatermark`` further down makes the query fail in
its second micro-batch, so an input that has a watermark keeps it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import TimestampType

from slidejoin.errors import PredicateError, nearest
from slidejoin.plan.output_schema import one_name
from slidejoin.spark.job.checks import SparkJoinError
from slidejoin.spark.job.column_names import quoted
from slidejoin.spark.job.join_spec import MATCH_TIME
from slidejoin.spec.window import Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from slidejoin.spec.window import Window

__all__ = ["DELAY", "check_match_time", "check_time_column", "marked", "marks_of", "with_match_time"]

DELAY = "spark.watermarkDelayMs"
"""Spark's own key for the watermark in the metadata of a column: the delay in milliseconds."""

MILLISECOND = 1_000_000

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def marks_of(frame: DataFrame) -> dict[str, int]:
    """Return the event-time columns of a frame and their delays in milliseconds."""
    return {field.name: int(field.metadata[DELAY]) for field in frame.schema.fields if DELAY in field.metadata}


def check_match_time(names: Iterable[str], whose: str, *, fold: bool) -> None:
    """Refuse a column of the result that is called as the match time; `whose` it is, in words.

    Raises
    ------
    PredicateError
        If there is one.
    """
    if MATCH_TIME in {one_name(name, fold=fold) for name in names}:
        msg = (
            f"the result has a column {MATCH_TIME!r} of its own, and {whose} has one too; rename that one "
            f"(df.withColumnRenamed({MATCH_TIME!r}, …) keeps its watermark) or leave it out with select="
        )
        raise PredicateError(msg)


def with_match_time(joined: DataFrame, delay: int) -> DataFrame:
    """Return a streaming result whose match time is marked as event time, with that delay in milliseconds."""
    # Not by eventTimeColumnName=: Spark would then refuse results from before 1970 until there is a watermark.
    return joined.withColumn(MATCH_TIME, F.col(MATCH_TIME).alias(MATCH_TIME, metadata={DELAY: delay}))


def check_time_column(frame: DataFrame, whose: str, column: str) -> None:
    """Check that an input has the event-time column, as a timestamp with time zone.

    `whose` is the input in words, such as "the left side".

    Raises
    ------
    PredicateError
        If it is missing or of another type.
    """
    names = frame.columns
    if column not in names:
        msg = f"{whose} has no event-time column {column!r}; its columns are {', '.join(names)}."
        raise PredicateError(msg + nearest(column, names))
    kind = frame.schema[column].dataType
    if not isinstance(kind, TimestampType):
        msg = (
            f"event-time column {column!r} of {whose} is {kind.simpleString()}; watermarks on Spark need a "
            f"timestamp: df.withColumn({column!r}, F.col({quoted(column)!r}).cast('timestamp'))"
        )
        raise PredicateError(msg)


def lateness_ms(window: Window) -> int:
    """Return the window's lateness in milliseconds, the unit of Spark's watermarks.

    Raises
    ------
    SparkJoinError
        If it is no whole number of milliseconds, or a plain number.
    """
    lateness = window.lateness
    if not isinstance(lateness, Span):
        if lateness == 0:
            return 0
        msg = f"event times are timestamps, so lateness is a timedelta or text such as '10 minutes'; got {lateness}"
        raise SparkJoinError(msg)
    if lateness.nanoseconds % MILLISECOND:
        msg = f"Spark's watermarks are whole milliseconds, got lateness {lateness}"
        raise SparkJoinError(msg)
    return lateness.nanoseconds // MILLISECOND


def marked(frame: DataFrame, whose: str, window: Window, column: str, earlier: int = 0) -> tuple[DataFrame, int]:
    """Return a streaming frame whose event-time column has a watermark, and its delay in milliseconds.

    `whose` is the input in words, `column` its event time, and `earlier` the number of watermarks upstream, in
    sequence, whether columns show them or not.

    Raises
    ------
    SparkJoinError
        If only other columns have or had a watermark, or several in sequence, or its delay contradicts the window's
        lateness.
    """
    lateness = lateness_ms(window)
    marks = marks_of(frame)
    if earlier > 1:
        msg = (
            f"{whose} has more than one withWatermark, and Spark would fail the query in its second "
            "micro-batch; keep only one. The output of a join (match_time) or an aggregation already has a watermark"
        )
        raise SparkJoinError(msg)
    if not marks:
        if earlier:
            msg = (
                f"{whose} already has a withWatermark, on a column that was dropped or recomputed since, so "
                f"the watermark is no longer visible; Spark allows no second one, on {column!r}. Keep that column as "
                "it is (withColumnRenamed keeps its watermark, an expression loses it) and use it as the window's "
                "event time, or remove that withWatermark"
            )
            raise SparkJoinError(msg)
        return _with_watermark(frame, column, lateness), lateness
    if column not in marks:
        msg = (
            f"{whose} has its watermark on {', '.join(map(repr, marks))}, but the window is over {column!r}; "
            "put the watermark on that column, or use the other one as the window's event time (for a column of "
            f"windows: df.withColumn({column!r}, window_time({next(iter(marks))!r})))"
        )
        raise SparkJoinError(msg)
    delay = marks[column]
    # A lateness of 0 is the default of a window: then the watermark decides.
    if lateness not in (0, delay):
        msg = (
            f"{whose} has a watermark of {Span(delay * MILLISECOND)} on {column!r}, but the window has "
            f"lateness={window.lateness!s}; remove one of them, or make them equal"
        )
        raise SparkJoinError(msg)
    return frame, delay


def _with_watermark(frame: DataFrame, column: str, lateness: int) -> DataFrame:
    """Return a frame with a watermark, so many milliseconds behind its event times, on a column of any name.

    Spark reads the name that it is given here as SQL, and takes a dot for a field of a struct, backticks or not. So a
    column with an odd name is marked under another one: to rename it keeps its watermark.
    """
    delay = f"{lateness} milliseconds"
    if PLAIN_NAME.fullmatch(column):
        return frame.withWatermark(column, delay)
    plain = "event_time"
    while plain in (name.lower() for name in frame.columns):
        plain += "_"
    return frame.withColumnRenamed(column, plain).withWatermark(plain, delay).withColumnRenamed(plain, column)
