"""Equality of two text columns as equality of two columns of codes.

A join that is embedded numbers the texts that it sees (`slidejoin.rows.text_table`), equal ones alike. An equality of a
column of each side is then one of integers, which says everything: no hash, and nothing to compare again. What holds a
join's rows has a column of codes for each such column of texts; where it comes from is said here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.predicate.truth.tree import Node, column_of
from slidejoin.predicate.truth.types import BYTES, Kind, Type
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa

    from slidejoin.sides import Side

__all__ = ["code_column", "coded_columns", "in_codes"]

MOST_CODES = 1 << 31
"""More than there are texts in any two windows."""


def code_column(name: str, schemas: Collection[pa.Schema]) -> str:
    """Return the name of the column of codes beside a column of texts: one that no schema has.

    Examples
    --------
    >>> import pyarrow as pa
    >>> code_column("s", [pa.schema([("s", pa.string()), ("code of s", pa.int64())])])
    "code of s'"
    """
    found = f"code of {name}"
    while any(found in schema.names for schema in schemas):
        found += "'"
    return found


def coded_columns(node: Node) -> dict[Side, str]:
    """Return the columns of texts of both sides whose equality a condition is; nothing if it is another one."""
    if node.op != "=" or any(arg.op != "column" or arg.type.kind not in BYTES for arg in node.args):
        return {}
    found = dict(map(column_of, node.args))
    return found if len(found) == len(SIDES) else {}


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
