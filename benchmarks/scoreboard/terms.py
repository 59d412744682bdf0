"""The rows of predicates with several terms: the commands that measure each, and the marks to reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.scoreboard.target import Mark, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.scoreboard.target import Reports

__all__ = ["TERM_TARGETS"]

TERMS = {"case": "terms"}
ON_SPARK = {"case": "terms", "spark": True, "baselines": False, "only": "100 symbols,two inequalities (5 pairs"}

SYMBOLS = ("100 symbols and", "10 thousand symbols and a band", "1 million symbols")
PLANAR = ("price between", "two inequalities (5", "two inequalities (1000", "counts", "two bands")


def _queries(reports: Reports, *names: str) -> list[dict[str, Any]]:
    """Return what was measured of the queries whose names begin like this."""
    return [one for one in reports[0]["queries"] if one["name"].startswith(names)]


def _slowest(*names: str) -> Callable[[Reports], float]:
    return lambda reports: float(min(one["rows_per_second"] for one in _queries(reports, *names))) / 1e6


def _millions(must: float, goal: float, *names: str) -> Mark:
    return Mark(_slowest(*names), "{:.2f} M rows/s", must, goal)


def _against(must: float, goal: float, shown: str, *names: str) -> Mark:
    """Return the least ratio to the query with which these ran in turns."""
    return Mark(lambda r: float(min(one["ratio"] for one in _queries(r, *names))), shown, must, goal)


def _of_one_band(goal: float, *names: str) -> Mark:
    return Mark(lambda r: _slowest(*names)(r) / _slowest("one band")(r), "{:.2f} of one band", 0, goal)


def _ahead(must: float, goal: float, shown: str, tools: tuple[str, ...], *names: str) -> Mark:
    """Return the least multiple of the better of some tools."""

    def read(reports: Reports) -> float:
        queries = _queries(reports, *names)
        ratios = [[t["ratio"] or 0.0 for t in one["tools"] if t["tool"] in tools] for one in queries]
        return float(min(min(each, default=0.0) for each in ratios))

    return Mark(read, shown, must, goal)


def _micros(name: str, shown: str, must: float, goal: float) -> Mark:
    small = "two inequalities (256"
    return Mark(lambda r: float(_queries(r, small)[0]["microseconds"][name]), shown, must, goal, least=False)


def _spark(name: str, must: float, goal: float) -> Mark:
    def read(reports: Reports) -> float:
        return next(float(one["rows_per_second"]) for one in reports[0]["on_spark"] if one["name"].startswith(name))

    return Mark(read, "{:,.0f} rows/s", must, goal)


AT_REST = ("Polars", "DuckDB")
PAPERS_WAY = "po_join, tuple by tuple"

TERM_TARGETS = (
    Target(
        "equality of 100, 10,000, 1 M symbols and a band: the slowest",
        "8 M rows/s, 100x the better of Polars and DuckDB",
        "0.8 of one band",
        (TERMS,),
        (
            _millions(8, 8, *SYMBOLS),
            _against(0, 0.8, "{:.2f} of one band", *SYMBOLS),
            _ahead(100, 100, "at least {:.0f}x", AT_REST, *SYMBOLS),
        ),
    ),
    Target(
        "the same with a one-sided range, 10 matches a row",
        "4 M",
        "12 M",
        (TERMS,),
        (_millions(4, 12, "10 thousand symbols and a one-sided"),),
    ),
    Target(
        "two and three equalities, integers",
        "0.6 of one equality",
        "0.9",
        (TERMS,),
        (_against(0.6, 0.9, "{:.2f}", "two equalities", "three equalities"),),
    ),
    Target(
        "equality of strings, with and without a band",
        "5 M",
        "15 M",
        (TERMS,),
        (_millions(5, 15, "strings", "10 thousand strings"),),
    ),
    Target(
        "price between two columns, 1.5 matches a row",
        "1 M, 100x DuckDB at rest",
        "0.5 of one band",
        (TERMS,),
        (
            _millions(1, 1, "price between"),
            _of_one_band(0.5, "price between"),
            _ahead(100, 100, "{:.0f}x DuckDB", ("DuckDB",), "price between"),
        ),
    ),
    Target(
        "two inequalities, 5 pairs a row",
        "0.3 M, 20x the better of Polars and DuckDB",
        "2 M",
        (TERMS,),
        (
            _millions(0.3, 2, "two inequalities (5"),
            _ahead(20, 20, "{:.0f}x", AT_REST, "two inequalities (5"),
            _ahead(1, 1, "{:.0f}x po_join", ("po_join",), "two inequalities (5"),
        ),
    ),
    Target(
        "two inequalities, 1,000 pairs a row",
        "30 M pairs a second",
        "200 M",
        (TERMS,),
        (
            Mark(
                lambda r: float(_queries(r, "two inequalities (1000")[0]["pairs_per_second"]) / 1e6,
                "{:.0f} M pairs/s",
                30,
                200,
            ),
        ),
    ),
    Target(
        "two inequalities as count, W = 100,000",
        "0.5 M, 100x `po_join`",
        "3 M, 1,000x",
        (TERMS,),
        (
            _millions(0.5, 3, "counts of two inequalities (100"),
            _ahead(100, 1000, "{:.1f}x po_join", ("po_join",), "counts of two inequalities (100"),
            _ahead(100, 1000, "{:.0f}x po_join as in the paper", (PAPERS_WAY,), "counts of two inequalities (100"),
        ),
    ),
    Target(
        "the same, W = 2^20",
        "0.3 M, 100x `po_join`",
        "3 M, 1,000x",
        (TERMS,),
        (
            _millions(0.3, 3, "counts of two inequalities (2^20"),
            _ahead(100, 1000, "{:.1f}x po_join", ("po_join",), "counts of two inequalities (2^20"),
            _ahead(100, 1000, "{:.0f}x po_join as in the paper", (PAPERS_WAY,), "counts of two inequalities (2^20"),
        ),
    ),
    Target(
        "two bands, a band and an inequality, 2 pairs a row: the slower",
        "1 M",
        "10 M",
        (TERMS,),
        (_millions(1, 10, "two bands", "a band and an inequality"),),
    ),
    Target(
        "pushes of 256 rows, two inequalities",
        "p50 1 ms, p99.9 5 ms",
        "0.3 ms, 1 ms",
        (TERMS,),
        (_micros("p50", "p50 {:.0f} µs", 1000, 300), _micros("p99_9", "p99.9 {:.0f} µs", 5000, 1000)),
    ),
    Target(
        "memory of the planar structure without payload: the most",
        "100 bytes a stored row",
        "48",
        (TERMS,),
        (
            Mark(
                lambda r: float(max(one["window_bytes_per_row"] for one in _queries(r, *PLANAR))),
                "{:.0f} bytes",
                100,
                48,
                least=False,
            ),
        ),
    ),
    Target(
        "Spark local[2], 1 M rows a micro-batch: equality of 100 symbols and a band",
        "300,000 rows/s",
        "600,000",
        (ON_SPARK,),
        (_spark("100 symbols", 300_000, 600_000),),
        large=True,
    ),
    Target(
        "the same: two inequalities, 5 pairs a row",
        "100,000 rows/s",
        "300,000",
        (ON_SPARK,),
        (_spark("two inequalities", 100_000, 300_000),),
        large=True,
    ),
)
