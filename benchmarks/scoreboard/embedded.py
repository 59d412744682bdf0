"""The rows of the embedded join: the commands that measure each, and the marks to reach.

Windows are multiples of the one asked for (2^20 for the published table), so that a small window makes a quick table of
the same form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.scoreboard.target import Mark, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.scoreboard.target import Reports

__all__ = ["TARGETS"]


def _band(**options: Any) -> dict[str, Any]:
    return {"case": "band", "baselines": False} | options


def _speed(number: int = 0) -> Callable[[Reports], float]:
    return lambda reports: float(reports[number]["rows_per_second"]["median"])


def _millions(must: float | None = None, goal: float | None = None) -> Mark:
    return Mark(lambda r: _slowest(r) / 1e6, "{:.1f} M rows/s", must, goal)


def _slowest(reports: Reports) -> float:
    """Return the speed of the slowest of a row's commands."""
    return min(_speed(number)(reports) for number in range(len(reports)))


def _paired(other: str, **options: Any) -> dict[str, Any]:
    return {"case": "benchmarks.paired", "other": other} | options


def _ratio(shown: str, must: float | None = None, goal: float | None = None, *, of: int = 0) -> Mark:
    """Return the ratio of two joins that are measured in turns, of the row's command number `of`."""
    return Mark(lambda r: float(r[of]["ratio"]["median"]), shown, must, goal)


def _baseline(reports: Reports, name: str) -> float:
    return next((one["ratio"] or 0.0 for one in reports[0]["baselines"] if one["name"] == name), 0.0)


def _percentile(name: str, shown: str, must: float, goal: float) -> Mark:
    return Mark(lambda r: float(r[0]["pushes"][name]), shown, must, goal, least=False)


def _idle(name: str, shown: str) -> Mark:
    return Mark(lambda r: float(r[0]["busy"][name]), shown)


UNIFORM = {"case": "band"}
KIBI = 1 << 10
FREE = 0.98
"""From here on two speeds count as equal: runs of one join differ by more."""

TARGETS = (
    Target(
        "uniform, 32 Ki rows a push",
        "20 M rows/s and 100x Polars",
        "50 M, 250x",
        (UNIFORM,),
        (_millions(20, 50), Mark(lambda r: _baseline(r, "polars"), "{:.0f}x Polars", 100, 250)),
    ),
    Target("uniform, 256 Ki rows a push", "25 M", "60 M", (_band(push=256 * KIBI),), (_millions(25, 60),)),
    Target(
        "Gaussian at the same match rate",
        "15 M",
        "as uniform",
        (_band(distribution="gaussian"), _paired("distribution=uniform", distribution="gaussian")),
        (Mark(lambda r: _speed(0)(r) / 1e6, "{:.1f} M rows/s", 15, 15), _ratio("{:.2f} of uniform", 0, FREE, of=1)),
    ),
    Target(
        "log-normal, Pareto, Zipf with at most 5 matches a row: the slowest",
        "10 M",
        "25 M",
        tuple(_band(distribution=name, match_rate=5.0) for name in ("lognormal", "pareto", "zipf")),
        (_millions(10, 25), Mark(lambda r: max(one["pairs_per_row"] for one in r), "at most {:.1f} matches")),
    ),
    Target(
        "shifting Gaussian while it shifts",
        "12 M",
        "as when it stands",
        (_band(distribution="shifting"), _paired("distribution=gaussian", distribution="shifting")),
        (Mark(lambda r: _speed(0)(r) / 1e6, "{:.1f} M rows/s", 12, 12), _ratio("{:.2f} of standing", 0, FREE, of=1)),
    ),
    Target(
        "2 threads against 1",
        "1.6x",
        "1.9x",
        (_paired("threads=1"),),
        (
            _ratio("{:.2f}x", 1.6, 1.9),
            Mark(lambda r: r[0]["other_rows_per_second"]["median"] / 1e6, "one thread {:.1f} M rows/s"),
        ),
    ),
    Target(
        "pushes of 256 rows, through the public API",
        "p50 ≤ 100 µs, p99.9 ≤ 500 µs",
        "40 µs, 150 µs",
        ({"case": "latency", "push": 256},),
        (
            _percentile("p50", "p50 {:.0f} µs", 100, 40),
            _percentile("p99_9", "p99.9 {:.0f} µs", 500, 150),
            _idle("p99_9", "idle machine p99.9 {:.0f} µs"),
        ),
    ),
    Target(
        "pushes of 16 rows",
        "p50 ≤ 60 µs",
        "25 µs",
        ({"case": "latency", "push": 16},),
        (_percentile("p50", "p50 {:.0f} µs", 60, 25),),
    ),
    Target(
        '`output="count"`, 32 Ki a push',
        "1.1x the pairs figure",
        "1.3x",
        (_paired("output=positions", output="count"), _paired("output=pairs", output="count")),
        (_ratio("{:.2f}x of positions", 1.1, 1.3), _ratio("{:.2f}x of pairs with a column a side", of=1)),
    ),
    Target(
        "the same on sorted runs, 2,000 matches a row against 2",
        "flat",
        "flat",
        (_paired("match_rate=2", output="count", algorithm="bi_sort", match_rate=2000.0),),
        (_ratio("{:.2f} of the speed", 0.9, 0.9),),
    ),
    Target(
        'sorted runs on the same case (`algorithm="bi_sort"`), 32 Ki',
        "8 M",
        "20 M",
        (_band(algorithm="bi_sort"),),
        (_millions(8, 20),),
    ),
    Target(
        "the same, 256 Ki",
        "12 M",
        "30 M",
        (_band(algorithm="bi_sort", push=256 * KIBI),),
        (_millions(12, 30),),
    ),
    Target(
        "one-sided range, 10 matches a row, 32 Ki a push, pairs",
        "5 M",
        "12 M",
        ({"case": "less", "match_rate": 10.0, "baselines": False},),
        (_millions(5, 12),),
    ),
    Target(
        "wide band, 100 matches a row",
        "8 ns a pair",
        "3 ns",
        (_band(match_rate=100.0),),
        (Mark(lambda r: float(r[0]["nanoseconds_per_pair"]), "{:.1f} ns a pair", 8, 3, least=False),),
    ),
    Target(
        "W from 2^14 to 2^26, 32 Ki a push, 2 threads: the least",
        "40 % of the figure at 2^20",
        "70 %",
        ({"case": "scaling"},),
        (Mark(lambda r: 100 * min(one["share"] for one in r[0]["points"] if one["threads"] > 1), "{:.0f} %", 40, 70),),
        large=True,
    ),
    Target(
        "equality, match rate 1, W = 2^27 a side, 1 Mi rows a push",
        "10 M rows/s within 16 GiB",
        "30 M",
        ({"case": "equi", "window": 128, "push": 1 << 20, "match_rate": 1.0, "baselines": False, "runs": 1},),
        (
            _millions(10, 30),
            Mark(lambda r: r[0]["peak_memory_bytes"] / 2**30, "{:.1f} GiB", 16, 16, least=False),
        ),
        large=True,
    ),
    Target(
        '`order="probe"` against `"none"`',
        "10 % slower at most",
        "free",
        (_paired("order=none"),),
        (_ratio("{:.2f} of the speed", 0.9, FREE),),
    ),
    Target(
        "window memory without payload",
        "50 bytes a stored row at the peak",
        "26",
        (UNIFORM,),
        (
            Mark(lambda r: float(r[0]["window_bytes_per_row"]), "{:.1f} bytes", 50, 26, least=False),
            Mark(lambda r: float(r[0]["resident_bytes_per_row"]), "the process {:.1f}"),
        ),
    ),
    Target(
        "`import slidejoin` / first push with a warm cache",
        "0.4 s / 1.5 s",
        "0.2 s / 0.8 s",
        ({"case": "startup"},),
        (
            Mark(lambda r: float(r[0]["imported"]["median"]), "{:.2f} s", 0.4, 0.2, least=False),
            Mark(lambda r: float(r[0]["first_push"]["median"]), "{:.2f} s", 1.5, 0.8, least=False),
        ),
    ),
    Target(
        "all kernels compiled from nothing",
        "90 s",
        "30 s",
        ({"case": "startup"},),
        (Mark(lambda r: float(r[0]["all_kernels"]), "{:.0f} s", 90, 30, least=False),),
    ),
    Target(
        "with payload, four columns a side, two of them strings",
        "no more than Arrow's own gather",
        "the same",
        ({"case": "benchmarks.arrow_take"},),
        (
            Mark(lambda r: r[0]["rows_per_second"] / 1e6, "{:.1f} M rows/s"),
            Mark(lambda r: r[0]["rows_per_second_by_take"] / 1e6, "Arrow's gather allows {:.1f} M"),
            Mark(lambda r: float(r[0]["share"]), "{:.2f} of that", FREE, FREE),
        ),
    ),
)
