"""A job: its sources, join and sink, as frozen dataclasses. `jobfile.py` reads them from TOML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slidejoin.spec.aggregate import Aggregate
    from slidejoin.spec.join_options import JoinType, Late, StrategyName
    from slidejoin.spec.nearest import Nearest
    from slidejoin.spec.options import Options
    from slidejoin.spec.window import Span, Window

JobOutput: TypeAlias = Literal["pairs", "count"]
"""Of the outputs those that a table of files can have."""

JOB_OUTPUTS: tuple[JobOutput, ...] = get_args(JobOutput)

__all__ = ["JOB_OUTPUTS", "Job", "JobOutput", "Join", "Session", "Sink", "Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """Files that Spark reads, as a stream unless ``stream = false``."""

    name: str
    format: str
    path: str
    stream: bool = True
    schema: str | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    max_files_per_trigger: int | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """What `slidejoin.spark.stream_join` is called with; `right` is None in a self-join."""

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

    @property
    def self_join(self) -> bool:
        """Whether one source is joined with itself."""
        return self.right is None


@dataclass(frozen=True, slots=True)
class Sink:
    """Where results go. `interval` is None for ``trigger = "available_now"``."""

    format: str
    path: str | None = None
    checkpoint: str | None = None
    interval: Span | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Session:
    """Settings of the Spark session that the command starts."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """A whole job file; paths are absolute, or have a scheme."""

    sources: Mapping[str, Source]
    join: Join
    sink: Sink
    session: Session = field(default_factory=Session)

    @property
    def stream(self) -> bool:
        """Whether the sources are streams; all are, or none."""
        return self.sources[self.join.left].stream
