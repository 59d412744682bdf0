"""The keys of rows to insert into an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Prepared", "RowKeys"]


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The keys of consecutive rows of one side.

    Attributes
    ----------
    keys : (n,) int64
        Of the indexed term.
    aux : (n, d) int64
        Of the further dimensions.
    kept : (n,) bool or None
        Rows that can match at all; None for all.
    inexact : frozenset of int
        Terms of which some key was clipped.
    branches : tuple of RowKeys
        Where branches of OR have an index each, the keys of the rows in each; those above are the first one's.
    """

    keys: NDArray[np.int64]
    aux: NDArray[np.int64]
    kept: NDArray[np.bool_] | None
    inexact: frozenset[int] = frozenset()
    branches: tuple[RowKeys, ...] = ()

    @property
    def rows(self) -> int:
        """How many."""
        return self.keys.size

    def orders(self, around: tuple[int, int], rows: int) -> bool:  # noqa: ARG002 - see Prepared
        """Return False: they are in arrival order."""
        return False


class Prepared(Protocol):
    """Rows as `Index.prepare` made them ready for `Index.insert`."""

    @property
    def rows(self) -> int:
        """How many."""
        ...

    def orders(self, around: tuple[int, int], rows: int) -> bool:
        """Tell whether so many probes can be processed in the order of these keys, with ranges around them."""
        ...
