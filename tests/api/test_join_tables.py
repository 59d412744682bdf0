"""`slidejoin.join`: two tables at rest, of any kind, against DuckDB and the law."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.api import join_tables
from slidejoin.spec.join_options import JOIN_TYPES
from tests.law.checks import examples, line, lines
from tests.law.join_types import Lines
from tests.oracle import CountScope, Oracle, TimeScope
from tests.render import to_sql
from tests.strategies import Case, cases
from tests.tables import rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ON = "l.k = r.k AND l.v BETWEEN r.v - 3 AND r.v + 3"


def tables(rows: int = 200) -> tuple[pa.Table, pa.Table]:
    draw = np.random.default_rng(1)
    sides = [
        pa.table({"k": draw.integers(0, 9, rows), "v": draw.integers(0, 200, rows), "id": np.arange(rows)})
        for _ in range(2)
    ]
    return sides[0], sides[1]


def expected() -> list[tuple[int, int]]:
    left, right = tables()
    found = duckdb.sql('SELECT l.id, r.id FROM "left" l JOIN "right" r ON l.k = r.k AND l.v BETWEEN r.v-3 AND r.v+3')
    assert left.num_rows == right.num_rows
    return sorted(found.fetchall())


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(table["id"].to_pylist(), table["id_right"].to_pylist(), strict=True))


@examples(100)
@given(case=cases(), how=st.sampled_from(JOIN_TYPES), windowed=st.booleans())
def test_any_join_type(case: Case, how: Any, *, windowed: bool) -> None:
    scope = case.window.scope if windowed else CountScope(1000, 1000)
    timed = isinstance(scope, TimeScope)
    if timed:
        scope = replace(scope, lateness=1 << 80)
    oracle = Oracle(case.predicate, scope, how)
    first = [] if windowed and not timed else oracle.push(right=rows_of(case.right))
    steps = [*first, *oracle.push(left=rows_of(case.left))]
    steps += oracle.push(right=rows_of(case.right)) if windowed and not timed else []
    law = Lines(case, how)
    wanted = [member for group in law.groups(steps) for member in group] + [law.of(row) for row in oracle.finish()]
    window = case.window.window if windowed else None
    out = sj.join(case.left, case.right, on=to_sql(case.predicate), how=how, window=window)
    assert sorted(lines(out)) == sorted(wanted)


def test_kinds_of_tables(tmp_path: Path) -> None:
    left, right = tables()
    pq.write_table(left, tmp_path / "left.parquet", row_group_size=50)
    pc.write_csv(right, tmp_path / "right.csv")
    (tmp_path / "parts").mkdir()
    for at in range(0, 200, 70):
        pq.write_table(left.slice(at, 70), tmp_path / "parts" / f"{at:03}.parquet")
    wanted = expected()
    for one in (
        left, left.combine_chunks().to_batches()[0], tmp_path / "left.parquet", str(tmp_path / "parts"),
        [tmp_path / "left.parquet"], ds.dataset(tmp_path / "left.parquet"),
        {name: left[name].to_numpy() for name in left.column_names},
    ):  # fmt: skip
        for two in (right, tmp_path / "right.csv", pl.from_arrow(right).lazy()):
            out = sj.join(one, two, on=ON)
            assert isinstance(out, pa.Table)
            assert pairs(out) == wanted
    frame = sj.join(left.to_pandas(), right, on=ON)
    assert isinstance(frame, pd.DataFrame)
    assert pairs(pa.Table.from_pandas(frame)) == wanted
    polars = sj.join(pl.from_arrow(left), right, on=ON)
    assert isinstance(polars, pl.DataFrame)
    assert pairs(polars.to_arrow()) == wanted
    lazy = sj.join(pl.from_arrow(left).lazy(), right, on=ON)
    assert isinstance(lazy, pl.LazyFrame)
    assert pairs(lazy.collect().to_arrow()) == wanted
    parts = sj.join(left, right, on=ON, stream=True)
    assert pairs(pa.concat_tables(parts)) == wanted


def test_columns_that_nobody_needs_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = (table.append_column("more", pa.array(["x"] * 200)) for table in tables())
    pq.write_table(right, tmp_path / "right.parquet")
    read: list[list[str]] = []
    given_table = join_tables.given_table

    def watched(table: object, side: Any, *, own: bool) -> join_tables.GivenTable:
        made = given_table(table, side, own=own)

        def whole(names: Sequence[str]) -> pa.Table:
            read.append(list(names))
            return made.whole(names)

        return replace(made, whole=whole)

    monkeypatch.setattr(join_tables, "given_table", watched)
    out = sj.join(left, tmp_path / "right.parquet", on=ON, select=["r.id"])
    assert read == [["k", "v", "id"]]
    assert out.column_names == ["id_right"]  # named as among all columns
    assert sorted(out["id_right"].to_pylist()) == sorted(two for _, two in expected())


def test_nearest_and_aggregates() -> None:
    left = pa.table({"t": [10, 20, 5], "s": ["a", "b", "a"]})
    right = pa.table({"t": [9, 3, 19, 18], "s": ["a", "a", "b", "b"], "p": [1, 2, 3, 4]})
    near = sj.join(left, right, on="l.s = r.s", keep=sj.Nearest("l.t", "r.t"), how="left", select=["l.t", "r.p"])
    assert near.to_pydict() == {"t": [10, 20, 5], "p": [1, 3, 2]}
    counted = sj.join(left, right, on="l.s = r.s", output=sj.Aggregate(n="count(*)", best="max(r.p)"))
    assert counted.to_pydict() == {"t": [10, 20, 5], "s": ["a", "b", "a"], "n": [2, 2, 2], "best": [2, 4, 2]}
    sums = sj.join(left, right, on="l.t > r.t", output="count", select=["l.t"])
    assert sums["match_count"].to_pylist() == [2, 4, 1]


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = tables()
    with pytest.raises(sj.SchemaError, match="there is no such file or folder"):
        sj.join(tmp_path / "none.parquet", right, on=ON)
    (tmp_path / "rows.xyz").write_text("x")
    with pytest.raises(sj.SchemaError, match=r"cannot tell its format by its name; expected one of [.]parquet"):
        sj.join(left, tmp_path / "rows.xyz", on=ON)
    (tmp_path / "broken.parquet").write_text("x")
    with pytest.raises(sj.SchemaError, match="cannot be read as parquet"):
        sj.join(left, tmp_path / "broken.parquet", on=ON)
    monkeypatch.setattr(join_tables, "available_memory", lambda: 1000)
    with pytest.raises(sj.MemoryLimitError, match="the right table has about 4,800 bytes, and 1,000 bytes of memory"):
        sj.join(left, right, on=ON)
    pq.write_table(right, tmp_path / "right.parquet", compression="none", use_dictionary=False)
    for select, size in ((None, "[45],[0-9]{3}"), (["l.id"], "3,[0-9]{3}")):
        with pytest.raises(sj.MemoryLimitError, match=f"the right table has about {size} bytes"):
            sj.join(left, tmp_path / "right.parquet", on=ON, select=select)
    with pytest.raises(sj.PredicateError, match="w"):
        sj.join(left, right, on="l.w = r.v", stream=True)


def test_empty_tables() -> None:
    left, right = tables()
    assert sj.join(left.slice(0, 0), right, on=ON).num_rows == 0
    assert sj.join(left, right.slice(0, 0), on=ON, how="left").num_rows == 200
    assert line(sj.join(left, right.slice(0, 0), on=ON, how="full").to_pylist()[0])[:1] == line([left["k"][0].as_py()])
