"""`TableJoin`: what it refuses, what it says, several callers."""

from __future__ import annotations

import asyncio
import threading

import pyarrow as pa
import pytest

import slidejoin as sj
from tests.tables import rows_of

BANDS = {"low": [0, 10, 100], "high": [9, 99, 999], "rate": [1, 2, 3]}
ON = "l.qty BETWEEN r.low AND r.high"


def test_join_types_of_the_table_are_refused() -> None:
    with pytest.raises(sj.ArgumentError, match="'left_semi', 'left_anti'; got 'right'"):
        sj.TableJoin(BANDS, ON, how="right")


def test_schema_is_checked_at_once() -> None:
    with pytest.raises(sj.PredicateError, match="qty"):
        sj.TableJoin(BANDS, ON, schema=pa.schema([("quantity", pa.int64())]))
    with pytest.raises(sj.ArgumentTypeError, match="schema must be a pyarrow schema, that of the stream; got 5"):
        sj.TableJoin(BANDS, ON, schema=5)


def test_batches_have_the_schema_of_the_first_one() -> None:
    join = sj.TableJoin(BANDS, ON)
    join.push({"qty": [5]})
    with pytest.raises(sj.SchemaError):
        join.push({"amount": [5]})
    assert join.push({"qty": [50]}).num_rows == 1
    assert join.stats.rows_left == 2


def test_table_that_does_not_fit_is_refused() -> None:
    table = {name: list(range(1000)) for name in BANDS}
    message = "memory_limit is 1000 bytes; the table of 1000 rows may need [0-9]+ with its index"
    with pytest.raises(sj.MemoryLimitError, match=message):
        sj.TableJoin(table, ON, memory_limit=1000, schema=pa.schema([("qty", pa.int64())]))
    join = sj.TableJoin(BANDS, ON, memory_limit=1 << 20, schema=pa.schema([("qty", pa.int64())]))
    with pytest.raises(sj.MemoryLimitError, match="the table of 100000 rows"):
        join.refresh({name: list(range(100_000)) for name in BANDS})
    assert join.push({"qty": [500]}).to_pydict()["rate"] == [3]


def test_refresh_needs_the_same_schema() -> None:
    join = sj.TableJoin(BANDS, ON)
    with pytest.raises(sj.SchemaError, match="lacks column 'rate'"):
        join.refresh({"low": [1], "high": [2]})
    join.refresh({name: [] for name in BANDS})
    assert join.push({"qty": [5]}).num_rows == 0


def test_words() -> None:
    join = sj.TableJoin(BANDS, ON, select=["r.rate"])
    assert repr(join) == "TableJoin(on='l.qty >= r.low AND l.qty <= r.high', select=['r.rate'])"
    assert "not planned yet" in join.explain()
    before = join.schema
    assert before is None
    join.push({"qty": [5]})
    assert "all of a table of up to 3 rows" in join.explain()
    assert join.schema == pa.schema([("rate", pa.int64())])
    assert "rows_left" in join._repr_html_()


def test_tables_of_bounded_size() -> None:
    join = sj.TableJoin({"a": list(range(3000))}, "l.a <> r.a")
    parts = list(join.push_iter({"a": list(range(1000))}))
    assert sum(part.num_rows for part in parts) == 1000 * 2999
    assert max(part.num_rows for part in parts) <= 1 << 20
    opened = join.push_iter({"a": [1]})
    with pytest.raises(sj.JoinClosedError, match="iterator of push_iter"):
        join.push({"a": [1]})
    opened.close()  # type: ignore[attr-defined]
    assert join.push({"a": [1]}).num_rows == 2999


def test_pushes_of_an_event_loop() -> None:
    join = sj.TableJoin(BANDS, ON)

    async def pushed() -> list[int]:
        tables = await asyncio.gather(*(join.push_async({"qty": [number]}) for number in (5, 50, 5000)))
        return [table.num_rows for table in tables]

    assert asyncio.run(pushed()) == [1, 1, 0]


def test_pushes_of_threads_meet_one_table_each() -> None:
    tables = [pa.table({"a": [0] * size, "of": [size] * size}) for size in (100, 200)]
    join, wrong = sj.TableJoin(tables[0], "l.a = r.a"), list[object]()

    def push() -> None:
        for _ in range(50):
            out = join.push({"a": [0]})
            sizes = set(out["of"].to_pylist())
            if len(sizes) != 1 or out.num_rows not in sizes:
                wrong.append(rows_of(out))

    threads = [threading.Thread(target=push) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(20):
        join.refresh(tables[number % 2])
    for thread in threads:
        thread.join()
    assert not wrong
    assert join.stats.rows_left == 100
