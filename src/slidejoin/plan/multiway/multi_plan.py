"""The plan of a join of many streams: what each step of a chain of probes compares.

A row that arrives probes one stream, what it finds probes the next one, and so on (MJoin, Viglas, Naughton and Burger,
VLDB 2003). Each step is a join of two: on the left the *wide row*, the rows of the streams that are bound already, on
the right the stored stream. So a step has a plan of a join of two, over the conjuncts whose streams are all bound with
it, and terms, composite keys, indexes and filters are those of `slidejoin.plan.plan`. ``a.x + b.x < c.x`` is a range of
c's keys as soon as a and b are bound.

Steps that compare a stream by the same conjuncts are one step, and share one index, whatever else is bound.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from slidejoin.errors import PredicateError, nearest
from slidejoin.plan.multiway.scope import NEWEST, UNTIL, stream_scopes
from slidejoin.plan.output_schema import MultiLayout, layout_of
from slidejoin.plan.plan import make_plan
from slidejoin.predicate.bind import all_of
from slidejoin.predicate.expression.expr import And, Column, Literal, walk
from slidejoin.predicate.expression.streams import at_step, stream_and_name, streams_of, wide_name
from slidejoin.predicate.expression.text import wide_sql
from slidejoin.predicate.truth.resolve import conjuncts, resolve_boolean
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.rows.held_types import check_holdable, held_schema
from slidejoin.spec.join_spec import JoinSpec
from slidejoin.tuning import Tuning, tuning

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slidejoin.plan.multiway.scope import StepScope
    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.expression.expr import Expr
    from slidejoin.predicate.truth.tree import Node
    from slidejoin.spec.multi_spec import MultiSpec

__all__ = ["NOTHING", "Conjunct", "MultiPlan", "Step", "make_multi_plan"]

NOTHING = "#row"
"""A column of zeros in a wide row that no other column is needed of: a table needs one to have rows."""

QUOTED, BARE = (
    re.compile(r'\bl\."([A-Za-z_][A-Za-z0-9_]*)\.((?:[^"]|"")+)"'),
    re.compile(r"\bl\.(?=[A-Za-z_][A-Za-z0-9_]*\.)"),
)
"""Columns of the wide row as they stand in messages about joins of two."""


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A part of the predicate that must hold, and the streams that it reads, by their numbers."""

    expr: Expr
    streams: frozenset[int]

    @property
    def text(self) -> str:
        """The part in words."""
        return wide_sql(self.expr)


@dataclass(frozen=True, slots=True)
class Step:
    """A probe of one stored stream by wide rows.

    Attributes
    ----------
    stored : int
        The stream that is probed.
    conjuncts : tuple of int
        Which parts of the predicate are checked, those of the stored stream alone among them.
    plan : Plan
        The join of two: the wide row on the left, the stored stream on the right.
    left : dict from int to list of str
        The columns of each bound stream that the wide row needs.
    """

    stored: int
    conjuncts: tuple[int, ...]
    plan: Plan
    left: dict[int, list[str]]

    @property
    def key(self) -> tuple[int, tuple[int, ...]]:
        """What tells steps, and their indexes, apart."""
        return self.stored, self.conjuncts


@dataclass(frozen=True, slots=True)
class MultiPlan:
    """A join of many streams bound to their schemas.

    Attributes
    ----------
    conjuncts : tuple of Conjunct
        Those that read columns.
    never : bool
        Whether a constant part is false or unknown, so that nothing can match.
    scopes : tuple of StepScope
        Of the streams' time windows; empty for count windows.
    stored : tuple of pyarrow.Schema
        What the windows hold: the columns that are output or compared, as they are held.
    tuning : Tuning
        Measured thresholds, those of the time of planning.
    own : dict from int to Node
        The condition on each stream alone, where there is one.
    """

    spec: MultiSpec
    schemas: tuple[pa.Schema, ...]
    conjuncts: tuple[Conjunct, ...]
    never: bool
    scopes: tuple[StepScope, ...]
    layout: MultiLayout
    stored: tuple[pa.Schema, ...]
    own: dict[int, Node]
    tuning: Tuning = field(default_factory=tuning, compare=False)
    _steps: dict[tuple[int, tuple[int, ...]], Step] = field(default_factory=dict, repr=False, compare=False)
    _known: dict[tuple[int, frozenset[int]], Step] = field(default_factory=dict, repr=False, compare=False)

    @property
    def streams(self) -> range:
        """The numbers of the streams."""
        return range(len(self.spec.streams))

    def newest(self, stream: int, table: pa.Table) -> int | None:
        """Return the largest event time of a stream's rows in one chunk; None without rows, and in a count window."""
        if not self.scopes or not table.num_rows:
            return None
        return int(self.scopes[stream].ticks("right", by_name(table))[0].max())

    def links(self, stored: int, bound: frozenset[int]) -> tuple[int, ...]:
        """Return which conjuncts a step checks that adds a stream to bound ones."""
        within = bound | {stored}
        return tuple(
            number for number, one in enumerate(self.conjuncts) if stored in one.streams and one.streams <= within
        )

    def linked(self, stored: int, bound: frozenset[int]) -> bool:
        """Whether a step compares the stream with bound ones at all; if not, it is a cross product."""
        return any(len(self.conjuncts[number].streams) > 1 for number in self.links(stored, bound))

    def step(self, stored: int, bound: frozenset[int]) -> Step:
        """Return the step that adds a stream to bound ones."""
        known = self._known.get((stored, bound))
        if known is None:
            links = self.links(stored, bound)
            known = self._steps.get((stored, links)) or self._step(stored, links)
            self._steps[stored, links] = self._known[stored, bound] = known
        return known

    def _step(self, stored: int, links: tuple[int, ...]) -> Step:
        spec, name = self.spec, self.spec.streams[stored]
        parts = tuple(at_step(self.conjuncts[number].expr, name) for number in links)
        on = Literal(value=True) if not parts else parts[0] if len(parts) == 1 else And(parts)
        needed = _columns(self.conjuncts[number].expr for number in links)
        left = {
            number: [column for column in self.stored[number].names if column in needed.get(stream, ())]
            for number, stream in enumerate(spec.streams)
            if number != stored and stream in needed
        }
        fields = [
            pa.field(wide_name(spec.streams[number], column), self.stored[number].field(column).type)
            for number, columns in left.items()
            for column in columns
        ]
        if self.scopes:
            fields += [pa.field(NEWEST, pa.int64()), pa.field(UNTIL, pa.int64())]
        if not fields:
            fields = [pa.field(NOTHING, pa.int64())]
        config = JoinSpec(on=on, window=spec.windows[stored], output="positions", threads=spec.threads)
        plan = make_plan(
            config, pa.schema(fields), self.stored[stored], scope=self.scopes[stored] if self.scopes else None
        )
        return Step(stored, links, plan, left)


def make_multi_plan(spec: MultiSpec, schemas: Sequence[pa.Schema]) -> MultiPlan:
    """Bind a join of many streams to their schemas.

    Raises
    ------
    PredicateError
        For unknown columns, types that do not compare, or names of output columns that collide.
    """
    for stream, schema in zip(spec.streams, schemas, strict=True):
        _unique(stream, schema)
    layout, scopes = layout_of(spec, schemas), stream_scopes(spec, schemas)
    _check_columns(spec, schemas)
    wide = pa.schema(
        [
            pa.field(wide_name(stream, column.name), column.type)
            for stream, schema in zip(spec.streams, schemas, strict=True)
            for column in schema
        ]
    )
    try:
        resolve_boolean(spec.on, {"left": wide, "right": pa.schema([])})
        parts = [(part, resolve_boolean(part, {"left": wide})) for part in conjuncts(spec.on, {"left": wide})]
    except PredicateError as error:
        msg = BARE.sub("", QUOTED.sub(r"\1.\2", str(error)))
        raise PredicateError(msg) from None
    number_of = {stream: number for number, stream in enumerate(spec.streams)}
    placed_parts = [
        (Conjunct(part, frozenset(number_of[stream] for stream in streams_of(part))), node)
        for part, node in parts
        if node.sides
    ]
    never = any(not node.sides and node.value is not True for _, node in parts)
    needed = _columns([spec.on])
    stored = []
    for number, (stream, schema) in enumerate(zip(spec.streams, schemas, strict=True)):
        wanted = {*layout.names(number), *needed.get(stream, ())}
        if scopes:
            wanted.update(scopes[number].columns("right"))
        # A batch needs a column to have a number of rows at all.
        names = [name for name in schema.names if name in wanted] or schema.names[:1]
        check_holdable(stream, schema, names)
        stored.append(held_schema(pa.schema([schema.field(name) for name in names])))
    own = {
        number: all_of(tuple(node for part, node in placed_parts if part.streams == {number}))
        for number in range(len(spec.streams))
        if any(part.streams == {number} for part, _ in placed_parts)
    }
    plan = MultiPlan(
        spec, tuple(schemas), tuple(part for part, _ in placed_parts), never, scopes, layout, tuple(stored), own
    )  # fmt: skip
    for number in plan.streams:
        plan.step(number, frozenset(plan.streams) - {number})  # whatever a step refuses is refused now
    return plan


def _unique(stream: str, schema: pa.Schema) -> None:
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        msg = f"stream {stream!r} has more than one column named {', '.join(map(repr, twice))}; rename them"
        raise PredicateError(msg)


def _check_columns(spec: MultiSpec, schemas: Sequence[pa.Schema]) -> None:
    by_stream = dict(zip(spec.streams, schemas, strict=True))
    for node in walk(spec.on):
        if isinstance(node, Column):
            stream, name = stream_and_name(node.name)
            names = by_stream[stream].names
            if name not in names:
                msg = f"stream {stream!r} has no column {name!r}; its columns are {', '.join(names)}."
                raise PredicateError(msg + nearest(name, names))


def _columns(exprs: Iterable[Expr]) -> dict[str, set[str]]:
    """Return the columns of each stream that expressions read."""
    needed: dict[str, set[str]] = {}
    for expr in exprs:
        for node in walk(expr):
            if isinstance(node, Column):
                stream, name = stream_and_name(node.name)
                needed.setdefault(stream, set()).add(name)
    return needed
