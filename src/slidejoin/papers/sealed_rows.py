"""Sealed parts of the papers' structures: rows that no longer change, as arrays of one structure and what all share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from slidejoin.index.part_format import PartFormat, checked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from slidejoin.index.keys import RowKeys

__all__ = ["SealedRows", "sealed_format"]

SHARED = ("aux", "inexact")
"""Arrays that every part has; the others are its structure's."""


class Arrays(Protocol):
    """What a structure has of sealed rows."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as named arrays."""
        ...


@dataclass(frozen=True, slots=True)
class SealedRows:
    """Rows that a structure has sealed, see `slidejoin.index.part_format.SealedPart`.

    Attributes
    ----------
    rows : int
        Ordinals that it spans: rows that can match nothing have one, but are not in the structure.
    aux : (rows, d) int64
        The further dimensions of each row.
    inexact : frozenset of int
        Terms of which some key was clipped.
    own : Arrays or None
        What the structure has of them, with ordinals from 0 on; None if no row can match anything.
    """

    rows: int
    aux: NDArray[np.int64]
    inexact: frozenset[int]
    own: Arrays | None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as named arrays, see `slidejoin.index.part_format.SealedPart`."""
        shared = {"aux": self.aux, "inexact": np.array(sorted(self.inexact), np.int64)}
        return shared if self.own is None else shared | self.own.arrays()


def sealed_format(
    name: str,
    build: Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], Arrays],
    of_arrays: Callable[[Mapping[str, NDArray[Any]]], Arrays],
) -> PartFormat:
    """Return the format of a structure's parts.

    Parameters
    ----------
    name : str
        See `slidejoin.index.part_format.PartFormat`.
    build : callable
        Makes what the structure has of the n rows, at least one, that can match: keys (n,) int64, ordinals (n,) int64,
        which ascend, and further dimensions (n, d) int64.
    of_arrays : callable
        Makes it of its arrays.
    """

    def seal(rows: RowKeys) -> SealedRows:
        keys, aux, ordinals = rows.keys, rows.aux, np.arange(rows.rows)
        if rows.matchable is not None:
            keys, aux, ordinals = keys[rows.matchable], aux[rows.matchable], ordinals[rows.matchable]
        own = build(np.ascontiguousarray(keys), ordinals, aux) if keys.size else None
        return SealedRows(rows.rows, rows.aux, rows.inexact, own)

    def mapped(rows: int, arrays: Mapping[str, NDArray[Any]]) -> SealedRows:
        own = of_arrays(arrays) if arrays.keys() - set(SHARED) else None
        inexact = frozenset(checked(arrays, "inexact", (-1,)).tolist())
        return SealedRows(rows, checked(arrays, "aux", (rows, -1)), inexact, own)

    return PartFormat(name, seal, mapped)
