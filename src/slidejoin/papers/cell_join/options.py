"""Options of CellJoin: its structures, its topology, and the one that it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slidejoin.arguments import shown, truth_value
from slidejoin.errors import ArgumentError, ArgumentTypeError
from slidejoin.spec.options import Options
from slidejoin.spec.topologies import MOST_CORES, Topology

__all__ = ["CellJoin", "Hash", "NestedLoop", "RoundRobin", "ScanCosts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedLoop(Options):
    """Options of `slidejoin.papers.cell_join.nested_loop`.

    Attributes
    ----------
    basic_window : int, optional
        Unit blocks in a basic window, the paper's d. Default: by the model of section 6, from the rows in the window.
    batch : int
        Unit blocks of probes that are compared with a basic window together, the paper's l.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "nested_loop"
    what: ClassVar[str] = "blocks of keys, all of them compared (CellJoin, sections 3 to 5)"

    basic_window: int | None = None
    batch: int = 8

    def __post_init__(self) -> None:
        self._check("basic_window", 1, 1 << 20, optional=True)
        self._check("batch", 1, 1 << 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hash(Options):
    """Options of `slidejoin.papers.cell_join.hash_buckets`.

    Attributes
    ----------
    buckets : int, optional
        How many. Default: one for every four rows of the window, more as a time window grows.
    basic_window : int
        Rows in a basic window of a bucket.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "hash"
    what: ClassVar[str] = "hash buckets of basic windows (CellJoin, section 7.2)"
    equality_only: ClassVar[bool] = True

    buckets: int | None = None
    basic_window: int = 8

    def __post_init__(self) -> None:
        self._check("buckets", 1, 1 << 28, optional=True)
        self._check("basic_window", 1, 1 << 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRobin(Topology):
    """Cores that each have the whole windows and take the probes in turn (CellJoin, section 3, option b).

    A baseline: every core stores all rows, so that memory and insertion grow with the cores.

    Attributes
    ----------
    cores : int, optional
        How many. Default: as many as the join has threads.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "round_robin"
    what: ClassVar[str] = "whole windows in every core, probes dealt to cores in turn (CellJoin, section 3)"

    cores: int | None = None

    def __post_init__(self) -> None:
        self._check("cores", 1, MOST_CORES, optional=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCosts:
    """The constants of CellJoin's cost model (section 6), from which the size of basic windows follows.

    Attributes
    ----------
    issue : float
        Nanoseconds to begin reading a basic window from memory, the paper's alpha_m.
    move : float
        Nanoseconds to read a byte from memory, the paper's beta_m; above 0.
    begin : float
        Nanoseconds that a batch of one unit block costs in a basic window whatever its size, the paper's alpha_n.
    compare : float
        Nanoseconds to compare such a batch with a byte of a basic window, the paper's beta_n.

    Raises
    ------
    ArgumentError
        For what is no number, or too small.
    """

    issue: float
    move: float
    begin: float
    compare: float

    def __post_init__(self) -> None:
        for field in ("issue", "move", "begin", "compare"):
            value = getattr(self, field)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not (value > 0 if field == "move" else value >= 0) or value == float("inf"):
                least = "above 0" if field == "move" else "of at least 0"
                msg = f"{field} of the scan's costs must be a number of nanoseconds {least}; got {shown(value)}"
                raise ArgumentError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellJoin(Topology):
    """Windows that are divided among workers by basic windows: each compares every row with its part (CellJoin).

    ``algorithm="nested_loop"`` scans basic windows as in the paper. With any other algorithm each basic window has an
    index of that kind.

    Attributes
    ----------
    workers : int, optional
        The paper's N. Default: as many as the join has threads.
    adaptive : bool
        Whether to begin with one worker, and add and free workers with the load, up to `workers`.
    batch : int, optional
        Unit blocks of 8 rows in a batch at most, the paper's l. A batch has as many whole unit blocks as have arrived.
        Default: as many as take all workers together some 2 ms.
    basic_window : int, optional
        Unit blocks in a basic window, the paper's d. Default: for scans by the cost model, else two basic windows for
        each worker.
    costs : ScanCosts, optional
        Constants of the cost model. Default: measured once a process.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "cell_join"
    what: ClassVar[str] = "windows divided among workers by basic windows (CellJoin, sections 3 to 7)"

    workers: int | None = None
    adaptive: bool = False
    batch: int | None = None
    basic_window: int | None = None
    costs: ScanCosts | None = None

    def __post_init__(self) -> None:
        self._check("workers", 1, MOST_CORES, optional=True)
        self._check("batch", 1, 1 << 20, optional=True)
        self._check("basic_window", 1, 1 << 20, optional=True)
        truth_value(f"adaptive of {self.name}", self.adaptive)
        costs: object = self.costs
        if costs is not None and not isinstance(costs, ScanCosts):
            msg = f"costs of {self.name} must be options.ScanCosts, or None to measure them; got {shown(costs)}"
            raise ArgumentTypeError(msg)
