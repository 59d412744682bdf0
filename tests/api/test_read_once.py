"""Each batch is read once, whatever it is and whichever path its rows take: a source may have nothing left to give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import pandas_compat

import slidejoin as sj

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = pa.schema([("k", pa.int64()), ("o", pa.int64())])
SIZES = (1000, 10, 5000, 3, 20_000, 700, 1, 9000, 0, 16)
"""Small, medium and large pushes in turns: the fused path takes some of them, the general path others."""


class Stream:
    """A source that gives its rows once, by Arrow's C stream."""

    def __init__(self, table: pa.Table) -> None:
        self._table: pa.Table | None = table
        self.reads = 0

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        self.reads += 1
        table, self._table = self._table, None
        given = SCHEMA.empty_table() if table is None else table
        return given.__arrow_c_stream__(requested_schema)


class Frame(pd.DataFrame):
    """A frame of a class of its own, as other libraries make them."""


SOURCES: dict[str, Callable[[pa.Table], object]] = {
    "table": lambda table: table,
    "record batch": lambda table: pa.RecordBatch.from_pydict(table.to_pydict(), schema=SCHEMA),
    "reader": lambda table: pa.RecordBatchReader.from_batches(SCHEMA, table.to_batches(max_chunksize=999)),
    "stream": Stream,
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.DataFrame,
    "dict of arrays": lambda table: {name: table[name].to_numpy() for name in table.column_names},
    "dict of lists": lambda table: table.to_pydict(),
}


def batches() -> Iterator[tuple[pa.Table, pa.Table]]:
    drawn, now = np.random.default_rng(4), 0
    for size in SIZES:
        sides = [
            pa.table({"k": drawn.integers(0, 3000, size), "o": np.arange(now, now + size)}, schema=SCHEMA) for _ in "lr"
        ]
        now += size
        yield sides[0], sides[1]


def joined(tables: Iterator[pa.Table], join: sj.StreamJoin) -> pa.Table:
    out = list(tables)
    return pa.concat_tables(out) if out else join.push()


def outcome(source: Callable[[pa.Table], object], push: str, **options: Any) -> tuple[list[pa.Table], sj.StreamJoin]:
    join, out = sj.StreamJoin(on="l.k BETWEEN r.k - 1 AND r.k + 1", window=sj.CountWindow(8000), **options), []
    for left, right in batches():
        given = {"left": source(left), "right": source(right), "order_by": "o"}
        out.append(join.push(**given) if push == "push" else joined(join.push_iter(**given), join))
    return out, join


@pytest.mark.parametrize("push", ["push", "push_iter"])
@pytest.mark.parametrize("known", [True, False], ids=["schemas given", "schemas not given"])
@pytest.mark.parametrize("output", ["positions", "count", "pairs"])
@pytest.mark.parametrize("name", SOURCES)
def test_every_row_of_every_source_arrives_once(name: str, output: str, known: bool, push: str) -> None:
    options: dict[str, Any] = {"output": output, "schemas": (SCHEMA, SCHEMA) if known else None}
    expected, plain = outcome(SOURCES["table"], "push", output=output, schemas=(SCHEMA, SCHEMA))
    found, join = outcome(SOURCES[name], push, **options)
    assert join.stats.rows_left == join.stats.rows_right == sum(SIZES)
    assert join.stats.pairs == plain.stats.pairs
    for got, wanted in zip(found, expected, strict=True):
        assert got.equals(wanted)


def test_a_stream_is_asked_for_once_and_a_frame_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    conversions, convert = [], pandas_compat.dataframe_to_arrays

    def counted(*args: Any, **options: Any) -> Any:
        conversions.append(args)
        return convert(*args, **options)

    monkeypatch.setattr(pandas_compat, "dataframe_to_arrays", counted)
    for known in (None, (SCHEMA, SCHEMA)):
        join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(8000), schemas=known)
        for left, right in batches():
            streams = Stream(left), Stream(right)
            join.push(*streams)
            assert [stream.reads for stream in streams] == [1, 1]
            conversions.clear()
            join.push(left=Frame(left.to_pandas()))
            assert len(conversions) == 1


def test_a_reader_that_fails_in_the_middle_leaves_the_join_as_it_was() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from next(batches())[0].to_batches()
        message = "the disk is gone"
        raise OSError(message)

    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(8000), schemas=(SCHEMA, SCHEMA))
    rows = pa.table({"k": [1], "o": [1]}, schema=SCHEMA)
    with pytest.raises(sj.SchemaError, match="the disk is gone"):
        join.push(left=pa.RecordBatchReader.from_batches(SCHEMA, broken()), right=rows)
    assert (join.stats.rows_left, join.stats.rows_right) == (0, 0)
    assert join.push(left=rows, right=rows).num_rows == 1
