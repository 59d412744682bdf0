"""Options of CellJoin's structures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slidejoin.spec.options.base import Options

__all__ = ["Hash", "NestedLoop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedLoop(Options):
    """Options of `slidejoin.index.scans.nested_loop`.

    Attributes
    ----------
    basic_window : int, optional
        Unit blocks in a basic window, the paper's d. Default: by the model of section 6, from the rows in the window.
    batch : int
        Unit blocks of probes that are compared with a basic window together, the paper's l.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "nested_loop"
    what: ClassVar[str] = "blocks of keys, all of them compared (CellJoin, sections 3 to 5)"

    basic_window: int | None = None
    batch: int = 8

    def __post_init__(self) -> None:
        self._check("basic_window", 1, 1 << 20, optional=True)
        self._check("batch", 1, 1 << 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hash(Options):
    """Options of `slidejoin.index.scans.hash_buckets`.

    Attributes
    ----------
    buckets : int, optional
        How many. Default: one for every four rows of the window, more as a time window grows.
    basic_window : int
        Rows in a basic window of a bucket.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "hash"
    what: ClassVar[str] = "hash buckets of basic windows (CellJoin, section 7.2)"
    equality_only: ClassVar[bool] = True

    buckets: int | None = None
    basic_window: int = 8

    def __post_init__(self) -> None:
        self._check("buckets", 1, 1 << 28, optional=True)
        self._check("basic_window", 1, 1 << 16)
