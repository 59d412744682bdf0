"""Options of the planar index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slidejoin.spec.options.base import Options

__all__ = ["Planar"]


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
