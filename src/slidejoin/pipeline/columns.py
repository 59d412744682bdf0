"""Which rows and columns of a source a join gets: ``where`` and ``columns`` of a job file, in Spark's SQL.

Names of columns need nothing. Expressions are translated and computed by DuckDB, as far as they mean the same there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slidejoin.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

__all__ = ["Shape"]

NAMES = "names"


class Shape:
    """Takes the rows of a source and returns those that are joined.

    Parameters
    ----------
    given : pyarrow.Schema
        Of the rows.
    columns : sequence of str, optional
        Expressions in Spark's SQL; None for all columns.
    where : str, optional
        A condition in Spark's SQL.
    name : str
        Of the source, for errors.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the rows that are joined.
    needed : tuple of str or None
        Columns that must be read; None for all.

    Raises
    ------
    OnlySparkError
        For an expression that cannot be used here.
    ConfigError
        For a column that is not there.
    """

    def __init__(self, given: pa.Schema, columns: Sequence[str] | None, where: str | None, name: str) -> None:
        self._query: Any = None
        self._names: list[tuple[str, str]] | None = None
        self.needed: tuple[str, ...] | None = None
        self.schema = given
        if columns is None and where is None:
            return
        if where is None and columns is not None:
            self._names = _plain_names(columns, given, name)
        if self._names is not None:
            self.needed = tuple(dict.fromkeys(own for own, _ in self._names))
            self.schema = _chosen(given, self._names)
            return
        from slidejoin.pipeline.expressions import Query  # noqa: PLC0415 - only where there are expressions

        self._query = Query(given, columns, where, name)
        self.schema = self._query.schema
        self.needed = self._query.needed

    def apply(self, rows: pa.Table) -> pa.Table:
        """Return the rows that are joined."""
        if self._query is not None:
            return self._query.apply(rows)  # type: ignore[no-any-return]
        if self._names is None:
            return rows
        return rows.select([own for own, _ in self._names]).rename_columns([shown for _, shown in self._names])

    def narrow(self, names: Sequence[str]) -> None:
        """Return these columns alone from now on, in their order: the join needs no others."""
        if self._query is not None:
            return
        pairs = self._names if self._names is not None else [(name, name) for name in self.schema.names]
        wanted = set(names)
        self._names = [pair for pair in pairs if pair[1] in wanted]
        self.needed = tuple(dict.fromkeys(own for own, _ in self._names))
        self.schema = _chosen(self.schema, [(shown, shown) for _, shown in self._names])


def _chosen(given: pa.Schema, names: Sequence[tuple[str, str]]) -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415 - loaded by whoever has a schema

    return pa.schema([given.field(own).with_name(shown) for own, shown in names])


def _plain_names(columns: Sequence[str], given: pa.Schema, source: str) -> list[tuple[str, str]] | None:
    """Return the column and its new name for each of `columns`, if all are plain names; None if one is not."""
    chosen: list[tuple[str, str]] = []
    for text in columns:
        if text.strip() == "*":
            chosen += [(name, name) for name in given.names]
        elif text.strip() in given.names:
            chosen.append((text.strip(), text.strip()))
        elif text.strip().isidentifier() and not _folded(text.strip(), given):
            msg = (
                f"sources.{source}.columns: there is no column {text.strip()!r}; the columns are "
                f"{', '.join(given.names)}.{nearest(text.strip(), given.names)}"
            )
            raise ConfigError(msg)
        else:
            return None
    return chosen


def _folded(name: str, given: pa.Schema) -> bool:
    return name.casefold() in {one.casefold() for one in given.names}
