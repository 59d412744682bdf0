"""The specification of a join, checked as far as possible without schemas."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any

from slidejoin.arguments import at_least_one, is_unicode, one_of, shown, truth_value
from slidejoin.errors import ArgumentError, ArgumentTypeError, StateError
from slidejoin.predicate import as_predicate, check_aliases, from_json, to_json, to_sql
from slidejoin.spec.join_options import JOIN_TYPES, ORDERS, OUTPUTS
from slidejoin.spec.options import STRUCTURES, BiSort, Options, Planar
from slidejoin.spec.topologies import topology_of
from slidejoin.spec.window import CountWindow, TimeWindow, Window, window_from_json, window_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slidejoin.predicate import Expr, Expression
    from slidejoin.spec.join_options import JoinType, Order, Output
    from slidejoin.spec.topologies import Topology

__all__ = ["ALGORITHMS", "JoinSpec", "algorithm_of", "algorithms", "make_join_spec"]

ALGORITHMS = {
    "auto": "the planner's choice",
    "band_cells": "a hash table of cells as wide as the band",
    "bi_sort": BiSort.what,
    "planar": Planar.what,
} | {name: options.what for name, options in STRUCTURES.items()}


def algorithms() -> tuple[str, ...]:
    """Return the names that ``algorithm=`` takes.

    Examples
    --------
    >>> "bi_sort" in algorithms()
    True
    """
    return tuple(ALGORITHMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSpec:
    """A join without its schemas; see `slidejoin.StreamJoin` for what each field means."""

    on: Expr
    window: Window
    how: JoinType = "inner"
    output: Output = "pairs"
    order: Order = "probe"
    select: tuple[str, ...] | None = None
    suffix: str = "_right"
    self_join: bool = False
    aliases: tuple[str, str] = ("l", "r")
    algorithm: str = "auto"
    options: Options | None = None
    topology: Topology | None = None
    threads: int | None = None
    memory_limit: int | None = None

    def shown(self) -> str:
        """Return the call that makes such a join, without what is left as it is by default."""
        given = [f"on={to_sql(self.on, self.aliases)!r}", f"window={self.window!r}"]
        for option in fields(self):
            value: object = getattr(self, option.name)
            if option.name == "options" or option.default is MISSING or value == option.default:
                continue
            if option.name == "algorithm" and self.options is not None:
                value = self.options
            given.append(f"{option.name}={list(value) if isinstance(value, tuple) else value!r}")
        return f"StreamJoin({', '.join(given)})"

    def to_json(self) -> dict[str, Any]:
        """Return everything that decides the results, as plain JSON values: none of what only decides the speed."""
        return {
            "on": to_json(self.on),
            "window": window_to_json(self.window),
            "how": self.how,
            "output": self.output,
            "order": self.order,
            "select": None if self.select is None else list(self.select),
            "suffix": self.suffix,
            "self_join": self.self_join,
            "aliases": list(self.aliases),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any], **others: Any) -> JoinSpec:
        """Read what `to_json` wrote; `others` are fields that it leaves out.

        Raises
        ------
        StateError
            If something is missing or of another kind.
        """
        try:
            return JoinSpec(
                on=from_json(data["on"]),
                window=window_from_json(data["window"]),
                how=one_of("how", data["how"], JOIN_TYPES),
                output=one_of("output", data["output"], OUTPUTS),
                order=one_of("order", data["order"], ORDERS),
                select=None if data["select"] is None else tuple(map(str, data["select"])),
                suffix=str(data["suffix"]),
                self_join=bool(data["self_join"]),
                aliases=(str(data["aliases"][0]), str(data["aliases"][1])),
                **others,
            )
        except (KeyError, TypeError, IndexError, ArgumentError) as error:
            msg = f"the state describes a join that cannot be read: {error!r} is missing or wrong"
            raise StateError(msg) from error


def make_join_spec(
    *,
    on: str | Expr | Expression,
    window: object,
    how: object = "inner",
    output: object = "pairs",
    order: object = "probe",
    select: Iterable[str] | None = None,
    suffix: object = "_right",
    self_join: object = False,
    aliases: tuple[str, str] = ("l", "r"),
    algorithm: object = "auto",
    topology: object = "auto",
    threads: object = None,
    memory_limit: object = None,
) -> JoinSpec:
    """Check what the user gave and return it in one form.

    Raises
    ------
    PredicateError
        For a predicate or aliases that cannot be used.
    ArgumentError
        For any other argument that cannot be used.
    """
    check_aliases(aliases)
    if not isinstance(window, (CountWindow, TimeWindow)):
        msg = (
            f"window must be a CountWindow or a TimeWindow, got {shown(window)}; write sj.CountWindow(1000) or "
            "sj.TimeWindow('10 minutes', on='ts')"
        )
        raise ArgumentTypeError(msg)
    how = one_of("how", how, JOIN_TYPES)
    self_join = truth_value("self_join", self_join)
    if not isinstance(suffix, str):
        msg = f"suffix must be text such as '_right', got {shown(suffix)}"
        raise ArgumentTypeError(msg)
    if not is_unicode(suffix):
        msg = f"suffix must be Unicode text such as '_right', got {suffix!a}"
        raise ArgumentError(msg)
    chosen = _selected(select, aliases)
    output = one_of("output", output, OUTPUTS)
    if output == "positions" and chosen is not None:
        msg = (
            f"select={list(chosen)!r} chooses columns, but output='positions' has only its own two, left and right; "
            "leave select out"
        )
        raise ArgumentError(msg)
    if self_join and isinstance(window, TimeWindow) and window.left_on != window.right_on:
        msg = (
            f"a self-join has one event-time column; got left_on={window.left_on!r}, right_on={window.right_on!r}; "
            "write TimeWindow(…, on='column')"
        )
        raise ArgumentError(msg)
    name, options = algorithm_of(algorithm)
    if output == "count" and how != "inner":
        msg = (
            f"output='count' counts pairs, which how={how!r} does not change; use how='inner' to count them, or "
            "output='pairs' or 'positions'"
        )
        raise ArgumentError(msg)
    order, spread = one_of("order", order, ORDERS), topology_of(topology)
    if spread is not None:
        spread.check_join(order, output, how)
    return JoinSpec(
        on=as_predicate(on, tuple(aliases)),  # type: ignore[arg-type]
        window=window,
        how=how,
        output=output,
        order=order,
        select=chosen,
        suffix=suffix,
        self_join=self_join,
        aliases=(aliases[0], aliases[1]),
        algorithm=name,
        options=options,
        topology=spread,
        threads=at_least_one("threads", threads),
        memory_limit=at_least_one("memory_limit", memory_limit),
    )


def _selected(select: object, aliases: tuple[str, str]) -> tuple[str, ...] | None:
    if select is None:
        return None
    example = f"'{aliases[0]}.id', '{aliases[1]}.id'"
    if isinstance(select, (str, bytes)) or not hasattr(select, "__iter__"):
        msg = f"select must be a list of columns such as [{example}], got {shown(select)}"
        raise ArgumentTypeError(msg)
    chosen = tuple(select)
    for item in chosen:
        if not isinstance(item, str):
            msg = f"select must name columns as text such as {example}, got {shown(item)}"
            raise ArgumentTypeError(msg)
    return chosen


def algorithm_of(value: object) -> tuple[str, Options | None]:
    """Return the name of an algorithm, and its options if these were given instead of the name.

    Raises
    ------
    ArgumentError
        For anything else.
    """
    if isinstance(value, Options):
        return value.name, value
    return one_of("algorithm", value, ALGORITHMS), None
