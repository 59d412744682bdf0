"""The papers' structures by name, and what can be set of each, by the papers' own names.

``algorithm=`` takes such an object in the place of its name: ``algorithm=options.NestedLoop(batch=4)``. Nothing here
loads Numba; the structures themselves, in `slidejoin.index`, do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "STRUCTURES",
    "BPlusTree",
    "BiSort",
    "ChainedBPlusTree",
    "ChainedCssTree",
    "Hash",
    "IMTree",
    "NestedLoop",
    "Options",
    "PIMTree",
    "RapTable",
    "WibTree",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What can be set of one structure, and what is known of it before it is made.

    Attributes
    ----------
    name : str
        The name that ``algorithm=`` takes.
    what : str
        The structure in words, with its paper and section.
    home : tuple of str
        The module and the class that it is made of.
    equality_only : bool
        Whether it finds single keys only.
    """

    name: ClassVar[str]
    what: ClassVar[str]
    home: ClassVar[tuple[str, str]]
    equality_only: ClassVar[bool] = False

    def _check(self, field: str, least: int, most: int, *, optional: bool = False) -> None:
        """Refuse a value out of its range; None, where it may be, leaves the choice to the structure."""
        value = getattr(self, field)
        if value is None and optional:
            return
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            or_none = ", or None" if optional else ""
            msg = f"{field} of {self.name} must be a whole number from {least:,} to {most:,}{or_none}; got {value!r}"
            raise ValueError(msg)

    def _check_share(self, field: str) -> None:
        """Refuse what is no number above 0 and up to 1."""
        value = getattr(self, field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            msg = f"{field} of {self.name} must be a number above 0 and up to 1; got {value!r}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedLoop(Options):
    """What can be set of `slidejoin.index.nested_loop`.

    Attributes
    ----------
    basic_window : int, optional
        Unit blocks in a basic window, the paper's d. Default: by the model of section 6, from the rows in the window.
    batch : int
        Unit blocks of probes that are compared with a basic window together, the paper's l.

    Raises
    ------
    ValueError
        For a number out of its range.
    """

    name: ClassVar[str] = "nested_loop"
    what: ClassVar[str] = "blocks of keys, all of them compared (CellJoin, sections 3 to 5)"
    home: ClassVar[tuple[str, str]] = ("slidejoin.index.nested_loop", "NestedLoopIndex")

    basic_window: int | None = None
    batch: int = 8

    def __post_init__(self) -> None:
        self._check("basic_window", 1, 1 << 20, optional=True)
        self._check("batch", 1, 1 << 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hash(Options):
    """What can be set of `slidejoin.index.hash_buckets`.

    Attributes
    ----------
    buckets : int, optional
        How many. Default: one for every four rows of the window, more as a time window grows.
    basic_window : int
        Rows in a basic window of a bucket.

    Raises
    ------
    ValueError
        For a number out of its range.
    """

    name: ClassVar[str] = "hash"
    what: ClassVar[str] = "hash buckets of basic windows (CellJoin, section 7.2)"
    home: ClassVar[tuple[str, str]] = ("slidejoin.index.hash_buckets", "HashIndex")
    equality_only: ClassVar[bool] = True

    buckets: int | None = None
    basic_window: int = 8

    def __post_init__(self) -> None:
        self._check("buckets", 1, 1 << 28, optional=True)
        self._check("basic_window", 1, 1 << 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class BPlusTree(Options):
    """What can be set of `slidejoin.index.bplus_tree`.

    Attributes
    ----------
    fan_out : int
        Entries of a node.

    Raises
    ------
    ValueError
        For a number out of its range.
    """

    name: ClassVar[str] = "bplus_tree"
    what: ClassVar[str] = "a B+-tree, row by row (PIM-Tree, section 2.2.1)"
    home: ClassVar[tuple[str, str]] = ("slidejoin.index.bplus_tree", "BPlusTreeIndex")

    fan_out: int = 32

    def __post_init__(self) -> None:
        self._check("fan_out", 4, 1 << 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class RapTable(Options):
    """What can be set of `slidejoin.index.rap_table`.

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
    ValueError
        For a number out of its range.
    """

    name: ClassVar[str] = "rap_table"
    what: ClassVar[str] = "partitions by splitters that adapt (PanJoin, section III-B)"
    home: ClassVar[tuple[str, str]] = ("slidejoin.index.rap_table", "RapTableIndex")

    partitions: int | None = None
    sigma: float = 1.25
    subwindows: int = 2

    def __post_init__(self) -> None:
        self._check("partitions", 1, 1 << 24, optional=True)
        self._check("subwindows", 1, 1 << 10)
        sigma: object = self.sigma
        if isinstance(sigma, bool) or not isinstance(sigma, (int, float)) or not 1 < sigma <= MOST_SIGMA:
            msg = f"sigma of rap_table must be a number above 1 and up to {MOST_SIGMA}; got {sigma!r}"
            raise ValueError(msg)


MOST_SIGMA = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WibTree(Options):
    """What can be set of `slidejoin.index.wib_tree`.

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
    ValueError
        For a number out of its range.
    """

    name: ClassVar[str] = "wib_tree"
    what: ClassVar[str] = "a wide B+-tree with unsorted leaves (PanJoin, section III-C)"
    home: ClassVar[tuple[str, str]] = ("slidejoin.index.wib_tree", "WibTreeIndex")

    partitions: int | None = None
    fan_out: int = 64
    subwindows: int = 2

    def __post_init__(self) -> None:
        self._check("partitions", 1, 1 << 24, optional=True)
        self._check("fan_out", 4, 1 << 12)
        self._check("subwindows", 1, 1 << 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class IMTree(Options):
    """What can be set of `slidejoin.index.im_tree`.

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
    ValueError
        For a number out of its range.
    """

    name: ClassVar[str] = "im_tree"
    what: ClassVar[str] = "a B+-tree merged into an immutable one (IM-Tree: PIM-Tree, section 3.2)"
    home: ClassVar[tuple[str, str]] = ("slidejoin.index.im_tree", "IMTreeIndex")

    merge_ratio: float = 1 / 8
    fan_out: int = 32
    immutable_fan_out: int = 17

    def __post_init__(self) -> None:
        self._check_share("merge_ratio")
        self._check("fan_out", 4, 1 << 12)
        self._check("immutable_fan_out", 3, 1 << 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class PIMTree(Options):
    """What can be set of `slidejoin.index.pim_tree`.

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
        Whether a merge is done all at once, instead of beside the pushes that follow.
    task_size : int
        Probes that a thread takes at a time.
    threads : int
        Of its own, that share what each of the join's threads does. Default: one, the join's threads do.

    Raises
    ------
    ValueError
        For a number out of its range.
    """

    name: ClassVar[str] = "pim_tree"
    what: ClassVar[str] = "B+-trees at the nodes of an immutable one (PIM-Tree, sections 3.3 and 4)"
    home: ClassVar[tuple[str, str]] = ("slidejoin.index.pim_tree", "PIMTreeIndex")

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedBPlusTree(Options):
    """What can be set of `slidejoin.index.chained_bplus_tree`.

    Attributes
    ----------
    chain_length : int
        Sub-indexes, the active one among them: each takes a (chain_length - 1)-th of the window.
    fan_out : int
        Entries of a node.

    Raises
    ------
    ValueError
        For a number out of its range.
    """

    name: ClassVar[str] = "chained_bplus_tree"
    what: ClassVar[str] = "a chain of B+-trees, dropped whole (PIM-Tree, sections 2.2.2 and 5.1)"
    home: ClassVar[tuple[str, str]] = ("slidejoin.index.chained_bplus_tree", "ChainedBPlusTreeIndex")

    chain_length: int = 2
    fan_out: int = 32

    def __post_init__(self) -> None:
        self._check("chain_length", 2, 1 << 10)
        self._check("fan_out", 4, 1 << 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedCssTree(Options):
    """What can be set of `slidejoin.index.chained_css_tree`.

    Attributes
    ----------
    chain_length : int
        Sub-indexes, the active one among them: each takes a (chain_length - 1)-th of the window.
    fan_out : int
        Entries of a node of the active one.

    Raises
    ------
    ValueError
        For a number out of its range.
    """

    name: ClassVar[str] = "chained_css_tree"
    what: ClassVar[str] = "a chain of one B+-tree and immutable ones (PIM-Tree, sections 2.2.2 and 5.1)"
    home: ClassVar[tuple[str, str]] = ("slidejoin.index.chained_css_tree", "ChainedCssTreeIndex")

    chain_length: int = 2
    fan_out: int = 32

    def __post_init__(self) -> None:
        self._check("chain_length", 2, 1 << 10)
        self._check("fan_out", 4, 1 << 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class BiSort(Options):
    """What can be set of `slidejoin.index.bi_sort`, the sorted runs that ``auto`` chooses from, too.

    Attributes
    ----------
    buffer_size : int
        Rows that collect in one small run, into which each push is merged, before that run is merged with older ones:
        the paper's B. With 1 every push is a run at once, and runs are merged by `fan_out` alone.
    fan_out : int, optional
        Neighbouring runs are merged while the older has fewer than so many times the newer's rows: the larger, the
        fewer runs a probe meets, and the more often a row is moved. Default: by what both cost, see
        `slidejoin.index.levels`.

    Raises
    ------
    ValueError
        For a number out of its range.
    """

    name: ClassVar[str] = "bi_sort"
    what: ClassVar[str] = "sorted runs (PanJoin, section III-D)"
    home: ClassVar[tuple[str, str]] = ("slidejoin.index.bi_sort", "BiSort")

    buffer_size: int = 1
    fan_out: int | None = None

    def __post_init__(self) -> None:
        self._check("buffer_size", 1, 1 << 20)
        self._check("fan_out", 1, 1 << 10, optional=True)


STRUCTURES: dict[str, type[Options]] = {
    options.name: options
    for options in (NestedLoop, Hash, BPlusTree, ChainedBPlusTree, ChainedCssTree, IMTree, PIMTree, RapTable, WibTree)
}
"""Every structure that ``algorithm=`` names, beside those that ``auto`` chooses from."""
