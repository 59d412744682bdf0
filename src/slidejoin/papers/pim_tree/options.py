"""Options of the trees of the PIM-Tree paper: its own two, and those that it compares them with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slidejoin.arguments import truth_value
from slidejoin.spec.options import Options

__all__ = ["BPlusTree", "ChainedBPlusTree", "ChainedCssTree", "IMTree", "PIMTree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BPlusTree(Options):
    """Options of `slidejoin.papers.pim_tree.bplus_tree`.

    Attributes
    ----------
    fan_out : int
        Entries of a node.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "bplus_tree"
    what: ClassVar[str] = "a B+-tree, row by row (PIM-Tree, section 2.2.1)"

    fan_out: int = 32

    def __post_init__(self) -> None:
        self._check("fan_out", 4, 1 << 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedBPlusTree(Options):
    """Options of `slidejoin.papers.pim_tree.chained`.

    Attributes
    ----------
    chain_length : int
        Sub-indexes, the active one among them: each takes a (chain_length - 1)-th of the window.
    fan_out : int
        Entries of a node.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "chained_bplus_tree"
    what: ClassVar[str] = "a chain of B+-trees, dropped whole (PIM-Tree, sections 2.2.2 and 5.1)"

    chain_length: int = 2
    fan_out: int = 32

    def __post_init__(self) -> None:
        self._check("chain_length", 2, 1 << 10)
        self._check("fan_out", 4, 1 << 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedCssTree(Options):
    """Options of `slidejoin.papers.pim_tree.chained`.

    Attributes
    ----------
    chain_length : int
        Sub-indexes, the active one among them: each takes a (chain_length - 1)-th of the window.
    fan_out : int
        Entries of a node of the active one.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "chained_css_tree"
    what: ClassVar[str] = "a chain of one B+-tree and immutable ones (PIM-Tree, sections 2.2.2 and 5.1)"

    chain_length: int = 2
    fan_out: int = 32

    def __post_init__(self) -> None:
        self._check("chain_length", 2, 1 << 10)
        self._check("fan_out", 4, 1 << 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class IMTree(Options):
    """Options of `slidejoin.papers.pim_tree.two_stage`.

    Attributes
    ----------
    merge_ratio : float
        Rows of the mutable part, in parts of the window, with which it is merged; above 0 and up to 1.
    fan_out : int
        Entries of a node of the mutable part.
    immutable_fan_out : int
        Children of an inner node of the immutable part, which has one key less.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "im_tree"
    what: ClassVar[str] = "a B+-tree merged into an immutable one (IM-Tree: PIM-Tree, section 3.2)"

    merge_ratio: float = 1 / 8
    fan_out: int = 32
    immutable_fan_out: int = 17

    def __post_init__(self) -> None:
        self._check_share("merge_ratio")
        self._check("fan_out", 4, 1 << 12)
        self._check("immutable_fan_out", 3, 1 << 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class PIMTree(Options):
    """Options of `slidejoin.papers.pim_tree.pim_tree`.

    Attributes
    ----------
    merge_ratio : float
        Rows of the mutable part, in parts of the window, with which it is merged; above 0 and up to 1.
    insertion_depth : int
        Depth of the immutable part's nodes that have a B+-tree of new rows each; the root is at 0.
    fan_out : int
        Entries of a node of the mutable part.
    immutable_fan_out : int
        Children of an inner node of the immutable part, which has one key less.
    blocking : bool
        Whether a merge is done all at once, instead of in parts with the pushes that follow.
    task_size : int
        Probes that a thread takes at a time.
    threads : int
        Of its own, that share what each of the join's threads does. Default: one, the join's threads do.

    Raises
    ------
    ArgumentError
        For a number out of its range.
    """

    name: ClassVar[str] = "pim_tree"
    what: ClassVar[str] = "B+-trees at the nodes of an immutable one (PIM-Tree, sections 3.3 and 4)"

    merge_ratio: float = 1 / 8
    insertion_depth: int = 2
    fan_out: int = 32
    immutable_fan_out: int = 17
    blocking: bool = False
    task_size: int = 64
    threads: int = 1

    def __post_init__(self) -> None:
        self._check_share("merge_ratio")
        self._check("insertion_depth", 0, 62)
        self._check("task_size", 1, 1 << 14)
        self._check("threads", 1, 1 << 10)
        self._check("fan_out", 4, 1 << 12)
        self._check("immutable_fan_out", 3, 1 << 12)
        truth_value(f"blocking of {self.name}", self.blocking)
