"""The output schema: from pairs and counts to output columns, in the promised order.

Of many streams these are the columns of all streams in the order of declaration. A name that an earlier stream has too
gets ``_`` and the name of its own stream behind it: ``k``, ``k_b``, ``k_c``. Names are decided from the whole schemas,
before `select`.

Names of columns are the same one where they are equal, or, as on Spark, where they are equal but for case.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from slidejoin.errors import PredicateError, nearest
from slidejoin.predicate.expression.streams import wide_name
from slidejoin.rows.arrow_buffers import empty_of
from slidejoin.rows.held_types import released
from slidejoin.sides import other
from slidejoin.spec.join_options import ONE_SIDED, UNMATCHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.spec.join_options import JoinType
    from slidejoin.spec.multi_spec import MultiSpec

__all__ = [
    "POSITIONS",
    "Layout",
    "MultiLayout",
    "in_strict_order",
    "layout_of",
    "named",
    "names_twice",
    "one_name",
    "output_names",
    "output_schema",
    "together",
]

POSITIONS = pa.schema([pa.field("left", pa.int64()), pa.field("right", pa.int64())])
"""The schema of ``output="positions"``: the ordinals of the two rows of each pair."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The output columns and their names.

    Attributes
    ----------
    columns : tuple of (side, name, output name)
        In output order.
    schema : pyarrow.Schema
        Of the output tables, without further columns.
    further : pyarrow.Schema or None
        Columns behind all others, for rows of the topology's own, see `Topology.further_columns`.
    lacking : tuple of {"left", "right"}
        The sides of which an output row may lack the row.
    """

    columns: tuple[tuple[Side, str, str], ...]
    schema: pa.Schema
    output: str
    further: pa.Schema | None = None
    lacking: tuple[Side, ...] = ()

    @property
    def whole(self) -> pa.Schema:
        """Of the output tables, with the further columns."""
        return self.schema if self.further is None else pa.schema([*self.schema, *self.further])

    @staticmethod
    def of(
        left: pa.Schema,
        right: pa.Schema,
        select: Sequence[str] | None,
        suffix: str,
        aliases: tuple[str, str],
        output: str,
        *,
        how: JoinType = "inner",
        further: pa.Schema | None = None,
        added: Sequence[pa.Field[Any]] | None = None,
        fold: bool = False,
    ) -> Layout:
        """Decide names from the whole schemas: left columns, then right columns, a name that both have with the suffix.

        Semi and anti joins have left columns alone. All fields may be NULL, whatever the fields of the sides say.
        With `added` columns, of aggregates, there are the left ones and these. With `fold` names that differ by case
        alone are the same.

        Raises
        ------
        PredicateError
            If two output columns would have one name, or `select` names a column that is not there.
        """
        sides: tuple[tuple[Side, pa.Schema], ...] = (("left", left), ("right", right))
        taken = {one_name(name, fold=fold) for name in left.names}
        every: list[tuple[Side, str, str]] = []
        for side, schema in sides:
            _unique(side, schema.names)
            if side == "right" and how in ONE_SIDED:
                continue
            every += [
                (side, name, name + suffix if side == "right" and one_name(name, fold=fold) in taken else name)
                for name in schema.names
            ]
        lacking = tuple(other(side) for side in UNMATCHED[how]) + (("right",) if how == "left_semi" else ())
        if output == "positions":
            return Layout((), POSITIONS, output, further, lacking)
        if added is not None:
            every = [column for column in every if column[0] == "left"]
        chosen = every if select is None else _selected(select, every, aliases, how, fold=fold)
        extra = ("side", "match_count") if output == "count" else () if further is None else tuple(further.names)
        extra += tuple(field.name for field in added or ())
        names = [*extra, *(out for _, _, out in chosen)]
        twice = names_twice(names, fold=fold)
        if twice:
            msg = (
                f"output columns {', '.join(map(repr, twice))} would appear twice; choose another suffix= than "
                f"{suffix!r}, rename a column, or leave one out with select="
            )
            raise PredicateError(msg)
        by_side = dict(sides)
        fields = [pa.field(out, by_side[side].field(name).type) for side, name, out in chosen]
        if output == "count":
            fields = [pa.field("side", pa.string()), *fields, pa.field("match_count", pa.int64())]
        fields += added or ()
        return Layout(tuple(chosen), pa.schema(fields), output, further, lacking)

    def names(self, side: Side) -> list[str]:
        """Output columns of that side."""
        return [name for owner, name, _ in self.columns if owner == side]

    def pairs(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """Combine the gathered columns of both sides into one table; a row is a pair."""
        tables = {"left": left, "right": right}
        arrays = [tables[side].column(name) for side, name, _ in self.columns]
        return _table(arrays, self.schema, left.num_rows)

    def aggregates(self, left: pa.Table, values: Sequence[pa.Array[Any]], schema: pa.Schema) -> pa.Table:
        """Lay out one row for each left row: its columns, and the `values` of the aggregates."""
        arrays = [left.column(name) for _, name, _ in self.columns]
        return _table([*arrays, *(pa.chunked_array([one]) for one in values)], schema, left.num_rows)

    def counts(self, left: pa.Table, right: pa.Table, sides: pa.Array[Any], matches: pa.Array[Any]) -> pa.Table:
        """Lay out one row for each arrival: its side, the columns of both (NULL for the other), its number of pairs."""
        tables = {"left": left, "right": right}
        arrays = [tables[side].column(name) for side, name, _ in self.columns]
        return _table([pa.chunked_array([sides]), *arrays, pa.chunked_array([matches])], self.schema, len(matches))


def _table(arrays: list[pa.ChunkedArray[Any]], schema: pa.Schema, rows: int) -> pa.Table:
    if not arrays:
        # A table without columns still has rows: select=[] outputs their number alone.
        return pa.table({"": pa.nulls(rows)}).select([])
    columns = [released(array, field.type) for array, field in zip(arrays, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def together(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Concatenate output tables without copying; columns have as many chunks."""
    if len(tables) == 1:
        return tables[0]
    if tables and not schema.names:
        # Tables without columns lose their rows when they are concatenated.
        return _table([], schema, sum(table.num_rows for table in tables))
    return pa.concat_tables(tables) if tables else empty_of(schema)


def _unique(side: str, names: Sequence[str]) -> None:
    twice = names_twice(names, fold=False)
    if twice:
        msg = f"the {side} side has more than one column named {', '.join(map(repr, twice))}; rename them"
        raise PredicateError(msg)


def _selected(
    select: Sequence[str],
    every: list[tuple[Side, str, str]],
    aliases: tuple[str, str],
    how: JoinType,
    *,
    fold: bool,
) -> list[tuple[Side, str, str]]:
    by_name: dict[str, tuple[Side, str, str]] = {}
    for side, name, out in every:
        by_name[f"{aliases[0] if side == 'left' else aliases[1]}.{name}"] = (side, name, out)
    chosen = []
    for item in select:
        column = named(item, by_name, fold=fold)
        if column is None:
            if how in ONE_SIDED and item.startswith(aliases[1] + "."):
                msg = f"select= names {item!r}, but how={how!r} outputs left columns only; use {', '.join(by_name)}"
                raise PredicateError(msg)
            msg = f"select= names {item!r}, which is not a column; use one of {', '.join(by_name)}."
            raise PredicateError(msg + nearest(item, by_name))
        chosen.append(column)
    return chosen


def in_strict_order(slots: NDArray[np.int64], stored: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.int32]:
    """Return the permutation of pairs that keeps the probes' order and sorts each probe's stored rows by arrival.

    `slots` (n,) int64 ascending places of the probes; `stored` (n,) int64 ordinals.
    """
    if slots.size == 0:
        return np.empty(0, np.int64)
    relative = stored - stored.min()
    width = int(relative.max()).bit_length()
    first = slots - slots[0]
    if width + int(first[-1]).bit_length() < 63:  # noqa: PLR2004 - bits of a positive int64
        from slidejoin.jit.vectors.sorting import sorted_order  # noqa: PLC0415 - layouts are decided without Numba

        return sorted_order((first << width) | relative)
    return np.lexsort((stored, slots))


Named = TypeVar("Named")


def one_name(name: str, *, fold: bool) -> str:
    """Return a text that is the same for names of one column; with `fold` case does not count.

    Examples
    --------
    >>> one_name("Id", fold=True), one_name("Id", fold=False)
    ('id', 'Id')
    """
    return name.lower() if fold else name


def names_twice(names: Iterable[str], *, fold: bool) -> list[str]:
    """Return the names that are there more than once, sorted.

    Examples
    --------
    >>> names_twice(["id", "x", "Id"], fold=True)
    ['Id', 'id']
    """
    every = list(names)
    keys = [one_name(name, fold=fold) for name in every]
    times = Counter(keys)
    return sorted({name for name, key in zip(every, keys, strict=True) if times[key] > 1})


def named(name: str, known: Mapping[str, Named], *, fold: bool) -> Named | None:
    """Return what has a name: of that case rather than of another one, which must be the only one then.

    Examples
    --------
    >>> named("L.ID", {"l.Id": 1, "l.x": 2}, fold=True)
    1
    """
    if name in known or not fold:
        return known.get(name)
    same = [one for other, one in known.items() if other.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


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
