"""Parts of a condition on pairs that read one row only, as columns of their values.

In ``l.name LIKE 'a%' OR r.price > l.low`` the first part says the same of a row in every pair that it is in. A join
that is embedded computes it once, as the row arrives, and stores it with the row's columns: then what is left to do on
pairs has an instruction (`slidejoin.predicate.truth.pair_programs`), which functions and casts have not. A part all of
which has instructions takes no column. Nor does a cast of a text: that takes a microsecond or two, which rows that
never meet a candidate would pay for nothing.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slidejoin.predicate.truth.evaluate import ColumnsBySide, evaluate
from slidejoin.predicate.truth.tree import COMPARATORS, Node, columns_of
from slidejoin.predicate.truth.types import BYTES, Kind
from slidejoin.predicate.truth.values import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from slidejoin.sides import Side

__all__ = ["in_row_values", "row_value_type", "row_values"]

INSTRUCTIONS = COMPARATORS | {
    "column", "literal", "and", "or", "not", "isnull", "same", "double", "rescale", "negate", "abs",
    "+", "-", "*", "/", "//", "%",
}  # fmt: skip
"""Kinds of nodes that programs know."""


def row_value_type(node: Node) -> pa.DataType | None:
    """Return the type of the column that holds a node's values; None if none can."""
    kind = node.type.kind
    if kind is Kind.BOOL:
        return pa.bool_()
    if kind is Kind.FLOAT:
        return pa.float64()
    if kind in BYTES:
        return pa.large_binary()
    if kind is Kind.INT and node.reach <= INT64_MAX:
        return pa.int64()
    return None


def in_row_values(node: Node, columns: dict[Side, dict[str, Node]], taken: Collection[str]) -> Node:
    """Return a condition whose parts that read one row, and have no instruction, are columns of their values.

    The columns, by their names, and the parts go into `columns`; no name is `taken`. Where a value is compared too,
    whether it is NULL is seen in its column, of which ranges can be made.
    """
    return _in_columns(node, columns, taken, frozenset(_compared(node)))


def _in_columns(
    node: Node, columns: dict[Side, dict[str, Node]], taken: Collection[str], compared: frozenset[Node]
) -> Node:
    if node.op == "isnull" and node.args[0] in compared:
        return replace(node, args=(_in_columns(node.args[0], columns, taken, compared),))
    if _is_row_value(node):
        (side,) = node.sides
        name = f"value {blake2b(repr(node).encode(), digest_size=8).hexdigest()} of {node.text}"
        while name in taken:
            name += "'"
        columns[side][name] = node
        return Node("column", node.type, (), (side, name), sides=node.sides, reach=node.reach, text=node.text)
    if not node.sides or not node.args:
        return node
    return replace(node, args=tuple(_in_columns(arg, columns, taken, compared) for arg in node.args))


def _is_row_value(node: Node) -> bool:
    if len(node.sides) != 1 or _instructed(node) or _costly(node):
        return False
    return row_value_type(node) is not None


def _compared(node: Node) -> Iterator[Node]:
    """Yield the parts of comparisons that are columns of their values."""
    if node.op in COMPARATORS:
        yield from filter(_is_row_value, node.args)
    else:
        for arg in node.args:
            yield from _compared(arg)


def row_values(node: Node, table: pa.Table) -> pa.Array[Any]:
    """Return the values of a node that reads one side, for each row of a table that has its columns."""
    (side,) = node.sides
    columns = {name: table.column(name) for _, name in columns_of(node)}
    with np.errstate(all="ignore"):
        values = evaluate(node, ColumnsBySide({side: columns}))
    data, valid, rows = values.data, values.valid, table.num_rows
    if isinstance(data, pa.Array):
        data = data if len(data) == rows else pa.repeat(data[0], rows)
        return data if valid is None else pc.if_else(pa.array(np.broadcast_to(valid, (rows,))), data, None)
    missing = None if valid is None else ~np.broadcast_to(valid, (rows,))
    return pa.array(np.broadcast_to(data, (rows,)), row_value_type(node), mask=missing)


def _costly(node: Node) -> bool:
    of_text = node.op == "cast" and node.args[0].type.kind in BYTES
    return of_text or any(map(_costly, node.args))


def _instructed(node: Node) -> bool:
    return node.op in INSTRUCTIONS and all(map(_instructed, node.args))
