"""The specification of a join, checked as far as possible without schemas."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any

from slidejoin.arguments import at_least_one, is_unicode, one_of, selection, shown, truth_value
from slidejoin.errors import ArgumentError, ArgumentTypeError, SlideJoinError, StateError
from slidejoin.predicate import as_predicate, check_aliases, from_json, to_json, to_sql
from slidejoin.spec.aggregate import Aggregate
from slidejoin.spec.join_options import JOIN_TYPES, LATE, ORDERS, OUTPUTS
from slidejoin.spec.nearest import Nearest
from slidejoin.spec.options import ALWAYS, KNOWN_STRUCTURES, Options
from slidejoin.spec.topologies import Shared, topology_of
from slidejoin.spec.window import CountWindow, Span, TimeWindow, Window, length_of, window_from_json
from slidejoin.stored import StoredValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slidejoin.predicate import Expr, Expression
    from slidejoin.sides import Side
    from slidejoin.spec.join_options import JoinType, Late, Order, Output
    from slidejoin.spec.topologies import Topology

__all__ = ["JoinSpec", "algorithm_of", "algorithms", "check_topology", "make_join_spec", "wall_clock_of"]


def algorithms() -> tuple[str, ...]:
    """Return the names that ``algorithm=`` takes.

    Examples
    --------
    >>> "bi_sort" in algorithms()
    True
    """
    return (*ALWAYS, *KNOWN_STRUCTURES.known())


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSpec:
    """A join without its schemas; see `slidejoin.StreamJoin` for what each field means.

    Attributes
    ----------
    aggregate : Aggregate or None
        What was given as `output`, which is "pairs" then.
    fold_names : bool
        Whether names of columns that differ by case alone are the same, as on Spark.
    """

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
    late: Late = "drop"
    idle_timeout: Span | None = None
    wall_clock: Callable[[], float] | None = None
    keep: Nearest | None = None
    aggregate: Aggregate | None = None
    fold_names: bool = False

    @property
    def deferred(self) -> bool:
        """Whether a left row is emitted once, as it expires: its nearest matches, or the aggregates of all."""
        return self.keep is not None or self.aggregate is not None

    def read_of(self, side: Side) -> list[str]:
        """Return the columns of a side that nearest matches or aggregates read."""
        names = [] if self.keep is None else [self.keep.names(self.aliases)[side == "right"]]
        if self.aggregate is not None and side == "right":
            columns = [one.column_name(self.aliases) for one in self.aggregate.functions]
            names += [name for name in columns if name is not None]
        return names

    def shown(self, name: str = "StreamJoin") -> str:
        """Return the call that makes such a join, without what is left as it is by default."""
        given = [f"on={to_sql(self.on, self.aliases)!r}"]
        if self.window.expires:
            given.append(f"window={self.window!r}")
        for option in fields(self):
            value: object = getattr(self, option.name)
            if (
                option.name in {"options", "wall_clock", "fold_names"}
                or option.default is MISSING
                or value == option.default
            ):
                continue
            if option.name == "algorithm" and self.options is not None:
                value = self.options
            if isinstance(value, (tuple, Span)):
                value = str(value) if isinstance(value, Span) else list(value)
            given.append(f"{'output' if option.name == 'aggregate' else option.name}={value!r}")
        return f"{name}({', '.join(given)})"

    def to_json(self) -> dict[str, Any]:
        """Return everything that decides the results, as plain JSON values: none of what only decides the speed."""
        plain: dict[str, Any] = {
            "on": to_json(self.on),
            "window": self.window.to_json(),
            "how": self.how,
            "output": self.output,
            "order": self.order,
            "select": None if self.select is None else list(self.select),
            "suffix": self.suffix,
            "self_join": self.self_join,
            "aliases": list(self.aliases),
        }
        # Left out by default, so that states say the same as before there were these options.
        if self.late != "drop":
            plain["late"] = self.late
        if self.idle_timeout is not None:
            plain["idle_timeout"] = self.idle_timeout.nanoseconds
        if self.keep is not None:
            plain["keep"] = self.keep.to_json()
        if self.aggregate is not None:
            plain["aggregate"] = self.aggregate.to_json()
        return plain

    @staticmethod
    def from_json(data: object, **others: Any) -> JoinSpec:
        """Read what `to_json` wrote; `others` are fields that it leaves out.

        Raises
        ------
        StateError
            If something is missing or of another kind.
        """
        stored = StoredValue(data, "the join of the state")
        one, two = (alias.text() for alias in stored["aliases"].items(2, 2))
        idle, late = stored.get("idle_timeout"), stored.get("late")
        keep, aggregate = stored.get("keep"), stored.get("aggregate")
        spec = JoinSpec(
            on=from_json(stored["on"].value),
            window=window_from_json(stored["window"].value),
            how=stored["how"].one_of(JOIN_TYPES),
            output=stored["output"].one_of(OUTPUTS),
            order=stored["order"].one_of(ORDERS),
            select=stored["select"].or_none(_texts),
            suffix=stored["suffix"].text(),
            self_join=stored["self_join"].flag(),
            aliases=(one, two),
            late="drop" if late is None else late.one_of(LATE),
            idle_timeout=None if idle is None else Span(idle.whole(1)),
            keep=None if keep is None else Nearest.from_json(keep.value),
            aggregate=None if aggregate is None else Aggregate.from_json(aggregate.value),
            **others,
        )
        try:
            _check_together(spec)
        except SlideJoinError as error:
            msg = f"the state describes a join that there is not: {error}"
            raise StateError(msg) from error
        return spec


def _texts(stored: StoredValue) -> tuple[str, ...]:
    return tuple(one.text() for one in stored)


def _check_together(spec: JoinSpec) -> None:
    """Check that a join with all of this can be made: each may be right alone."""
    make_join_spec(
        on=spec.on,
        window=spec.window,
        how=spec.how,
        output=spec.output if spec.aggregate is None else spec.aggregate,
        order=spec.order,
        select=spec.select,
        suffix=spec.suffix,
        self_join=spec.self_join,
        aliases=spec.aliases,
        late=spec.late,
        idle_timeout=spec.idle_timeout,
        keep=spec.keep,
    )


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
    late: object = "drop",
    idle_timeout: object = None,
    wall_clock: object = None,
    keep: object = None,
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
    aggregate, output = (output, "pairs") if isinstance(output, Aggregate) else (None, output)
    how = one_of("how", how, JOIN_TYPES)
    if keep is not None or aggregate is not None:
        _check_deferred_type(how, keep, aggregate)
    self_join = truth_value("self_join", self_join)
    if not isinstance(suffix, str):
        msg = f"suffix must be text such as '_right', got {shown(suffix)}"
        raise ArgumentTypeError(msg)
    if not is_unicode(suffix):
        msg = f"suffix must be Unicode text such as '_right', got {suffix!a}"
        raise ArgumentError(msg)
    chosen = selection(select, aliases)
    output = one_of("output", output, OUTPUTS)
    if output == "positions" and chosen is not None:
        msg = (
            f"select={list(chosen)!r} chooses columns, but output='positions' has only its own two, left and right; "
            "leave select out"
        )
        raise ArgumentError(msg)
    for left_on, right_on in zip(window.event_times("left"), window.event_times("right"), strict=True):
        if self_join and left_on != right_on:
            msg = (
                f"a self-join has one event-time column; got left_on={left_on!r}, right_on={right_on!r}; write "
                "TimeWindow(…, on='column')"
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
    if keep is not None or aggregate is not None:
        _check_deferred(keep, aggregate, output, (aliases[0], aliases[1]))
    made = JoinSpec(
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
        late=_late(late, window),
        idle_timeout=_idle_timeout(idle_timeout, window, self_join=self_join),
        wall_clock=wall_clock_of(wall_clock),
        keep=keep if isinstance(keep, Nearest) else None,
        aggregate=aggregate,
    )
    check_topology(made)
    return made


def check_topology(config: JoinSpec) -> None:
    """Refuse a topology that does not go with the rest of a join.

    Raises
    ------
    ArgumentError
        If it does not.
    """
    topology = config.topology
    if topology is None:
        return
    topology.check_join(config.order, config.output, config.how)
    if config.deferred and not isinstance(topology, Shared):
        what = "keep=" if config.keep is not None else "output=sj.Aggregate"
        msg = f"topology={topology.name!r} spreads pairs over cores as they arrive; {what} needs topology='auto'"
        raise ArgumentError(msg)


def _late(given: object, window: Window) -> Late:
    """Check what becomes of late rows."""
    late = one_of("late", given, LATE)
    if late == "emit" and not window.has_watermark:
        msg = f"late='emit' is for a TimeWindow; rows of {window!r} are never late. Leave late out"
        raise ArgumentError(msg)
    return late


def _idle_timeout(given: Any, window: Window, *, self_join: bool) -> Span | None:  # noqa: ANN401 - what a user gave
    """Check how long a side may be silent before it is idle, by the wall clock.

    Raises
    ------
    ArgumentError
        For no length of time, or a join whose watermark no side can hold back.
    """
    if given is None:
        return None
    if self_join or not window.has_watermark:
        why = "a self-join has one stream" if self_join else f"{window!r} has no watermark"
        msg = f"idle_timeout={shown(given)}: {why}, which no other side holds back. Leave idle_timeout out"
        raise ArgumentError(msg)
    length = length_of(given, "idle_timeout")
    if not isinstance(length, Span) or not length.nanoseconds:
        msg = (
            f"idle_timeout is a time by the wall clock, longer than 0, such as '30 seconds' or a timedelta; got "
            f"{shown(given)}"
        )
        raise (ArgumentError if isinstance(length, Span) else ArgumentTypeError)(msg)
    return length


def wall_clock_of(given: object) -> Callable[[], float] | None:
    """Check a function that reads the wall clock.

    Raises
    ------
    ArgumentTypeError
        For anything that cannot be called.
    """
    if given is not None and not callable(given):
        msg = f"wall_clock must be a function that returns seconds, such as time.monotonic; got {shown(given)}"
        raise ArgumentTypeError(msg)
    return given


def _check_deferred(keep: object, aggregate: Aggregate | None, output: str, aliases: tuple[str, str]) -> None:
    """Refuse what does not go together with nearest matches or aggregates."""
    if keep is not None and not isinstance(keep, Nearest):
        msg = f"keep must be sj.Nearest('l.ts', 'r.ts'), got {shown(keep)}"
        raise ArgumentTypeError(msg)
    if keep is not None and aggregate is not None:
        msg = (
            f"keep={keep!r} chooses pairs and output={aggregate!r} sums up all of them; give one of the two. Nearest "
            "matches can be aggregated from what the join emits"
        )
        raise ArgumentError(msg)
    if output == "count":
        msg = (
            f"output='count' counts the pairs that each arrival produces, and keep={keep!r} emits pairs only as "
            "their left row leaves; use output='pairs' or 'positions', or output=sj.Aggregate(n='count')"
        )
        raise ArgumentError(msg)
    if keep is not None:
        keep.names(aliases)
    for one in aggregate.functions if aggregate is not None else ():
        one.column_name(aliases)


def _check_deferred_type(how: JoinType, keep: object, aggregate: Aggregate | None) -> None:
    """Refuse join types that do not go together with nearest matches or aggregates."""
    if how in ("inner", "left"):
        return
    if aggregate is not None:
        msg = (
            f"how={how!r} does not go with output={aggregate!r}, which emits each left row once, with or without "
            "pairs; leave how out"
        )
    else:
        msg = f"how={how!r} does not go with keep={shown(keep)}; use how='inner' or how='left'"
    raise ArgumentError(msg)


def algorithm_of(value: object) -> tuple[str, Options | None]:
    """Return the name of an algorithm, and its options if these were given instead of the name.

    Raises
    ------
    ArgumentError
        For anything else.
    """
    if isinstance(value, Options):
        return value.name, value
    return (value if isinstance(value, str) and value in ALWAYS else one_of("algorithm", value, algorithms())), None
