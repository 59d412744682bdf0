"""What the tests of PanJoin's structures look at: the rows of each partition, and answers beside a plain list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.index.keys import RowKeys
from slidejoin.index.probe import Probes
from slidejoin.index.protocol import Occupancy
from slidejoin.papers.panjoin.kernels.llat import NOTHING
from slidejoin.papers.panjoin.subwindows import Chain
from slidejoin.spec.options import KNOWN_STRUCTURES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slidejoin.options import Options
    from slidejoin.papers.panjoin.llat import Llat

Row = tuple[int, int]

NO_WINDOW = Occupancy(0, 0, 0, None)
"""For structures, which know themselves what they hold."""


def rows_of(table: Llat, partition: int) -> list[Row]:
    """Keys and ordinals of a partition, entry by entry; fails where an entry but the last is not full."""
    rows: list[Row] = []
    entries = table.table
    entry = int(entries.first[partition])
    while entry != NOTHING:
        begin, filled = entry * table.width, int(entries.filled[entry])
        following = int(entries.following[entry])
        assert filled == table.width if following != NOTHING else entry == entries.last[partition]
        keys, ordinals = (column[begin : begin + filled].tolist() for column in (entries.keys, entries.ordinals))
        rows += zip(keys, ordinals, strict=True)
        entry = following
    return rows


def chain_of(options: Options, rows: int | None = None, first: int = 0) -> Chain:
    """An empty index."""
    made = KNOWN_STRUCTURES.class_of(type(options))(options, 0, rows, first)
    assert isinstance(made, Chain)
    return made


def append(chain: Chain, keys: NDArray[np.int64] | list[int]) -> None:
    """Let rows come."""
    some = np.asarray(keys, np.int64)
    chain.insert(RowKeys(some, np.empty((some.size, 0), np.int64), None), 0)


def asked(lo: list[int], hi: list[int], seen: tuple[int, int]) -> Probes:
    """Probes of one range each, which all see the same rows."""
    n = len(lo)
    none = np.empty((0, n), np.int64)
    return Probes(
        np.arange(n), np.array([lo], np.int64), np.array([hi], np.int64), np.full(n, seen[0]), np.full(n, seen[1]),
        none, none, np.empty(0, np.int64),
    )  # fmt: skip


def answers(chain: Chain, probes: Probes) -> list[list[int]]:
    """The ordinals of each probe's matches, ascending."""
    found = chain.search(probes)
    n, total = len(probes), int(found.counts.sum())
    places = np.concatenate([[0], np.cumsum(found.counts)[:-1]]).astype(np.int64)
    which, stored = np.empty(total, np.int64), np.empty(total, np.int64)
    found.fill(0, n, places, which, stored)
    return [sorted(stored[which == i].tolist()) for i in range(n)]
