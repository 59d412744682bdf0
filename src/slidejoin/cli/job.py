"""A job: its sources, join and sink, as frozen dataclasses. `jobfile.py` reads them from TOML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from slidejoin.spec.window import Span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slidejoin.spec.aggregate import Aggregate
    from slidejoin.spec.join_options import JoinType, Late, StrategyName
    from slidejoin.spec.nearest import Nearest
    from slidejoin.spec.options import Options
    from slidejoin.spec.window import Window

Engine: TypeAlias = Literal["auto", "spark", "embedded"]

ENGINES: tuple[Engine, ...] = get_args(Engine)

MOST_PORT = 65_535
PAGE_PORT = 9465
"""Of the live page, unless another one is given."""

JobOutput: TypeAlias = Literal["pairs", "count"]
"""Of the outputs those that a table of files can have."""

JOB_OUTPUTS: tuple[JobOutput, ...] = get_args(JobOutput)

Bytes: TypeAlias = Literal["json", "text", "binary", "avro", "protobuf"]
"""What the key or the value of a Kafka record holds."""

BYTES: tuple[Bytes, ...] = get_args(Bytes)

BadRowsAction: TypeAlias = Literal["fail", "drop", "write"]

FILES = ("parquet", "csv", "json", "orc", "avro", "text", "xml", "arrow")
"""Formats of files, which have a path."""

TEN_SECONDS = Span(10_000_000_000)

__all__ = [
    "BYTES",
    "ENGINES",
    "FILES",
    "JOB_OUTPUTS",
    "MOST_PORT",
    "PAGE_PORT",
    "BadRows",
    "Bytes",
    "Embedded",
    "Encoding",
    "Engine",
    "Job",
    "JobOutput",
    "Join",
    "KafkaSink",
    "KafkaSource",
    "Monitoring",
    "Session",
    "Sink",
    "Source",
]


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the key or the value of a Kafka record is written.

    Attributes
    ----------
    format : str
        "json", "text", "binary", "avro" or "protobuf".
    schema : str or None
        Of JSON: columns and types in Spark SQL. Of Avro: the schema in JSON. None for the others.
    registry : bool
        Whether the bytes begin with the five that a schema registry adds: 0, and the number of the schema.
    schema_ids : tuple of int
        The numbers that are read, with `registry`; empty for all.
    options : Mapping of str to str
        For Spark's function that reads or writes the bytes.
    column : str or None
        The column of text or bytes, where it is not a record of columns: its name in the source, or in the result.
    descriptors, message : bytes and str, or None
        Of Protobuf: a descriptor set, and the full name of the message.
    """

    format: Bytes
    schema: str | None = None
    registry: bool = False
    schema_ids: tuple[int, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    column: str | None = None
    descriptors: bytes | None = field(default=None, repr=False)
    message: str | None = None


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """Topics of Kafka, and what their records hold.

    Attributes
    ----------
    brokers : str
        ``host:port,host:port``.
    topics : tuple of str
        Empty if there is a `pattern`.
    pattern : str or None
        A regular expression in Java, which fits the whole name of a topic.
    starting : str, int or Mapping
        Where a new job begins: "earliest", "latest", a time in milliseconds since 1970, or the offset of each
        partition of each topic (-2 for the earliest, -1 for the latest).
    value : Encoding
        Of text and binary it is one column; of the others the fields are columns of the source.
    key : Encoding or None
        One column; a struct, where it has fields. None if it is not read.
    metadata : Mapping of str to str
        Names of columns for what else a record has: topic, partition, offset, timestamp, headers.
    max_offsets_per_trigger : int or None
    """

    brokers: str
    topics: tuple[str, ...]
    pattern: str | None
    value: Encoding
    key: Encoding | None = None
    starting: str | int | Mapping[str, Mapping[int, int]] = "earliest"
    metadata: Mapping[str, str] = field(default_factory=dict)
    max_offsets_per_trigger: int | None = None

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The names of the columns that are not of the value."""
        key = () if self.key is None or self.key.column is None else (self.key.column,)
        return (*key, *self.metadata.values())


@dataclass(frozen=True, slots=True)
class KafkaSink:
    """A topic of Kafka; `key` is a column of the result, or None."""

    brokers: str
    topic: str
    value: Encoding
    key: str | None = None


@dataclass(frozen=True, slots=True)
class BadRows:
    """What becomes of records that cannot be read: they end the job, are counted and dropped, or written to a sink."""

    action: BadRowsAction = "fail"
    sink: Sink | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of files, topics, or what another format has: a stream, or a table.

    A table next to a stream may be read again, `refresh` after it was read.
    """

    name: str
    format: str
    path: str | None = None
    table: bool = False
    refresh: Span | None = None
    schema: str | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    max_files_per_trigger: int | None = None
    max_rows: int | None = None
    max_wait: Span | None = None
    kafka: KafkaSource | None = None
    bad_rows: BadRows | None = None

    @property
    def stream(self) -> bool:
        """Whether more rows may come."""
        return not self.table


@dataclass(frozen=True, slots=True)
class Join:
    """What `slidejoin.spark.stream_join` is called with; `right` is None in a self-join.

    The window of a join with a table is a `TableWindow`. Late rows that are emitted go to the sink of the results, or
    to `late_sink`.
    """

    left: str
    right: str | None
    on: str
    window: Window
    how: JoinType = "inner"
    output: JobOutput | Aggregate = "pairs"
    select: tuple[str, ...] | None = None
    suffix: str = "_right"
    aliases: tuple[str, str] = ("l", "r")
    strategy: StrategyName = "auto"
    algorithm: str | Options = "auto"
    spread: int = 1
    partitions: int | None = None
    order_by: str | None = None
    keep: Nearest | None = None
    late: Late = "drop"
    late_sink: Sink | None = None
    pair_id: str | None = None

    @property
    def self_join(self) -> bool:
        """Whether one source is joined with itself."""
        return self.right is None


@dataclass(frozen=True, slots=True)
class Sink:
    """Where results go.

    `interval` is None for ``trigger = "available_now"``, and for ``"once"``, which reads all in one micro-batch.
    """

    format: str
    path: str | None = None
    checkpoint: str | None = None
    interval: Span | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    kafka: KafkaSink | None = None
    once: bool = False
    stop_after: Span | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """Settings of the Spark session that the command starts.

    Attributes
    ----------
    packages, auto_packages
        Coordinates of connectors that Spark's resolver gets; and whether those of the job's `formats` are added.
    jars : tuple of str
        Folders of jars, or jars.
    formats : tuple of str
        Of the job's sources and sinks.
    retries : int
        How often a query that has failed is started again, one time after the other, if that may help.
    backoff : Span
        The pause before the first of these times; it doubles each time.
    """

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    auto_packages: bool = False
    jars: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    retries: int = 0
    backoff: Span = TEN_SECONDS


@dataclass(frozen=True, slots=True)
class Embedded:
    """Settings of a job in one process; `memory_limit` in bytes."""

    threads: int | None = None
    memory_limit: int | None = None
    snapshot_every: Span = TEN_SECONDS


@dataclass(frozen=True, slots=True)
class Monitoring:
    """Who may see how the job runs.

    Attributes
    ----------
    metrics : str or None
        Where figures are served, as ``port`` or ``host:port``.
    rows : bool
        Whether the newest rows of the result are shown too.
    otel : bool
        Whether figures are given to OpenTelemetry.
    page : int or None
        The port of the live page, on this machine alone; 0 for any that is free.
    """

    metrics: str | None = None
    rows: bool = True
    otel: bool = False
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A whole job file; paths are absolute, or have a scheme. `has_spark` if it has a table [spark]."""

    sources: Mapping[str, Source]
    join: Join
    sink: Sink
    session: Session = field(default_factory=Session)
    engine: Engine = "auto"
    has_spark: bool = False
    embedded: Embedded = field(default_factory=Embedded)
    monitoring: Monitoring = field(default_factory=Monitoring)

    @property
    def stream(self) -> bool:
        """Whether a source is a stream; the other one may be a table."""
        return any(source.stream for source in self.sources.values())
