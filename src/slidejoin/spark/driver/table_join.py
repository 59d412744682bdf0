"""A stream with a table: the table is read once, sent to every node as a file, and met by the tasks of the stream.

::

    table ─▶ needed columns ─▶ driver ─▶ a file on every node
                                                  │
    stream ─▶ needed columns ─▶ mapInArrow: index of the table ─▶ result

There is no exchange, no state and no watermark: what a row of the stream produces depends on the table alone. The
operator has the stream as its left side; where the user has it as the right one, the join is mirrored.
"""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import LongType, StringType, StructField, StructType

from slidejoin.api.snapshot import plan_of
from slidejoin.api.table_join import answered_side, mirrored
from slidejoin.arguments import shown
from slidejoin.display import Printed
from slidejoin.errors import ArgumentError
from slidejoin.operator.join_operator import JoinOperator
from slidejoin.plan.deferred import AggregateRule, bind_rule, with_condition
from slidejoin.plan.explanation import warn_without_index
from slidejoin.plan.plan import make_plan
from slidejoin.sides import SIDES
from slidejoin.spark.bucket.table_rows import BATCH_TIME, TableSpec
from slidejoin.spark.bucket.tasks import ROWS, read_task, table_task
from slidejoin.spark.driver.assembly import CACHE_DIR, aggregate_type, check_columns
from slidejoin.spark.driver.binding import APART, arrow_schema, schema_of
from slidejoin.spark.driver.collations import check_collations, keyed_join
from slidejoin.spark.driver.event_time import DELAY, marks_of
from slidejoin.spark.driver.table_versions import TableRefresh, TableVersions, given_to_tasks
from slidejoin.spark.job.checks import SparkJoinError, check_frame, check_output, check_running, is_connect
from slidejoin.spark.job.column_names import compared_columns, folds_names, quoted, task_column
from slidejoin.spark.job.interpreter import check_workers, workers_of, workers_run_this_python
from slidejoin.spark.state.blocks import open_block
from slidejoin.spec.window import Span, TableWindow

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = [
    "TableExplanation",
    "WiredTable",
    "check_of_streams",
    "explained_table",
    "has_table",
    "table_join",
    "wired_table",
]

NO_COLUMN = "#slidejoin:row"
"""The column of rows of which only the number counts."""

MOST_BYTES = "spark.driver.maxResultSize"
TOO_LARGE = re.compile(rf"Total size of serialized results of .+? \(([^)]+)\) is bigger than {MOST_BYTES} \(([^)]+)\)")


@dataclass(frozen=True, slots=True, eq=False)
class WiredTable:
    """A join of a stream with a table that has been checked.

    Attributes
    ----------
    frames : dict from side to DataFrame
    stream : str
        The side of the stream.
    config : JoinSpec
        Of the operator, which has the stream as its left side.
    plan : Plan
        The same, without columns that only the operator has.
    given : dict from side to pyarrow.Schema
        Of the columns that are compared or output.
    columns : tuple of (side, name, output name)
        Of the result.
    result : StructType
    """

    frames: dict[Side, DataFrame]
    stream: Side
    config: JoinSpec
    plan: Plan
    given: dict[Side, pa.Schema]
    columns: tuple[tuple[Side, str, str], ...]
    result: StructType

    @property
    def table(self) -> Side:
        """The side of the table."""
        return _other(self.stream)

    def needed(self, side: Side, *more: SparkColumn) -> DataFrame:
        """Return the columns of a side that are compared or output, under the names that tasks know, and more."""
        names = self.given[side].names
        columns = [F.col(quoted(name)).alias(task_column(number, name)) for number, name in enumerate(names)]
        return self.frames[side].select(*(columns or [F.lit(0).alias(NO_COLUMN)]), *more)


def has_table(left: DataFrame, right: DataFrame, window: object) -> bool:
    """Tell whether a join of two frames is one with a table: one of them streams, or none does and there is no window.

    Raises
    ------
    ArgumentTypeError
        If one is no DataFrame.
    SparkJoinError
        If a table and a stream have a window.
    """
    check_frame("left", left)
    check_running(left.sparkSession)
    check_frame("right", right)
    if left.isStreaming == right.isStreaming:
        return window is None and not left.isStreaming
    if window is not None:
        kinds = ["streaming" if frame.isStreaming else "static" for frame in (left, right)]
        msg = (
            f"left is {kinds[0]} and right is {kinds[1]}, and window={shown(window)}. A stream meets all rows of a "
            "static table: leave window= out. Or give two streaming DataFrames, of which one may read the table: "
            "spark.readStream.schema(df.schema).parquet(…)"
        )
        raise SparkJoinError(msg)
    return True


OF_STREAMS: dict[str, object] = {
    "order_by": None, "strategy": "auto", "spread": 1, "partitions": None, "late": "drop", "sample": None
}  # fmt: skip
"""Arguments that only joins of two streams have, with their defaults."""


def check_of_streams(**given: object) -> None:
    """Refuse arguments that a join with a table does not have.

    Raises
    ------
    SparkJoinError
        If one is not as it is by default.
    """
    for name, value in given.items():
        default = OF_STREAMS[name]
        if type(value) is not type(default) or value != default:
            msg = (
                f"{name}={shown(value)} is for a join in a window. In a join with a table every task of the stream "
                "meets the whole table, and no row is late: leave it out"
            )
            raise SparkJoinError(msg)


@dataclass(frozen=True, slots=True, repr=False)
class TableExplanation(Printed):
    """How a join of a stream with a table would run on Spark; it prints as text, all of it.

    Attributes
    ----------
    stream : str
        The side of the stream; of two static DataFrames, that of the rows that are answered.
    read : dict
        For each side, the columns that are read.
    plan : str
        The plan of every worker.
    refresh : Span or None
        The time between two readings of the table, if it is read again.
    """

    stream: Side
    read: dict[Side, tuple[str, ...]]
    plan: str
    refresh: Span | None = None

    def __str__(self) -> str:
        """Return the explanation for people."""
        table = _other(self.stream)
        again = "" if self.refresh is None else f" and, if it has changed, every {self.refresh}"
        lines = [
            f"a join with a table, the {table} side: every {self.stream} row meets all of its rows",
            f"{self.stream} rows: answered in their own tasks; none is sent or stored, and none is late",
            f"columns read: {_names(self.read[self.stream])} of the {self.stream} side",
            f"sent to every node, as stream_join is called{again}: {_names(self.read[table])} of the {table} side",
            "in each worker:",
        ]
        return "\n".join([*lines, *(f"  {line}" for line in self.plan.splitlines())])


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(columns) or "no column"


def explained_table(
    left: DataFrame, right: DataFrame, config: JoinSpec, refresh: Span | None = None
) -> TableExplanation:
    """Return how a join with a table would run; nothing is read."""
    wired = wired_table(left, right, config)
    schemas = (schema_of(wired.frames[side]) for side in (wired.stream, wired.table))
    plan = JoinOperator(plan_of(wired.config, *schemas)).explain()
    # How many rows the table has is not known, and there is one topology on Spark.
    lines = [line for line in plan.splitlines() if not line.startswith(("window: ", "topology: "))]
    if wired.stream == "right" and wired.config.how == "left":
        lines = [line.replace("left join on", "right join on") for line in lines]
    read = {side: tuple(schema.names) for side, schema in wired.given.items()}
    return TableExplanation(wired.stream, read, "\n".join(lines), refresh)


def table_join(left: DataFrame, right: DataFrame, config: JoinSpec, refresh: TableRefresh | None = None) -> DataFrame:
    """Join a stream with a table, or two tables; see `slidejoin.spark.stream_join`."""
    wired = wired_table(left, right, config)
    session = left.sparkSession
    versions = None if refresh is None else _versions(wired, config, refresh)
    check_workers(session, streaming=False)
    table = _collected(wired)
    spec = TableSpec(
        config=replace(wired.config, window=TableWindow(table.num_rows)),
        left=wired.given[wired.stream],
        right=table.schema,
        result=arrow_schema(wired.result),
        file=given_to_tasks(session, table) if versions is None else "",
        rows=table.num_rows,
        mirrored=wired.stream == "right",
        versions=None if versions is None else versions.family,
    )
    if versions is not None:
        versions.begin(table)
    # Spark gives a micro-batch one time, also where it runs again.
    time = [] if versions is None else [F.unix_millis(F.current_timestamp()).alias(BATCH_TIME)]
    folder = session.conf.get(CACHE_DIR, None)
    with workers_of(session, folder, tables=True):
        rows = wired.needed(wired.stream, *time).mapInArrow(table_task(pickle.dumps(spec), folder), wired.result)
    return _marked_as(rows, wired)


def _versions(wired: WiredTable, config: JoinSpec, refresh: TableRefresh) -> TableVersions:
    """Return the versions of a table that is read again.

    Raises
    ------
    SparkJoinError
        If there is no stream that would meet them, or the session is one of Connect.
    """
    frame, every = wired.frames[wired.table], refresh.every
    if not wired.frames[wired.stream].isStreaming:
        msg = f"refresh={str(every)!r} is for a stream with a table, and both DataFrames are static: leave it out"
        raise SparkJoinError(msg)
    if is_connect(frame.sparkSession):
        msg = (
            f"refresh={str(every)!r} is not for Spark Connect, where the client would read the table. Read it in "
            "foreachBatch, as the page Streams with tables shows"
        )
        raise SparkJoinError(msg)

    def read() -> pa.Table:
        if refresh.read is not None:
            frames = {wired.stream: wired.frames[wired.stream], wired.table: refresh.read()}
            return _collected(wired_table(frames["left"], frames["right"], config))
        # Spark lists the files of a DataFrame once.
        frame._jdf.queryExecution().analyzed().refresh()  # noqa: SLF001 - as `Catalog` has none
        return _collected(wired)

    return TableVersions(frame.sparkSession, read, refresh)


def wired_table(left: DataFrame, right: DataFrame, config: JoinSpec) -> WiredTable:
    """Check a join of a stream with a table; nothing is read.

    Parameters
    ----------
    left, right : DataFrame
        Not both streaming.
    config : JoinSpec
        With a `TableWindow`.

    Raises
    ------
    PredicateError, SparkJoinError
        As of `slidejoin.spark.stream_join`.
    """
    check_output(config.output)
    frames: dict[Side, DataFrame] = {"left": left, "right": right}
    config = replace(config, fold_names=folds_names(left.sparkSession))
    stream = _stream_of(frames, config)
    frames, config = keyed_join(frames, config)
    for side, frame in frames.items():
        check_collations(frame, f"the {side} side", compared_columns(config, side))
    schemas = {side: schema_of(frame) for side, frame in frames.items()}
    # Columns have the names that they would have of the frames as they are given.
    named = _planned(config, schemas["left"], schemas["right"])
    columns = named.layout.columns
    alias = dict(zip(SIDES, config.aliases, strict=True))
    own = replace(config, select=tuple(f"{alias[side]}.{name}" for side, name, _ in columns), suffix=APART)
    table = _other(stream)
    own = own if stream == "left" else mirrored(own)
    plan = _planned(own, schemas[stream], schemas[table])
    if not plan.is_union:
        warn_without_index(own, plan.bound, plan.limit)
    given = {}
    for side, of_operator in zip((stream, table), SIDES, strict=True):
        given[side] = plan.kept_schema(of_operator)
        check_columns(frames[side], f"the {side} side", given[side].names)
    return WiredTable(frames, stream, own, plan, given, columns, _result_type(frames, table, named))


def _planned(config: JoinSpec, left: pa.Schema, right: pa.Schema) -> Plan:
    rule = bind_rule(config, left, right) if config.deferred else None
    if rule is not None:
        # The rule says whether rows of the stream without a pair are output.
        config = replace(config, on=with_condition(config.on, rule), how="inner")
    return make_plan(config, left, right, rule=rule)


def _stream_of(frames: dict[Side, DataFrame], config: JoinSpec) -> Side:
    """Return the side whose rows are answered as they come.

    Raises
    ------
    SparkJoinError
        For what that side cannot know.
    """
    streams: list[Side] = [side for side in SIDES if frames[side].isStreaming]
    try:
        return answered_side(config, streams, "two static DataFrames without a window")
    except ArgumentError as error:
        raise SparkJoinError(str(error)) from error


def _other(side: Side) -> Side:
    return "right" if side == "left" else "left"


def _result_type(frames: dict[Side, DataFrame], table: Side, named: Plan) -> StructType:
    """Return the schema of the result: the inputs' own types."""
    fields = [StructField(out, frames[side].schema[name].dataType) for side, name, out in named.layout.columns]
    if named.config.output == "count":
        fields = [StructField("side", StringType()), *fields, StructField("match_count", LongType())]
    if isinstance(named.rule, AggregateRule):
        fields += [StructField(one.name, aggregate_type(one, frames[table])) for one in named.rule.functions]
    return StructType(fields)


def _marked_as(rows: DataFrame, wired: WiredTable) -> DataFrame:
    """Return result rows whose event times are marked as they are in the stream: tasks do not pass marks on."""
    stream = wired.frames[wired.stream]
    marks = marks_of(stream) if stream.isStreaming else {}
    delays = {out: marks[name] for side, name, out in wired.columns if side == wired.stream and name in marks}
    if not delays:
        return rows
    return rows.select(
        *(
            F.col(quoted(name)).alias(name, metadata={DELAY: delays[name]}) if name in delays else F.col(quoted(name))
            for name in wired.result.names
        )
    )


# -- the way of the table to the tasks ---------------------------------------------------------------------------------


def _collected(wired: WiredTable) -> pa.Table:
    """Read the table.

    Raises
    ------
    SparkJoinError
        If it is larger than what Spark lets pass through the driver, which ends the reading there.
    """
    schema, frame = wired.given[wired.table], wired.needed(wired.table)
    with workers_run_this_python(frame.sparkSession):
        blocks = frame.mapInArrow(read_task(pickle.dumps(schema)), ROWS)
    try:
        read = blocks.toArrow()
    except Exception as error:
        # Classic sessions and those of Connect raise one of several errors here.
        fit = TOO_LARGE.search(str(error))
        if fit is None:
            raise
        msg = (
            f"the table, the {wired.table} side, has more than {fit[2]}, which is {MOST_BYTES}: its columns "
            f"{', '.join(schema.names)} pass through the driver, and each Python worker holds them with an index. Give "
            "a table of fewer rows or columns: those that on= and select= do not name are not read. Or raise "
            f"{MOST_BYTES}, and with it spark.driver.memory, before the session starts"
        )
        raise SparkJoinError(msg) from error
    batches = [open_block(block.as_buffer(), schema) for block in read.column("block")]
    return pa.Table.from_batches(batches, schema)
