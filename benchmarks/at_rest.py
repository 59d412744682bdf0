"""Tables at rest and streams with tables, beside pandas, Polars and DuckDB: ``python -m benchmarks.at_rest``.

- ``ranges``: a stream against a table of ranges that do not overlap: which range is each value in?
- ``band``: two tables by symbol and a price band, all pairs.
- ``asof``: two tables in order of time, the latest right row of each left row's symbol.

Each way runs several times, all in turns; printed are medians of seconds, rows a second and the ratio to slidejoin.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import slidejoin as sj

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Ways = dict[str, "Callable[[], int]"]

SYMBOLS = 1000
PRICES = 100_000


def ranges(rows: int, table_rows: int, push: int) -> Ways:
    """Return the ways to look up values in ranges."""
    draw = np.random.default_rng(1)
    low = np.sort(draw.choice(1 << 40, table_rows, replace=False)) if table_rows < 1 << 16 else _ascending(table_rows)
    bands: dict[str, Any] = {
        "low": low,
        "high": np.concatenate([low[1:] - 1, [1 << 41]]),
        "name": np.arange(table_rows),
    }
    values: dict[str, Any] = {"v": draw.integers(int(low[0]), int(low[-1]), rows), "id": np.arange(rows)}
    table, stream = pa.table(bands), pa.table(values)
    join = sj.TableJoin(table, "l.v BETWEEN r.low AND r.high", select=["l.id", "r.name"], schema=stream.schema)
    join.push(stream.slice(0, push))

    def ours() -> int:
        return sum(join.push(stream.slice(at, push)).num_rows for at in range(0, rows, push))

    def polars() -> int:
        import polars as pl  # noqa: PLC0415 - an extra

        one, two = _polars(stream), _polars(table)
        found = one.sort("v").join_asof(two, left_on="v", right_on="low")
        return int(found.filter(pl.col("v") <= pl.col("high")).select("id", "name").height)

    def numpy() -> int:
        at = np.searchsorted(low, np.asarray(stream["v"]), side="right") - 1
        return int((np.asarray(table["high"])[at] >= np.asarray(stream["v"])).sum())

    return {"slidejoin": ours, "polars join_asof, sorted first": polars, "numpy searchsorted, no rows": numpy}


def _ascending(rows: int) -> Any:  # noqa: ANN401 - an array
    return np.cumsum(np.random.default_rng(2).integers(1, (1 << 41) // rows, rows))


def sides(rows: int) -> tuple[pa.Table, pa.Table]:
    """Return two tables of symbols, prices and ascending times."""
    names = pa.array([f"SYM{number:04}" for number in range(SYMBOLS)])
    made = []
    for seed in (1, 2):
        draw = np.random.default_rng(seed)
        chosen: Any = pa.array(draw.integers(0, SYMBOLS, rows))
        symbols = names.take(chosen)
        times = pa.array(np.sort(draw.integers(0, rows * 1000, rows))).view(pa.timestamp("us"))
        columns: dict[str, Any] = {
            "ts": times, "symbol": symbols, "price": draw.integers(0, PRICES, rows),
            "id": np.arange(rows),
        }  # fmt: skip
        made.append(pa.table(columns))
    return made[0], made[1]


def _polars(table: pa.Table) -> Any:  # noqa: ANN401 - an extra
    import polars as pl  # noqa: PLC0415

    return pl.from_arrow(table)


def band(rows: int) -> Ways:
    """Return the ways to join two tables by symbol and a price band."""
    left, right = sides(rows)
    on = "l.symbol = r.symbol AND l.price BETWEEN r.price - 2 AND r.price + 2"

    def polars() -> int:
        import polars as pl  # noqa: PLC0415

        one, two = _polars(left), _polars(right)
        two = two.with_columns(low=pl.col("price") - 2, high=pl.col("price") + 2)
        found = one.join_where(
            two, pl.col("symbol") == pl.col("symbol_right"), pl.col("price") >= pl.col("low"),
            pl.col("price") <= pl.col("high"),
        )  # fmt: skip
        return int(found.select("id", "id_right").height)

    def duckdb() -> int:
        import duckdb  # noqa: PLC0415

        with duckdb.connect(config={"threads": 2}) as connection:
            connection.register("one", left)
            connection.register("two", right)
            found = connection.sql(f"SELECT l.id, r.id AS id_right FROM one l JOIN two r ON {on}")  # noqa: S608 - ours
            return int(found.to_arrow_table().num_rows)

    def ours() -> int:
        return int(sj.join(left, right, on=on, select=["l.id", "r.id"]).num_rows)

    return {"slidejoin": ours, "polars join_where": polars, "duckdb": duckdb}


def asof(rows: int) -> Ways:
    """Return the ways to find each row's latest row of the other table by symbol."""
    left, right = sides(rows)
    keep = sj.Nearest("l.ts", "r.ts")

    def ours() -> int:
        found = sj.join(left, right, on="l.symbol = r.symbol", keep=keep, how="left", select=["l.id", "r.id"])
        return int(found["id_right"].drop_null().length())

    def pandas() -> int:
        import pandas as pd  # noqa: PLC0415

        names = ["ts", "symbol", "id"]
        one, two = (table.select(names).to_pandas() for table in (left, right))
        return int(pd.merge_asof(one, two, on="ts", by="symbol", suffixes=("", "_right"))["id_right"].notna().sum())

    def polars() -> int:
        names = ["ts", "symbol", "id"]
        one, two = (_polars(table.select(names)).set_sorted("ts") for table in (left, right))
        found = one.join_asof(two, on="ts", by="symbol", check_sortedness=False).select("id", "id_right")
        return int(found["id_right"].count())

    return {"slidejoin": ours, "pandas merge_asof": pandas, "polars join_asof": polars}


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser("python -m benchmarks.at_rest", description=__doc__)
    parser.add_argument("--cases", default="ranges,band,asof")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--table", type=int, default=1_000_000, help="ranges of the table of `ranges`")
    parser.add_argument("--push", type=int, default=1 << 18, help="rows of a push of `ranges`")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--without", default="", help="ways to leave out, such as duckdb")
    options = parser.parse_args(arguments)
    cases: dict[str, Callable[[], Ways]] = {
        "ranges": lambda: ranges(options.rows, options.table, options.push),
        "band": lambda: band(options.rows),
        "asof": lambda: asof(options.rows),
    }
    left_out = set(filter(None, options.without.split(",")))
    for name in options.cases.split(","):
        ways = {way: run for way, run in cases[name]().items() if way.split()[0] not in left_out}
        took: dict[str, list[float]] = {way: [] for way in ways}
        rows: dict[str, int] = {}
        for _ in range(options.turns):
            for way, run in ways.items():
                start = perf_counter()
                rows[way] = run()
                took[way].append(perf_counter() - start)
        if len(set(rows.values())) > 1:
            sys.exit(f"{name}: other numbers of rows: {rows}")
        ours = median(took["slidejoin"])
        for way, seconds in took.items():
            each = median(seconds)
            sys.stdout.write(
                f"{name:<7} {way:<30} {each:8.2f} s  {options.rows / each / 1e6:7.2f} M rows/s  {each / ours:6.2f}x "
                f"of slidejoin's time  {rows[way]:,} rows\n"
            )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
