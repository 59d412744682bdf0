"""The join of a job: the contract between the loop of micro-batches and each kind of join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from slidejoin.plan.output_schema import Layout
from slidejoin.predicate import columns_of
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from slidejoin.api.stream_join import StreamJoin
    from slidejoin.api.table_join import TableJoin
    from slidejoin.pipeline.source import Rows
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["JobJoin", "LostCounts", "OutputColumns", "needed_columns", "output_columns"]

OutputColumns = tuple[tuple["Side", str, str], ...]
"""Side, column and name of the result's columns that are columns of the sources."""


@dataclass(slots=True)
class LostCounts:
    """Rows of both sources that were lost so far."""

    late: int = 0
    without_time: int = 0


class JobJoin(Protocol):
    """Takes micro-batches of both sources, and returns rows of the result.

    Attributes
    ----------
    needed : pair of tuple of str
        The columns of each side that the join reads.
    schema : pyarrow.Schema
        Of the result, once it has begun.
    join : StreamJoin or TableJoin
        What joins, once it has begun, for its figures.
    """

    @property
    def join(self) -> StreamJoin | TableJoin: ...  # noqa: D102 - see above

    @property
    def needed(self) -> tuple[tuple[str, ...], tuple[str, ...]]: ...  # noqa: D102 - see above

    @property
    def schema(self) -> pa.Schema: ...  # noqa: D102 - see above

    def begin(self, state: bytes = b"") -> None:
        """Create the join, unless that is done, or restore it from a state."""

    def take(self, rows: Sequence[Rows]) -> Iterator[pa.Table]:
        """Take what a micro-batch has read of each source, and yield rows of the result."""

    def take_all(self, rows: Sequence[Rows]) -> Iterator[pa.Table]:
        """Take all that there is, and yield rows of the result, those without a partner at the end."""

    def state(self) -> bytes:
        """Return what a later run continues from."""

    def counts(self) -> LostCounts:
        """Return how many rows were lost so far."""

    def latest(self, rows: Sequence[Rows]) -> str | None:
        """Return the largest event time of rows in ISO 8601; None without one."""

    def explain(self) -> str:
        """Return the plan in words."""


def output_columns(spec: JoinSpec, schemas: tuple[pa.Schema, pa.Schema]) -> OutputColumns:
    """Return which columns of the sources are columns of the result, and their names there.

    Raises
    ------
    PredicateError
        If two would have one name, or one is not there.
    """
    layout = Layout.of(
        *schemas, spec.select, spec.suffix, spec.aliases, spec.output, how=spec.how,
        added=() if spec.aggregate is not None else None,
    )  # fmt: skip
    return layout.columns


def needed_columns(
    spec: JoinSpec, schemas: tuple[pa.Schema, pa.Schema], columns: OutputColumns, more: Iterable[tuple[Side, str]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of each side that a join reads: compared, output, or `more`."""
    given = tuple(more)

    def of(side: Side, schema: pa.Schema) -> tuple[str, ...]:
        sides = SIDES if spec.self_join else (side,)
        names = {name for one in sides for name in columns_of(spec.on, one)}
        names |= {name for one, name, _ in columns if one in sides} | {name for one, name in given if one in sides}
        if spec.keep is not None:
            names |= {name for one, name in zip(SIDES, spec.keep.names(spec.aliases), strict=True) if one in sides}
        if spec.aggregate is not None and "right" in sides:
            names |= set(schema.names)
        return tuple(name for name in schema.names if name in names)

    return of("left", schemas[0]), of("right", schemas[1])
