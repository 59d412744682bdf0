"""Values of Kafka records as rows: JSON is read in blocks, and one by one where a value does not fit."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.pipeline.text_rows import MisfitError, json_block, json_converters
from slidejoin.rows.arrow_buffers import empty_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["records_of_json"]

LONGEST_SHOWN = 100


def records_of_json(
    values: Sequence[bytes | None], schema: pa.Schema, needed: Sequence[str]
) -> tuple[pa.Table, dict[int, str]]:
    """Return the rows of values, and why some cannot be read, by their places; these have no row.

    Parameters
    ----------
    values : sequence of bytes or None
    schema : pyarrow.Schema
        Of the rows.
    needed : sequence of str
        Columns that may not be NULL.

    Examples
    --------
    >>> schema = pa.schema([("id", pa.int64())])
    >>> rows, bad = records_of_json([b'{"id": 1}', b'{"id": "x"}', None], schema, [])
    >>> rows.to_pylist(), bad
    ([{'id': 1}], {1: 'id is not int64: "x"', 2: 'it is NULL (the mark of a deleted key)'})
    """
    if not values:
        return empty_of(schema), {}
    try:
        data = b"\n".join(values)  # type: ignore[arg-type]  # it raises for None
        sizes = np.fromiter(map(len, values), np.int64, len(values))  # type: ignore[arg-type]  # none is None
        # Each value is at least one object then, so as many rows as values are one row of each.
        if _are_objects(sizes, data):
            data.decode()  # also what no column reads is UTF-8
            table = json_block(pa.py_buffer(data), schema)
            if table.num_rows == len(values) and not any(table.column(name).null_count for name in needed):
                return table, {}
    except (TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError, MisfitError, UnicodeDecodeError):
        pass
    return _one_by_one(values, schema, frozenset(needed))


def _are_objects(sizes: NDArray[np.int64], data: bytes) -> bool:
    """Tell whether each line of `data`, of these sizes, begins and ends with a brace."""
    if sizes.min() == 0:
        return False
    ends = np.cumsum(sizes + 1) - 1
    letters = np.frombuffer(data, np.uint8)
    return bool((letters[ends - sizes] == ord("{")).all() and (letters[ends - 1] == ord("}")).all())


def _one_by_one(
    values: Sequence[bytes | None], schema: pa.Schema, needed: frozenset[str]
) -> tuple[pa.Table, dict[int, str]]:
    converters = json_converters(schema)
    rows: list[list[Any]] = []
    bad: dict[int, str] = {}
    for place, value in enumerate(values):
        try:
            rows.append(_row(value, converters, schema, needed))
        except MisfitError as error:
            bad[place] = str(error)
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema), bad


def _row(value: bytes | None, converters: Any, schema: pa.Schema, needed: frozenset[str]) -> list[Any]:  # noqa: ANN401
    if value is None:
        raise MisfitError("it is NULL (the mark of a deleted key)")
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise MisfitError("not UTF-8") from error
    try:
        record = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise MisfitError("not JSON") from error
    if not isinstance(record, dict):
        raise MisfitError("no object of JSON")
    row = []
    for (name, convert), field in zip(converters, schema, strict=True):
        given = record.get(name)
        if given is None and name in needed:
            raise MisfitError(f"{name} is missing or null, and NOT NULL")
        try:
            row.append(None if given is None else convert(given))
        except (ValueError, OverflowError, TypeError, InvalidOperation) as error:
            shown = json.dumps(given, default=str, ensure_ascii=False)[:LONGEST_SHOWN]
            raise MisfitError(f"{name} is not {field.type}: {shown}") from error
    return row
