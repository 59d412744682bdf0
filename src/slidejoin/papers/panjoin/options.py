"""Options of PanJoin's structures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slidejoin.arguments import shown
from slidejoin.errors import ArgumentError
from slidejoin.spec.options import Options

__all__ = ["RapTable", "WibTree"]

MOST_SIGMA = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RapTable(Options):
    """Options of `slidejoin.papers.panjoin.rap_table`.

    Attributes
    ----------
    partitions : int, optional
        Partitions of a subwindow, the paper's P. Default: one for every 32 rows of it.
    sigma : float
        Rows of an entry of the table, over those that a partition has if rows are spread evenly: above 1.
    subwindows : int
        Into how many the window is divided: the more, the less memory the oldest one takes for rows that have left, and
        the more of them a probe has to search.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "rap_table"
    what: ClassVar[str] = "partitions by splitters that adapt (PanJoin, section III-B)"

    partitions: int | None = None
    sigma: float = 1.25
    subwindows: int = 2

    def __post_init__(self) -> None:
        self._check("partitions", 1, 1 << 24, optional=True)
        self._check("subwindows", 1, 1 << 10)
        sigma: object = self.sigma
        if isinstance(sigma, bool) or not isinstance(sigma, (int, float)) or not 1 < sigma <= MOST_SIGMA:
            msg = f"sigma of rap_table must be a number above 1 and up to {MOST_SIGMA}; got {shown(sigma)}"
            raise ArgumentError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class WibTree(Options):
    """Options of `slidejoin.papers.panjoin.wib_tree`.

    Attributes
    ----------
    partitions : int, optional
        Leaves of a full subwindow, about, the paper's P. Default: one for every 32 rows of it.
    fan_out : int
        Elements of an inner node.
    subwindows : int
        Into how many the window is divided: the more, the less memory the oldest one takes for rows that have left, and
        the more of them a probe has to search.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "wib_tree"
    what: ClassVar[str] = "a wide B+-tree with unsorted leaves (PanJoin, section III-C)"

    partitions: int | None = None
    fan_out: int = 64
    subwindows: int = 2

    def __post_init__(self) -> None:
        self._check("partitions", 1, 1 << 24, optional=True)
        self._check("fan_out", 4, 1 << 12)
        self._check("subwindows", 1, 1 << 10)
