"""As-of joins of whole streams, beside `pandas.merge_asof`, Polars `join_asof` and DuckDB's ASOF JOIN."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slidejoin as sj

ROWS, PUSHES = 3000, 6


def streams(seed: int) -> tuple[pa.Table, pa.Table]:
    """Two streams in the order of times, none of them as far before a row as another one behind it: one answer."""
    rng = np.random.default_rng(seed)
    sides = []
    for rest in range(2):
        at = 4 * np.sort(rng.permutation(25_000)[:ROWS]) + rest
        sides.append(pa.table({"id": np.arange(ROWS), "k": rng.integers(0, 40, ROWS), "at": at}))
    return sides[0], sides[1]


def results(join: sj.StreamJoin, left: pa.Table, right: pa.Table) -> pa.Table:
    """All that a join puts out, fed in pushes."""
    step = ROWS // PUSHES
    pushes = [(left.slice(at, step), right.slice(at, step)) for at in range(0, ROWS, step)]
    found = [join.push(one, two, order_by="at") for one, two in pushes]
    return pa.concat_tables([*found, join.finish()])


def joined(left: pa.Table, right: pa.Table, direction: str, tolerance: int) -> dict[int, int | None]:
    """The right row of each left row, by their ids."""
    join = sj.StreamJoin(
        on=f"l.k = r.k AND abs(l.at - r.at) <= {tolerance}", window=sj.CountWindow(10_000), how="left",
        keep=sj.Nearest("l.at", "r.at", direction), select=["l.id", "r.id"],
    )  # fmt: skip
    whole = results(join, left, right)
    assert whole.num_rows == ROWS
    return dict(zip(whole["id"].to_pylist(), whole["id_right"].to_pylist(), strict=True))


def plain(ids: Any, others: Any) -> dict[int, int | None]:
    return {
        int(one): None if other is None or other != other else int(other)
        for one, other in zip(ids, others, strict=True)
    }


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_pandas_and_polars(direction: str) -> None:
    left, right = streams(len(direction))
    ours = joined(left, right, direction, 2000)
    theirs = pd.merge_asof(
        left.to_pandas(), right.to_pandas().rename(columns={"id": "id_right"}), on="at", by="k",
        direction=direction, tolerance=2000,
    )  # fmt: skip
    assert ours == plain(theirs["id"], theirs["id_right"])
    one, two = (pl.DataFrame(table) for table in (left, right))
    polars = one.join_asof(two, on="at", by="k", strategy=direction, tolerance=2000, check_sortedness=False)
    assert ours == plain(polars["id"], polars["id_right"])


@pytest.mark.parametrize(("direction", "operator"), [("backward", ">="), ("forward", "<=")])
def test_duckdb(direction: str, operator: str) -> None:
    left, right = streams(len(direction))
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        rows = connection.sql(
            f"SELECT l.id, r.id FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.at {operator} r.at"  # noqa: S608 - of constants
        ).fetchall()
    assert joined(left, right, direction, 1_000_000) == dict(rows)


def test_aggregates_of_tables_at_rest() -> None:
    left, right = streams(7)
    right = right.append_column("q", pa.array(np.arange(ROWS) % 101))
    join = sj.StreamJoin(
        on="l.k = r.k AND l.at BETWEEN r.at - 900 AND r.at + 900", window=sj.CountWindow(10_000), select=["l.id"],
        output=sj.Aggregate(n="count", total="sum(r.q)", low="min(r.q)", mean="mean(r.q)"),
    )  # fmt: skip
    ours = results(join, left, right)
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        rows = connection.sql(
            "SELECT l.id, count(r.q), sum(r.q)::BIGINT, min(r.q), avg(r.q) FROM l LEFT JOIN r "
            "ON l.k = r.k AND l.at BETWEEN r.at - 900 AND r.at + 900 GROUP BY l.id ORDER BY l.id"
        ).fetchall()
    assert [tuple(row.values()) for row in ours.to_pylist()] == rows
