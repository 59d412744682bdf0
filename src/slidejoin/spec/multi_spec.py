"""The specification of a join of many streams, checked as far as possible without schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slidejoin.arguments import at_least_one, one_of, selection, shown
from slidejoin.errors import ArgumentError, ArgumentTypeError, PredicateError, SlideJoinError, StateError
from slidejoin.predicate import from_json, to_json
from slidejoin.predicate.expression.expr import Column, walk
from slidejoin.predicate.expression.literals import unicode_text
from slidejoin.predicate.expression.streams import streams_of
from slidejoin.predicate.expression.text import wide_sql
from slidejoin.predicate.python import Expression
from slidejoin.spec.join_options import ORDERS, OUTPUTS
from slidejoin.spec.window import CountWindow, TimeWindow, Window, window_from_json
from slidejoin.stored import StoredValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slidejoin.predicate import Expr
    from slidejoin.spec.join_options import Order, Output

__all__ = ["MOST_STREAMS", "MultiSpec", "make_multi_spec"]

LEAST_STREAMS, MOST_STREAMS = 2, 6
"""Streams of a join: all orders of probing are looked at, 120 for each of six streams."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = ("order_by",)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiSpec:
    """A join of many streams without its schemas; see `slidejoin.MultiJoin` for what each field means.

    Attributes
    ----------
    on : Expr
        Over the wide row, see `slidejoin.predicate.expression.streams`.
    windows : tuple of Window
        Of each stream.
    fold_names : bool
        Whether names of columns that differ by case alone are the same, as on Spark.
    """

    streams: tuple[str, ...]
    windows: tuple[Window, ...]
    on: Expr
    output: Output = "pairs"
    order: Order = "probe"
    select: tuple[str, ...] | None = None
    threads: int | None = None
    memory_limit: int | None = None
    fold_names: bool = False

    @property
    def counted(self) -> bool:
        """Whether the windows are counted in rows."""
        return self.windows[0].capacity("right") is not None

    def shown(self) -> str:
        """Return the call that makes such a join, without what is left as it is by default."""
        windows = ", ".join(f"{name!r}: {window!r}" for name, window in zip(self.streams, self.windows, strict=True))
        given = [f"{{{windows}}}", f"on={wide_sql(self.on)!r}"]
        defaults = {"output": "pairs", "order": "probe", "select": None, "threads": None, "memory_limit": None}
        for name, default in defaults.items():
            value = getattr(self, name)
            if value != default:
                given.append(f"{name}={list(value) if isinstance(value, tuple) else value!r}")
        return f"MultiJoin({', '.join(given)})"

    def to_json(self) -> dict[str, Any]:
        """Return everything that decides the results, as plain JSON values: not threads or memory limit."""
        return {
            "streams": list(self.streams),
            "windows": [window.to_json() for window in self.windows],
            "on": to_json(self.on),
            "output": self.output,
            "order": self.order,
            "select": None if self.select is None else list(self.select),
        }

    @staticmethod
    def from_json(data: object, **others: Any) -> MultiSpec:
        """Read what `to_json` wrote; `others` are fields that it leaves out.

        Raises
        ------
        StateError
            If something is missing or of another kind.
        """
        stored = StoredValue(data, "the join of the state")
        spec = MultiSpec(
            streams=tuple(one.text() for one in stored["streams"]),
            windows=tuple(window_from_json(one.value) for one in stored["windows"]),
            on=from_json(stored["on"].value),
            output=stored["output"].one_of(OUTPUTS),
            order=stored["order"].one_of(ORDERS),
            select=stored["select"].or_none(lambda given: tuple(one.text() for one in given)),
            **others,
        )
        if len(set(spec.streams)) < len(spec.streams) or len(spec.streams) != len(spec.windows):
            msg = f"the state describes a join of the streams {spec.streams} with {len(spec.windows)} windows"
            raise StateError(msg)
        try:
            make_multi_spec(
                dict(zip(spec.streams, spec.windows, strict=True)),
                on=Expression(spec.on),
                output=spec.output,
                order=spec.order,
                select=spec.select,
            )
        except SlideJoinError as error:
            msg = f"the state describes a join that there is not: {error}"
            raise StateError(msg) from error
        return spec


def make_multi_spec(
    windows: object,
    *,
    on: object,
    output: object = "pairs",
    order: object = "probe",
    select: Iterable[str] | None = None,
    threads: object = None,
    memory_limit: object = None,
) -> MultiSpec:
    """Check what the user gave and return it in one form.

    Raises
    ------
    PredicateError
        For a predicate that cannot be used.
    ArgumentError
        For any other argument that cannot be used.
    """
    given = _check_streams(windows)
    output = one_of("output", output, OUTPUTS)
    chosen = selection(select, given)
    if output == "positions" and chosen is not None:
        msg = (
            f"select={list(chosen)!r} chooses columns, but output='positions' has only its own, one for each stream; "
            "leave select out"
        )
        raise ArgumentError(msg)
    return MultiSpec(
        streams=tuple(given),
        windows=tuple(given.values()),
        on=_predicate(on, tuple(given)),
        output=output,
        order=one_of("order", order, ORDERS),
        select=chosen,
        threads=at_least_one("threads", threads),
        memory_limit=at_least_one("memory_limit", memory_limit),
    )


def _check_streams(windows: object) -> dict[str, Window]:
    example = "{'a': sj.CountWindow(1000), 'b': sj.CountWindow(500)}"
    if not isinstance(windows, Mapping):
        msg = (
            f"windows must be a dict from the name of each stream to its window, as in {example}; got {shown(windows)}"
        )
        raise ArgumentTypeError(msg)
    if not LEAST_STREAMS <= len(windows) <= MOST_STREAMS:
        msg = f"a MultiJoin has {LEAST_STREAMS} to {MOST_STREAMS} streams, got {len(windows)}; write {example}"
        raise ArgumentError(msg)
    by_stream: dict[str, Window] = {}
    for name, window in windows.items():
        if not isinstance(name, str) or not NAME.fullmatch(name) or name in RESERVED:
            why = " is the name of an argument of push" if name in RESERVED else ""
            msg = f"the name of a stream is made of letters, digits and _, such as 'trades'; got {shown(name)}{why}"
            raise ArgumentError(msg)
        if not isinstance(window, (CountWindow, TimeWindow)):
            msg = (
                f"the window of stream {name!r} must be a CountWindow or a TimeWindow, got {shown(window)}; write "
                "sj.CountWindow(1000) or sj.TimeWindow('10 minutes', on='ts')"
            )
            raise ArgumentTypeError(msg)
        if not window.alike:
            msg = (
                f"the window of stream {name!r} has a left and a right side: {window!r}; a stream has one window: "
                "write sj.CountWindow(size) or sj.TimeWindow(length, on=…)"
            )
            raise ArgumentError(msg)
        by_stream[name] = window
    if len({window.kind for window in by_stream.values()}) > 1:
        msg = (
            "the windows of all streams are counted alike, in rows or in time; got "
            + ", ".join(f"{name}: {window!r}" for name, window in by_stream.items())
            + ". Give each stream a CountWindow, or each a TimeWindow"
        )
        raise ArgumentError(msg)
    return by_stream


def _predicate(on: object, streams: tuple[str, ...]) -> Expr:
    if isinstance(on, str):
        from slidejoin.predicate.sql_text.sql import parse_wide  # noqa: PLC0415 - sqlglot is loaded only where SQL text is given

        return parse_wide(unicode_text(on), streams)
    if isinstance(on, Expression):
        from slidejoin.predicate.expression.build import predicate  # noqa: PLC0415 - only needed for Python expressions

        node = predicate(on.node)
        for column in walk(node):
            if isinstance(column, Column) and "." not in column.name:
                msg = (
                    f"the column {column.name!r} is one of sj.{column.side}, which a MultiJoin does not have; write "
                    f"sj.stream({streams[0]!r}).{column.name}"
                )
                raise PredicateError(msg)
        unknown = sorted(streams_of(node) - set(streams))
        if unknown:
            msg = f"unknown stream {unknown[0]!r} in the predicate; the streams are {', '.join(map(repr, streams))}"
            raise PredicateError(msg)
        return node
    msg = f"on= takes SQL text or an expression, got {shown(on)}. Write 'a.k = b.k', or sj.stream('a').k == …"
    raise PredicateError(msg)
