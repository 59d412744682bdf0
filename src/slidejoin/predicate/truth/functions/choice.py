"""Functions that choose one of their values: CASE, COALESCE, GREATEST, LEAST."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from slidejoin.predicate.truth.functions.common import (
    Function,
    Typed,
    choose,
    common_type,
    converted,
    known,
    refuse,
    rows_of_all,
    spread,
    with_nulls,
)
from slidejoin.predicate.truth.tree import BOOLEAN, Node, literal
from slidejoin.predicate.truth.types import BYTES, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from slidejoin.predicate.truth.values import Values

__all__ = ["CHOICES", "values_of_choice"]


def values_of_choice(name: str, args: Sequence[Node]) -> range:
    """Return the places of the operands that are values, all of one type; the others are conditions.

    Of CASE these are every second one, and the last one, after ELSE, if their number is odd.
    """
    return range(1, len(args), 2) if name == "case" else range(len(args))


def _check_case(args: Sequence[Node], text: str) -> Typed:
    otherwise = args[-1:] if len(args) % 2 else (literal(None, BOOLEAN, "NULL"),)
    conditions, values = args[: len(args) // 2 * 2 : 2], [*args[1 : len(args) // 2 * 2 : 2], *otherwise]
    for condition in conditions:
        if condition.type.kind is not Kind.BOOL and not condition.is_null:
            raise refuse(text, condition, "conditions behind WHEN")
    made, reach = converted(values, to := common_type(values, text))
    tests = [literal(None, BOOLEAN, one.text) if one.is_null else one for one in conditions]
    pairs = [node for pair in zip(tests, made, strict=False) for node in pair]
    return Typed(to, (*pairs, made[-1]), reach)


def _case(node: Node, values: Sequence[Values]) -> Values:
    chosen = values[-1]
    for place in reversed(range(0, len(values) - 1, 2)):
        chosen = choose(known(values[place]), values[place + 1], chosen, node.type.kind)
    return chosen


def _check_same(args: Sequence[Node], text: str) -> Typed:
    made, reach = converted(args, to := common_type(args, text))
    return Typed(to, made, reach)


def _coalesce(node: Node, values: Sequence[Values]) -> Values:
    chosen = values[-1]
    for one in reversed(values[:-1]):
        if one.valid is None:
            chosen = (
                one
                if len(one.data) == rows_of_all([one, chosen])
                else choose(np.ones(1, np.bool_), one, chosen, node.type.kind)
            )
        else:
            chosen = choose(one.valid, one, chosen, node.type.kind)
    return chosen


def _extreme(*, greatest: bool) -> Callable[[Node, Sequence[Values]], Values]:
    def compute(node: Node, values: Sequence[Values]) -> Values:
        best = values[0]
        for one in values[1:]:
            above = _at_least(best, one, node.type.kind) if greatest else _at_least(one, best, node.type.kind)
            # NULLs are passed over.
            if best.valid is not None:
                above = above & best.valid
            if one.valid is not None:
                above = above | ~one.valid
            best = choose(above, best, one, node.type.kind)
        return best

    return compute


def _at_least(one: Values, two: Values, kind: Kind) -> NDArray[np.bool_]:
    """Where ``one >= two``, NaN being the largest of all; anything where one is NULL."""
    if kind in BYTES:
        n = rows_of_all([one, two])
        left: Any = spread(with_nulls(one), n)
        right: Any = spread(with_nulls(two), n)
        reached = pc.fill_null(pc.greater_equal(left, right), False)  # noqa: FBT003  Arrow's signature
        result: NDArray[np.bool_] = reached.to_numpy(zero_copy_only=False)
        return result
    above: NDArray[np.bool_] = (one.data >= two.data).astype(np.bool_)
    return above | np.isnan(one.data) if kind is Kind.FLOAT else above


CHOICES: dict[str, Function] = {
    "case": Function(_check_case, _case),
    "coalesce": Function(_check_same, _coalesce),
    "greatest": Function(_check_same, _extreme(greatest=True)),
    "least": Function(_check_same, _extreme(greatest=False)),
}
