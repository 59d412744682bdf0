"""Options of SplitJoin and of the handshake joins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from slidejoin.arguments import one_of, truth_value
from slidejoin.errors import ArgumentError
from slidejoin.spec.topologies import MOST_CORES, Topology

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ORDERINGS", "Handshake", "HandshakeLowLatency", "SplitJoin"]

ORDERINGS = ("none", "outer", "probe", "inner", "strict")
"""How precisely join cores punctuate what they find, see `SplitJoin`."""


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
    def further_columns(self) -> pa.Schema | None:
        """Those of punctuations, see `papers.split_join.punctuation`."""
        import pyarrow as pa  # noqa: PLC0415 - options alone load no Arrow

        if not self.punctuation:
            return None
        marks: list[pa.Field[Any]] = [pa.field("punctuation", pa.string())]
        return pa.schema([*marks, pa.field("rows_done", pa.int64()), pa.field("stored_done", pa.int64())])

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
