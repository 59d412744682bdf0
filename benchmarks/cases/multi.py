"""The case ``multi``: joins of three and four streams in rows a second, beside DuckDB asked once a push.

Both join the same pushes with the same windows. DuckDB keeps the windows as tables, which are updated outside of the
timed part, and answers one query for each stream whose rows arrive. The combinations of the first push are compared one
by one, their numbers in the others; a difference is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from slidejoin.api.multi_join import MultiJoin
from slidejoin.bench.case import choice, say
from slidejoin.bench.report import Report, Spread, millions
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.rows.arrow_buffers import array_of
from slidejoin.runtime.threads import cores
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.spec.join_options import Output

__all__ = ["SHAPES", "MultiReport", "run"]

FEWEST_PUSHES, FEWEST_AT_REST, WARM_UP = 4, 1, 2
DOMAIN = 1 << 31
"""Values of ``x`` are uniform below that, those of ``k`` below the rows of a window: one row in each is equal."""


class Shape(NamedTuple):
    """A predicate that links streams in some way, with ``{h}`` for half of a band that holds one row of a window."""

    name: str
    streams: str
    on: str
    output: Output = "positions"

    def text(self, window: int) -> str:
        """Return the predicate for windows of so many rows."""
        return self.on.format(h=max(DOMAIN // window // 2, 1))


SHAPES = (
    Shape("chain of 3", "abc", "a.k = b.k AND c.x BETWEEN b.x - {h} AND b.x + {h}"),
    Shape("star of 3", "abc", "a.k = b.k AND a.x BETWEEN c.x - {h} AND c.x + {h}"),
    Shape("clique of 3", "abc", "a.k = b.k AND b.k = c.k AND a.k = c.k"),
    Shape("sum of two", "abc", "a.k = b.k AND b.k = c.k AND a.x + b.x < 2 * c.x"),
    Shape("chain of 4", "abcd", "a.k = b.k AND c.x BETWEEN b.x - {h} AND b.x + {h} AND c.k = d.k"),
    Shape("star of 4", "abcd", "a.k = b.k AND a.x BETWEEN c.x - {h} AND c.x + {h} AND a.k = d.k"),
    Shape("clique of 4", "abcd", "a.k = b.k AND b.k = c.k AND c.k = d.k AND a.k = c.k AND a.k = d.k AND b.k = d.k"),
    Shape("chain of 3, counts", "abc", "a.k = b.k AND c.x BETWEEN b.x - {h} AND b.x + {h}", "count"),
)


@dataclass(frozen=True, slots=True)
class ShapeSpeed:
    """One shape.

    Attributes
    ----------
    rows_per_second : float
        Of slidejoin: all measured rows by the time of all pushes.
    pushes : Spread
        The same over the pushes, one by one.
    combinations_per_row : float
    duckdb : float or None
        Rows a second of DuckDB, None without it.
    orders : str
        The orders of probing in the end.
    """

    name: str
    on: str
    output: str
    rows_per_second: float
    pushes: Spread
    combinations_per_row: float
    duckdb: float | None
    orders: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiReport(Report):
    """All shapes."""

    threads: int
    window: int
    push: int
    seed: int
    shapes: tuple[ShapeSpeed, ...]

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        yield (
            f"case {self.case}: windows of {self.window:,} rows for each stream, {self.push:,} rows of each a push, "
            f"{self.threads} threads, seed {self.seed}"
        )
        yield ""
        for one in self.shapes:
            yield f"{one.name}: {one.on}"
            yield (
                f"  {one.output}, {one.combinations_per_row:.3g} combinations a row; {one.orders}; middle half "
                f"{millions(one.pushes.lower_quartile)} to {millions(one.pushes.upper_quartile)} rows/s"
            )
        yield ""
        yield "| rows a second | slidejoin | DuckDB once a push | ratio |"
        yield "| --- | --- | --- | --- |"
        for one in self.shapes:
            other = "" if one.duckdb is None else f"{one.duckdb:,.0f}"
            ratio = "" if one.duckdb is None else f"{one.rows_per_second / one.duckdb:,.3g}"
            yield f"| {one.name} | {one.rows_per_second:,.0f} | {other} | {ratio} |"
        yield ""


def run(
    *,
    only: tuple[str, ...] | None = None,
    window: int = 1 << 18,
    push: int = 1 << 15,
    seconds: float = 3.0,
    baselines: bool = True,
    threads: int | None = None,
    seed: int = 1,
) -> MultiReport:
    """Measure the shapes.

    Parameters
    ----------
    only : tuple of str, optional
        Names of some shapes, or beginnings of names; all by default.
    window, push : int
        Rows of each stream's window, and of each stream in a push.
    seconds : float
        For each tool on each shape, after the windows are full; at least a few pushes.
    baselines : bool
        Measure DuckDB too.
    threads : int, optional
        Of both; all cores by default.
    seed : int
        Of the streams.

    Raises
    ------
    SlideJoinError
        If DuckDB finds other combinations.
    ConfigError
        For impossible options.
    """
    for option, value in (("seconds", seconds), ("window", window), ("push", push)):
        if not value > 0:
            msg = f"{option}: got {value}, expected a number above 0"
            raise ConfigError(msg)
    names = [shape.name for shape in SHAPES]
    for given in only or ():
        if not any(name.startswith(given) for name in names):
            choice("only", given, names)
    count, measured = threads or cores(), []
    for shape in SHAPES:
        if only is None or shape.name.startswith(tuple(only)):
            say(f"{shape.name}: slidejoin{', DuckDB' if baselines else ''}")
            measured.append(_measured(shape, window, push, seconds, count, seed, baselines=baselines))
    return MultiReport(case="multi", threads=count, window=window, push=push, seed=seed, shapes=tuple(measured))


def _measured(
    shape: Shape, window: int, push: int, seconds: float, threads: int, seed: int, *, baselines: bool
) -> ShapeSpeed:
    on = shape.text(window)
    join = MultiJoin(dict.fromkeys(shape.streams, CountWindow(window)), on, output=shape.output, threads=threads)
    filling = -(-window // push)
    for number in range(filling):
        join.push(_batches(shape, window, push, seed, number))
    took: list[float] = []
    found: list[int] = []
    first, number = None, filling
    while len(took) < WARM_UP + FEWEST_PUSHES or sum(took[WARM_UP:]) < seconds:
        batches = _batches(shape, window, push, seed, number)
        start = perf_counter()
        out = join.push(batches)
        took.append(perf_counter() - start)
        found.append(_combinations(out, shape))
        first = out if first is None else first
        number += 1
    rows = push * len(shape.streams)
    at_rest = None
    if baselines and first is not None:
        at_rest = _at_rest(shape, on, window, push, seconds, threads, seed, first, found)
    orders = [line for line in join.explain().splitlines() if line.startswith("a row of")]
    shown = ", ".join(line.removeprefix("a row of ").replace(" probes ", ": ") for line in orders)
    measured = np.array(took[WARM_UP:])
    return ShapeSpeed(
        name=shape.name,
        on=on,
        output=shape.output,
        rows_per_second=rows * measured.size / float(measured.sum()),
        pushes=Spread.of(rows / measured),
        combinations_per_row=sum(found) / (rows * len(found)),
        duckdb=at_rest,
        orders=shown,
    )


def _batches(shape: Shape, window: int, push: int, seed: int, number: int) -> dict[str, pa.Table]:
    found = {}
    for place, stream in enumerate(shape.streams):
        rng = np.random.default_rng([seed, number, place])
        columns = [array_of(rng.integers(0, most, push)) for most in (window, DOMAIN)]
        found[stream] = pa.Table.from_arrays(columns, names=["k", "x"])
    return found


def _combinations(out: pa.Table, shape: Shape) -> int:
    return int(out["match_count"].to_numpy().sum()) if shape.output == "count" else out.num_rows


# -- DuckDB ------------------------------------------------------------------------------------------------------------


def _at_rest(
    shape: Shape, on: str, window: int, push: int, seconds: float, threads: int, seed: int,
    first: pa.Table, found: list[int],
) -> float:  # fmt: skip
    """Return the rows a second of DuckDB, which has to find the same combinations."""
    duckdb: Any = import_module("duckdb")
    connection = duckdb.connect(config={"threads": threads})
    filling, took = -(-window // push), 0.0
    tables: dict[str, pa.Table] = {}
    for number in range(filling):
        for stream, table in _batches(shape, window, push, seed, number).items():
            tables[stream] = _appended(tables.get(stream), table, number * push, window)
    what = "count(*)" if shape.output == "count" else ", ".join(f"{name}.i AS {name}" for name in shape.streams)
    query = f"SELECT {what} FROM {', '.join(shape.streams)} WHERE {on}"  # noqa: S608 - our own words
    pushes = 0
    while pushes < len(found) and (pushes < FEWEST_AT_REST or took < seconds):
        number, parts = filling + pushes, []
        for stream, table in _batches(shape, window, push, seed, number).items():
            # All rows of the streams before have arrived, none of those behind.
            new = _appended(None, table, number * push, window)
            for name in shape.streams:
                connection.register(name, new if name == stream else tables[name])
            start = perf_counter()
            parts.append(connection.sql(query).to_arrow_table())
            took += perf_counter() - start
            tables[stream] = _appended(tables[stream], table, number * push, window)
        total = sum(part.column(0)[0].as_py() if shape.output == "count" else part.num_rows for part in parts)
        if total != found[pushes]:
            msg = f"{shape.name}: DuckDB finds {total:,} combinations in push {pushes}, slidejoin {found[pushes]:,}"
            raise SlideJoinError(msg)
        if pushes == 0 and shape.output != "count":
            _check_same(shape, pa.concat_tables(parts), first)
        pushes += 1
    connection.close()
    return pushes * push * len(shape.streams) / took


def _appended(held: pa.Table | None, table: pa.Table, ordinal: int, window: int) -> pa.Table:
    numbered = table.append_column("i", pa.array(np.arange(ordinal, ordinal + table.num_rows)))
    whole = numbered if held is None else pa.concat_tables([held, numbered])
    return whole.slice(max(0, whole.num_rows - window)).combine_chunks()


def _check_same(shape: Shape, theirs: pa.Table, ours: pa.Table) -> None:
    keys: list[tuple[str, Literal["ascending", "descending"]]] = [(name, "ascending") for name in shape.streams]
    theirs = theirs.select(list(shape.streams)).cast(ours.schema)
    if not theirs.sort_by(keys).combine_chunks().equals(ours.sort_by(keys).combine_chunks()):
        msg = f"{shape.name}: DuckDB finds other combinations than slidejoin in the first push"
        raise SlideJoinError(msg)
