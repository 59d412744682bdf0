"""Options of index structures: what ``algorithm=`` takes, a name, or an object such as ``options.NestedLoop(batch=4)``.

`BiSort` and `Planar` are options of indexes that ``auto`` chooses from. The papers' other structures are guests: each
has its options in `slidejoin.papers`, registered here as they are imported, which is when they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slidejoin.spec.settings import Registry, Settings

__all__ = [
    "ALWAYS",
    "KNOWN_STRUCTURES",
    "BiSort",
    "Options",
    "Planar",
    "algorithm_in_words",
    "options_named",
    "structure_named",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Settings):
    """The options of one structure, and its properties.

    Attributes
    ----------
    equality_only : bool
        Whether it finds single keys only.
    two_terms : bool
        Whether it answers the first two terms at once.
    """

    equality_only: ClassVar[bool] = False
    two_terms: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Planar(Options):
    """Options of `slidejoin.index.planar.planar_index`, which ``auto`` chooses for two ranges.

    Attributes
    ----------
    fan_out : int
        Neighbouring runs are merged while the older has fewer than so many times the newer's rows: the larger, the
        fewer runs a probe meets, and the more often a row is moved.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "planar"
    what: ClassVar[str] = "runs sorted by one key with bounds of another, for two ranges"

    fan_out: int = 4

    def __post_init__(self) -> None:
        self._check("fan_out", 1, 1 << 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class BiSort(Options):
    """Options of `slidejoin.index.sorted_runs.bi_sort`, the sorted runs that ``auto`` chooses from, too.

    Attributes
    ----------
    buffer_size : int, optional
        Rows that collect in one small run, into which each push is merged, before that run is merged with older ones:
        the paper's B. With 1 every push is a run at once, and runs are merged by `fan_out` alone. Default: 1, but
        where one comparison of whole numbers is the whole predicate, in a count window 4,096 for small pushes, 16,384
        for larger ones, for rows are put in order where the others lie then.
    fan_out : int, optional
        Neighbouring runs are merged while the older has fewer than so many times the newer's rows: the larger, the
        fewer runs a probe meets, and the more often a row is moved. Default: by what both cost, see
        `slidejoin.index.sorted_runs.merging`.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "bi_sort"
    what: ClassVar[str] = "sorted runs (PanJoin, section III-D)"

    buffer_size: int | None = None
    fan_out: int | None = None

    def __post_init__(self) -> None:
        self._check("buffer_size", 1, 1 << 20, optional=True)
        self._check("fan_out", 1, 1 << 10, optional=True)


ALWAYS = {
    "auto": "the planner's choice",
    "band_cells": "a hash table of cells as wide as the band",
    "bi_sort": BiSort.what,
    "planar": Planar.what,
}
"""What ``algorithm=`` takes without any guest, in words."""

KNOWN_STRUCTURES: Registry[Options] = Registry()
"""Every structure that only ``algorithm=`` chooses."""


def structure_named(name: str) -> type[Options] | None:
    """Return the options of a structure that only ``algorithm=`` chooses; None for any other name."""
    return None if name in ALWAYS else KNOWN_STRUCTURES.known().get(name)


def options_named(name: str) -> type[Options] | None:
    """Return the class of the options of an algorithm; None for one without any."""
    return {BiSort.name: BiSort, Planar.name: Planar}.get(name) or structure_named(name)


def algorithm_in_words(name: str) -> str:
    """Return what a name that ``algorithm=`` takes stands for."""
    structure = structure_named(name)
    return ALWAYS[name] if structure is None else structure.what
