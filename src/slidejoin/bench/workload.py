"""What is joined in a benchmark: the streams, the window, the predicate, and what is put out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from slidejoin.api.stream_join import StreamJoin
from slidejoin.bench.distributions import DISTRIBUTIONS
from slidejoin.bench.relation import relation_for
from slidejoin.bench.streams import PAYLOAD, Streams
from slidejoin.bench.structures import algorithm_in
from slidejoin.errors import ConfigError, nearest
from slidejoin.runtime.cores import cores
from slidejoin.spec.join_spec import ORDERS
from slidejoin.spec.options import STRUCTURES
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slidejoin.bench.relation import Relation

__all__ = ["OUTPUTS", "Workload", "at_least", "choice"]

OUTPUTS = ("positions", "pairs", "payload", "count")
"""Ordinals of both rows; one integer column gathered of each side; four columns of each side; numbers of matches."""

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
        Rows a push, half of them of each side, which arrive in turns.
    match_rate : float
        Partners that a row finds, on average.
    threads : int
        Of the join.
    algorithm : str
        See `slidejoin.bench.structures.algorithm_in`.
    """

    operation: str
    window: int = 1 << 20
    push: int = 1 << 15
    match_rate: float = 2.0
    threads: int = 0
    distribution: str = "uniform"
    algorithm: str = "auto"
    output: str = "positions"
    order: str = "probe"
    seed: int = 1

    @staticmethod
    def of(operation: str, **options: Any) -> Workload:
        """Check the options and fill in what is left out or None.

        Raises
        ------
        ConfigError
            For a value that cannot be.
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
        algorithm_in(load.algorithm)
        choice("output", load.output, OUTPUTS)
        choice("order", load.order, ORDERS)
        return load

    @property
    def half(self) -> int:
        """Rows of a push on each side."""
        return self.push // 2

    @property
    def filling(self) -> tuple[tuple[int, int], ...]:
        """Pushes that fill the windows before anything is measured: how many, of how many rows a side, in order."""
        large = min(max(FILLING_PUSH // 2, self.half), self.window)
        in_large = self.window // large if large > self.half or self.quickly_filled else 0
        rest = int(WARM_UP * self.window) - in_large * large
        return (in_large, large), (-(-rest // self.half), self.half)

    @property
    def quickly_filled(self) -> bool:
        """Whether the first window comes out of a snapshot of ``auto``: structures may take minutes to join it."""
        return self.algorithm.partition(":")[0] in STRUCTURES

    def relation(self) -> Relation:
        """Return the comparison that gives the wanted match rate."""
        return relation_for(self.operation, self.distribution, self.match_rate, self.window)

    def streams(self, relation: Relation) -> Streams:
        """Return the streams from their beginning."""
        return Streams(
            self.distribution,
            self.seed,
            relation.grain,
            self.window,
            payload=self.output == "payload",
            standing=sum(count * half for count, half in self.filling),
        )

    def join(self, relation: Relation) -> StreamJoin:
        """Return the join, without rows."""
        select = {"pairs": ["l.i", "r.i"], "count": [], "positions": None}.get(
            self.output, [f"{side}.{name}" for side in "lr" for name in PAYLOAD]
        )
        return StreamJoin(
            on=relation.sql(),
            window=CountWindow(self.window),
            output="pairs" if self.output == "payload" else self.output,
            order=self.order,
            select=select,
            algorithm=algorithm_in(self.algorithm),
            threads=self.threads,
        )

    def restored(self, state: bytes) -> StreamJoin:
        """Return a join that goes on where another one was, by this workload's algorithm and threads."""
        return StreamJoin.restore(state, threads=self.threads, algorithm=algorithm_in(self.algorithm))

    def to_json(self) -> dict[str, Any]:
        """Return the options as plain JSON values."""
        return asdict(self)

    def text(self, relation: Relation) -> str:
        """Return what is joined, for people."""
        return (
            f"{self.distribution} keys, l.k and r.k: {relation.sql()}"
            f"\nwindows of {self.window:,} rows a side, {2 * self.half:,} rows a push, match rate {self.match_rate:g} "
            f"wanted, {self.threads} thread{'s' if self.threads > 1 else ''}, algorithm {self.algorithm}, "
            f"output {self.output}, order {self.order}, seed {self.seed}"
        )


def at_least(name: str, value: int, least: int) -> None:
    """Check that the value of an option is not too small.

    Raises
    ------
    ConfigError
        Otherwise.
    """
    if value < least:
        msg = f"{name}: got {value}, expected at least {least}"
        raise ConfigError(msg)


def choice(name: str, value: str, possible: Iterable[str]) -> None:
    """Check that the value of an option is one of the possible ones.

    Raises
    ------
    ConfigError
        Otherwise, with the nearest of them.
    """
    names = tuple(possible)
    if value not in names:
        msg = f"{name}: got {value!r}, expected one of {', '.join(names)}.{nearest(value, names)}"
        raise ConfigError(msg)
