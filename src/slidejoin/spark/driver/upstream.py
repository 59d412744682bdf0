"""The operators upstream of an input: a watermark that its columns no longer show, and stateful operators.

They are read from Spark's own plan, or, with Spark Connect, from the plan that would be sent, which does not show what
is behind a view or a query in SQL text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from slidejoin.spark.job.checks import is_connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

__all__ = ["Upstream", "upstream_of"]

STATEFUL = frozenset(
    {
        "Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState", "TransformWithState", "TransformWithStateInPandas", "TransformWithStateInPySpark",
    }
)  # fmt: skip
"""Nodes of Spark's logical plans; besides them joins of two streams."""

RELATIONS = frozenset({"aggregate", "deduplicate", "apply_in_pandas_with_state"})
"""The same in Connect's plans."""


class Upstream(NamedTuple):
    """The operators upstream of an input.

    Attributes
    ----------
    marks : int
        How many ``withWatermark`` are upstream in sequence, whether its columns show that or not.
    stateful : bool
        Whether its rows are the output of a stateful operator, such as an aggregation or a join of two streams.
    """

    marks: int
    stateful: bool


NOTHING = Upstream(0, stateful=False)


def upstream_of(frame: DataFrame) -> Upstream:
    """Look at the plan of a streaming DataFrame."""
    if is_connect(frame.sparkSession):
        plan: Any = frame._plan  # noqa: SLF001 - there is no public way to the plan
        return _of_relation(plan.to_proto(frame.sparkSession.client).root) or NOTHING
    return _of_node(frame._jdf.queryExecution().analyzed()) or NOTHING  # noqa: SLF001 - as above


def _of_node(node: Any) -> Upstream | None:  # noqa: ANN401 - a LogicalPlan in the Java machine
    """Return the operators of a node and those below it; None if they are not streaming."""
    if not node.isStreaming():
        return None
    children = node.children()
    below = [_of_node(children.apply(place)) for place in range(children.size())]
    name = str(node.nodeName())
    return _with(below, marks=name == "EventTimeWatermark", stateful=name in STATEFUL, joins=name == "Join")


def _of_relation(relation: Any) -> Upstream | None:  # noqa: ANN401 - a Relation of Connect's protocol
    """Return the operators of a relation and those below it; None if they are not streaming."""
    kind = relation.WhichOneof("rel_type")
    if kind is None:
        return None
    inner = getattr(relation, kind)
    below = [_of_relation(child) for child in _relations(inner)]
    if kind == "read":
        return NOTHING if inner.is_streaming else None
    if not any(below):
        return None
    stateful = kind in RELATIONS or (kind == "group_map" and inner.HasField("transform_with_state_info"))
    return _with(below, marks=kind == "with_watermark", stateful=stateful, joins=kind == "join")


def _with(below: list[Upstream | None], *, marks: bool, stateful: bool, joins: bool) -> Upstream:
    streams = [one for one in below if one is not None]
    return Upstream(
        max((one.marks for one in streams), default=0) + marks,
        stateful or (joins and len(streams) > 1) or any(one.stateful for one in streams),
    )


def _relations(message: Any) -> Iterator[Any]:  # noqa: ANN401 - any message of Connect's protocol
    """Yield the relations that a message holds, without those inside of them."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for one in [value] if hasattr(value, "ListFields") else value:
            if getattr(one, "DESCRIPTOR", None) is None:
                continue
            if one.DESCRIPTOR.full_name == "spark.connect.Relation":
                yield one
            else:
                yield from _relations(one)
