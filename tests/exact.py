"""The law once more, for streams too long for `tests.oracle`: every pair of rows, a whole batch of them at once.

Where the oracle compares values of every type one by one, rows here have whole numbers only, so that NumPy compares all
pairs of a push in a few steps. Nothing is indexed and nothing leaves: each arriving row is compared with all rows that
ever came, and scope is told from ordinals or event times alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import slidejoin as sj

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["NULL", "Answer", "Exact", "Rows", "table_of"]

Rows = dict[str, "NDArray[np.int64]"]
SIDES = ("left", "right")

NULL = np.iinfo(np.int64).min
"""What stands for NULL in a column."""


def table_of(rows: Rows) -> pa.Table:
    """The rows as slidejoin takes them."""
    return pa.table({name: pa.array(values, mask=values == NULL) for name, values in rows.items()})


@dataclass
class Answer:
    """What one push produces.

    Attributes
    ----------
    counts : (arrivals,) int64
        Pairs of each arriving row that is neither late nor without event time, in arrival order.
    sides : list of str
        Which side each of these rows belongs to.
    left, right : (pairs,) int64
        Ordinals of the pairs' rows, in the order of ``order="strict"``.
    probe : (pairs,) int64
        The arriving row that produced each pair, by its place in `counts`.
    """

    sides: list[str] = field(default_factory=list)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    left: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    right: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    probe: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


class Exact:
    """A join that remembers everything.

    Parameters
    ----------
    matches : callable
        Takes columns of left rows and of right rows, which broadcast against each other, and tells which pairs match.
        A pair with a NULL in a column that `columns` names does not.
    columns : tuple of str
        Columns of the predicate.
    window : CountWindow or TimeWindow
        The latter over ``ts``.
    """

    def __init__(
        self,
        matches: Callable[[Rows, Rows], NDArray[np.bool_]],
        columns: tuple[str, ...],
        window: sj.CountWindow | sj.TimeWindow,
        *,
        self_join: bool = False,
    ) -> None:
        self._matches, self._columns, self._window, self._self_join = matches, columns, window, self_join
        self._rows: dict[str, Rows] = {side: {} for side in SIDES}
        # The place of each row among all arrivals that have an ordinal.
        self._ranks: dict[str, NDArray[np.int64]] = {side: np.empty(0, np.int64) for side in SIDES}
        self._largest: dict[str, int | None] = dict.fromkeys(SIDES)
        self._arrived = 0
        self.late = self.null_times = self.pairs = 0

    def push(self, left: Rows, right: Rows, order_by: str | None = None) -> Answer:
        """Take rows and return what they produce."""
        given = {"left": left, "right": right}
        arrivals = self._accepted(given, order_by)
        for side in SIDES:
            mine = [row for own, row in arrivals if own == side]
            ranks = [self._arrived + at for at, (own, _) in enumerate(arrivals) if own == side]
            known, new = self._rows[side], {name: values[mine] for name, values in given[side].items()}
            self._rows[side] = {
                name: np.concatenate([known.get(name, values[:0]), values]) for name, values in new.items()
            }
            self._ranks[side] = np.concatenate([self._ranks[side], np.array(ranks, np.int64)])
        first, self._arrived = self._arrived, self._arrived + len(arrivals)
        answer = Answer([side for side, _ in arrivals], np.zeros(len(arrivals), np.int64))
        # Lines of (probe, role, left ordinal, right ordinal), which sort into the strict order.
        found = [self._found("left", first), self._found("right", first)]
        lines = np.concatenate(found)
        lines = lines[np.lexsort((lines[:, 3] + lines[:, 2], lines[:, 1], lines[:, 0]))]
        answer.probe, answer.left, answer.right = lines[:, 0] - first, lines[:, 2], lines[:, 3]
        np.add.at(answer.counts, answer.probe, 1)
        self.pairs += len(lines)
        return answer

    def rows(self, side: str, ordinals: NDArray[np.int64]) -> Rows:
        """The rows of a side with these ordinals; of a self-join both sides are the left one."""
        return {name: values[ordinals] for name, values in self._rows["left" if self._self_join else side].items()}

    def _accepted(self, given: dict[str, Rows], order_by: str | None) -> list[tuple[str, int]]:
        """The side and the row number of each arrival, in order, without those that are late or have no event time."""
        arrivals = [(side, row) for side in SIDES for row in range(len(next(iter(given[side].values()), ())))]
        if order_by is not None:
            arrivals.sort(key=lambda arrival: int(given[arrival[0]][order_by][arrival[1]]))
        if isinstance(self._window, sj.CountWindow):
            return arrivals
        accepted = []
        for side, row in arrivals:
            time, known = int(given[side]["ts"][row]), list(self._largest.values())[: 1 if self._self_join else 2]
            marks = [one - int(self._window.lateness) for one in known if one is not None]
            if time == NULL:
                self.null_times += 1
            elif len(marks) == len(known) and time < min(marks):
                self.late += 1
            else:
                accepted.append((side, row))
                largest = self._largest[side]
                self._largest[side] = time if largest is None else max(largest, time)
        return accepted

    def _found(self, role: str, first: int) -> NDArray[np.int64]:
        """The pairs that rows with ranks from `first` on produce as rows of that side."""
        other = "right" if role == "left" else "left"
        own, stored = ("left", "left") if self._self_join else (role, other)
        ranks = self._ranks[own]
        begin = int(np.searchsorted(ranks, first))
        seen_to = np.searchsorted(self._ranks[stored], ranks[begin:])
        if begin == ranks.size or not self._ranks[stored].size:
            return np.empty((0, 4), np.int64)
        ordinals, candidates = np.arange(begin, ranks.size), self._candidates(own, begin, stored, other, seen_to)
        probes = {name: values[begin:][:, None] for name, values in self._rows[own].items()}
        others = {name: values[candidates][None, :] for name, values in self._rows[stored].items()}
        pair = (probes, others) if role == "left" else (others, probes)
        good = self._matches(*pair) & (candidates[None, :] < seen_to[:, None])
        for columns in pair:
            for name in self._columns:
                good = good & (columns[name] != NULL)
        good &= self._in_scope(other, pair, candidates[None, :], seen_to[:, None])
        i, j = np.nonzero(good)
        left, right = (ordinals[i], candidates[j]) if role == "left" else (candidates[j], ordinals[i])
        return np.stack([ranks[begin:][i], np.full(i.size, SIDES.index(role)), left, right], axis=1)

    def _candidates(
        self, own: str, begin: int, stored: str, role: str, arrived: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Ordinals of the stored rows that some of the probes may see; leaves out only what none of them does."""
        window, everything = self._window, np.arange(self._ranks[stored].size)
        if isinstance(window, sj.CountWindow):
            return everything[everything >= int(arrived[0]) - getattr(window, role) - window.slide]
        times, probes = self._rows[stored]["ts"], self._rows[own]["ts"][begin:]
        longest = max(int(window.left), int(window.right))
        return everything[(times >= probes.min() - longest) & (times <= probes.max() + longest)]

    def _in_scope(
        self, stored: str, pair: tuple[Rows, Rows], candidates: NDArray[np.int64], arrived: NDArray[np.int64]
    ) -> Any:
        window = self._window
        if isinstance(window, sj.TimeWindow):
            behind = pair[1]["ts"] - pair[0]["ts"]
            return (behind <= window.left) & (-behind <= window.right)
        outside = np.maximum(arrived - (window.left if stored == "left" else window.right), 0)
        # A block leaves when all of its rows are outside.
        return candidates // window.slide >= outside // window.slide
