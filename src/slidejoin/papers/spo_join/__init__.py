"""SPO-Join: two inequalities answered at once by permuted arrays, and its baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.papers.spo_join.options import POJoin
from slidejoin.spec.options import KNOWN_STRUCTURES

if TYPE_CHECKING:
    from slidejoin.papers.spo_join.po_join_index import POJoinIndex

__all__: list[str] = []


def _po_join() -> type[POJoinIndex]:
    from slidejoin.papers.spo_join.po_join_index import POJoinIndex

    return POJoinIndex


KNOWN_STRUCTURES.register(POJoin, _po_join)
