"""What a join is asked to do, checked as far as that goes without schemas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slidejoin.errors import StateError, nearest
from slidejoin.predicate import as_predicate, check_aliases, from_json, to_json
from slidejoin.spec.options import STRUCTURES, BiSort, Options
from slidejoin.spec.window import CountWindow, TimeWindow, Window, window_from_json, window_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slidejoin.predicate import Expr, Expression

__all__ = ["ALGORITHMS", "JoinSpec", "algorithm_of", "algorithms", "at_least_one", "make_join_spec", "one_of"]

ALGORITHMS = {
    "auto": "the planner's choice",
    "band_cells": "a hash table of cells as wide as the band",
    "bi_sort": BiSort.what,
} | {name: options.what for name, options in STRUCTURES.items()}
JOIN_TYPES = ("inner", "left", "right", "full", "left_semi", "left_anti")
OUTPUTS = ("pairs", "count", "positions")
ORDERS = ("probe", "strict", "none")


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
    how: str = "inner"
    output: str = "pairs"
    order: str = "probe"
    select: tuple[str, ...] | None = None
    suffix: str = "_right"
    self_join: bool = False
    aliases: tuple[str, str] = ("l", "r")
    algorithm: str = "auto"
    options: Options | None = None
    threads: int | None = None
    memory_limit: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return everything that decides the results, as plain JSON values: not threads, algorithm or memory limit."""
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
                how=str(data["how"]),
                output=str(data["output"]),
                order=str(data["order"]),
                select=None if data["select"] is None else tuple(map(str, data["select"])),
                suffix=str(data["suffix"]),
                self_join=bool(data["self_join"]),
                aliases=(str(data["aliases"][0]), str(data["aliases"][1])),
                **others,
            )
        except (KeyError, TypeError, IndexError) as error:
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
    threads: object = None,
    memory_limit: object = None,
) -> JoinSpec:
    """Check what the user gave and return it in one form.

    Raises
    ------
    PredicateError
        For a predicate or aliases that cannot be used.
    ValueError
        For any other argument out of its range.
    """
    check_aliases(aliases)
    if not isinstance(window, (CountWindow, TimeWindow)):
        msg = f"window must be a CountWindow or a TimeWindow, got {window!r}"
        raise ValueError(msg)  # noqa: TRY004 - one kind of error for wrong arguments
    if how != "inner":
        known = "is not in this version" if how in JOIN_TYPES else "is no join type"
        msg = f"how={how!r} {known}; use how='inner', or output='count' to find rows without a match"
        raise ValueError(msg)
    if not isinstance(self_join, bool):
        msg = f"self_join must be True or False, got {self_join!r}"
        raise ValueError(msg)  # noqa: TRY004
    if not isinstance(suffix, str):
        msg = f"suffix must be text, got {suffix!r}"
        raise ValueError(msg)  # noqa: TRY004
    if isinstance(select, str):
        msg = (
            f"select must be a list of columns such as ['{aliases[0]}.id', '{aliases[1]}.id'], got the text {select!r}"
        )
        raise ValueError(msg)  # noqa: TRY004
    chosen = None if select is None else tuple(select)
    given: tuple[object, ...] = chosen or ()
    for item in given:
        if not isinstance(item, str):
            msg = f"select must name columns as text such as '{aliases[0]}.id', got {item!r}"
            raise ValueError(msg)  # noqa: TRY004
    if output == "positions" and select is not None:
        msg = (
            f"select={select!r} chooses columns, of which output='positions' has none but left and right; leave it out"
        )
        raise ValueError(msg)
    if self_join and isinstance(window, TimeWindow) and window.left_on != window.right_on:
        msg = f"a self-join has one event-time column; got left_on={window.left_on!r}, right_on={window.right_on!r}"
        raise ValueError(msg)
    name, options = algorithm_of(algorithm)
    return JoinSpec(
        on=as_predicate(on, tuple(aliases)),  # type: ignore[arg-type]
        window=window,
        how="inner",
        output=one_of("output", output, OUTPUTS),
        order=one_of("order", order, ORDERS),
        select=chosen,
        suffix=suffix,
        self_join=self_join,
        aliases=(aliases[0], aliases[1]),
        algorithm=name,
        options=options,
        threads=at_least_one("threads", threads),
        memory_limit=at_least_one("memory_limit", memory_limit),
    )


def algorithm_of(value: object) -> tuple[str, Options | None]:
    """Return the name of an algorithm, and what was set of it if the object with that was given instead.

    Raises
    ------
    ValueError
        For anything else.
    """
    if isinstance(value, Options):
        return value.name, value
    return one_of("algorithm", value, ALGORITHMS), None


def at_least_one(name: str, value: object) -> int | None:
    """Return the number, or None for none given.

    Raises
    ------
    ValueError
        For anything but a whole number of at least 1.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        msg = f"{name} must be a whole number, at least 1, or None; got {value!r}"
        raise ValueError(msg)
    return value


def one_of(name: str, value: object, possible: Iterable[str]) -> str:
    """Return the name if it is one of the possible ones.

    Raises
    ------
    ValueError
        Otherwise, with the nearest of them.
    """
    if not isinstance(value, str) or value not in tuple(possible):
        msg = f"{name} must be one of {', '.join(map(repr, possible))}; got {value!r}."
        raise ValueError(msg + nearest(str(value), possible))
    return value
