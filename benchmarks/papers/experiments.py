"""The experiments of the papers, each as joins that are measured in turns.

A point of an experiment has several joins; each is compared with the first one, as in the papers' figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slidejoin.options import BPlusTree, ChainedBPlusTree, ChainedCssTree, IMTree, PIMTree, RapTable, WibTree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slidejoin.options import Options

__all__ = ["EXPERIMENTS", "Experiment"]

Joins = dict[str, dict[str, Any]]
"""Options of `benchmarks.cases.workload.Workload` by the name that a join has in the experiment."""

WINDOW, PUSH = 1 << 20, 1 << 15
"""Rows of a side and of a push where a point says nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A result of a paper, and the joins that show it here.

    Attributes
    ----------
    source, says : str
        Where the paper reports it, and the result.
    points : dict of str to Joins
        By the difference between them.
    reads : tuple of str
        The measurements to compare, of `benchmarks.papers.report.READINGS`.
    average : bool
        Whether the paper quotes the average over the points.
    """

    source: str
    says: str
    points: Mapping[str, Joins]
    reads: tuple[str, ...] = ("speed",)
    average: bool = False


def _each(*structures: str | Options) -> Joins:
    """Return a join for each structure, by the structure's name."""
    return {one if isinstance(one, str) else one.name: {"algorithm": one} for one in structures}


def _settings(structure: type[Options], parameter: str, *values: object) -> Joins:
    """Return one structure with several values of a parameter."""
    return {f"{value}": {"algorithm": structure(**{parameter: value})} for value in values}


def _with(joins: Joins, **options: Any) -> Joins:
    return {name: given | options for name, given in joins.items()}


def _power(exponent: int) -> str:
    return f"W = 2^{exponent}"


TREES = _each(BPlusTree(), IMTree(), PIMTree())
CHAINS = (ChainedBPlusTree, ChainedCssTree)

EXPERIMENTS: dict[str, Experiment] = {
    "windows": Experiment(
        source="PIM-Tree, figure 10a",
        says="IM-Tree 1.5 and PIM-Tree 1.63 times as fast as the B+-tree, on average",
        points={_power(bits): _with(TREES, window=1 << bits) for bits in range(14, 23, 2)},
        average=True,
    ),
    "steps": Experiment(
        source="PIM-Tree, figure 9b",
        says="inserts 1.5 and 2.6 times as fast as the B+-tree's, merges 7 and 11 % of all, at 2^17 and 2^23",
        points={_power(bits): _with(TREES, window=1 << bits) for bits in (17, 20)},
        reads=("insert", "steps"),
    ),
    "chains": Experiment(
        source="PIM-Tree, figure 8b",
        says="immutable sub-indexes 1.5 times as fast as B+-trees, on average",
        points={
            f"chain length {length}": _each(*(chain(chain_length=length) for chain in CHAINS)) for length in (2, 4, 8)
        },
        average=True,
    ),
    "chain length": Experiment(
        source="PIM-Tree, figure 8b",
        says="two is the best length, longer chains are slower",
        points={chain.name: _settings(chain, "chain_length", 2, 4, 8, 16) for chain in CHAINS},
    ),
    "merge ratio": Experiment(
        source="PIM-Tree, figures 9c and 9d",
        says="neither very small nor very large ones serve, and the best depends on the window",
        points={tree.name: _settings(tree, "merge_ratio", 1.0, 0.25, 0.0625, 0.015625) for tree in (IMTree, PIMTree)},
    ),
    "insertion depth": Experiment(
        source="PIM-Tree, figure 8c",
        says="on one thread it matters little; the deepest is slower",
        points={"pim_tree": _settings(PIMTree, "insertion_depth", 1, 2, 3)},
    ),
    "match rate": Experiment(
        source="PIM-Tree, figure 10b",
        says="flat while few rows match, then slower, and both trees stay faster than the B+-tree",
        points={f"{rate} matches": _with(TREES, match_rate=float(rate)) for rate in (1, 16, 128)},
    ),
    "skew": Experiment(
        source="PIM-Tree, figure 12b",
        says="uniform keys are 2 to 4 % faster than the Gaussian and both Gammas",
        points={
            "pim_tree": {
                name: {"algorithm": PIMTree(), "distribution": name}
                for name in ("uniform", "gaussian", "gamma3", "gamma1")
            }
        },
    ),
    "drift": Experiment(
        source="PIM-Tree, figure 13b",
        says="with many threads down to 0.16 while the mean shifts fast, for threads wait for each other's locks",
        points={
            "pim_tree": {name: {"algorithm": PIMTree(), "distribution": name} for name in ("gaussian", "shifting")}
        },
    ),
    "blocking": Experiment(
        source="PIM-Tree, figure 13c",
        says="merges that block are slightly faster; non-blocking ones do not stall",
        points={
            "pim_tree, two threads": {
                name: {"algorithm": PIMTree(blocking=blocking), "threads": 2, "push": 1 << 12}
                for name, blocking in (("blocking", True), ("non-blocking", False))
            }
        },
        reads=("speed", "longest"),
    ),
    "memory": Experiment(
        source="PIM-Tree, figure 11a",
        says="PIM-Tree about 2 times the B+-tree, with a merge ratio of 1",
        points={
            _power(bits): _with(_each(BPlusTree(), PIMTree(merge_ratio=1.0)), window=1 << bits) for bits in (16, 20)
        },
        reads=("bytes",),
    ),
    "wide leaves": Experiment(
        source="PanJoin, figure 11",
        says="WiB+-tree inserts 3.5 to 4.5 times as fast as the B+-tree",
        points={f"{rows:,} rows a push": _with(_each(BPlusTree(), WibTree()), push=rows) for rows in (1 << 12, PUSH)},
        reads=("insert", "speed"),
    ),
    "partitions": Experiment(
        source="PanJoin, section V",
        says="RaP-Table and BI-Sort beside the B+-tree",
        points={"each push": _each(BPlusTree(), RapTable(), "bi_sort")},
        reads=("speed", "insert"),
    ),
    "selectivity": Experiment(
        source="PanJoin, section III-E and figure 12",
        says="BI-Sort's probes cost the same however many rows they find, as they answer with ranges",
        points={
            "bi_sort, counted": {
                f"{rate} matches": {"algorithm": "bi_sort", "match_rate": float(rate), "output": "count"}
                for rate in (2, 64, 2000)
            }
        },
        reads=("probe",),
    ),
}
"""All experiments by name; `benchmarks.papers.convergence` is one more."""
