"""Which columns the windows keep of each side: those that are output or compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from slidejoin.rows.held_types import check_holdable, held_schema
from slidejoin.rows.text import is_text
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slidejoin.plan.output_schema import Layout
    from slidejoin.plan.window_term import Scope
    from slidejoin.predicate.bind import BoundPredicate
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["KeptColumns"]


@dataclass(frozen=True, slots=True)
class KeptColumns:
    """The columns of one side, and the codes of texts beside them.

    Attributes
    ----------
    given : pyarrow.Schema
        Of the side's batches.
    saved : pyarrow.Schema
        What snapshots hold: columns that were given, with their types as they are held.
    kept : pyarrow.Schema
        What the window holds: these, and codes; of texts that are only compared the codes alone.
    codes : dict of str to str
        The columns of codes, and the columns of texts that they stand for.
    """

    given: pa.Schema
    saved: pa.Schema
    kept: pa.Schema
    codes: dict[str, str]

    @property
    def taken(self) -> pa.Schema:
        """A batch's columns, and the codes after them."""
        return _with_codes(self.given, self.codes)

    def with_codes(self, codes: Mapping[str, str]) -> KeptColumns:
        """Return these columns with further codes."""
        return replace(self, kept=_with_codes(self.kept, codes), codes=self.codes | dict(codes))

    @staticmethod
    def of(
        config: JoinSpec,
        layout: Layout,
        bound: BoundPredicate,
        scope: Scope | None,
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
            if scope is not None:
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
            found[side] = KeptColumns(schema, saved, _with_codes(kept, codes), codes)
        return found


def _with_codes(schema: pa.Schema, codes: Iterable[str]) -> pa.Schema:
    for coded in codes:
        if coded not in schema.names:
            schema = schema.append(pa.field(coded, pa.int64()))
    return schema
