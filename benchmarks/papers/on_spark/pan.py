"""PanJoin's figure 15 on Spark: its structures in the buckets of ``sub_windows``, a nested loop by ``split`` beside.

S is how many rows a row matches in the whole window. The paper's clusters have 16 or more workers for each stream; here
a bucket is a worker, and buckets share two processors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.papers.on_spark.figures import Figure
from benchmarks.papers.on_spark.points import Join, Point, of_keys

__all__ = ["pan_figures"]

BI_SORT, RAP, WIB, SPLIT, EMPTY = "bi_sort", "rap_table", "wib_tree", "split, nested loop", "empty"
STRUCTURES = (BI_SORT, RAP, WIB)
BUCKETS = 4


def pan_figures(*, full: bool, scale: int, executors: tuple[int, ...]) -> tuple[Figure, ...]:
    """Return the parts of figure 15; short runs have windows of a `scale`-th of 2^20 rows, and fewer points."""
    window = 1 << 22 if full else max((1 << 20) // scale, 64)
    batch = 1 << 17 if full else window // 4
    few = 5 if full else 2

    def joins(buckets: int = BUCKETS, **more: Any) -> dict[str, Join]:
        return {name: Join(algorithm=name, buckets=buckets, **more) for name in STRUCTURES}

    def point(label: str, operation: str, matches: float, given: dict[str, Join], **more: Any) -> Point:
        chosen = {"window": window, "push": batch, "batches": few} | more
        source = of_keys(operation, matches, chosen["window"])
        return Point(label=f"{label}, window {chosen['window']:,}", source=source, joins=given, **chosen)

    def size(rows: int) -> str:
        return f"S = 1, batches of {rows:,}"

    sizes = [
        point(size(rows), "equi", 1, joins() | ({EMPTY: Join(algorithm=None)} if rows == batch else {}), push=rows)
        for rows in ((1 << 15, 1 << 17, 1 << 20) if full else (batch // 4, batch))
    ]
    of_storm = sizes[1]
    large = [point("S = 1", "equi", 1, {BI_SORT: Join(algorithm=BI_SORT)}, window=1 << 24, push=1 << 22)] * full
    rates = {
        matches: point(f"S = {matches:,}", "band", matches, joins(), push=1 << 15 if full else batch)
        for matches in ((1, 16, 64, 1024, 16_384) if full else (1, 1024))
    }
    pairs = {
        matches: point(
            f"S = {matches:,}, pairs", "band", matches, joins(output="pairs"), push=1 << 15 if full else batch
        )
        for matches in ((1, 64, 256) if full else (64,))
    }
    workers = {
        matches: [
            rates[matches] if buckets == BUCKETS and not full
            else point(f"S = {matches}, {buckets} workers", "band", matches, joins(buckets))
            for buckets in ((1, 2, 4, 8, 16) if full else (1, BUCKETS))
        ]
        for matches in ((1, 64) if full else (1,))
    }  # fmt: skip
    clusters = [
        point(
            f"S = 1, {count} executor{'s' if count > 1 else ''}", "band", 1,
            {BI_SORT: Join(algorithm=BI_SORT, buckets=2)}, executors=count,
        )
        for count in executors
    ]  # fmt: skip
    small = 1 << 18 if full else window // 4
    nested = {"window": small, "push": small // 4}
    against = [
        point(
            f"S = {matches:,}, against nested loops", "band", matches,
            joins() | {SPLIT: Join(algorithm="nested_loop", strategy="split", buckets=BUCKETS)}, **nested,
        )
        for matches in ((1, 64, 1024) if full else (1,))
    ]  # fmt: skip
    # The first join that is compared is the other one: the paper reports how many times as fast as it ours are.
    return (
        Figure(
            number="15a",
            shows="throughput of an equality over the batch size, W = 2^27 a stream, 16 workers each",
            says="BI-Sort up to 28.9 M tuples/s; RaP-Table 1.5 times WiB+-tree with batches above 64 K",
            points=(*sizes, *large),
            because="a machine with two processors has neither 32 workers nor their memory: windows are smaller",
        ),
        Figure(
            number="15b",
            shows="throughput of a band over S, batches of 32 K",
            says="BI-Sort flat, RaP-Table and WiB+-tree alike, falling with S",
            points=tuple(rates.values()),
        ),
        Figure(
            number="15c",
            shows="what receiving results takes: pairs here, counts in figure 15b",
            says="more than 90 % of the time of RaP-Table and WiB+-tree where S is above 1,024",
            points=tuple(pairs.values()),
            reads=("speed", "rows out"),
            because="results go to the sink, not to a manager: the time is Spark's, for rows of four columns",
        ),
        Figure(
            number="15d",
            shows="throughput of a band with more workers, W = 2^30, S = 1 and 64",
            says="about 10 M tuples/s with BI-Sort; the others 1 to 10 times slower at S = 1, 10 to 100 times at 64; "
            "more workers are not always faster",
            points=(*(one for every in workers.values() for one in every), *clusters),
            because="buckets share two processors; executors beyond two are the model's",
            workers=tuple(replace(one, joins={BI_SORT: one.joins[BI_SORT]}) for one in workers[1]),
        ),
        Figure(
            number="15e",
            shows="speed-up over low-latency handshake join and SplitJoin, W = 2^23, 16 workers",
            says="BI-Sort more than 1,000 times, RaP-Table and WiB+-tree more than 100 times while S is small",
            points=tuple(against),
            reported={(one.label, SPLIT, "speed"): 1000.0 for one in against if one.label.startswith("S = 1,")},
            because="a handshake join passes rows from neighbour to neighbour, which buckets do not do; windows are "
            "smaller, and a nested loop takes as long as they are",
        ),
        Figure(
            number="15f",
            shows="the same, W = 2^27",
            says="BI-Sort about 5,000 times",
            because="nested loops over such windows take hours a micro-batch here; figure 15e has what can be measured",
        ),
        Figure(
            number="15g",
            shows="throughput in Storm, sub-windows of 2^20",
            says="as an empty system that only receives rows: only the ratio of figure 15h is in the text",
            points=(of_storm,),
            because="Spark takes the place of Storm",
        ),
        Figure(
            number="15h",
            shows="throughput in multiples of the empty system's",
            says="always about 0.9",
            points=(of_storm,),
            reported={(of_storm.label, EMPTY, "speed"): 0.9},
        ),
    )
