"""The specification of a join of many streams as one operator, for its tasks; see `slidejoin.spark.job.join_spec`."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from slidejoin.plan.multiway.multi_plan import MultiPlan, make_multi_plan
from slidejoin.predicate.expression.text import wide_sql
from slidejoin.spark.job.join_spec import SparkJoinSpec, window_to_state
from slidejoin.spark.job.key_classes import KeyClass, key_terms

if TYPE_CHECKING:
    from slidejoin.predicate.ranges.terms import RangeTerm
    from slidejoin.spec.multi_spec import MultiSpec

__all__ = ["StreamsSpec", "join_spec_of", "routing_terms", "streams_plan_of"]


@dataclass(frozen=True, slots=True, eq=False)
class StreamsSpec:
    """One join of many streams, ready to be sent to executors.

    Attributes
    ----------
    config : MultiSpec
        The join of each bucket, with one thread; `select` names every output column of the operator.
    schemas : tuple of pyarrow.Schema
        Of the streams.
    classes : tuple of KeyClass
        The equal keys by which rows are routed; empty for count windows, which one bucket counts.
    buckets : tuple of int
        Ids of the buckets.
    names, places, times
        As in `SparkJoinSpec`: the result's columns, their places in the operator's output, those of the event times.
    streaming, cache, bucket_bytes, observed
        As in `SparkJoinSpec`.
    order_by : str or None
        The column that rows of count windows arrive by; None for time windows.
    derived : frozenset of str
        Streams whose rows come out of another stateful operator, see `slidejoin.spark.bucket.micro_batch`.
    nested
        As in `SparkJoinSpec`.
    """

    config: MultiSpec
    schemas: tuple[pa.Schema, ...]
    classes: tuple[KeyClass, ...]
    buckets: tuple[int, ...]
    names: tuple[str, ...]
    places: tuple[int, ...]
    times: tuple[int, ...]
    streaming: bool
    cache: str | None
    order_by: str | None = None
    bucket_bytes: int | None = None
    observed: bool = False
    emits_late: ClassVar[bool] = False
    derived: frozenset[str] = frozenset()
    nested: pa.Schema | None = None

    @property
    def streams(self) -> tuple[str, ...]:
        """Their names."""
        return self.config.streams

    @property
    def numbered(self) -> bool:
        """Whether the windows are counted in rows, so that there is no watermark."""
        return self.config.counted

    @property
    def has_timers(self) -> bool:
        """Whether a bucket may have to be called at a time: rows are output with others alone."""
        return False

    @property
    def blocks(self) -> bool:
        """Whether buckets output blocks."""
        return False

    @property
    def partial(self) -> bool:
        """Whether a row's count is the sum of several buckets: each row goes to one."""
        return False

    def packed(self, stream: int) -> pa.Schema:
        """Return the schema of the blocks of a stream: the columns that are compared or output, and the order."""
        fields = list(streams_plan_of(self).stored[stream])
        if self.order_by is not None and self.order_by not in {field.name for field in fields}:
            fields.append(self.schemas[stream].field(self.order_by))
        return pa.schema(fields)

    def described(self) -> dict[str, Any]:
        """Return everything that must be the same for a state to be reused, as plain JSON values."""
        stored = streams_plan_of(self).stored
        described: dict[str, Any] = {
            "on": wide_sql(self.config.on, whole=True),
            "streams": ", ".join(self.streams),
            "order_by": self.order_by,
            "output": self.config.output,
            "key": " and ".join(map(str, self.classes)) or None,
            "partitions": len(self.buckets),
        }
        for number, (stream, window) in enumerate(zip(self.streams, self.config.windows, strict=True)):
            described[f"window of {stream}"] = window_to_state(window)
            described[f"columns of {stream}"] = ", ".join(f"{field.name} {field.type}" for field in stored[number])
        return described


@lru_cache(maxsize=16)
def join_spec_of(pickled: bytes) -> SparkJoinSpec | StreamsSpec:
    """Return the join that a task was sent, the same object in all tasks of a process."""
    spec: SparkJoinSpec | StreamsSpec = pickle.loads(pickled)  # noqa: S301 - written by this job's own driver, as all of its tasks are
    return spec


@lru_cache(maxsize=16)
def streams_plan_of(spec: StreamsSpec) -> MultiPlan:
    """Bind the join to its schemas, once in each process."""
    return make_multi_plan(spec.config, spec.schemas)


@lru_cache(maxsize=16)
def routing_terms(spec: StreamsSpec) -> tuple[tuple[RangeTerm, ...], ...]:
    """Return for each class the equalities by which rows are routed, see `key_terms`."""
    keys = []
    for one in spec.classes:
        terms = key_terms(one, spec.schemas)
        if terms is None:
            msg = f"the keys of {one} are of different kinds"
            raise TypeError(msg)
        keys.append(terms)
    return tuple(keys)
