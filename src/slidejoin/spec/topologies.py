"""How the work of one join is spread over cores: what ``topology=`` takes, by name or as an object.

`Shared` is what ``auto`` takes. The papers' topologies are guests: each has its options in `slidejoin.papers`,
registered here as they are imported, which is when they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from slidejoin.arguments import one_of
from slidejoin.spec.settings import Registry, Settings

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KNOWN_TOPOLOGIES", "MOST_CORES", "Shared", "Topology", "topologies", "topology_of"]

MOST_CORES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology(Settings):
    """The options of one topology.

    ``topology=`` takes them as an object, or their name.
    """

    @property
    def further_columns(self) -> pa.Schema | None:
        """Columns behind all others, for rows of the topology's own among the pairs; None if there are none.

        The first one is NULL in the row of a pair, and in no other.
        """
        return None

    def check_join(self, order: str, output: str, how: str = "inner") -> None:
        """Refuse a join that the topology cannot do.

        Raises
        ------
        ArgumentError
            If it cannot promise that order, or has no such output or join type.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(Topology):
    """One index a side, which all threads share: one thread inserts and probes it, or several divide the probes."""

    name: ClassVar[str] = "shared"
    what: ClassVar[str] = "one index a side, shared by all threads"


KNOWN_TOPOLOGIES: Registry[Topology] = Registry(Shared)
"""Every topology that ``topology=`` names."""


def topologies() -> tuple[str, ...]:
    """Return the names that ``topology=`` takes.

    Examples
    --------
    >>> "shared" in topologies()
    True
    """
    return ("auto", *KNOWN_TOPOLOGIES.known())


def topology_of(value: object) -> Topology | None:
    """Return a topology as it was given by name or as an object; None for ``"auto"``.

    Raises
    ------
    ArgumentError
        For anything else.
    """
    if isinstance(value, Topology):
        return value
    if isinstance(value, str) and value == "auto":
        return None
    name = one_of("topology", value, topologies())
    return KNOWN_TOPOLOGIES.known()[name]()
