"""SPO-Join's figures on Spark: `po_join` in the buckets of ``sub_windows``, its baselines on the same buckets.

With five buckets a sub-window is a tenth of the window, the paper's slide interval. Windows are of time, in which a row
sees as many rows as in the paper's windows of counts, as rows come at even distances.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.cases.paper_streams import QUERIES
from benchmarks.papers.on_spark.figures import Figure
from benchmarks.papers.on_spark.points import Join, Live, Point, of_query
from slidejoin.papers.pim_tree.options import ChainedBPlusTree
from slidejoin.papers.spo_join.options import POJoin

if TYPE_CHECKING:
    from slidejoin.options import Options

__all__ = ["spo_figures"]

INTERVALS, BUCKETS = 10, 5
"""Slide intervals in a window, and buckets, each of which has two of them."""

OURS, CSS_BITS, CSS_HASHES = "po_join", "CSS-trees, bit sets", "CSS-trees, hash sets"
HASHES, CHAIN = "mutable hash sets", "chain index"

FIGURE_7 = {
    60_000: (16.0, 35.0, 19.0),
    70_000: (12.0, 25.0, 9.0),
    80_000: (22.0, 43.0, 12.0),
    90_000: (22.0, 49.0, 17.5),
    100_000: (24.0, 39.0, 44.0),
}
"""By slide: how many times as fast as the others is the immutable part (bit sets, hash sets), and the mutable one."""

FIGURE_8: dict[int, dict[int, tuple[float, float | None]]] = {
    60_000: {50: (15 / 3.2, 28 / 3.2), 75: (25 / 7, 67 / 7), 95: (37 / 12.4, 109 / 12.4)},
    70_000: {50: (25 / 2.4, 40 / 2.4), 75: (31 / 3.824, 82 / 3.824), 95: (10.0, None)},
    80_000: {50: (12 / 2.217, 19 / 2.217), 75: (21 / 4, 29 / 4), 95: (38 / 7.2, 33 / 7.2)},
    90_000: {50: (20 / 2, 40 / 2)},
    100_000: {50: (5 / 1.1, 30 / 1.1), 75: (9.6 / 1.9, 52 / 1.9)},
}
"""By slide and percentile: how many times as long rows wait in immutable parts of CSS-trees, bit sets and hash sets."""

FIGURE_10: dict[int, dict[int, tuple[float, float]]] = {
    100_000: {50: (49 / 37, 173 / 109), 75: (80 / 62, 2.0), 95: (1.5, 2.0)},
    200_000: {50: (133 / 71, 9.2)},
}
"""By slide and percentile: the same of CSS-trees with bit sets, and of mutable hash sets against bit sets."""

FIGURE_11 = {
    50_000: (23.0, 14.3, 7.0), 60_000: (9.19, 3.7, 4.2), 70_000: (3.2, 3.0, 3.7), 80_000: (3.8, 6.5, 5.5),
    90_000: (7.5, 13.6, 11.0), 100_000: (8.7, 19.0, 11.7),
}  # fmt: skip
"""By slide: how many times as long rows wait with the chain index, at the 50th, 75th and 95th percentile."""

MATCHING = {25_000: (15, 1, 51), 50_000: (62, 1, 121), 75_000: (140, 5, 164), 100_000: (249, 5, 190)}
"""By slide: millions of matches, parts that are merged one by one, and the paper's longest row in milliseconds."""

DIVIDED = {300_000: {50: 70.0, 75: 44.6, 95: 7.3}}
"""By slide and percentile: how many times as long rows wait in whole slide intervals as in divided ones."""

PERCENTS = (50, 75, 95)
LATENCIES = tuple(f"p{percent}" for percent in PERCENTS)


def spo_figures(*, full: bool, scale: int, executors: tuple[int, ...]) -> tuple[Figure, ...]:
    """Return the figures.

    Parameters
    ----------
    full : bool
        All windows of the paper at their sizes; otherwise one or two of a figure, a `scale`-th of the size.
    scale : int
        Of short runs.
    executors : tuple of int
        Of clusters.
    """
    share = 1 if full else scale
    # The slowest joins take minutes for a tenth of the largest slide interval.
    part = 10 if full else 1
    batches = 3 if full else 2
    live = Live(rate=2_000, seconds=30.0 if full else 3.0)

    def po_join(slide: int, **options: Any) -> POJoin:
        return POJoin(slide_interval=max(slide // share, 1), **{"sub_intervals": 1} | options)

    def joins(slide: int, chosen: dict[str, dict[str, Any]], *, waits: bool) -> dict[str, Join]:
        found = {name: Join(algorithm=po_join(slide, **options), buckets=BUCKETS) for name, options in chosen.items()}
        return {name: replace(one, live=live) for name, one in found.items()} if waits else found

    def point(query: str, slide: int, given: dict[str, Join], *, intervals: int = INTERVALS, **more: Any) -> Point:
        label = f"{query}, slide {slide // share:,}, window {intervals * slide // share:,}{more.pop('note', '')}"
        return Point(
            label=label, source=of_query(QUERIES[query]), window=max(intervals * slide // share, 2),
            push=max(slide // share // part, 2), joins=given, **{"batches": batches} | more,
        )  # fmt: skip

    taxi = {
        OURS: {},
        CSS_BITS: {"immutable": "css_bit_set"},
        CSS_HASHES: {"immutable": "css_hash_set", "mutable": "hash_set"},
        HASHES: {"mutable": "hash_set"},
    }
    self_joins = {}
    for slide in FIGURE_7 if full else (60_000, 100_000):
        waits = full or slide == 100_000  # noqa: PLR2004 - the largest
        given = joins(
            slide, taxi if waits else {name: taxi[name] for name in (OURS, CSS_BITS, CSS_HASHES)}, waits=waits
        )
        if waits:
            chain: Options = ChainedBPlusTree(chain_length=max(INTERVALS // BUCKETS, 2))
            given[CHAIN] = replace(given[OURS], algorithm=chain)
        self_joins[slide] = point("Q2", slide, given)
    waiting = {slide: one for slide, one in self_joins.items() if next(iter(one.joins.values())).live is not None}

    power = {name: taxi[name] for name in (OURS, CSS_BITS, HASHES)}
    two_way = {
        slide: point("Q1", slide, joins(slide, power, waits=True))
        for slide in ((100_000, 200_000) if full else (100_000,))
    }
    divided = {
        slide: point(
            "Q1", slide, joins(slide, {"divided slides": {"sub_intervals": 5}, "whole slides": {}}, waits=True)
        )
        for slide in (DIVIDED if full else ())
    }
    matching = {
        slide: point(
            "match rate", slide, intervals=5,
            given={
                "scale-out, 5 buckets": replace(
                    Join(algorithm=po_join(slide, sub_intervals=parts)), live=replace(live, rate=500)
                ),
                "scale-up, 1 bucket, 2 threads": Join(
                    algorithm=po_join(slide, sub_intervals=parts, threads=2), buckets=1, live=replace(live, rate=500)
                ),
            },
        )
        for slide, (_, parts, _) in MATCHING.items()
        if full or slide == 100_000  # noqa: PLR2004 - the largest
    }  # fmt: skip
    growing = _growing(point, po_join, executors, full=full)
    correct = point(
        "Q2", 25_000, note=", live", given={
            f"{rate:,} rows/s, {buckets} buckets": Join(
                algorithm=po_join(25_000), buckets=buckets, live=replace(live, rate=rate)
            )
            for rate, buckets in (
                ((200, 10), (2_000, 10), (5_000, 10), (7_000, 10), (200, 40), (500, 40))
                if full
                else ((200, 5), (5_000, 5))
            )
        },
    )  # fmt: skip
    return (
        _throughput(self_joins),
        _latencies_of_taxis(waiting),
        _latencies_of_power(two_way, divided),
        Figure(
            number="11a",
            shows="waits of rows with a chain of B+-trees, the chain index, in the same buckets, Q2",
            says="3.0 to 23 times SPO-Join's at the 50th to 95th percentile",
            points=tuple(waiting.values()),
            reads=LATENCIES,
            reported={
                (one.label, CHAIN, f"p{percent}"): times
                for slide, one in waiting.items()
                for percent, times in zip(PERCENTS, FIGURE_11[slide], strict=True)
            },
        ),
        Figure(
            number="12",
            shows="throughput and longest wait while 2.5 % of a slide match a row",
            says="the mutable part 167, 179, 115 and 114 tuples/s; the longest tuple in the immutable part "
            "51, 121, 164 and 190 ms scaled out, 130 and 176 ms scaled up, at 15, 62, 140 and 249 M matches a slide",
            points=tuple(matching.values()),
            reads=("speed", "deviation", "p100"),
            because="a row is evaluated in one call of a bucket, not in two operators: ours are whole rows, from their "
            "arrival to the commit of their micro-batch",
        ),
        *growing,
        Figure(
            number="14a",
            shows="correct rows by insertion rate and processing elements",
            says="without a table of ids 0.3 % at 5,000 tuples/s and 10 elements, 8 % at 500 and 40, 98 % at 200 and "
            "40; with it 100 %",
            points=(correct,),
            reads=("correct",),
            growth=True,
        ),
        Figure(
            number="14b",
            shows="by how many tuples the windows of processing elements differ",
            says="13 times fewer with a distributed cache than with round robin at 5,000 tuples/s, 38 at 7,000, 82 and "
            "94 times with larger slides",
            points=(correct,),
            reads=("wrong",),
            growth=True,
        ),
        Figure(
            number="15a",
            shows="time to merge a slide interval",
            says="10 to 15 s, CSS-trees 5 to 12 s: 1.2 times as fast at 100,000 tuples",
            points=tuple(self_joins.values()),
            reads=("merge",),
            reported={
                (one.label, CSS_BITS, "merge"): 1 / 1.2 for slide, one in self_joins.items() if slide == max(FIGURE_7)
            },
        ),
        Figure(
            number="15b",
            shows="tuples that are evaluated during a merge",
            says="more than 2.5 times as many as with CSS-trees at 100,000 tuples",
            because="a bucket inserts, merges and probes one after the other in one call of a micro-batch: no row is "
            "evaluated meanwhile, and what the next rows wait is part of figure 8",
        ),
    )


def _throughput(points: dict[int, Point]) -> Figure:
    reported = {}
    for slide, one in points.items():
        bits, hashes, mutable = FIGURE_7[slide]
        for name, times in ((CSS_BITS, bits), (CSS_HASHES, hashes), (HASHES, mutable)):
            reported[one.label, name, "speed"] = times
    return Figure(
        number="7",
        shows="throughput of a self-join, Q2, against CSS-trees and hash sets",
        says="the immutable part 12 to 24 times CSS-trees with bit sets and 25 to 49 times with hash sets; the mutable "
        "part 9 to 44 times hash sets",
        points=tuple(points.values()),
        reported=reported,
        because="a row is evaluated by both parts in one call of a bucket, and Spark's own time for a micro-batch is "
        "part of it: ours are whole rows; `python -m benchmarks.cases inequality` measures the parts",
    )


def _latencies_of_taxis(points: dict[int, Point]) -> Figure:
    reported: dict[tuple[str, str, str], float] = {}
    for slide, one in points.items():
        for percent, (bits, hashes) in FIGURE_8[slide].items():
            for name, times in ((CSS_BITS, bits), (CSS_HASHES, hashes)):
                if times is not None:
                    reported[one.label, name, f"p{percent}"] = times
    return Figure(
        number="8",
        shows="how long rows wait from their arrival to their result, Q2",
        says="the immutable part 3.2, 7 and 12.4 s at the 50th, 75th and 95th percentile with slides of 60,000, CSS-"
        "trees 15, 25, 37 s with bit sets and 28, 67, 109 s with hash sets",
        points=tuple(points.values()),
        reads=LATENCIES,
        reported=reported,
    )


def _latencies_of_power(points: dict[int, Point], divided: dict[int, Point]) -> Figure:
    reported: dict[tuple[str, str, str], float] = {}
    for slide, one in points.items():
        for percent, (bits, hashes) in FIGURE_10[slide].items():
            reported[one.label, CSS_BITS, f"p{percent}"] = bits
            reported[one.label, HASHES, f"p{percent}"] = hashes
    for slide, one in divided.items():
        reported |= {(one.label, "whole slides", f"p{percent}"): times for percent, times in DIVIDED[slide].items()}
    return Figure(
        number="10",
        shows="how long rows of two streams wait, Q1",
        says="the immutable part 37 s at the median with slides of 100,000, CSS-trees 49 s; the mutable part 109 s, "
        "with hash sets 173 s; divided slides of 300,000 wait 70 times shorter at the median",
        points=(*points.values(), *divided.values()),
        reads=LATENCIES,
        reported=reported,
        because="windows of 4 and 5 million rows are left out" if divided else "short runs leave out divided slides",
    )


def _growing(point: Any, po_join: Any, executors: tuple[int, ...], *, full: bool) -> tuple[Figure, ...]:  # noqa: ANN401 - the functions above
    """Return figures 13 (a) and (b)."""
    slide = 25_000
    counts = (1, 2, 5, 10, 20) if full else (1, BUCKETS)
    elements = point(
        "Q2", slide, note=", buckets", given={f"{n} buckets": Join(algorithm=po_join(slide), buckets=n) for n in counts}
    )
    clusters = tuple(
        point(
            "Q2", slide, note=f", {n} executor{'s' if n > 1 else ''}", executors=n,
            given={f"{n} executor{'s' if n > 1 else ''}": Join(algorithm=po_join(slide), buckets=2)},
        )
        for n in executors
    )  # fmt: skip
    return (
        Figure(
            number="13a",
            shows="more machines; here executors of a standalone cluster, each pinned to a processor",
            says="the longest wait at the first processing element 325 ms on one node, 203 ms on nine; at the fifth "
            "191 and 21 ms",
            points=clusters,
            growth=True,
            workers=(elements,),
            because="there are two processors: throughput of one and two executors is measured, more are the model's",
        ),
        Figure(
            number="13b",
            shows="more processing elements; here buckets on two processors",
            says="419 tuples/s with one, 6,167 with 20: 14.7 times",
            points=(elements,),
            reported={(elements.label, "20 buckets", "speed"): 6_167 / 419},
            growth=True,
            because="all buckets share two processors, so more than two show what they cost, not what they give",
        ),
    )
