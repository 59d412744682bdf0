"""The rows of topologies: the commands that measure each, and the marks to reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.scoreboard.target import Mark, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.scoreboard.target import Reports

__all__ = ["TOPOLOGY_TARGETS"]

TURNS = {"case": "benchmarks.topology_turns"}
SECOND_THREAD = {"case": "benchmarks.second_thread"}
FIGURES = {"case": "topologies", "figure": "split16,split18"}


def _pair(name: str, number: str = "ratio") -> Callable[[Reports], float]:
    """Return a number of the comparison of that name: the smallest ratio, the largest latency of all that begin so."""

    def read(reports: Reports) -> float:
        found = [one[number]["median"] for one in reports[0]["pairs"] if one["what"].startswith(name) and one[number]]
        return float(min(found) if number == "ratio" else max(found, default=0.0))

    return read


def _simulated(figure: int, value: str, cores: int) -> Callable[[Reports], float]:
    """Return the tree's number in multiples of the chain's, with so many simulated cores."""

    def read(reports: Reports) -> float:
        rows: list[dict[str, Any]] = next(
            one["rows"] for one in reports[1]["figures"] if one["figure"]["number"] == figure
        )
        found = {
            one["what"]: one["values"][value]
            for one in rows
            if one["cores"] == cores and one["source"] == "simulated" and value in one["values"]
        }
        return float(found["split_join"] / found["handshake_low_latency"])

    return read


TOPOLOGY_TARGETS = (
    Target(
        "`split_join` against `handshake_low_latency`, the same index: throughput, visiting latency",
        "1.3x, 0.5x",
        "1.6x, 0.3x (the paper's, 28 cores)",
        (TURNS, FIGURES),
        (
            Mark(_pair("split_join against the chain"), "{:.2f}x measured at least", 1.3, 1.6),
            Mark(_pair("split_join against the chain", "visiting"), "{:.2f}x at most", 0.5, 0.3, least=False),
            Mark(_simulated(16, "rows/s", 28), "{:.2f}x simulated, 28 cores"),
            Mark(_simulated(18, "visiting ms", 28), "{:.2f}x"),
        ),
    ),
    Target(
        "gathering with outer order against none: the slowest",
        "0.95",
        "free",
        (TURNS,),
        (Mark(_pair("outer order against none"), "{:.2f}", 0.95, 0.98),),
    ),
    Target(
        "`cell_join`'s vectorised scan, one thread",
        "80 % of the bandwidth, 8x its scalar twin",
        "95 %",
        (TURNS,),
        (
            Mark(lambda r: float(r[0]["scan_of_bandwidth"]), "{:.0%} of the bandwidth", 0.8, 0.95),
            Mark(lambda r: float(r[0]["scan_of_scalar"]), "{:.1f}x scalar", 8, 8),
        ),
    ),
    Target(
        "pointer shifting, share of a `cell_join`",
        "below 0.1 %",
        "",
        (TURNS,),
        (Mark(lambda r: float(r[0]["shifting"]), "{:.4%}", 0.001, 0.001, least=False),),
    ),
    Target(
        "`auto`'s topology against the best of all, over a grid: the least",
        "0.9",
        "1",
        (TURNS,),
        (
            Mark(lambda r: float(min(one["ratio"] for one in r[0]["choices"])), "{:.2f}", 0.9, 0.98),
            Mark(lambda r: float(len(r[0]["choices"])), "{:.0f} workloads"),
        ),
    ),
    Target(
        "two-term and filter-heavy joins, two threads against one: the least",
        "1.6x",
        "1.9x",
        (SECOND_THREAD,),
        (
            Mark(lambda r: float(min(one["ratio"]["median"] for one in r[0]["measured"])), "{:.2f}x", 1.6, 1.9),
            Mark(lambda r: float(min(one["processor"] for one in r[0]["measured"])), "{:.2f}x by processor time"),
        ),
    ),
)
