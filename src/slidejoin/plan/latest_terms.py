"""As-of joins that a table of the latest right row of each key can answer, and the terms that it goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyarrow import types as pat

from slidejoin.plan.deferred import NearestRule
from slidejoin.plan.window_term import TimeScope
from slidejoin.predicate.ranges.terms import RangeTerm
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    import pyarrow as pa

    from slidejoin.plan.plan import Plan
    from slidejoin.sides import Side

__all__ = ["LatestColumns", "LatestTerms"]


class LatestColumns(NamedTuple):
    """Columns of both sides whose values are keys and values of a table of the latest rows, as they are.

    Attributes
    ----------
    keys, values : dict from side to str
        Their names.
    low, high : int
        A left row looks for right values from its own plus `low` to its own plus `high`, neither above 0; the smallest
        int64 as `low` for ranges that are open.
    """

    keys: dict[Side, str]
    values: dict[Side, str]
    low: int
    high: int


class LatestTerms(NamedTuple):
    """The terms of a plan whose left rows have the latest right row of their key, up to their own value.

    Attributes
    ----------
    near : RangeTerm
        The one in whose order right values are: that they are not above the left one, and perhaps not far below it.
    equal : tuple of RangeTerm
        The equalities; none if all rows have one key.
    scopes : tuple of TimeScope
        The time scope, if there is one; its event times are the values then.
    """

    near: RangeTerm
    equal: tuple[RangeTerm, ...]
    scopes: tuple[TimeScope, ...]

    @property
    def value(self) -> RangeTerm | TimeScope:
        """The term whose keys the right values are: the scope's, if there is one."""
        return self.scopes[0] if self.scopes else self.near

    @staticmethod
    def of(plan: Plan) -> LatestTerms | None:
        """Return the terms of a plan; None if a table cannot answer, or the join names an algorithm.

        A table answers one nearest row, backward, by equalities, conditions on the two values, and filters of single
        sides. Not those by doubles, some of which have no order.
        """
        rule, config = plan.rule, plan.config
        if not isinstance(rule, NearestRule) or rule.direction != "backward" or rule.k > 1 or rule.split is None:
            return None
        # An index that replaces the table would have to fit into the memory that is left.
        special = config.algorithm != "auto" or config.self_join or config.memory_limit is not None
        if special or plan.is_union or plan.bound.never or plan.filter(plan.loose) is not None:
            return None
        kinds = {plan.schema(side).field(name).type for side, (name,) in rule.columns.items()}
        whole = all(key.space == "exact" and not key.bias and len(key.parts) == 1 for key in rule.split.pair)
        near, equal, scopes = None, [], []
        for term in plan.terms:
            if isinstance(term, TimeScope) and _of_values(term, rule, *kinds):
                scopes.append(term)
            elif isinstance(term, RangeTerm) and rule.orders(term) and term.pair == rule.split.pair:
                near = term
            elif isinstance(term, RangeTerm) and term.shape == "equality":
                equal.append(term)
            else:
                return None
        if not whole or len(kinds) > 1 or near is None or not _plain(near):
            return None
        if not all(_plain(term) and all(key.space != "hash" for key in term.pair) for term in equal):
            return None
        return LatestTerms(near, tuple(equal), tuple(scopes))

    def columns(self, plan: Plan) -> LatestColumns | None:
        """Return the columns that keys and values are, without filters and in a count window; None if they are not."""
        if self.scopes or len(self.equal) != 1 or any(plan.bound.filters_side(side) for side in SIDES):
            return None
        both = []
        for term in (self.equal[0], self.near):
            left, right = term.shifted_column("left"), term.shifted_column("right")
            if left is None or right is None or left.shift.sign != 1:
                return None
            names: dict[Side, str] = {"left": left.column, "right": right.column}
            if not all(_as_held(plan.kept_schema(side).field(name).type) for side, name in names.items()):
                return None
            both.append((names, int(left.shift.lows[0]), int(left.shift.highs[0])))
        (keys, *shift), (values, low, high) = both
        return LatestColumns(keys, values, low, high) if shift == [0, 0] and low <= 0 and high <= 0 else None


def _as_held(kind: pa.DataType) -> bool:
    """Tell whether values of a type are used as they lie in memory: signed integers of 4 or 8 bytes."""
    return pat.is_int32(kind) or pat.is_int64(kind) or pat.is_timestamp(kind)


def _plain(term: RangeTerm) -> bool:
    """Tell whether a left row's partners lie in one range of keys, and all rows in it are partners."""
    return term.exact and term.pieces == 1


def _of_values(scope: TimeScope, rule: NearestRule, *kinds: pa.DataType) -> bool:
    """Tell whether the event times of a time scope are the values that are compared, as they are."""
    if any(scope.window.on(side) != name for side, (name,) in rule.columns.items()):
        return False
    return all(pat.is_integer(kind) or pat.is_timestamp(kind) for kind in kinds)
