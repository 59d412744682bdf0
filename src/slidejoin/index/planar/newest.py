"""The newest rows, which collect in one small run: a few of them are sorted anew in less time than a merge begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.keys import RowKeys
from slidejoin.index.planar.run import PlanarRun, of_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["COLLECTED", "Newest", "prepared"]

COLLECTED, SHARED = 1 << 11, 4
"""Rows that collect, and how many pushes share them at least."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The rows of a push, sorted together with those of the pushes before that still collect.

    Attributes
    ----------
    run : PlanarRun
        All of them.
    rows : int
        Rows of the push.
    unsorted : RowKeys
        All of them in arrival order.
    follows : PlanarRun or None
        The run that this one replaces, as it has the same rows and those of the push.
    """

    run: PlanarRun
    rows: int
    unsorted: RowKeys
    follows: PlanarRun | None

    def orders(self, around: tuple[int, int], rows: int) -> bool:  # noqa: ARG002 - see Prepared
        """Return False: probes have ranges of two keys."""
        return False


def prepared(rows: RowKeys, first: int, before: Newest | None, *, collects: bool) -> Newest:
    """Sort the rows of a push, the first of which has that ordinal.

    `before` is what the index took last, if that is still its newest run.
    """
    few = collects and before is not None and rows.rows <= COLLECTED // SHARED
    if before is None or not few or before.run.end != first or before.run.rows + rows.rows > COLLECTED:
        return Newest(of_rows(rows, first), rows.rows, rows, None)
    old = before.unsorted
    whole = RowKeys(
        np.concatenate([old.keys, rows.keys]), np.concatenate([old.aux, rows.aux]), _kept(old, rows),
        old.inexact | rows.inexact,
    )  # fmt: skip
    return Newest(of_rows(whole, before.run.base), rows.rows, whole, before.run)


def _kept(old: RowKeys, new: RowKeys) -> NDArray[np.bool_] | None:
    if old.kept is None and new.kept is None:
        return None
    parts = [np.ones(rows.rows, np.bool_) if rows.kept is None else rows.kept for rows in (old, new)]
    return np.concatenate(parts)
