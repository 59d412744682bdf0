"""How far two keys of the stored rows of one side are apart, exactly, as rows come and leave.

Distances are kept for blocks of rows, so that one long interval is forgotten when it has left the window. See
`slidejoin.plan.closed_ranges` for what they are for.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from slidejoin.plan.closed_ranges import NONE, SAME, Closing, Distance, distance_of, same_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slidejoin.plan.key_layout import TermKeys
    from slidejoin.plan.plan import Term
    from slidejoin.sides import Side

__all__ = ["Distances", "Found"]

BLOCKS = 16
"""Blocks of a window: a long interval is remembered for so little longer than it stays."""

LONGER = 4
"""Times by which distances may spread with a push before that is looked at: ranges become as wide."""

Pair = tuple[int, int]

Found = tuple[Distance, ...]
"""Distances of some rows, for all pairs whose keys differ."""


class Distances:
    """The distances of one side's rows, for each two terms that close a range.

    Parameters
    ----------
    terms : sequence of Term
        The plan's.
    side : {"left", "right"}
    pairs : sequence of pair of int
        Places of the terms whose ranges are closed, and of those that close them.
    """

    def __init__(self, terms: Sequence[Term], side: Side, pairs: Sequence[Pair]) -> None:
        self._same = frozenset(pair for pair in pairs if same_keys(terms[pair[0]], terms[pair[1]], side))
        self._doubles = {pair: _of_doubles(terms[pair[0]], side) for pair in pairs}
        self._pairs = tuple(pair for pair in pairs if pair not in self._same)
        # The last ordinal of each block and one, how many rows it has, and the distances of each pair.
        self._blocks: list[tuple[int, int, Found]] = []
        self._whole: Found = (NONE,) * len(self._pairs)

    def of(self, keys: TermKeys) -> Found:
        """Return the distances of rows that are not stored yet. O(n)."""
        kept, found = keys.kept, dict[Pair, Distance]()
        for pair in self._pairs:
            turned = found.get((pair[1], pair[0]))
            if turned is not None:
                found[pair] = turned.turned
                continue
            one, two = (keys.values[place] if kept is None else keys.values[place][kept] for place in pair)
            found[pair] = distance_of(one, two, doubles=self._doubles[pair])
        return tuple(found.values())

    def add(self, found: Found, first: int, rows: int, oldest: int, live: int) -> None:
        """Take the newest rows, given what `of` returned.

        Parameters
        ----------
        first, rows : int
            The ordinal of the first of them, and how many there are.
        oldest, live : int
            The oldest ordinal of the window before them, and how many rows it has.
        """
        if not found or not rows:
            return
        blocks, gone = self._blocks, 0
        while gone < len(blocks) and blocks[gone][0] <= oldest:
            gone += 1
        del blocks[:gone]
        if blocks and BLOCKS * (blocks[-1][1] + rows) <= live:
            _, before, known = blocks.pop()
            rows, found, first = rows + before, _united((known, found)), first - before
        blocks.append((first + rows, rows, found))
        if gone or len(blocks) == 1:
            self._whole = _united([distances for *_, distances in blocks])
        else:
            self._whole = _united((self._whole, found))

    def closing(self, pair: Pair, coming: Found = ()) -> Closing:
        """Return how ranges are closed by the rows that have come so far, and by some that come."""
        if pair in self._same:
            return Closing(*pair, SAME, self._doubles[pair])
        at = self._pairs.index(pair)
        distance = self._whole[at] | coming[at] if coming else self._whole[at]
        return Closing(*pair, distance, self._doubles[pair])

    def lengthened(self, pair: Pair, coming: Found) -> bool:
        """Tell whether rows that come make closed ranges several times as wide as distances were far apart."""
        now, then = (self.closing(pair, found).distance for found in ((), coming))
        return then.high - then.low > LONGER * max(now.high - now.low, 0)


def _united(several: Sequence[Found]) -> Found:
    return tuple(reduce(or_, distances) for distances in zip(*several, strict=True))


def _of_doubles(term: Term, side: Side) -> bool:
    return bool(getattr(term, "of_doubles", lambda _: False)(side))
