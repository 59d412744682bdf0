"""The output columns of a join of many streams.

The columns of all streams in the order of declaration. A name that an earlier stream has too gets ``_`` and the name of
its own stream behind it: ``k``, ``k_b``, ``k_c``. Names are decided from the whole schemas, before `select`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.errors import PredicateError, nearest
from slidejoin.plan.output_schema import named, names_twice, one_name
from slidejoin.predicate.expression.streams import wide_name
from slidejoin.rows.held_types import released

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slidejoin.spec.multi_spec import MultiSpec

__all__ = ["MultiLayout", "layout_of", "output_names", "output_schema"]


@dataclass(frozen=True, slots=True)
class MultiLayout:
    """The output columns and their names.

    Attributes
    ----------
    columns : tuple of (stream, name, output name)
        In output order; a stream is its number.
    schema : pyarrow.Schema
        Of the output tables.
    """

    columns: tuple[tuple[int, str, str], ...]
    schema: pa.Schema

    def names(self, stream: int) -> list[str]:
        """Output columns of that stream."""
        return [name for owner, name, _ in self.columns if owner == stream]

    def combinations(self, tables: Mapping[int, pa.Table], rows: int) -> pa.Table:
        """Put gathered columns of all streams side by side; a row is a combination."""
        return self._table([tables[stream].column(name) for stream, name, _ in self.columns], rows)

    def counts(
        self, streams: pa.Array[Any], columns: Sequence[pa.ChunkedArray[Any]], counts: pa.Array[Any]
    ) -> pa.Table:
        """Put numbers of combinations next to arrivals: the stream of each, the columns of all, its number."""
        return self._table([pa.chunked_array([streams]), *columns, pa.chunked_array([counts])], len(counts))

    def _table(self, arrays: list[pa.ChunkedArray[Any]], rows: int) -> pa.Table:
        if not arrays:
            return pa.table({"": pa.nulls(rows)}).select([])
        columns = [released(array, field.type) for array, field in zip(arrays, self.schema, strict=True)]
        return pa.Table.from_arrays(columns, schema=self.schema)


def layout_of(spec: MultiSpec, schemas: Sequence[pa.Schema]) -> MultiLayout:
    """Decide names from the whole schemas.

    Raises
    ------
    PredicateError
        If two output columns would have one name, or `select` names a column that is not there.
    """
    every = _every(spec.streams, schemas, fold=spec.fold_names)
    if spec.output == "positions":
        return MultiLayout((), pa.schema([pa.field(stream, pa.int64()) for stream in spec.streams]))
    by_name = {wide_name(spec.streams[stream], name): (stream, name, out) for stream, name, out in every}
    chosen = every
    if spec.select is not None:
        chosen = []
        for item in spec.select:
            column = named(item, by_name, fold=spec.fold_names)
            if column is None:
                msg = f"select= names {item!r}, which is not a column; use one of {', '.join(by_name)}."
                raise PredicateError(msg + nearest(item, by_name))
            chosen.append(column)
    extra = ("stream", "match_count") if spec.output == "count" else ()
    names = [*extra, *(out for _, _, out in chosen)]
    twice = names_twice(names, fold=spec.fold_names)
    if twice:
        msg = (
            f"output columns {', '.join(map(repr, twice))} would appear twice; rename a column, or leave one out with "
            "select="
        )
        raise PredicateError(msg)
    fields = [pa.field(out, schemas[stream].field(name).type) for stream, name, out in chosen]
    if spec.output == "count":
        fields = [pa.field("stream", pa.string()), *fields, pa.field("match_count", pa.int64())]
    return MultiLayout(tuple(chosen), pa.schema(fields))


def output_schema(spec: MultiSpec, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """Return what is known of the output's schema while some streams have had no batch: the columns of the others."""
    if spec.output == "positions":
        return pa.schema([pa.field(stream, pa.int64()) for stream in spec.streams])
    chosen = [pa.field(out, schemas[stream].field(name).type) for stream, name, out in _known(spec, schemas)]
    if spec.output == "count":
        chosen = [pa.field("stream", pa.string()), *chosen, pa.field("match_count", pa.int64())]
    return pa.schema(chosen)


def output_names(spec: MultiSpec, stream: str, schemas: Mapping[str, pa.Schema]) -> dict[str, str]:
    """Return by their output names the columns of one stream, as far as schemas are known."""
    return {out: name for owner, name, out in _known(spec, schemas) if owner == stream}


def _known(spec: MultiSpec, schemas: Mapping[str, pa.Schema]) -> list[tuple[str, str, str]]:
    """Return the stream, name and output name of the columns of streams whose schemas are known, in output order."""
    known = [schemas.get(stream, pa.schema([])) for stream in spec.streams]
    every = [
        (spec.streams[stream], name, out) for stream, name, out in _every(spec.streams, known, fold=spec.fold_names)
    ]
    if spec.select is None:
        return every
    by_name = {wide_name(stream, name): (stream, name, out) for stream, name, out in every}
    chosen = (named(item, by_name, fold=spec.fold_names) for item in spec.select)
    return [column for column in chosen if column is not None]


def _every(streams: Sequence[str], schemas: Sequence[pa.Schema], *, fold: bool) -> list[tuple[int, str, str]]:
    taken: set[str] = set()
    every: list[tuple[int, str, str]] = []
    for number, (stream, schema) in enumerate(zip(streams, schemas, strict=True)):
        keys = {name: one_name(name, fold=fold) for name in schema.names}
        every += [(number, name, f"{name}_{stream}" if keys[name] in taken else name) for name in schema.names]
        taken.update(keys.values())
    return every
