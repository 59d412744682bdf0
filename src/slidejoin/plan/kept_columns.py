"""Which columns the windows keep of each side: those that are output or compared, and those added for comparisons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from slidejoin.predicate.truth.row_values import row_value_type
from slidejoin.rows.held_types import check_holdable, held_schema
from slidejoin.rows.text import is_text
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slidejoin.plan.output_schema import Layout
    from slidejoin.plan.window_term import Scope
    from slidejoin.predicate.bind import BoundPredicate
    from slidejoin.predicate.truth.tree import Node
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["KeptColumns"]


@dataclass(frozen=True, slots=True)
class KeptColumns:
    """The columns of one side, and beside them codes of texts, and what parts of a filter say of each row.

    Attributes
    ----------
    given : pyarrow.Schema
        Of the side's batches.
    saved : pyarrow.Schema
        What snapshots hold: columns that were given, with their types as they are held.
    kept : pyarrow.Schema
        What the window holds: these, and added ones; of texts that are only compared for equality the codes alone.
    codes : dict of str to str
        The columns of codes, and the columns of texts that they stand for.
    values : dict of str to Node
        The columns of values, and what they are the values of.
    """

    given: pa.Schema
    saved: pa.Schema
    kept: pa.Schema
    codes: dict[str, str]
    values: dict[str, Node]

    @property
    def taken(self) -> pa.Schema:
        """A batch's columns, and the added ones after them."""
        return _with_added(self.given, self.codes, self.values)

    def with_added(self, other: KeptColumns) -> KeptColumns:
        """Return these columns with those that are added for another predicate."""
        kept = _with_added(self.kept, other.codes, other.values)
        return replace(self, kept=kept, codes=self.codes | other.codes, values=self.values | other.values)

    @staticmethod
    def of(
        config: JoinSpec,
        layout: Layout,
        bound: BoundPredicate,
        scope: Scope,
        schemas: tuple[pa.Schema, pa.Schema],
        others: Mapping[Side, Iterable[str]] | None = None,
        *,
        everything: bool = False,
    ) -> dict[Side, KeptColumns]:
        """Return the columns of both sides; `others` are read besides; with `everything` all, needed or not.

        Raises
        ------
        PredicateError
            If a column that is needed cannot be held.
        """
        sides = {side: SIDES if config.self_join else (side,) for side in SIDES}
        found: dict[Side, KeptColumns] = {}
        for side, schema in zip(SIDES, schemas, strict=True):
            needed = {name for one in sides[side] for name in (*layout.names(one), *bound.columns(one))}
            needed.update(name for one in sides[side] for name in (others or {}).get(one, ()))
            if everything:
                needed.update(schema.names)
            needed.update(scope.columns(side))
            codes = {coded: name for one in sides[side] for coded, name in bound.codes[one].items()}
            # A batch needs a column to have a number of rows at all.
            names = [name for name in schema.names if name in needed or name in codes.values()] or schema.names[:1]
            # Late rows are kept with all of their columns.
            check_holdable(side, schema, schema.names if config.late == "emit" else names)
            saved = held_schema(pa.schema([schema.field(name) for name in names]))
            # Codes become texts again where these are plain bytes.
            spared = {name for name in codes.values() if name not in needed and is_text(saved.field(name).type)}
            kept = pa.schema([field for field in saved if field.name not in spared])
            values = {added: node for one in sides[side] for added, node in bound.values[one].items()}
            found[side] = KeptColumns(schema, saved, _with_added(kept, codes, values), codes, values)
        return found


def _with_added(schema: pa.Schema, codes: Iterable[str], values: Mapping[str, Node]) -> pa.Schema:
    added = dict.fromkeys(codes, pa.int64()) | {name: row_value_type(node) for name, node in values.items()}
    for name, kind in added.items():
        if name not in schema.names:
            schema = schema.append(pa.field(name, kind))
    return schema
