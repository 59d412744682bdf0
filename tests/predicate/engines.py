"""The value of one expression on each row of a table, by slidejoin and by DuckDB, in one form."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slidejoin.predicate.expression.expr import Compare
from slidejoin.predicate.sql_text.sql import parse
from slidejoin.predicate.truth.evaluate import ColumnsBySide, evaluate
from slidejoin.predicate.truth.resolve import resolve
from slidejoin.predicate.truth.types import Kind
from tests.predicate.pairs import columns

duckdb = pytest.importorskip("duckdb")

DATABASE = duckdb.connect(config={"threads": 1})


def by_slidejoin(text: str, table: pa.Table) -> list[Any]:
    """The value of an expression on each row, NULL as None; times as seconds."""
    condition = parse(f"({text}) IS NOT DISTINCT FROM NULL")
    assert isinstance(condition, Compare)
    node = resolve(condition.left, {"left": table.schema, "right": table.schema})
    with np.errstate(all="ignore"):
        values = evaluate(node, ColumnsBySide({"left": columns(table)}))
    n = table.num_rows
    # Kernels take the arrays as they are.
    assert isinstance(values.data, pa.Array) or values.data.flags.c_contiguous
    assert values.valid is None or (values.valid.flags.c_contiguous and len(values.valid) == len(values.data))
    valid = np.broadcast_to(np.ones(1, bool) if values.valid is None else values.valid, (n,))
    data = values.data.to_pylist() if isinstance(values.data, pa.Array) else values.data.tolist()
    found = [value if known else None for value, known in zip(data * (n // len(data)), valid.tolist(), strict=True)]
    if node.type.kind is Kind.STRING:
        return [value if value is None else value.decode() for value in found]
    if node.type.exact and node.type.kind is not Kind.BOOL:
        return [value if value is None else Fraction(value, 10**node.type.scale) for value in found]
    return found


def by_duckdb(text: str, table: pa.Table) -> list[Any]:
    """The same by DuckDB."""
    with DATABASE.cursor() as database:
        database.register("l", table)
        return [plain(row[0]) for row in database.execute(f"SELECT {text} FROM l").fetchall()]  # noqa: S608


def plain(value: Any) -> Any:
    """DuckDB's value as the numbers that `by_slidejoin` gives."""
    if isinstance(value, bool | float | str | None):
        return value
    if isinstance(value, int | Decimal):
        return Fraction(value)
    midnight = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return Fraction((midnight - datetime(1970, 1, 1)) // timedelta(microseconds=1), 10**6)


def same(one: Any, two: Any) -> bool:
    """Whether two values are the same, NaN being equal to itself."""
    if isinstance(one, float) and isinstance(two, float):
        return one == two or (one != one and two != two)
    return type(one) is type(two) and one == two if isinstance(one, str | bool | None) else one == two
