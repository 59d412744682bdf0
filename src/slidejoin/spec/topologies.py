"""How the work of one join is spread over cores: what ``topology=`` names, and what can be set of each topology.

A topology is an object of a class below, or its name. Nothing here loads Numba; the topologies themselves, in
`slidejoin.operator.topology`, do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slidejoin.arguments import one_of, shown, truth_value, whole_number
from slidejoin.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "ORDERINGS",
    "TOPOLOGIES",
    "CellJoin",
    "Handshake",
    "HandshakeLowLatency",
    "RoundRobin",
    "ScanCosts",
    "Shared",
    "SplitJoin",
    "Topology",
    "topologies",
    "topology_of",
]

MOST_CORES = 1024

ORDERINGS = ("none", "outer", "probe", "inner", "strict")
"""How precisely join cores punctuate what they find, see `SplitJoin`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The options of one topology.

    Attributes
    ----------
    name : str
        The name that ``topology=`` takes.
    what : str
        How the work is spread, in words, with paper and section.
    """

    name: ClassVar[str]
    what: ClassVar[str]

    @property
    def punctuates(self) -> bool:
        """Whether the output carries punctuations."""
        return False

    def check_join(self, order: str, output: str, how: str = "inner") -> None:
        """Refuse a join that the topology cannot do.

        Raises
        ------
        ArgumentError
            If it cannot promise that order, or has no such output or join type.
        """

    def _check(self, field: str, least: int, most: int, *, optional: bool = False) -> None:
        """Refuse a value out of its range; None, where it may be, leaves the choice to the topology."""
        value = getattr(self, field)
        if value is None and optional:
            return
        number = whole_number(value)
        if number is None or not least <= number <= most:
            or_none = ", or None" if optional else ""
            msg = (
                f"{field} of {self.name} must be a whole number from {least:,} to {most:,}{or_none}; got {shown(value)}"
            )
            raise (ArgumentTypeError if number is None else ArgumentError)(msg)
        object.__setattr__(self, field, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(Topology):
    """One index a side, which all threads share: one thread inserts and probes it, or several divide the probes."""

    name: ClassVar[str] = "shared"
    what: ClassVar[str] = "one index a side, shared by all threads"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitJoin(Topology):
    """Join cores that each store their share of the rows and compare all rows with it (SplitJoin).

    Attributes
    ----------
    cores : int, optional
        Join cores. Default: as many as the join has threads.
    fan_out : int
        Branches of a distributor, the paper's b: more cores make the distribution tree deeper.
    fan_in : int
        Inputs of a merger, the paper's c.
    ordering : {"outer", "none", "probe", "inner", "strict"}
        Where cores punctuate their results: ``"outer"`` behind every `every` probes of a side, ``"probe"`` behind each,
        ``"inner"`` also behind every `every` rows of a core that a probe was compared with, ``"strict"`` behind each of
        these, ``"none"`` nowhere. Results leave the join at punctuations. What `order` promises holds always.
    every : int
        See `ordering`; it has no meaning for the others.
    adaptive : bool
        Whether the precision is lowered while rows arrive faster than they are joined, and raised again later.
    punctuation : bool
        Whether the output carries punctuations: rows of NULLs but for the last columns, ``punctuation``, the side
        whose probes they are about, ``rows_done``, so many rows of that side have produced all of their pairs, and
        ``stored_done``, so many rows of the other side have been compared with the next one of them, or NULL.

    Raises
    ------
    ArgumentError
        For a value out of its range.

    Examples
    --------
    >>> SplitJoin(cores=4, ordering="outer", every=100)
    SplitJoin(cores=4, fan_out=8, fan_in=8, ordering='outer', every=100, adaptive=False, punctuation=False)
    """

    name: ClassVar[str] = "split_join"
    what: ClassVar[str] = "join cores between a distribution and a gathering tree (SplitJoin, sections 3 to 5)"

    cores: int | None = None
    fan_out: int = 8
    fan_in: int = 8
    ordering: str = "outer"
    every: int = 1
    adaptive: bool = False
    punctuation: bool = False

    def __post_init__(self) -> None:
        self._check("cores", 1, MOST_CORES, optional=True)
        self._check("fan_out", 2, MOST_CORES)
        self._check("fan_in", 2, MOST_CORES)
        self._check("every", 1, 1 << 40)
        one_of("ordering", self.ordering, ORDERINGS)
        truth_value("adaptive", self.adaptive)
        truth_value("punctuation", self.punctuation)
        if self.punctuation and self.ordering == "none":
            msg = "punctuation=True needs punctuations, but ordering='none' makes none; use ordering='outer' or another"
            raise ArgumentError(msg)

    @property
    def punctuates(self) -> bool:
        """Whether the output carries punctuations."""
        return self.punctuation

    def check_join(self, order: str, output: str, how: str = "inner") -> None:  # noqa: ARG002 - any order can be promised
        """Refuse punctuation among counts and in joins that are not inner, see `Topology`."""
        if self.punctuation and output == "count":
            msg = "punctuation=True is about pairs, and output='count' has none; use output='pairs' or 'positions'"
            raise ArgumentError(msg)
        if self.punctuation and how != "inner":
            msg = f"punctuation=True is about the pairs of an inner join; got how={how!r}; use punctuation=False"
            raise ArgumentError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake(Topology):
    """A chain of join cores that both streams move along in opposite directions (the original handshake join).

    A baseline: a core has consecutive rows of both windows, and hands its oldest ones on when it has more than its
    share. In the paper rows wait for later ones to push them towards each other. Here the rows of a push go on through
    all cores at the end of it, so that pairs come out with their later row.

    Attributes
    ----------
    cores : int, optional
        Join cores. Default: as many as the join has threads.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "handshake"
    what: ClassVar[str] = (
        "a chain of join cores with a segment of both windows each, flushed by each push (SplitJoin, sections 1 and 2)"
    )

    cores: int | None = None

    def __post_init__(self) -> None:
        self._check("cores", 1, MOST_CORES, optional=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeLowLatency(Topology):
    """A chain of join cores that both streams pass in opposite directions (low-latency handshake join).

    The baseline of SplitJoin: every row passes every core, which hands it on before it compares it with what it stores;
    a row is stored at its home core; a coordinator sends a message for each row that expires.

    Attributes
    ----------
    cores : int, optional
        Join cores. Default: as many as the join has threads.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "handshake_low_latency"
    what: ClassVar[str] = (
        "a chain of join cores that both streams pass, each row with a home core (SplitJoin, section 6)"
    )

    cores: int | None = None

    def __post_init__(self) -> None:
        self._check("cores", 1, MOST_CORES, optional=True)


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


TOPOLOGIES: dict[str, type[Topology]] = {
    one.name: one for one in (Shared, SplitJoin, Handshake, HandshakeLowLatency, RoundRobin, CellJoin)
}
"""Every topology that ``topology=`` names."""


def topologies() -> tuple[str, ...]:
    """Return the names that ``topology=`` takes.

    Examples
    --------
    >>> "shared" in topologies()
    True
    """
    return ("auto", *TOPOLOGIES)


def topology_of(value: object) -> Topology | None:
    """Return a topology as it was given by name or as an object; None for ``"auto"``.

    Raises
    ------
    ArgumentError
        For anything else.
    """
    if isinstance(value, Topology):
        return value
    name = one_of("topology", value, topologies())
    return TOPOLOGIES[name]() if name in TOPOLOGIES else None
