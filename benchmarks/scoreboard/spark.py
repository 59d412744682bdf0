"""The rows of the join on Spark: the commands that measure each, and the marks to reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.scoreboard.target import Mark, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.scoreboard.target import Reports

__all__ = ["SPARK_TARGETS"]

MILLION = 1_000_000
CYCLE = 512
"""Micro-batches of 1,000 rows: rows are written again as 4, 16, 64 and 256 of them are put together, and in so many
each of that happens as often as in the long run."""

FLAT, LEVEL = 1.05, 1.02
"""As many times as much memory after 200 micro-batches count as flat, and as level."""


def _spark(**options: Any) -> dict[str, Any]:
    return {"case": "benchmarks.spark", "baselines": False} | options


LARGE = {"case": "benchmarks.spark", "push": MILLION, "batches": 10}
"""Ten, so that the whole state is written as often as it is in the long run: once in ten micro-batches."""

SMALL = _spark(push=1000, batches=CYCLE, restart=True)


def _speed(must: float, goal: float) -> Mark:
    return Mark(lambda r: float(r[0]["rows_per_second"]["median"]), "{:,.0f} rows/s", must, goal)


def _second(reports: Reports) -> float:
    """Return how many times as fast two executors are as one."""
    one, two = (report["rows_per_second"]["median"] for report in reports)
    return float(two / one)


def _restart(name: str, shown: str) -> Mark:
    return Mark(lambda r: r[0]["restart"][name] - r[0]["restart"]["reading"], shown, 15, 5, least=False)


def _written(number: int, shown: str, must: float, goal: float) -> Mark:
    """Return what is written for each byte that comes, in files or in memory, whichever are fewer."""

    def read(reports: Reports) -> float:
        one = reports[number]
        return float(sum(one["written"].values()) / min(one["file_bytes"], one["arrow_bytes"]))

    return Mark(read, shown, must, goal, least=False)


def _share(number: int, what: Callable[[dict[str, Any]], float], shown: str) -> Mark:
    return Mark(lambda r: what(r[number]), shown)


def _held(name: str) -> Mark:
    def times(reports: Reports) -> float:
        trend = reports[0]["memory"][name]
        return 1 + float(trend["growth"] / trend["median"])

    return Mark(times, f"{name} {{:.3f}}x", FLAT, LEVEL, least=False)


SPARK_TARGETS = (
    Target(
        "local[2], 1 M rows a micro-batch, pairs of two columns a side",
        "300,000 rows/s and 30x Spark's own",
        "600,000, 60x",
        (LARGE,),
        (
            _speed(300_000, 600_000),
            Mark(
                lambda r: r[0]["rows_per_second"]["median"] / r[0]["own_rows_per_second"],
                "{:.0f}x Spark's own",
                30,
                60,
            ),
            Mark(lambda r: float(r[0]["own_rows"]), "which had {:,.0f} rows a micro-batch"),
        ),
    ),
    Target(
        "the same, 4 M rows a micro-batch",
        "500,000 rows/s",
        "1 M",
        (_spark(push=4 * MILLION, batches=5),),
        (_speed(500_000, MILLION),),
        large=True,
    ),
    Target(
        'the same as `output="count"`, 1 M a micro-batch',
        "400,000 rows/s",
        "1 M",
        (_spark(push=MILLION, output="count"),),
        (_speed(400_000, MILLION),),
    ),
    Target(
        "micro-batches of 1,000 rows, two buckets: time of each beyond an empty query's",
        "600 ms",
        "350 ms",
        (SMALL,),
        (
            Mark(lambda r: 1e3 * r[0]["beyond_reading"], "{:.0f} ms", 600, 350, least=False),
            Mark(lambda r: 1e3 * r[0]["reading"]["median"], "the empty one {:.0f} ms"),
        ),
        large=True,
    ),
    Target(
        "restart with a full window: time to the first new result beyond an empty query's",
        "15 s",
        "5 s",
        (SMALL,),
        (
            _restart("with the node's cache", "{:.1f} s"),
            _restart("without it", "{:.1f} s without the node's cache"),
            Mark(lambda r: float(r[0]["restart"]["reading"]), "the empty one {:.1f} s"),
        ),
        large=True,
    ),
    Target(
        "new checkpoint bytes for each input byte, large / 1,000-row micro-batches",
        "1.2x / 4x",
        "0.8x / 2x",
        (LARGE, SMALL),
        (
            _written(0, "{:.2f}x", 1.2, 0.8),
            _written(1, "{:.2f}x", 4, 2),
            _share(0, lambda one: one["written_reading"] / one["file_bytes"], "the empty one {:.2f}x"),
            _share(1, lambda one: one["written_reading"] / one["file_bytes"], "{:.2f}x"),
        ),
        large=True,
    ),
    Target(
        "memory over 200 micro-batches of 1,000 rows",
        "flat",
        "flat",
        (SMALL,),
        tuple(_held(name) for name in ("Java heap", "Java beside its heap", "Python workers")),
        large=True,
    ),
    Target(
        "two executors against one, standalone, each with its workers pinned to one processor",
        "1.6x",
        "1.9x",
        tuple(_spark(push=4 * MILLION, executors=count, batches=8) for count in (1, 2)),
        (
            Mark(_second, "{:.2f}x with 4 M rows a micro-batch", 1.6, 1.9),
            Mark(lambda r: r[0]["rows_per_second"]["median"], "one {:,.0f} rows/s"),
            Mark(lambda r: r[1]["rows_per_second"]["median"], "two {:,.0f} rows/s"),
        ),
        large=True,
        turns=3,
    ),
)
