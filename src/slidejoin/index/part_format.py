"""How the parts of an index are sealed: rows that no longer change become arrays, which are saved and mapped again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from slidejoin.index.keys import StoredKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from slidejoin.index.keys import RowKeys

__all__ = ["STORED_KEYS", "PartFormat", "SealedPart", "checked"]


class SealedPart(Protocol):
    """The keys of some rows in an immutable form, which can be written to a file and memory-mapped."""

    @property
    def rows(self) -> int:
        """Ordinals that it spans."""
        ...

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return it as named arrays, from which `PartFormat.mapped` makes it again."""
        ...


@dataclass(frozen=True, slots=True)
class PartFormat:
    """A form of sealed parts, which one index attaches.

    Attributes
    ----------
    name : str
        Stored with a part. Parts of one name are alike: it names the options on which their arrays depend.
    seal : callable
        Makes the part of some rows; ordinals in it count from 0. O(rows), or what sorting takes.
    mapped : callable
        Makes a part of so many rows of its mapped arrays; nothing is copied. Raises KeyError if an array is missing,
        and ValueError if one has another type or shape.
    """

    name: str
    seal: Callable[[RowKeys], SealedPart]
    mapped: Callable[[int, Mapping[str, NDArray[Any]]], SealedPart]


STORED_KEYS = PartFormat("keys", StoredKeys, StoredKeys.from_arrays)
"""Of an index without parts of its own: its rows are inserted again."""


def checked(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...], kind: type[np.generic] = np.int64
) -> NDArray[Any]:
    """Return an array of a type and a shape, -1 for any length.

    Raises
    ------
    KeyError
        If it is missing.
    ValueError
        If it is another one.

    Examples
    --------
    >>> checked({"keys": np.arange(3)}, "keys", (-1,)).size
    3
    """
    array = arrays[name]
    fits = array.ndim == len(shape) and all(own in (-1, has) for own, has in zip(shape, array.shape, strict=True))
    if array.dtype != kind or not fits or not array.flags.c_contiguous:
        msg = f"the array {name} of a sealed part is {array.dtype} {array.shape}, expected {np.dtype(kind)} {shape}"
        raise ValueError(msg)
    return array
