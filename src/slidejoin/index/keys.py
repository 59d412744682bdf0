"""The keys of rows to insert into an index, and the ranges of keys to probe it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["KeyRanges", "Prepared", "RowKeys", "StoredKeys"]


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The keys of consecutive rows of one side.

    Attributes
    ----------
    keys : (n,) int64
        Of the indexed term.
    aux : (n, d) int64
        Of the further dimensions.
    matchable : (n,) bool or None
        Rows that can match at all; None for all.
    inexact : frozenset of int
        Terms of which some key was clipped.
    branches : tuple of RowKeys
        Where branches of OR have an index each, the keys of the rows in each; those above are the first one's.
    """

    keys: NDArray[np.int64]
    aux: NDArray[np.int64]
    matchable: NDArray[np.bool_] | None
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


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """The ranges of keys of n probes, both ends included; ``lo > hi`` is empty.

    Attributes
    ----------
    lo, hi : (k, n) int64
        Ranges of the indexed key; disjoint and ascending for each probe.
    aux_lo, aux_hi : (p, n) int64
        Ranges of the further dimensions.
    aux_dims : (p,) int64
        Which dimension each row of `aux_lo` belongs to, ascending.
    inexact : frozenset of int
        Terms whose ranges are not exact for these rows: their pairs are rechecked.
    branches : tuple of KeyRanges
        Where branches of OR have an index each, the ranges in each; those above are the first one's.
    """

    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    aux_lo: NDArray[np.int64]
    aux_hi: NDArray[np.int64]
    aux_dims: NDArray[np.int64]
    inexact: frozenset[int]
    branches: tuple[KeyRanges, ...] = ()

    def part(self, first: int, last: int) -> KeyRanges:
        """Return those of probes first…last-1."""
        lo, hi, aux_lo, aux_hi = (
            np.ascontiguousarray(ends[:, first:last]) for ends in (self.lo, self.hi, self.aux_lo, self.aux_hi)
        )
        branches = tuple(branch.part(first, last) for branch in self.branches)
        return KeyRanges(lo, hi, aux_lo, aux_hi, self.aux_dims, self.inexact, branches)


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """A sealed part whose rows are inserted again, each time that it is attached: O(rows) or what the index takes.

    Attributes
    ----------
    keys : RowKeys
    """

    keys: RowKeys

    @property
    def rows(self) -> int:
        """Ordinals that it spans."""
        return self.keys.rows

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the keys as named arrays, from which `from_arrays` restores them."""
        arrays: dict[str, NDArray[np.generic]] = {
            "row_keys": self.keys.keys,
            "aux": self.keys.aux,
            "inexact": np.array(sorted(self.keys.inexact), np.int64),
        }
        if self.keys.matchable is not None:
            arrays["matchable"] = self.keys.matchable.view(np.uint8)
        return arrays

    @staticmethod
    def from_arrays(rows: int, arrays: Mapping[str, NDArray[Any]]) -> StoredKeys:
        """Return what `arrays` returned of so many rows; nothing is copied."""
        matchable = arrays.get("matchable")
        known = None if matchable is None else matchable.view(np.bool_)
        if len(arrays["row_keys"]) != rows:
            msg = f"the keys of {len(arrays['row_keys'])} rows are stored, expected {rows}"
            raise ValueError(msg)
        return StoredKeys(RowKeys(arrays["row_keys"], arrays["aux"], known, frozenset(arrays["inexact"].tolist())))
