"""Binding a join to its frames: the plan of each bucket, with the hidden columns that it needs, and the strategy."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type

from slidejoin.plan.deferred import NearestRule, bind_rule, with_condition
from slidejoin.plan.explanation import warn_without_index
from slidejoin.plan.plan import make_plan
from slidejoin.predicate.expression.expr import And, Column
from slidejoin.sides import SIDES
from slidejoin.spark.job.join_spec import (
    AT_HOME,
    BATCH,
    LEFT_ROLE,
    MATCHED,
    NUMBERS,
    OVER,
    OVER_TYPE,
    PLACE,
    RIGHT_ROLE,
    ROW_ID,
)
from slidejoin.spark.job.strategies import choose_strategy, lengths_of
from slidejoin.spec.join_options import ONE_SIDED, UNMATCHED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from slidejoin.plan.plan import Plan
    from slidejoin.predicate.bind import BoundPredicate
    from slidejoin.sides import Side
    from slidejoin.spark.job.strategies import Strategy
    from slidejoin.spec.join_options import JoinType
    from slidejoin.spec.join_spec import JoinSpec
    from slidejoin.spec.window import Window

__all__ = ["APART", "UTC", "BoundJoin", "arrow_schema", "bound_to", "schema_of"]

UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}
"""The argument by which times are of UTC: 4.1 takes that for granted."""


APART = "__slidejoin_right"
"""Suffix of the operator's right columns where they are not the result's: no input has such names."""


class BoundJoin(NamedTuple):
    """A join bound to its frames.

    Attributes
    ----------
    plan : Plan
        Of each bucket, with the hidden columns that it needs; of an inner join.
    strategy : Strategy
        How rows are routed.
    given : tuple of pyarrow.Schema
        Of the left and the right frame.
    how : str
        The join type.
    columns : tuple of (side, name, output name)
        Of joins other than inner ones, the result's columns, without the match time.
    scattered : bool
        Whether a row may match in several buckets that have to be put together.
    arrival : tuple of str
        Of nearest matches from several buckets: the right columns by which right rows arrived.
    """

    plan: Plan
    strategy: Strategy
    given: tuple[pa.Schema, pa.Schema]
    how: JoinType = "inner"
    columns: tuple[tuple[Side, str, str], ...] = ()
    scattered: bool = False
    arrival: tuple[str, ...] = ()


def bound_to(
    config: JoinSpec,
    frames: dict[Side, DataFrame],
    window: Window,
    strategy: str,
    *,
    buckets: int,
    spread: int = 1,
) -> BoundJoin:
    """Bind a join to its frames, with the hidden columns that it needs.

    The event times are part of the operator's output, for the match time. A self-join gets columns for the roles of a
    row, counts summed over several buckets get an id for each row, and rows of a count window their numbers.

    Raises
    ------
    PredicateError
        For a predicate, selection or names that cannot be used.
    SparkJoinError
        For a strategy that does not suit the predicate.
    """
    left, right = (schema_of(frames.get(side, frames["left"])) for side in SIDES)
    how, rule = config.how, bind_rule(config, left, right) if config.deferred else None
    if rule is not None:
        # The rule says whether left rows without a pair are output.
        config = replace(config, on=with_condition(config.on, rule), how="inner")
    plan = make_plan(config, left, right, rule=rule)
    if config.select is not None:
        # By the columns' own names, as the user's may differ by case.
        alias = dict(zip(SIDES, config.aliases, strict=True))
        config = replace(config, select=tuple(f"{alias[side]}.{name}" for side, name, _ in plan.layout.columns))
    bound = plan.bound
    if not plan.is_union:
        warn_without_index(config, bound, plan.limit)
    # Rows that wait for partners in other buckets take more where each is stored once.
    once = config.how == "inner" and rule is None
    chosen = choose_strategy(strategy, bound, buckets, spread, lengths_of(window), once=once)
    chosen = strategy_for(config, chosen, strategy, bound, buckets)
    numbers, hidden, helpers = _of_window(config, window)
    on = config.on
    if config.self_join:
        parts = on.parts if isinstance(on, And) else (on,)
        on = And((*parts, Column("left", LEFT_ROLE), Column("right", RIGHT_ROLE)))
        hidden += [pa.field(LEFT_ROLE, pa.bool_()), pa.field(RIGHT_ROLE, pa.bool_())]
    if MATCHED[config.how]:
        columns = plan.layout.columns
        return _bound_for_rows(
            replace(config, on=on), (left, right), chosen, columns, hidden, numbers, helpers, buckets
        )
    select = config.select
    if select is None:
        shown = (left,) if config.aggregate is not None else (left, right)
        sides = zip(config.aliases, shown, strict=False)
        select = tuple(f"{alias}.{name}" for alias, schema in sides for name in schema.names)
    if config.output == "count" and (config.self_join or chosen.copies):
        chosen = chosen.for_counts(self_join=config.self_join)
        names = (AT_HOME,) if chosen.homes else (ROW_ID, AT_HOME)
        hidden += [pa.field(name, pa.bool_() if name == AT_HOME else pa.int64()) for name in names]
        helpers += [f"{alias}.{name}" for name in names for alias in config.aliases]
    schemas, bind = (left, right), replace(config, on=on, select=tuple(select))
    if rule is not None and not chosen.whole("left", buckets):
        return _bound_for_parts(bind, BoundJoin(plan, chosen, schemas, how), hidden, numbers, helpers)
    bind = replace(bind, select=(*select, *(name for name in helpers if name not in select)))
    plan = make_plan(bind, *(pa.schema([*schema, *hidden]) for schema in schemas), numbers=numbers, rule=rule)
    return BoundJoin(plan, chosen, schemas, how)


def _bound_for_parts(
    config: JoinSpec,
    bound: BoundJoin,
    hidden: list[pa.Field[Any]],
    numbers: tuple[str, str] | None,
    helpers: list[str],
) -> BoundJoin:
    """Bind a join whose left rows are answered by several buckets, which output what their answers need to be one.

    That is the id of a left row, and whether it is at home where each one is output; of nearest matches also the two
    values, and by what right rows arrived. Its plan is that of one bucket.
    """
    plan, (own, others) = bound.plan, config.aliases
    rule, columns, arrival = plan.rule, bound.columns, bound.arrival
    ids = [ROW_ID, BATCH]
    if not isinstance(rule, NearestRule) or rule.outer:
        ids.append(AT_HOME)
    hidden = [*hidden, *(pa.field(name, pa.bool_() if name == AT_HOME else pa.int64()) for name in ids)]
    helpers = [*helpers, *(f"{own}.{name}" for name in ids)]
    if isinstance(rule, NearestRule):
        columns, arrival = plan.layout.columns, _arrival(plan)
        helpers += [f"{own}.{rule.left}", f"{others}.{rule.right}", *(f"{others}.{name}" for name in arrival)]
        config = replace(config, suffix=APART)
    select = tuple(dict.fromkeys([*(config.select or ()), *helpers]))
    schemas = (pa.schema([*schema, *hidden]) for schema in bound.given)
    plan = make_plan(replace(config, select=select), *schemas, numbers=numbers, rule=rule)
    return bound._replace(plan=plan, columns=columns, scattered=True, arrival=arrival)


def _arrival(plan: Plan) -> tuple[str, ...]:
    """Return the right columns by which right rows arrived, in all buckets alike; the first one has no NULLs.

    Over time by micro-batch, event time and values, as in one bucket, see `slidejoin.spark.bucket.left_answers`.
    """
    times = plan.config.window.event_times("right")
    if not times:
        return (NUMBERS[0],)
    values = [field.name for field in plan.kept_schema("right") if not pa.types.is_nested(field.type)]
    return tuple(dict.fromkeys([BATCH, *times, *values]))


def _of_window(config: JoinSpec, window: Window) -> tuple[tuple[str, str] | None, list[pa.Field[Any]], list[str]]:
    """Return the columns of numbers in a count window, the hidden columns, and what the match time is made of."""
    if not window.has_watermark:
        return NUMBERS, [pa.field(name, pa.int64()) for name in NUMBERS], []
    if config.deferred:
        return None, [pa.field(OVER, OVER_TYPE)], [f"{config.aliases[0]}.{OVER}"]
    names = zip(config.aliases, SIDES, strict=True)
    return None, [], [f"{alias}.{name}" for alias, side in names for name in window.event_times(side)]


def strategy_for(config: JoinSpec, chosen: Strategy, requested: str, bound: BoundPredicate, buckets: int) -> Strategy:
    """Return the strategy for a join that has to know which rows match, or answers left rows from all of their pairs.

    ``auto`` has all partners of a left row in one bucket where those of several would have to be put together.
    """
    chosen = chosen.for_sides(MATCHED[config.how], self_join=config.self_join)
    if not (config.deferred or config.how == "left_semi") or chosen.whole("left", buckets):
        return chosen
    if requested != "auto" or chosen.spread > 1:
        return chosen
    what = "how='left_semi'" if not config.deferred else "keep=" if config.keep is not None else "output=Aggregate"
    one = choose_strategy("broadcast", bound, buckets)
    return replace(one, why=f"{chosen.why}; but broadcast has all partners of a left row in one bucket, for {what}")


def _bound_for_rows(
    config: JoinSpec,
    schemas: tuple[pa.Schema, pa.Schema],
    chosen: Strategy,
    columns: tuple[tuple[Side, str, str], ...],
    hidden: list[pa.Field[Any]],
    numbers: tuple[str, str] | None,
    times: list[str],
    buckets: int,
) -> BoundJoin:
    """Bind a join whose buckets know which rows have matched.

    Buckets keep the result's columns and those that say which row a copy is of. The operator outputs of a pair the
    places of its rows, for which a bucket keeps whether they have matched, and what else the result has of a pair.
    """
    how, alias = config.how, dict(zip(SIDES, config.aliases, strict=True))
    scattered = not all(chosen.whole(side, buckets) for side in MATCHED[how])
    names = [PLACE]
    if chosen.homes or (scattered and UNMATCHED[how]):
        names.append(AT_HOME)
    if scattered:
        names += [ROW_ID, BATCH]
    hidden = [*hidden, *(pa.field(name, pa.bool_() if name == AT_HOME else pa.int64()) for name in names)]
    own = [f"{alias[side]}.{name}" for side in MATCHED[how] for name in names]
    shown = [f"{alias[side]}.{name}" for side, name, _ in columns]
    config = replace(config, how="inner", suffix=APART, select=tuple(dict.fromkeys([*shown, *times, *own])))
    whole = (pa.schema([*schema, *hidden]) for schema in schemas)
    stored = make_plan(config, *whole, numbers=numbers)
    select = [] if how in ONE_SIDED else shown
    select += [] if how == "left_anti" else times
    select += [f"{alias[side]}.{PLACE}" for side in MATCHED[how]]
    config = replace(config, select=tuple(dict.fromkeys(select)))
    plan = make_plan(config, stored.kept_schema("left"), stored.kept_schema("right"), numbers=numbers, everything=True)
    return BoundJoin(plan, chosen, schemas, how, columns, scattered)


def schema_of(frame: DataFrame) -> pa.Schema:
    """Return the schema of a DataFrame in Arrow's types."""
    return arrow_schema(frame.schema)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return a schema of Spark in Arrow's types; null for a type that Arrow does not have."""
    return pa.schema([pa.field(field.name, _arrow_type(field.dataType)) for field in schema.fields])


def _arrow_type(kind: Any) -> pa.DataType:  # noqa: ANN401 - any of Spark's types
    try:
        return to_arrow_type(kind, **UTC)
    except Exception:  # noqa: BLE001 - whatever Spark says of a type that Arrow has not
        return pa.null()
