"""Options of SPO-Join: its own structure, and the parts that its paper compares it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slidejoin.arguments import one_of, truth_value
from slidejoin.spec.options import Options

__all__ = ["IMMUTABLE_PARTS", "MUTABLE_PARTS", "POJoin"]

MUTABLE_PARTS = ("bit_set", "hash_set")
IMMUTABLE_PARTS = ("po_join", "css_bit_set", "css_hash_set")


@dataclass(frozen=True, slots=True, kw_only=True)
class POJoin(Options):
    """Options of `slidejoin.papers.spo_join.po_join_index`.

    Attributes
    ----------
    slide_interval : int, optional
        Rows of a side between two merges, the paper's W_S, where `sub_intervals` is 1. Default: a tenth of the window.
    sub_intervals : int
        Parts of a slide interval that are merged one by one (section 4.5): the more, the smaller the mutable part and
        the more immutable structures.
    mutable : {"bit_set", "hash_set"}
        What the rows that pass each term in the mutable part are written to, before both are intersected.
    immutable : {"po_join", "css_bit_set", "css_hash_set"}
        What rows are merged into: permutation arrays, or one of the paper's baselines, a CSS-tree for each term.
    tuple_by_tuple : bool
        Whether each probe sets its bits again, as in the paper; otherwise probes of PO-Join structures are answered in
        the order of their second term, and each changes the bits of the one before it. Where a push has many, the
        mutable part is read into such a structure, too.
    blocking : bool
        Whether a merge is done all at once, instead of in parts with the pushes that follow.
    threads : int
        Of its own, that share the immutable structures of each probe (Algorithm 4). Default: one, the join's threads
        share the probes.
    fan_out : int
        Entries of a node of the B+-trees.
    immutable_fan_out : int
        Children of an inner node of the CSS-trees, which has one key less.

    Raises
    ------
    ArgumentError
        For a number out of its range, or another name.
    """

    name: ClassVar[str] = "po_join"
    what: ClassVar[str] = "B+-trees merged into permutation arrays of two terms (SPO-Join, section 4)"
    two_terms: ClassVar[bool] = True

    slide_interval: int | None = None
    sub_intervals: int = 8
    mutable: str = "bit_set"
    immutable: str = "po_join"
    tuple_by_tuple: bool = False
    blocking: bool = False
    threads: int = 1
    fan_out: int = 32
    immutable_fan_out: int = 17

    def __post_init__(self) -> None:
        self._check("slide_interval", 1, 1 << 30, optional=True)
        self._check("sub_intervals", 1, 1 << 10)
        self._check("threads", 1, 1 << 10)
        self._check("fan_out", 4, 1 << 12)
        self._check("immutable_fan_out", 3, 1 << 12)
        one_of(f"mutable of {self.name}", self.mutable, MUTABLE_PARTS)
        one_of(f"immutable of {self.name}", self.immutable, IMMUTABLE_PARTS)
        truth_value(f"tuple_by_tuple of {self.name}", self.tuple_by_tuple)
        truth_value(f"blocking of {self.name}", self.blocking)
