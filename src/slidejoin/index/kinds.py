"""The kinds of index by name, and what each can do: all that is known of an index before there is one."""

from __future__ import annotations

from typing import NamedTuple

from slidejoin.spec.options import BiSort, Planar, structure_named

__all__ = ["CELLS", "PLANAR", "RUNS", "IndexKind", "kind_of"]

CELLS, RUNS, PLANAR = "band_cells", BiSort.name, Planar.name
"""Those that ``auto`` chooses from: a table of cells, sorted runs, and runs with bounds of a second key."""


class IndexKind(NamedTuple):
    """What an index can do.

    Attributes
    ----------
    fixed_width : bool
        Whether ranges of its key need one narrow width, as cells are as wide.
    two_keys : bool
        Whether it answers ranges of two keys at once.
    equality_only : bool
        Whether it finds single keys only.
    """

    fixed_width: bool = False
    two_keys: bool = False
    equality_only: bool = False


KINDS = {CELLS: IndexKind(fixed_width=True), PLANAR: IndexKind(two_keys=True)}


def kind_of(name: str) -> IndexKind:
    """Return what the index of a name that ``algorithm=`` takes can do; ``"auto"`` as sorted runs.

    Examples
    --------
    >>> kind_of("planar").two_keys, kind_of("hash").equality_only, kind_of("bi_sort")
    (True, True, IndexKind(fixed_width=False, two_keys=False, equality_only=False))
    """
    structure = structure_named(name)
    if structure is None:
        return KINDS.get(name, IndexKind())
    return IndexKind(two_keys=structure.two_terms, equality_only=structure.equality_only)
