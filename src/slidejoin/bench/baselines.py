"""The other tools on the same pushes: their speed, and whether they find the same pairs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.bench.checking import check_pairs, expected_pairs, in_scope
from slidejoin.bench.engines import ENGINES, LOOP_PROBES
from slidejoin.bench.figures import million

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.bench.relation import Relation
    from slidejoin.bench.workload import Workload

__all__ = ["LARGEST_WINDOW", "Baseline", "measure_baselines"]

PUSHES = 3
LARGEST_WINDOW = 1 << 23
"""Rows a side above which no baseline is measured: a push would take minutes, and the windows would be held twice."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Another tool on the same pushes.

    Attributes
    ----------
    rows_per_second, ratio : float or None
        Of the median push, and how many times as fast slidejoin is; None where the tool is not installed.
    pushes : int
        That were timed.
    checked_pairs : int
        Pairs of one push more, found to be those of slidejoin.
    """

    name: str
    version: str | None
    rows_per_second: float | None
    ratio: float | None
    pushes: int
    checked_pairs: int

    def text(self) -> str:
        """Return the line for people."""
        label = f"{self.name} {self.version or ''}".strip()
        if self.rows_per_second is None or self.ratio is None:
            return f'{label:<18} not installed: pip install "slidejoin[bench]"'
        scaled = f", scaled from {LOOP_PROBES} rows" if self.name == "nested loop" else ""
        return (
            f"{label:<18} {million(self.rows_per_second):>8} rows/s   slidejoin is {self.ratio:,.1f} times as fast "
            f"({self.pushes} pushes{scaled}; {self.checked_pairs:,} pairs of one more are the same)"
        )


def measure_baselines(load: Workload, relation: Relation, first: int, ours: float) -> tuple[Baseline, ...]:
    """Measure the tools that are installed; none if the windows are too large for them.

    Parameters
    ----------
    load : Workload
    relation : Relation
    first : int
        Ordinal of the first row of slidejoin's last push, which has been checked: it is each tool's first push, which
        warms it up and is checked too; the timed ones follow.
    ours : float
        Rows a second of slidejoin, for the ratio.

    Raises
    ------
    SlideJoinError
        If a tool gives other pairs.
    """
    if load.window > LARGEST_WINDOW:
        return ()
    os.environ.setdefault("POLARS_MAX_THREADS", str(load.threads))  # Polars reads it when it is first imported
    ordinals = np.arange(first, first + load.half)
    expected = expected_pairs(load.streams(relation), relation, load.window, ordinals, first)
    return tuple(_measure(name, load, relation, first, ours, expected) for name in ENGINES)


def _measure(
    name: str, load: Workload, relation: Relation, first: int, ours: float, expected: NDArray[np.int64]
) -> Baseline:
    module_name, engine_type = ENGINES[name]
    try:
        module = import_module(module_name)
    except ModuleNotFoundError:
        return Baseline(name, None, None, None, 0, 0)
    streams = load.streams(relation)
    streams.payload = False
    engine = engine_type(module, streams.tables(first - load.window, first), relation, load.threads)
    seconds, checked = [], 0
    for number, (left, right) in enumerate(streams.pushes(first, load.half, PUSHES + 1)):
        took, table = engine.push(left, right)
        if number:
            seconds.append(took)
            continue
        pairs = np.stack([table["i"].to_numpy(), table["j"].to_numpy()], axis=1)
        if name == "nested loop":
            probes = np.maximum(expected[:, 0] * 2, expected[:, 1] * 2 + 1)
            few = np.linspace(0, load.half - 1, min(load.half, LOOP_PROBES // 2)).astype(np.int64) + first
            expected = expected[np.isin(probes // 2, few)]
        pairs //= 2
        pairs = pairs[in_scope(pairs, load.window)]
        check_pairs(pairs, expected, name)
        checked = len(expected)
    engine.close()
    speed = 2 * load.half / float(np.median(seconds))
    return Baseline(name, str(module.__version__), speed, ours / speed, len(seconds), checked)
