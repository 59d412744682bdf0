"""What is emitted of a left row as it expires: its nearest pairs, or aggregates of all, bound to the schemas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import pyarrow as pa
from pyarrow import types as pat

from slidejoin.errors import PredicateError, nearest
from slidejoin.predicate.expression.expr import Abs, And, Arithmetic, Column, Compare, Or
from slidejoin.predicate.ranges.terms import RangeTerm, make_terms
from slidejoin.predicate.truth.resolve import resolve, resolve_boolean
from slidejoin.predicate.truth.types import Kind, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slidejoin.predicate.expression.expr import Expr
    from slidejoin.predicate.truth.tree import Node
    from slidejoin.sides import Side
    from slidejoin.spec.aggregate import AggregateFunction, AggregateName
    from slidejoin.spec.join_spec import JoinSpec
    from slidejoin.spec.nearest import Direction

__all__ = ["AggregateRule", "BoundAggregate", "DeferredRule", "NearestRule", "bind_rule", "with_condition"]

Summed: TypeAlias = Literal["whole", "float", "decimal"]
"""What a sum adds up: whole numbers of 64 bits, doubles, or decimals of up to 38 digits."""

DECIMAL_DIGITS = 38


@dataclass(frozen=True, slots=True)
class NearestRule:
    """Nearest matches.

    Attributes
    ----------
    left, right : str
        The columns whose distance counts.
    direction : {"backward", "forward", "nearest"}
    k : int
        Pairs that stay.
    outer : bool
        Whether a left row without a pair is emitted, too.
    distance : Node
        ``abs(left - right)``.
    below, equal : Node
        ``right <= left`` and ``right = left``.
    condition : Expr
        What the direction asks of a pair, which is part of the predicate: in both directions that the values compare.
    split : RangeTerm or None
        ``right <= left`` as a term: the keys of right values up to a left one. None if it is none.
    """

    left: str
    right: str
    direction: Direction
    k: int
    outer: bool
    distance: Node
    below: Node
    equal: Node
    condition: Expr
    split: RangeTerm | None

    @property
    def columns(self) -> dict[Side, tuple[str, ...]]:
        """Columns that are read of each side."""
        return {"left": (self.left,), "right": (self.right,)}

    @property
    def fields(self) -> None:
        """Columns of the output in addition to those of a pair: none."""
        return

    def orders(self, term: object) -> bool:
        """Tell whether a term of the plan is the one whose keys are in the order of right values."""
        return isinstance(term, RangeTerm) and self.condition in term.conjuncts

    @property
    def label(self) -> str:
        """The rule in words, for `explain`."""
        which = "nearest pair" if self.k == 1 else f"{self.k} nearest pairs"
        directions = {"backward": " backward", "forward": " forward", "nearest": " in both directions"}
        alone = ", and left rows without any" if self.outer else ""
        by = f"{self.distance.text},{directions[self.direction]}"
        return f"the {which} of each left row by {by}, as the row leaves{alone}"


class BoundAggregate(NamedTuple):
    """One function with its types.

    Attributes
    ----------
    name : str
        Of the output column.
    function : {"count", "sum", "min", "max", "mean"}
    column : str or None
        The right column; None counts pairs.
    summed : {"whole", "float", "decimal"} or None
        What a sum or mean adds up.
    scale : int or None
        Of decimals that are added up.
    kind : pyarrow.DataType
        Of the output.
    """

    name: str
    function: AggregateName
    column: str | None
    summed: Summed | None
    scale: int | None
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class AggregateRule:
    """Aggregates of all pairs.

    Attributes
    ----------
    functions : tuple of BoundAggregate
    label : str
        The rule in words, for `explain`.
    """

    functions: tuple[BoundAggregate, ...]
    label: str

    @property
    def columns(self) -> dict[Side, tuple[str, ...]]:
        """Columns that are read of each side."""
        names = dict.fromkeys(one.column for one in self.functions if one.column is not None)
        return {"left": (), "right": tuple(names)}

    @property
    def fields(self) -> tuple[pa.Field[pa.DataType], ...]:
        """Columns of the output behind those of the left row."""
        return tuple(pa.field(one.name, one.kind) for one in self.functions)

    @property
    def condition(self) -> None:
        """What a pair must fulfil in addition to the predicate: nothing."""
        return


DeferredRule: TypeAlias = NearestRule | AggregateRule


def bind_rule(config: JoinSpec, left: pa.Schema, right: pa.Schema) -> DeferredRule:
    """Bind nearest matches or aggregates to the schemas of the sides.

    Raises
    ------
    PredicateError
        For unknown columns, or columns of types that have no distance, or no such function.
    """
    if config.aggregate is not None:
        functions = tuple(
            _bound(one, one.column_name(config.aliases, right.names), right) for one in config.aggregate.functions
        )
        return AggregateRule(functions, f"{config.aggregate!r} of each left row, as the row leaves")
    return _nearest(config, {"left": left, "right": right})


def _nearest(config: JoinSpec, schemas: Mapping[Side, pa.Schema]) -> NearestRule:
    keep = config.keep
    assert keep is not None  # noqa: S101 - called for joins that have one of the two
    names = keep.names(config.aliases)
    left, right = Column("left", names[0]), Column("right", names[1])
    for side, name in zip(schemas, names, strict=True):
        _known(f"keep={keep!r}", side, name, schemas[side])
    less_or_equal = Compare("<=", right, left)
    try:
        below = resolve_boolean(less_or_equal, schemas)
        distance = resolve(Abs(Arithmetic("-", left, right)), schemas)
    except PredicateError as error:
        msg = (
            f"keep={keep!r} needs two columns with a distance: numbers (decimals to 38 digits), timestamps, dates or "
            f"durations; {error}"
        )
        raise PredicateError(msg) from error
    terms, _ = make_terms([(less_or_equal, below)])
    conditions: dict[Direction, Expr] = {
        "backward": less_or_equal,
        "forward": Compare(">=", right, left),
        "nearest": Or((less_or_equal, Compare(">", right, left))),
    }
    return NearestRule(
        *names,
        keep.direction,
        keep.k,
        outer=config.how == "left",
        distance=distance,
        below=below,
        equal=resolve_boolean(Compare("=", right, left), schemas),
        condition=conditions[keep.direction],
        split=terms[0] if terms else None,
    )


def _known(what: str, side: str, name: str, schema: pa.Schema) -> None:
    if schema.names.count(name) != 1:
        msg = f"{what} names {name!r}, which is no column of the {side} side; it has {', '.join(schema.names)}."
        raise PredicateError(msg + nearest(name, schema.names))


def _bound(one: AggregateFunction, column: str | None, right: pa.Schema) -> BoundAggregate:
    """Give a function its types."""
    if column is None:
        return BoundAggregate(one.name, one.function, None, None, None, pa.int64())
    what = f"Aggregate {one.name}={str(one)!r}"
    if right.names.count(column) != 1:
        msg = (
            f"{what} names {column!r}, which is no column of the right side; it has {', '.join(right.names)}. "
            "Aggregates are of plain columns: compute expressions in the stream before."
        )
        raise PredicateError(msg + nearest(column, right.names))
    kind = _plain(right.field(column).type)
    if one.function == "count":
        return BoundAggregate(one.name, one.function, column, None, None, pa.int64())
    if one.function in ("min", "max"):
        return BoundAggregate(one.name, one.function, column, None, None, _ordered(what, kind))
    summed, total = _summed(what, kind, one.function)
    scale = total.scale if isinstance(total, pa.Decimal128Type) else None
    return BoundAggregate(
        one.name, one.function, column, summed, scale, pa.float64() if one.function == "mean" else total
    )


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's values."""
    if pat.is_dictionary(kind) or pat.is_run_end_encoded(kind):
        return _plain(kind.value_type)
    return kind


def _ordered(what: str, kind: pa.DataType) -> pa.DataType:
    if type_of(kind).kind in (Kind.OTHER, Kind.LIST, Kind.NULL) and not pat.is_decimal(kind):
        msg = f"{what} needs values with an order: numbers, times, booleans, strings or binary; the column is {kind}"
        raise PredicateError(msg)
    return kind


def _summed(what: str, kind: pa.DataType, function: str) -> tuple[Summed, pa.DataType]:
    """Return what a sum of such values adds up, and the type of the sum."""
    meaning = type_of(kind).kind
    if meaning is Kind.INT:
        return "whole", pa.int64()
    if meaning is Kind.FLOAT:
        return "float", pa.float64()
    if meaning is Kind.DURATION and function == "sum":
        return "whole", kind
    if pat.is_decimal(kind) and kind.precision <= DECIMAL_DIGITS:
        return "decimal", pa.decimal128(DECIMAL_DIGITS, kind.scale)
    durations = " or durations" if function == "sum" else ""
    msg = (
        f"{what} needs numbers (integers, floats, decimals to {DECIMAL_DIGITS} digits){durations}; the column is "
        f"{kind}. Cast it in the stream before"
    )
    raise PredicateError(msg)


def with_condition(on: Expr, rule: DeferredRule) -> Expr:
    """Return the predicate with what the rule asks of a pair."""
    return on if rule.condition is None else And((on, rule.condition))
