"""A predicate bound to the schemas of its sides, split into the parts that the operator uses.

A join that is embedded numbers the texts that it sees (`slidejoin.rows.text_table`), equal ones alike. An equality of a
column of each side is then one of integers, which says everything: no hash, and nothing to compare again. What stores a
join's rows has a column of codes for each such column of texts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from slidejoin.predicate.expression.expr import And, Expr
from slidejoin.predicate.ranges.terms import RangeTerm, make_terms
from slidejoin.predicate.truth.evaluate import ColumnsBySide, truth
from slidejoin.predicate.truth.pair_programs import split
from slidejoin.predicate.truth.resolve import conjuncts, resolve_boolean
from slidejoin.predicate.truth.row_values import in_row_values
from slidejoin.predicate.truth.tree import BOOLEAN, Node, column_of, columns_of
from slidejoin.predicate.truth.types import BYTES, Kind, Type
from slidejoin.predicate.truth.values import rows_of
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.predicate.truth.pair_programs import PairProgram
    from slidejoin.predicate.truth.values import Column
    from slidejoin.sides import Side

__all__ = ["BoundFilter", "BoundPredicate", "all_of", "bind"]


@dataclass(frozen=True)
class BoundFilter:
    """What is checked on candidate pairs, one by one."""

    expr: Expr
    node: Node

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """The conjuncts of the predicate that it checks."""
        return self.expr.parts if isinstance(self.expr, And) else (self.expr,)

    @cached_property
    def program(self) -> PairProgram | None:
        """What a program checks of it; None if nothing."""
        return self._split[0]

    @cached_property
    def rest(self) -> BoundFilter | None:
        """What no program checks; None if nothing is left."""
        parts = self._split[1]
        return BoundFilter(self.expr, all_of(parts)) if parts else None

    @cached_property
    def _split(self) -> tuple[PairProgram | None, tuple[Node, ...]]:
        return split(self.node)

    def columns(self, side: Side) -> tuple[str, ...]:
        """Return the columns of `side` that it reads."""
        return _columns((self.node,), side)

    def holds(
        self, left_columns: Mapping[str, Column], right_columns: Mapping[str, Column], n: int
    ) -> NDArray[np.bool_]:
        """Return bool (n,): where the pair of row i of both sides fulfils it (neither false nor unknown)."""
        return truth(self.node, ColumnsBySide({"left": left_columns, "right": right_columns}), n)


@dataclass(frozen=True, slots=True)
class BoundPredicate:
    """A predicate with types.

    Every conjunct is in exactly one place: `never` (no columns), a single-side filter, a term, or the residual.

    Attributes
    ----------
    terms
        Range terms, the best to index first.
    residual
        Conjuncts on both sides that no term covers.
    never
        Whether a constant part is false or unknown, so that no pair can match.
    codes
        For each side the columns of codes that are compared instead of texts, and the columns of these.
    values
        For each side the columns that hold what a part of a filter says of a row, and these parts, see
        `truth.row_values`.
    """

    terms: tuple[RangeTerm, ...]
    residual: tuple[Expr, ...]
    never: bool
    _nodes: tuple[tuple[Expr, Node], ...]
    codes: dict[Side, dict[str, str]]
    values: dict[Side, dict[str, Node]]
    _checks: dict[Expr, Node] = field(repr=False, compare=False)
    """The conditions on pairs that may be left to check, as they read columns of `values`."""
    _own: dict[Side, Node] = field(init=False, repr=False, compare=False, default_factory=dict)
    _filters: dict[frozenset[int], BoundFilter | None] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _on: dict[tuple[Expr, ...], BoundFilter] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        # Needed for every push.
        sides: tuple[Side, Side] = ("left", "right")
        for side in sides:
            nodes = tuple(node for _, node in self._nodes if node.sides == {side})
            if nodes:
                self._own[side] = all_of(nodes)

    def columns(self, side: Side) -> tuple[str, ...]:
        """Return the columns of `side` that the predicate reads."""
        return _columns(tuple(node for _, node in self._nodes), side)

    def filters_side(self, side: Side) -> bool:
        """Return whether `prefilter` leaves out rows of that side."""
        return side in self._own

    def prefilter(self, side: Side, columns: Mapping[str, Column]) -> NDArray[np.bool_] | None:
        """Return bool (n,), False for rows of `side` that cannot match anything; None if there is no such condition."""
        node = self._own.get(side)
        return None if node is None else truth(node, ColumnsBySide({side: columns}), rows_of(columns))

    def filter(self, inexact: Collection[int]) -> BoundFilter | None:
        """Return what is left to check on candidate pairs; None if nothing is.

        Parameters
        ----------
        inexact
            Numbers of the terms whose ranges gave candidates only: their conjuncts are checked again.
        """
        key = frozenset(inexact)
        if key not in self._filters:
            self._filters[key] = self._filter(key)
        return self._filters[key]

    def _filter(self, inexact: Collection[int]) -> BoundFilter | None:
        wanted = set(self.residual)
        for number in inexact:
            wanted.update(self.terms[number].conjuncts)
        return self.filter_on(wanted)

    @property
    def conjuncts(self) -> tuple[Expr, ...]:
        """All parts that must be true."""
        return tuple(expr for expr, _ in self._nodes)

    def filter_on(self, wanted: Collection[Expr]) -> BoundFilter | None:
        """Return the check of these conjuncts on candidate pairs; None of none."""
        chosen = [(expr, self._checks.get(expr, node)) for expr, node in self._nodes if expr in wanted]
        if not chosen:
            return None
        exprs = tuple(expr for expr, _ in chosen)
        if exprs not in self._on:
            nodes = all_of(tuple(node for _, node in chosen))
            self._on[exprs] = BoundFilter(exprs[0] if len(exprs) == 1 else And(exprs), nodes)
        return self._on[exprs]


def all_of(nodes: tuple[Node, ...]) -> Node:
    """Return the condition that all of these hold."""
    if len(nodes) == 1:
        return nodes[0]
    return Node("and", BOOLEAN, nodes, sides=frozenset(side for node in nodes for side in node.sides))


def _columns(nodes: tuple[Node, ...], side: Side) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for node in nodes for where, name in columns_of(node) if where == side))


def bind(
    expr: Expr, left_schema: pa.Schema, right_schema: pa.Schema, *, coded: bool = False, valued: bool = False
) -> BoundPredicate:
    """Give a predicate the types of two schemas.

    With `coded`, equalities of two columns of texts are those of their codes, see `coded_columns`; with `valued`,
    filters read what their parts say of one row from columns, see `truth.row_values`.

    Raises
    ------
    PredicateError
        If a column is unknown or types do not meet; the message names the nearest column or says what to do.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slidejoin.predicate.expression.expr import Column, Compare
    >>> schema = pa.schema([("a", pa.int64())])
    >>> bind(Compare("<", Column("left", "a"), Column("right", "a")), schema, schema).terms[0].label
    'ranges l.a ~ r.a'
    """
    schemas: dict[Side, pa.Schema] = {"left": left_schema, "right": right_schema}
    resolve_boolean(expr, schemas)  # report what was written, not its parts
    parts = conjuncts(expr, schemas)
    nodes = [(part, resolve_boolean(part, schemas)) for part in parts]
    codes: dict[Side, dict[str, str]] = {"left": {}, "right": {}}
    for _, node in nodes if coded else ():
        for side, name in coded_columns(node).items():
            codes[side][code_column(name, list(schemas.values()))] = name
    nodes = [(part, in_codes(node, schemas) if coded else node) for part, node in nodes]
    never = any(not node.sides and node.value is not True for _, node in nodes)
    across = [(part, node) for part, node in nodes if len(node.sides) > 1]
    terms, rest = make_terms(across)
    values: dict[Side, dict[str, Node]] = {"left": {}, "right": {}}
    checks = {}
    if valued:
        taken = {*left_schema.names, *right_schema.names}
        checked = {part for part, _ in rest}.union(*(term.conjuncts for term in terms if not term.exact))
        checks = {part: in_row_values(node, values, taken) for part, node in across if part in checked}
    if any(values.values()):
        # Ranges read the same columns, so that nothing is computed once more for them.
        terms, rest = make_terms([(part, checks.get(part, node)) for part, node in across])
    return BoundPredicate(terms, tuple(part for part, _ in rest), never, tuple(nodes), codes, values, checks)


MOST_CODES = 1 << 31
"""More than there are texts in any two windows."""


def code_column(name: str, schemas: Collection[pa.Schema]) -> str:
    """Return the name of the column of codes that is added for a column of texts: one that no schema has.

    Examples
    --------
    >>> import pyarrow as pa
    >>> code_column("s", [pa.schema([("s", pa.string()), ("code of s", pa.int64())])])
    "code of s'"
    """
    coded = f"code of {name}"
    while any(coded in schema.names for schema in schemas):
        coded += "'"
    return coded


def coded_columns(node: Node) -> dict[Side, str]:
    """Return the columns of texts of both sides whose equality a condition is; nothing if it is another one."""
    if node.op != "=" or any(arg.op != "column" or arg.type.kind not in BYTES for arg in node.args):
        return {}
    columns = dict(map(column_of, node.args))
    return columns if len(columns) == len(SIDES) else {}


def in_codes(node: Node, schemas: Mapping[Side, pa.Schema]) -> Node:
    """Return the equality of codes that an equality of texts stands for; any other condition as it is."""
    if not coded_columns(node):
        return node
    args = []
    for arg in node.args:
        side, name = column_of(arg)
        coded = side, code_column(name, list(schemas.values()))
        args.append(Node("column", Type(Kind.INT), (), coded, sides=arg.sides, reach=MOST_CODES, text=arg.text))
    return Node("=", node.type, tuple(args), sides=node.sides, text=node.text)
