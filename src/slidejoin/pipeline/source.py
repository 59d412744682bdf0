"""What a micro-batch reads of a source: the contract between the loop of micro-batches and each kind of source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

__all__ = ["MISSING", "MOST_ROWS", "Limits", "OnlySparkError", "RowSource", "Rows"]

MISSING = "it is NULL (the mark of a deleted key)"
"""Why a record without a value cannot be read."""

MOST_ROWS = 4_000_000
"""Rows of one source after which a micro-batch takes no further file, unless the job file says how many."""


class OnlySparkError(ConfigError):
    """A format, an option, a type or an expression that a job in one process cannot use."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a source one micro-batch reads.

    Attributes
    ----------
    rows : int or None
        About so many rows, also if that divides a file; None for whole files, up to `MOST_ROWS`.
    files : int or None
        So many files at most.
    """

    rows: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one source in a micro-batch.

    Attributes
    ----------
    table : pyarrow.Table
    read : int
        How many rows of a stream were read.
    bad : int
        How many are not what the schema says.
    unread : pyarrow.Table or None
        Rows that cannot be read, as they are, and why; None where nobody wants them.
    version : JSON values
        Of a whole table that was read again: what it was read by; None otherwise.
    """

    table: pa.Table
    read: int
    bad: int = 0
    unread: pa.Table | None = None
    version: Any = None


class RowSource(Protocol):
    """Rows that can be read again: what was planned is read by its plan, as often as needed.

    Attributes
    ----------
    name : str
    schema : pyarrow.Schema
        Of the rows that `read` returns.
    ended : bool
        Whether nothing comes any more unless `look` sees it.
    alone : bool
        Whether its plans alone make a micro-batch; those of a table do not.
    """

    name: str
    schema: pa.Schema
    ended: bool
    alone: bool

    def narrow(self, names: Sequence[str]) -> None:
        """Return these columns alone from now on: the join needs no others."""

    def look(self) -> None:
        """Look for what is new; `plan` plans what the last look has seen."""

    def plan(self) -> Any | None:  # noqa: ANN401 - JSON, each source its own
        """Return what the next micro-batch reads, as JSON values; None if there is nothing.

        The same is not planned again, though nothing has taken note of it.
        """

    def planned(self, plan: Any) -> None:  # noqa: ANN401 - see plan
        """Take note of a plan once it is written down: from here on `state` has it."""

    def read(self, plan: Any) -> Rows:  # noqa: ANN401 - see plan
        """Read the rows of a plan, or an empty table for None.

        Raises
        ------
        SlideJoinError
            If they cannot be read, or are not the rows that were planned any more.
        """

    def state(self) -> Any:  # noqa: ANN401 - see plan
        """Return what has been planned so far, as JSON values."""

    def load(self, state: Any) -> None:  # noqa: ANN401 - see plan
        """Continue from a state."""
