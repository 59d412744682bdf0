"""The workload of a case: streams, window, predicate and output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slidejoin.api.stream_join import StreamJoin
from slidejoin.bench.case import at_least, choice
from slidejoin.bench.comparison import comparison_for
from slidejoin.bench.streams import DISTRIBUTIONS, PAYLOAD, Streams
from slidejoin.errors import ConfigError
from slidejoin.options import STRUCTURES, Options
from slidejoin.runtime.threads import cores
from slidejoin.spec import join_options
from slidejoin.spec.join_options import ORDERS
from slidejoin.spec.join_spec import algorithms
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from slidejoin.bench.comparison import Comparison
    from slidejoin.spec.join_options import Order

__all__ = ["OUTPUTS", "Workload"]

OUTPUTS = ("positions", "pairs", "payload", "count")
"""Ordinals of both rows; one integer column of each side; four columns of each side; numbers of matches."""

WARM_UP = 1.25
"""Windows pushed before anything is measured: they are full then, and old rows leave."""

FILLING_PUSH = 1 << 15
"""Rows of a push while windows are filled for smaller pushes, which take long; the last quarter comes in those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A join on synthetic streams.

    Attributes
    ----------
    operation : {"band", "equi", "less"}
        Comparison between the keys.
    window : int
        Rows kept of each side.
    push : int
        Rows a push, half of them of each side, which arrive alternately.
    match_rate : float
        Partners that a row finds, on average.
    threads : int
        Of the join.
    algorithm : str or slidejoin.options.Options
        As `slidejoin.StreamJoin` takes it.
    """

    operation: str
    window: int = 1 << 20
    push: int = 1 << 15
    match_rate: float = 2.0
    threads: int = 0
    distribution: str = "uniform"
    algorithm: str | Options = "auto"
    output: str = "positions"
    order: Order = "probe"
    seed: int = 1

    @staticmethod
    def of(operation: str, **options: Any) -> Workload:
        """Check the options and fill in what is left out or None.

        Raises
        ------
        ConfigError
            For an impossible value.
        """
        given = {name: value for name, value in options.items() if value is not None}
        given["threads"] = given.get("threads") or cores()
        load = Workload(operation=operation, **given)
        for name, least in (("window", 2), ("push", 2), ("threads", 1)):
            at_least(name, getattr(load, name), least)
        if not load.match_rate > 0:
            msg = f"match_rate: got {load.match_rate}, expected a number above 0"
            raise ConfigError(msg)
        choice("distribution", load.distribution, DISTRIBUTIONS)
        choice("algorithm", load.algorithm_name, algorithms())
        choice("output", load.output, OUTPUTS)
        choice("order", load.order, ORDERS)
        return load

    @property
    def algorithm_name(self) -> str:
        """The algorithm's name, also where its parameters are set."""
        return self.algorithm.name if isinstance(self.algorithm, Options) else self.algorithm

    @property
    def half(self) -> int:
        """Rows of a push on each side."""
        return self.push // 2

    @property
    def filling(self) -> tuple[tuple[int, int], ...]:
        """Pushes that fill the windows before anything is measured: how many, of how many rows a side, in order."""
        large = min(max(FILLING_PUSH // 2, self.half), self.window)
        in_large = self.window // large if large > self.half or self.filled_by_auto else 0
        rest = int(WARM_UP * self.window) - in_large * large
        return (in_large, large), (-(-rest // self.half), self.half)

    @property
    def filled_by_auto(self) -> bool:
        """Whether ``auto`` fills the first window and hands over its snapshot: some structures would take minutes."""
        return self.algorithm_name in STRUCTURES

    def comparison(self) -> Comparison:
        """Return the comparison that gives the wanted match rate."""
        return comparison_for(self.operation, self.distribution, self.match_rate, self.window)

    def streams(self, comparison: Comparison) -> Streams:
        """Return the streams from their beginning."""
        return Streams(
            self.distribution,
            self.seed,
            comparison.grain,
            self.window,
            payload=self.output == "payload",
            standing=sum(count * half for count, half in self.filling),
        )

    def join(self, comparison: Comparison) -> StreamJoin:
        """Return the join, without rows."""
        select = {"pairs": ["l.i", "r.i"], "count": [], "positions": None}.get(
            self.output, [f"{side}.{name}" for side in "lr" for name in PAYLOAD]
        )
        return StreamJoin(
            on=comparison.sql(),
            window=CountWindow(self.window),
            output=next((name for name in join_options.OUTPUTS if name == self.output), "pairs"),
            order=self.order,
            select=select,
            algorithm=self.algorithm,
            threads=self.threads,
        )

    def restored(self, state: bytes) -> StreamJoin:
        """Return a join that continues from a snapshot, with this workload's algorithm and threads."""
        return StreamJoin.restore(state, threads=self.threads, algorithm=self.algorithm)

    def lines(self, comparison: Comparison) -> list[str]:
        """Return the join for people."""
        return [
            f"{self.distribution} keys, l.k and r.k: {comparison.sql()}",
            (
                f"windows of {self.window:,} rows a side, {2 * self.half:,} rows a push, match rate "
                f"{self.match_rate:g}, {self.threads} thread{'s' if self.threads > 1 else ''}, algorithm "
                f"{self.algorithm_name}, output {self.output}, order {self.order}, seed {self.seed}"
            ),
        ]
