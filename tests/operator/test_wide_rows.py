"""Tables of bounded bytes: whatever the rows are, and however wide one of them is among the others."""

from __future__ import annotations

import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.operator import join_operator as operator
from slidejoin.operator import slices
from slidejoin.operator.window import side
from slidejoin.rows import chunk, piece, reorder, widths
from slidejoin.rows.widths import TABLE, TableLimit
from tests.narrow import tune

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MIB = 1 << 20
SMALL = TableLimit(rows=1000, nbytes=20_000)
WIDE = 9_000


def skewed(row: int) -> str:
    """One wide text among short ones, some of which lie in their record."""
    return chr(97 + row % 26) * (WIDE if row % 10 == 3 else row % 40)


def texts(rows: range) -> list[str | None]:
    return [None if row % 7 == 6 else skewed(row) for row in rows]


COLUMNS: dict[str, Callable[[range], Any]] = {
    "text": lambda rows: pa.array(texts(rows)),
    "large text": lambda rows: pa.array(texts(rows), pa.large_string()),
    "views": lambda rows: pa.array(texts(rows), pa.string_view()),
    "binary": lambda rows: pa.array([skewed(row).encode() for row in rows]),
    "fixed binary": lambda rows: pa.array([bytes([row % 256]) * 3000 for row in rows], pa.binary(3000)),
    "lists": lambda rows: pa.array(
        [[row] * (1100 if row % 10 == 3 else row % 5) for row in rows], pa.list_(pa.int64())
    ),
    "lists of texts": lambda rows: pa.array([[skewed(row), None, "b"] for row in rows]),
    "embeddings": lambda rows: pa.array([[float(row)] * 200 for row in rows], pa.list_(pa.float32(), 200)),
    "structs": lambda rows: pa.array([{"n": row, "s": skewed(row)} for row in rows]),
    "maps": lambda rows: pa.array([[("k", skewed(row))] for row in rows], pa.map_(pa.string(), pa.string())),
    "runs": lambda rows: pa.RunEndEncodedArray.from_arrays([len(rows)], [skewed(3)]) if len(rows) else [],
    "many columns": lambda rows: pa.array([dict.fromkeys(map(str, range(60)), row) for row in rows]),
}


def stream(name: str, rows: range) -> pa.Table:
    return pa.table(
        {"k": pa.array([1] * len(rows), pa.int64()), "id": pa.array(rows, pa.int64()), "wide": COLUMNS[name](rows)}
    )


def limited(patch: pytest.MonkeyPatch, limit: TableLimit = SMALL) -> None:
    options = operator.JoinOperator.__init__.__kwdefaults__ | {"limit": limit}
    patch.setattr(operator.JoinOperator.__init__, "__kwdefaults__", options)


def within(table: pa.Table, limit: TableLimit) -> bool:
    """Whether a table keeps a limit by Arrow's own count, to which bitmaps and last offsets add a little."""
    return table.num_rows == 1 or (table.num_rows <= limit.rows and table.nbytes <= 1.1 * limit.nbytes + 500)


OPTIONS: list[dict[str, Any]] = [
    {"order": "strict", "algorithm": "bi_sort", "threads": 1},
    {"order": "probe", "algorithm": "band_cells", "threads": 2},
    {"order": "strict", "self_join": True},
    {"output": "count"},
    {"output": "count", "self_join": True},
]


# By day every other kind of column has the options, and the others have those between.
BOUNDED = [
    pytest.param(name, options, id=f"{name}-{options}", marks=[] if (i + j) % 2 else [pytest.mark.nightly])
    for i, name in enumerate(COLUMNS)
    for j, options in enumerate(OPTIONS)
]


@pytest.mark.parametrize(("name", "options"), BOUNDED)
def test_tables_are_bounded_and_together_the_same(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pushes = [range(25), range(25, 26), range(26, 45)]

    def join() -> sj.StreamJoin:
        return sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(30), schemas=(schema, schema), **options)

    def batches(rows: range) -> dict[str, pa.Table]:
        table = stream(name, rows)
        return {"left": table} if options.get("self_join") else {"left": table, "right": table}

    schema = stream(name, range(1)).schema
    whole = join()
    expected = [whole.push(**batches(rows)) for rows in pushes]
    tune(monkeypatch, gather_spread=0)
    limited(monkeypatch)
    cut, iterated = join(), join()
    for rows, table in zip(pushes, expected, strict=True):
        parts = list(iterated.push_iter(**batches(rows)))
        assert all(within(part, SMALL) for part in parts)
        assert pa.concat_tables(parts).to_pylist() == table.to_pylist()
        got = cut.push(**batches(rows))
        got.validate(full=True)
        assert got.to_pylist() == table.to_pylist()
        if table.nbytes > 2 * SMALL.nbytes:
            # One table of several chunks, of which none needs more than it may.
            # One push and several may be cut at other rows.
            assert 2 * got.column(got.num_columns - 1).num_chunks > len(parts) > 1


@pytest.mark.parametrize("distinct", [4, 200])
def test_dictionaries_come_with_the_entries_that_are_used(distinct: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = TableLimit(rows=1000, nbytes=200_000)
    limited(monkeypatch, limit)
    count = 200
    words = [skewed(3) + str(number) for number in range(distinct)]
    entries = pa.DictionaryArray.from_arrays(pa.array([row % distinct for row in range(count)], pa.int32()), words)
    expected = [words[row % distinct] for row in range(count)]
    join = sj.StreamJoin(on="l.k <= r.k", window=sj.CountWindow(count), select=["l.d", "r.k"], order="strict")
    join.push(left={"k": range(count), "d": entries}, right={"k": pa.array([], pa.int64())})
    few = join.push(right={"k": [1]})
    assert few.column("d").to_pylist() == expected[:2]
    assert few.nbytes < 40_000
    once = list(join.push_iter(right={"k": [count]}))
    assert all(within(part, limit) for part in once)
    assert (len(once) > 1) == (distinct == count)
    # Of entries that many rows share each table has its own.
    often = list(join.push_iter(right={"k": [count] * 20}))
    assert all(part.nbytes <= limit.nbytes + entries.dictionary.nbytes + 1000 for part in often)
    assert [word for part in once + often for word in part.column("d").to_pylist()] == 21 * expected


def test_a_row_wider_than_a_table_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, TableLimit(rows=100, nbytes=WIDE // 2))
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(30), select=["l.wide"], order="strict")
    table = stream("text", range(20))
    parts = list(join.push_iter(left=table, right=table.slice(0, 2)))
    wide = [part.num_rows for part in parts if part.nbytes > WIDE // 2]
    assert wide == [1, 1]
    assert sum(part.num_rows for part in parts) == 40


def test_rows_without_columns_and_positions_are_bounded_by_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, TableLimit(rows=100, nbytes=160))
    batch = {"k": [1] * 30}
    nothing = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(30), select=[])
    assert [part.num_rows for part in nothing.push_iter(left=batch, right=batch)] == [90] * 10
    for algorithm in ("bi_sort", "band_cells"):
        whole = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(30), select=[], algorithm=algorithm)
        assert [whole.push(left=batch, right=batch).num_rows for _ in range(2)] == [900, 1800]
    positions = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(30), output="positions")
    assert {part.num_rows for part in positions.push_iter(left=batch, right=batch)} == {10}


# -- candidates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["pairs", "count"])
@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_candidates_are_tried_within_the_limit(output: str, kind: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    from slidejoin.predicate.bind import BoundFilter

    limited(monkeypatch)
    tried: list[int] = []
    holds = BoundFilter.holds

    def noted(self: BoundFilter, left: Any, right: Any, rows: int) -> Any:
        decoded = [column.cast(pa.string()) for columns in (left, right) for column in columns.values()]
        tried.append(sum(column.nbytes for column in decoded) if rows > 1 else 0)
        return holds(self, left, right, rows)

    monkeypatch.setattr(BoundFilter, "holds", noted)
    words = [skewed(row) for row in range(40)]
    column = pa.array(words) if kind == pa.string() else pa.array(words).dictionary_encode()
    batch = pa.table({"k": [1] * 40, "s": column})
    on = "l.k = r.k AND (coalesce(l.s, r.s) <> r.s OR l.k > r.k)"
    join = sj.StreamJoin(on=on, window=sj.CountWindow(40), output=output)
    parts = list(join.push_iter(left=batch, right=batch))
    expected = sum(left != right for left in words for right in words)
    assert join.stats.pairs == expected
    if output == "count":
        counts = [count for part in parts for count in part.column("match_count").to_pylist()]
        assert sum(counts) == expected
    assert len(tried) > 40 * 40 * 800 * 2 // SMALL.nbytes
    assert max(tried) <= 1.1 * SMALL.nbytes


# -- memory ------------------------------------------------------------------------------------------------------------


POOLS: list[pa.MemoryPool] = []
"""Kept, because arrays that were made by one must not outlive it."""


@contextmanager
def peak() -> Iterator[list[int]]:
    """Collects the bytes that NumPy and Arrow had at most beyond those at the beginning."""
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    POOLS.append(pool)
    found: list[int] = []
    tracemalloc.start()
    pa.set_memory_pool(pool)
    try:
        yield found
    finally:
        found.append(tracemalloc.get_traced_memory()[1] + (pool.max_memory() or 0))
        pa.set_memory_pool(before)
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["texts", "both sides", "lists", "filter", "count by filter"])
def test_memory_is_bounded_whatever_a_push_finds(name: str) -> None:
    """250 by 250 rows of one key with 9 KB each are 560 MB of output, or of candidates."""
    count = 250
    wide: pa.Array[Any] = pa.array([chr(97 + row % 26) * WIDE for row in range(count)])
    if name == "lists":
        wide = pa.array([[row] * (WIDE // 8) for row in range(count)])
    table = pa.table({"k": [1] * count, "id": range(count), "wide": wide})
    options: dict[str, Any] = {"on": "l.k = r.k", "select": ["l.wide", "r.id"]}
    if name == "both sides":
        options["select"] = ["l.wide", "r.wide"]
    if "filter" in name:
        options = {"on": "l.k = r.k AND (l.wide <> r.wide OR l.k > r.k)", "select": ["l.id"]}
        options["output"] = "count" if name == "count by filter" else "pairs"
    join = sj.StreamJoin(window=sj.CountWindow(count), **options)
    join.push(left=table.slice(0, 1), right=table.slice(0, 1))
    with peak() as most:
        sizes = [part.nbytes for part in join.push_iter(left=table, right=table)]
    assert max(sizes) <= TABLE.nbytes
    if "filter" not in name:
        assert sum(sizes) > 500 * MIB
    assert most[0] < 4 * TABLE.nbytes


def test_counts_beside_wide_rows_are_bounded() -> None:
    """20,000 rows of 9 KB are put out beside their counts in tables of 64 MiB."""
    count = 20_000
    texts = pa.DictionaryArray.from_arrays(
        pa.array(np.arange(count) % 50, pa.int32()), [chr(97 + n % 26) * WIDE for n in range(50)]
    )
    table = pa.table({"k": np.arange(count), "wide": texts.cast(pa.string())})
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(50), output="count", select=["l.wide"])
    sizes, rows = [], 0
    for part in join.push_iter(left=table, right={"k": np.arange(count)}):
        sizes.append(part.nbytes)
        rows += part.num_rows
    assert rows == 2 * count
    assert max(sizes) <= TABLE.nbytes
    assert sum(sizes) >= count * WIDE


# -- more than one Arrow array holds, with a lower bound ---------------------------------------------------------------


@pytest.mark.parametrize("output", ["pairs", "count"])
@pytest.mark.parametrize("order_by", [None, "id"])
@pytest.mark.parametrize("name", ["text", "lists of texts", "structs", "maps"])
def test_a_push_of_more_than_arrow_holds_in_one_array(
    name: str, order_by: str | None, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a push has several chunks, which are never put together: neither on their way in nor in the window."""
    schema = stream(name, range(1)).schema

    def join(number: int) -> sj.StreamJoin:
        on = "l.k = r.k" if number or name != "text" else "l.wide = r.wide"
        return sj.StreamJoin(on=on, window=sj.CountWindow(70), schemas=(schema, schema), order="strict", output=output)

    batches = [
        pa.concat_tables(stream(name, range(first, first + 9)) for first in (start, start + 9, start + 18))
        for start in range(0, 81, 27)
    ]
    for number in range(2):
        with monkeypatch.context() as patch:
            whole = join(number)
            expected = [whole.push(left=batch, right=batch, order_by=order_by).to_pylist() for batch in batches]
            for module in (chunk, slices, reorder, piece, side, widths):
                patch.setattr(module, "SLICE", SMALL._replace(rows=1 << 62))
            parted = join(number)
            for batch, lines in zip(batches, expected, strict=True):
                assert parted.push(left=batch, right=batch, order_by=order_by).to_pylist() == lines
                parted = sj.StreamJoin.restore(parted.snapshot())
