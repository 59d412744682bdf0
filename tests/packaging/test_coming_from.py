"""The translations of docs/coming-from hold: on random rows both tools give the same, ties as the pages say."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Literal, get_args

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import slidejoin as sj

if TYPE_CHECKING:
    from collections.abc import Sequence

Direction = Literal["backward", "forward", "nearest"]
Rows = list[tuple[object, ...]]

WITHIN = {"backward": "l.t - r.t <= 4", "forward": "r.t - l.t <= 4", "nearest": "abs(l.t - r.t) <= 4"}
STRICT = {"backward": "l.t > r.t", "forward": "l.t < r.t", "nearest": "l.t <> r.t"}
SEEDS = range(6)


def tables(seed: int, *, ties: bool = False) -> tuple[pa.Table, pa.Table]:
    """Return two tables sorted by `t`: left rows may be equal, right ones only with `ties`."""
    drawn = random.Random(seed)
    left = sorted(drawn.choices(range(60), k=30))
    right = sorted(drawn.choices(range(60), k=25) if ties else drawn.sample(range(60), 25))
    return (
        pa.table({"t": left, "k": [drawn.choice("ab") for _ in left], "n": range(len(left))}),
        pa.table({"t": right, "k": [drawn.choice("ab") for _ in right], "m": range(len(right))}),
    )


def ours(left: pa.Table, right: pa.Table, on: Sequence[str], direction: Direction, how: str = "left") -> Rows:
    """Return the pairs of `n` and `m` by a join at rest; with `how="left"` every `n` is there."""
    keep = sj.Nearest("l.t", "r.t", direction=direction)
    found = sj.join(left, right, on=" AND ".join(on), keep=keep, how=how, select=["l.n", "r.m"])
    return sorted(zip(*found.to_pydict().values(), strict=True))


def streamed(left: pa.Table, right: pa.Table, window: sj.TimeWindow, direction: Direction) -> Rows:
    """Return the same of two streams, pushed in small parts."""
    join = sj.StreamJoin(
        on="l.k = r.k", window=window, keep=sj.Nearest("l.t", "r.t", direction=direction), how="left",
        select=["l.n", "r.m"], schemas=(left.schema, right.schema),
    )  # fmt: skip
    pushes = []
    for first in range(0, 60, 7):
        parts = [
            table.filter((pa.compute.field("t") >= first) & (pa.compute.field("t") < first + 7))
            for table in (left, right)
        ]
        pushes.append(join.push(*parts, order_by="t"))
    found = pa.concat_tables([*pushes, join.finish()])
    return sorted(zip(*found.to_pydict().values(), strict=True))


def by_pandas(left: pa.Table, right: pa.Table, **options: object) -> Rows:
    merged = pd.merge_asof(left.to_pandas(), right.to_pandas(), on="t", by="k", **options)
    return [(n, None if pd.isna(m) else int(m)) for n, m in zip(merged["n"], merged["m"], strict=True)]


def by_polars(left: pa.Table, right: pa.Table, direction: Direction, **options: object) -> Rows:
    frames = (pl.from_arrow(table) for table in (left, right))
    joined = next(frames).join_asof(next(frames), on="t", by="k", strategy=direction, check_sortedness=False, **options)
    return joined.sort("n").select("n", "m").rows()


@pytest.mark.parametrize("direction", get_args(Direction))
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("tolerance", [None, 4])
def test_as_of_joins_of_pandas_and_polars(direction: Direction, tolerance: int | None, exact: bool):
    on = ["l.k = r.k", *([] if tolerance is None else [WITHIN[direction]]), *([] if exact else [STRICT[direction]])]
    for seed in SEEDS:
        left, right = tables(seed)
        rows = ours(left, right, on, direction)
        options = {"tolerance": tolerance, "allow_exact_matches": exact}
        theirs = by_pandas(left, right, direction=direction, **options)
        if direction != "nearest":  # of two at one distance Polars takes the later one, see the last test
            assert rows == by_polars(left, right, direction, **options)
        assert rows == theirs


@pytest.mark.parametrize("seed", SEEDS)
def test_a_window_is_the_tolerance_of_streams(seed: int):
    left, right = tables(seed, ties=True)
    window = sj.TimeWindow(left=0, right=4, left_on="t", right_on="t")
    rows = streamed(left, right, window, "backward")
    assert rows == by_pandas(left, right, tolerance=4)
    assert rows == by_polars(left, right, "backward", tolerance=4)
    ahead, other = tables(seed)
    rows = streamed(ahead, other, sj.TimeWindow(left=4, right=0, left_on="t", right_on="t"), "forward")
    assert rows == by_pandas(ahead, other, tolerance=4, direction="forward")


@pytest.mark.parametrize(
    ("compared", "direction", "on"),
    [(">=", "backward", []), ("<=", "forward", []), (">", "backward", ["l.t > r.t"]), ("<", "forward", ["l.t < r.t"])],
)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_as_of_joins_of_duckdb(compared: str, direction: Direction, on: list[str], how: str):
    for seed in SEEDS:
        left, right = tables(seed)
        query = f"SELECT l.n, r.m FROM a l ASOF {how} JOIN b r ON l.k = r.k AND l.t {compared} r.t ORDER BY l.n"  # noqa: S608 - of this test
        with duckdb.connect() as session:
            session.register("a", left)
            session.register("b", right)
            theirs = session.sql(query).fetchall()
        assert ours(left, right, ["l.k = r.k", *on], direction, how) == theirs


@pytest.mark.parametrize("on", [
    "l.t > r.t AND l.n < r.m", "abs(l.t - r.t) <= 3",
    "l.k = r.k AND l.t BETWEEN r.t AND r.t + 5", "l.k <> r.k AND l.t < r.t",
])  # fmt: skip
def test_joins_on_any_condition_of_duckdb_and_polars(on: str):
    for seed in SEEDS:
        left, right = tables(seed, ties=True)
        rows = sorted(zip(*sj.join(left, right, on=on, select=["l.n", "r.m"]).to_pydict().values(), strict=True))
        with duckdb.connect() as session:
            session.register("a", left)
            session.register("b", right)
            query = f"SELECT l.n, r.m FROM a l JOIN b r ON {on} ORDER BY ALL"  # noqa: S608 - of this test
            assert rows == session.sql(query).fetchall()
        other = pl.from_arrow(right).rename({"t": "r_t", "k": "r_k"})
        terms = {
            "l.t > r.t AND l.n < r.m": [pl.col("t") > pl.col("r_t"), pl.col("n") < pl.col("m")],
            "abs(l.t - r.t) <= 3": [(pl.col("t") - pl.col("r_t")).abs() <= 3],
            "l.k = r.k AND l.t BETWEEN r.t AND r.t + 5": [
                pl.col("k") == pl.col("r_k"), pl.col("t") >= pl.col("r_t"), pl.col("t") <= pl.col("r_t") + 5,
            ],
            "l.k <> r.k AND l.t < r.t": [pl.col("k") != pl.col("r_k"), pl.col("t") < pl.col("r_t")],
        }  # fmt: skip
        assert rows == sorted(pl.from_arrow(left).join_where(other, *terms[on]).select("n", "m").rows())


def test_ties_are_as_the_pages_say():
    left, right = (
        pa.table({"t": [20], "k": ["a"], "n": [0]}),
        pa.table({"t": [15, 15, 25, 25], "k": ["a"] * 4, "m": range(4)}),
    )
    chosen = {
        direction: [rows[0][1] for rows in (
            by_pandas(left, right, direction=direction), by_polars(left, right, direction),
            ours(left, right, ["l.k = r.k"], direction),
        )]
        for direction in get_args(Direction)
    }  # fmt: skip
    assert chosen == {"backward": [1, 1, 1], "forward": [2, 2, 3], "nearest": [1, 3, 1]}


def test_rows_that_are_null_are_as_the_pages_say():
    left = pa.table({"t": pa.array([20.0, None]), "k": ["a", "a"], "n": [0, 1]})
    right = pa.table({"t": [15.0, 16.0], "k": pa.array(["a", None]), "m": [0, 1]})
    assert ours(left, right, ["l.k = r.k"], "backward") == [(0, 0), (1, None)]
    with pytest.raises(ValueError, match="null"):
        by_pandas(left, right)
    assert by_polars(left.take([1, 0]), right, "backward") == [(0, 0), (1, None)]
    missing = pa.table({"t": [20.0], "k": pa.array([None], pa.string()), "n": [0]})
    assert by_pandas(missing, right) == [(0, 1)]
    assert by_polars(missing, right, "backward") == [(0, None)]
    assert ours(missing, right, ["l.k = r.k"], "backward") == [(0, None)]
    assert ours(missing, right, ["l.k IS NOT DISTINCT FROM r.k"], "backward") == [(0, 1)]
