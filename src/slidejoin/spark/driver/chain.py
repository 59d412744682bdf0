"""A join of many streams as a chain of joins of two, where no exchange brings all rows of a combination together.

::

    a ─┐
       ├─▶ link ─▶ (a, b) ─┐
    b ─┘                   ├─▶ link ─▶ (a, b, c) ─▶ result
    c ─────────────────────┘

Each link joins the combinations so far with one more stream. Its left rows are *partial combinations*, whose event time
is their match time, the largest of their rows'.

**Scope.** The law: for every row of a combination the largest event time in it, less the row's own, is at most the
length of the row's stream. Let M be the match time of a partial combination, t the time of the new row, L its length.

- M - t <= L is the window of the link's right side.
- t - t_i <= L_i, for each row i of the partial combination, is a part of the link's predicate. If t <= M, it holds
  where M - t_i <= L_i does, which earlier links have checked.
- From the second it follows that t - M <= the largest L_i. That is the window of the left side: it says how long
  partial combinations are stored, and leaves out nothing that the predicate would let pass.

**Lateness.** A query has one watermark, the smallest of all inputs', and every link judges the rows of its input by the
watermark with which the micro-batch began. So each row is late or not as in one operator. A partial combination is
produced in the micro-batch in which its last row arrives. That row was in time, so that M is not below the watermark:
no link takes a partial combination for late. A link keeps rows until the watermark passes their time plus the window,
and a row that is not late is not below the watermark: whatever it can still match is there. In which order rows arrive
within a micro-batch does not matter, because the scope depends on event times alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from slidejoin.predicate.expression.expr import And, Arithmetic, Column, Compare, Literal, columns_of
from slidejoin.predicate.expression.streams import placed, stream_and_name
from slidejoin.spark.driver.stream_join import stream_join
from slidejoin.spark.job.column_names import quoted
from slidejoin.spark.job.join_spec import MATCH_TIME
from slidejoin.spark.job.strategies import choose_strategy
from slidejoin.spec.window import Span, TimeWindow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from slidejoin.plan.multiway.multi_plan import MultiPlan
    from slidejoin.predicate import Expr
    from slidejoin.spark.job.strategies import Strategy

__all__ = ["ChainLink", "chain_of", "chained"]

COSTS = {"hash": 1, "cell": 4}
COMPARED, CROSSED = 64, 4096
"""What a link costs compared with others, roughly: rows sent, and then rows compared."""

MICROSECOND = 1_000


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A join of the combinations so far with one more stream.

    Attributes
    ----------
    bound : tuple of int
        The streams that are joined already, in the order in which they were; the first link has one.
    stream : int
        The one that is added.
    conjuncts : tuple of int
        The parts of the predicate that are checked here, those that no earlier link could check.
    strategy : Strategy
        How rows are routed.
    """

    bound: tuple[int, ...]
    stream: int
    conjuncts: tuple[int, ...]
    strategy: Strategy

    @property
    def streams(self) -> tuple[int, ...]:
        """The streams that are joined after this link."""
        return (*self.bound, self.stream)


def chain_of(plan: MultiPlan, buckets: int) -> tuple[ChainLink, ...]:
    """Return the links in the order that costs least: equalities before bands, and cross products last.

    From each stream the cheapest link is added, again and again; of these chains the cheapest is taken, among equal
    ones that whose first links are cheaper, then that of the streams declared first. The order is a function of the
    join alone, as a checkpoint belongs to it.
    """
    best: tuple[tuple[int, list[int]], tuple[ChainLink, ...]] | None = None
    for first in plan.streams:
        links: list[ChainLink] = []
        prices: list[int] = []
        bound: tuple[int, ...] = (first,)
        while len(bound) < len(plan.streams):
            choices = [_link(plan, bound, stream, buckets) for stream in plan.streams if stream not in bound]
            price, link = min(choices, key=lambda one: one[0])
            links.append(link)
            prices.append(price)
            bound = link.streams
        cost = sum(prices), prices
        if best is None or cost < best[0]:
            best = cost, tuple(links)
    assert best is not None  # noqa: S101 - there are two streams at least
    return best[1]


def _link(plan: MultiPlan, bound: tuple[int, ...], stream: int, buckets: int) -> tuple[int, ChainLink]:
    numbers = plan.links(stream, frozenset(bound))
    if len(bound) == 1:  # the first link checks the parts on its first stream alone, too
        numbers = tuple(sorted({*numbers, *plan.links(bound[0], frozenset())}))
    strategy = choose_strategy("auto", plan.step(stream, frozenset(bound)).plan.bound, buckets)
    cost = COSTS.get(strategy.name, COMPARED if plan.linked(stream, frozenset(bound)) else CROSSED)
    return cost, ChainLink(bound, stream, numbers, strategy)


def chained(
    frames: Mapping[str, DataFrame], plan: MultiPlan, links: Sequence[ChainLink], names: Sequence[str], partitions: int
) -> DataFrame:
    """Return the chain over frames that have their watermarks, with the result's columns under these names."""
    streams = plan.spec.streams
    joined = _wide(frames[streams[links[0].bound[0]]], plan, links[0].bound[0])
    for place, link in enumerate(links):
        joined = stream_join(
            joined,
            _wide(frames[streams[link.stream]], plan, link.stream),
            on=_predicate(plan, link),
            window=_window(plan, link),
            select=_needed(plan, links, place),
            partitions=partitions,
        )
    columns = [
        F.col(quoted(_wide_name(plan, stream, name))).alias(out)
        for (stream, name, _), out in zip(plan.layout.columns, names, strict=True)
    ]
    return joined.select(*columns, MATCH_TIME)


def _wide(frame: DataFrame, plan: MultiPlan, stream: int) -> DataFrame:
    """Return the columns of a stream that the join needs, as columns of a wide row; an alias keeps the watermark."""
    return frame.select(*(F.col(quoted(one)).alias(_wide_name(plan, stream, one)) for one in plan.stored[stream].names))


def _wide_name(plan: MultiPlan, stream: int, name: str) -> str:
    """Return the name of a stream's column in partial combinations, without dots, which Spark takes for fields."""
    own = f"#{plan.schemas[stream].names.index(name)}" if "." in name or "`" in name else name
    return f"{plan.spec.streams[stream]}:{own}"


def _time(plan: MultiPlan, stream: int) -> str:
    window = cast("TimeWindow", plan.spec.windows[stream])
    return _wide_name(plan, stream, window.right_on)


def _length(plan: MultiPlan, stream: int) -> Span:
    """Return how long rows of a stream stay; lengths of event times that are timestamps are spans, or 0."""
    length = plan.spec.windows[stream].right
    return length if isinstance(length, Span) else Span(0)


def _window(plan: MultiPlan, link: ChainLink) -> TimeWindow:
    left_on = _time(plan, link.bound[0]) if len(link.bound) == 1 else MATCH_TIME
    longest = max((_length(plan, stream) for stream in link.bound), key=lambda length: length.nanoseconds)
    return TimeWindow(
        left=longest, right=_length(plan, link.stream), left_on=left_on, right_on=_time(plan, link.stream)
    )


def _predicate(plan: MultiPlan, link: ChainLink) -> Expr:
    streams = plan.spec.streams
    name = streams[link.stream]

    def place(stream: str, column: str) -> Column:
        return Column("right" if stream == name else "left", _wide_name(plan, streams.index(stream), column))

    parts = [placed(plan.conjuncts[number].expr, place) for number in link.conjuncts]
    if plan.never and len(link.bound) == 1:
        parts.append(Literal(value=False))
    if len(link.bound) > 1:
        parts += [_in_scope(plan, stream, link.stream) for stream in link.bound]
    if not parts:
        return Literal(value=True)
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _in_scope(plan: MultiPlan, earlier: int, added: int) -> Expr:
    """Return the condition that the added row is at most that much later than a row of the partial combination."""
    later = Arithmetic("-", Column("right", _time(plan, added)), Column("left", _time(plan, earlier)))
    # Differences of event times are whole microseconds.
    microseconds = _length(plan, earlier).nanoseconds // MICROSECOND
    length = min(microseconds, timedelta.max // timedelta(microseconds=1))
    return Compare("<=", later, Literal(timedelta(microseconds=length)))


def _needed(plan: MultiPlan, links: Sequence[ChainLink], place: int) -> list[str]:
    """Return the columns that are output, or that later links compare."""
    link, later = links[place], links[place + 1 :]
    later_columns = [columns_of(plan.conjuncts[number].expr, "left") for one in later for number in one.conjuncts]
    compared = {stream_and_name(wide) for columns in later_columns for wide in columns}
    chosen = []
    for stream in link.streams:
        own = {*plan.layout.names(stream)}
        if later:
            own.add(cast("TimeWindow", plan.spec.windows[stream]).right_on)
        name, alias = plan.spec.streams[stream], "r" if stream == link.stream else "l"
        chosen += [
            f"{alias}.{_wide_name(plan, stream, column)}"
            for column in plan.stored[stream].names
            if column in own or (name, column) in compared
        ]
    return chosen
