"""The operators upstream of an input: a watermark that its columns no longer show, and stateful operators.

They are read from Spark's own plan, or, with Spark Connect, from the plan that would be sent. That does not show what
is behind a named table, a view or a query in SQL text, which are taken for stateful operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from slidejoin.spark.job.checks import is_connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

__all__ = ["Upstream", "upstream_of"]

STATELESS = frozenset(
    {
        "AppendColumns", "AppendColumnsWithObject", "CTERelationDef", "CTERelationRef", "CoGroup", "CollectMetrics",
        "DeserializeToObject", "EventTimeWatermark", "Expand", "Filter", "FlatMapCoGroupsInArrow",
        "FlatMapCoGroupsInPandas", "FlatMapGroupsInArrow", "FlatMapGroupsInPandas", "FlatMapGroupsInR",
        "FlatMapGroupsInRWithArrow", "Generate", "GlobalLimit", "Join", "LimitAll", "LocalLimit", "LogicalRDD",
        "MapElements", "MapGroups", "MapInArrow", "MapInPandas", "MapPartitions", "MapPartitionsInR", "Offset",
        "Project", "RebalancePartitions", "Repartition", "RepartitionByExpression", "ResolvedHint", "Sample",
        "ScriptTransformation", "SequentialStreamingUnion", "SerializeFromObject", "Sort", "StreamingExecutionRelation",
        "StreamingRelation", "StreamingRelationV2", "SubqueryAlias", "TypedFilter", "Union", "View", "WithCTE",
    }
)  # fmt: skip
"""Nodes of Spark's analysed plans whose rows belong to the micro-batch that they are in. Any other node, such as
`Aggregate`, `Distinct`, `Deduplicate` or one that a later Spark adds, is taken for a stateful operator: then no row is
lost, and late ones may be stored for a micro-batch more. So is a node of two streams, except a union."""

UNIONS = frozenset({"SequentialStreamingUnion", "Union", "WithCTE"})

STATELESS_RELATIONS = frozenset(
    {
        "co_group_map", "collect_metrics", "drop", "fill_na", "drop_na", "filter", "group_map", "hint", "join", "limit",
        "map_partitions", "offset", "project", "repartition", "repartition_by_expression", "replace", "sample",
        "set_op", "sort", "subquery_alias", "to_df", "to_schema", "unpivot", "with_columns", "with_columns_renamed",
        "with_relations", "with_watermark",
    }
)  # fmt: skip
"""The same in Connect's plans."""

TABLES = frozenset({"cached_local_relation", "chunked_cached_local_relation", "local_relation", "range"})
"""Relations that are never streams."""


class Upstream(NamedTuple):
    """The operators upstream of an input.

    Attributes
    ----------
    marks : int
        How many ``withWatermark`` are upstream in sequence, whether its columns show that or not.
    stateful : bool
        Whether its rows are, or may be, the output of a stateful operator, such as an aggregation or a join of two
        streams.
    """

    marks: int
    stateful: bool


NOTHING = Upstream(0, stateful=False)
UNKNOWN = Upstream(0, stateful=True)


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
    stateful = name not in STATELESS or (name not in UNIONS and _streams(below) > 1)
    return _with(below, marks=name == "EventTimeWatermark", stateful=stateful)


def _of_relation(relation: Any) -> Upstream | None:  # noqa: ANN401 - a Relation of Connect's protocol
    """Return the operators of a relation and those below it; None if they are not streaming."""
    kind = relation.WhichOneof("rel_type")
    if kind is None or kind in TABLES:
        return None
    inner = getattr(relation, kind)
    below = [_of_relation(child) for child in _relations(inner)]
    if kind == "read":
        if inner.HasField("named_table"):
            return UNKNOWN
        return NOTHING if inner.is_streaming else None
    if not below:
        return UNKNOWN
    if not any(below):
        return None
    stateful = (
        kind not in STATELESS_RELATIONS
        or (kind == "group_map" and inner.HasField("transform_with_state_info"))
        or (kind == "set_op" and not inner.is_all)
        or (kind != "set_op" and _streams(below) > 1)
    )
    return _with(below, marks=kind == "with_watermark", stateful=stateful)


def _streams(below: list[Upstream | None]) -> int:
    return sum(one is not None for one in below)


def _with(below: list[Upstream | None], *, marks: bool, stateful: bool) -> Upstream:
    streams = [one for one in below if one is not None]
    return Upstream(
        max((one.marks for one in streams), default=0) + marks,
        stateful or any(one.stateful for one in streams),
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
