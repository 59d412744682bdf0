"""The enumerated options of a join, declared once for both engines, job files and the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from slidejoin.sides import Side

__all__ = [
    "JOIN_TYPES",
    "LATE",
    "ONE_SIDED",
    "ORDERS",
    "OUTPUTS",
    "STRATEGIES",
    "UNMATCHED",
    "JoinType",
    "Late",
    "Order",
    "Output",
    "StrategyName",
]

JoinType: TypeAlias = Literal["inner", "left", "right", "full", "left_semi", "left_anti"]
"""``how=``: which rows without a partner are output too."""

Output: TypeAlias = Literal["pairs", "count", "positions"]
"""``output=``: a row for each pair, for each arriving row, or the ordinals of each pair's rows."""

Order: TypeAlias = Literal["probe", "strict", "none"]
"""``order=``: which order of the output is promised, of an embedded join."""

Late: TypeAlias = Literal["drop", "emit"]
"""``late=``: whether late rows are dropped, or stored for the caller."""

StrategyName: TypeAlias = Literal["auto", "hash", "cell", "grid", "broadcast", "split", "sub_windows"]
"""``strategy=``: how rows are routed to buckets, on Spark."""

JOIN_TYPES: tuple[JoinType, ...] = get_args(JoinType)
UNMATCHED: dict[JoinType, tuple[Side, ...]] = {
    "inner": (),
    "left": ("left",),
    "right": ("right",),
    "full": ("left", "right"),
    "left_semi": (),
    "left_anti": ("left",),
}
"""The sides whose rows are output without a partner."""

ONE_SIDED: tuple[JoinType, ...] = ("left_semi", "left_anti")
"""Join types whose output has left rows alone."""

OUTPUTS: tuple[Output, ...] = get_args(Output)
ORDERS: tuple[Order, ...] = get_args(Order)
LATE: tuple[Late, ...] = get_args(Late)
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)
