"""How the work of one join is spread over cores: what ``topology=`` names, and what can be set of each topology.

A topology is an object of a class below, or its name. Nothing here loads Numba; the topologies themselves, in
`slidejoin.operator.topology`, do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slidejoin.arguments import one_of

__all__ = ["TOPOLOGIES", "Shared", "Topology", "topologies", "topology_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The options of one topology.

    Attributes
    ----------
    name : str
        The name that ``topology=`` takes.
    what : str
        How the work is spread, in words, with paper and section.
    home : tuple of str
        The module and the class that does it.
    """

    name: ClassVar[str]
    what: ClassVar[str]
    home: ClassVar[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(Topology):
    """One index a side, which all threads share: one thread inserts and probes it, or several divide the probes."""

    name: ClassVar[str] = "shared"
    what: ClassVar[str] = "one index a side, shared by all threads"
    home: ClassVar[tuple[str, str]] = ("slidejoin.operator.topology.shared", "SharedTopology")


TOPOLOGIES: dict[str, type[Topology]] = {one.name: one for one in (Shared,)}
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
