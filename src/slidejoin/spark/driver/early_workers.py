"""Python workers that start, and load what a join needs, while its query is being prepared."""

from __future__ import annotations

import logging
import uuid
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from slidejoin.runtime.threads import cores
from slidejoin.spark.job.interpreter import workers_run_this_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["workers_starting"]

log = logging.getLogger(__name__)

CANCELLING = 0.2
"""Seconds between two attempts to cancel the job that starts workers."""


@contextmanager
def workers_starting(session: SparkSession, cache: str | None) -> Iterator[None]:
    """Start the Python workers of a local session meanwhile, one for each core, and let them load what a join needs.

    The first micro-batch of a query would wait a second for that. If it fails, the query tells why.
    """
    context, over, tag = session.sparkContext, Event(), f"slidejoin-workers-{uuid.uuid4().hex}"

    def start() -> None:
        count = min(context.defaultParallelism, cores())
        try:
            context.addJobTag(tag)
            # As for a join's functions, or it would get other workers.
            with workers_run_this_python(session):
                rows = session.range(0, count, 1, count).mapInArrow(_loading(cache), "id long")
            if not over.is_set():
                rows.write.format("noop").mode("overwrite").save()
        except Exception:
            log.debug("Python workers could not be started ahead", exc_info=True)

    thread = Thread(target=start, name="slidejoin-workers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        while thread.is_alive():
            # It may not have begun yet.
            context.cancelJobsWithTag(tag)
            thread.join(CANCELLING)


def _loading(cache: str | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for workers that loads what a join needs; nested, so that it is pickled by value."""

    def loading(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from slidejoin.spark.bucket import join_bucket  # noqa: F401 - to be loaded
        from slidejoin.spark.job.workers import ready

        ready(cache)
        yield from batches

    return loading
