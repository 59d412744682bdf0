"""A job before it runs: what is wrong with it, and its sources and its sink in words.

What is wrong is said before Spark starts, as far as the file and the sources show it. Only what Spark would certainly
refuse is refused here; whatever is not known for sure is left to Spark.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slidejoin.cli.advice import in_toml
from slidejoin.cli.job import FILES
from slidejoin.cli.kafka_keys import bad_rows_in_words, topics_in_words
from slidejoin.cli.lake_tables import LAKES
from slidejoin.cli.source_columns import columns_of_source, has_column
from slidejoin.errors import ConfigError, SlideJoinError, nearest
from slidejoin.predicate import columns_of
from slidejoin.sides import SIDES
from slidejoin.spec.join_spec import make_join_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.cli.job import Job, Join, Sink, Source
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["check_job", "shown_sink", "shown_source"]


def check_job(job: Job) -> JoinSpec:
    """Check a job without Spark, and return its join.

    Raises
    ------
    ConfigError
        For a missing folder, a schema or files that cannot be read, a column that is missing, and options of the join
        that cannot be used. The message names the key.
    """
    columns = {name: columns_of_source(source, job.session) for name, source in job.sources.items()}
    join = job.join
    try:
        spec = make_join_spec(
            on=join.on, window=join.window, how=join.how, output=join.output, order="none", select=join.select,
            suffix=join.suffix, self_join=join.self_join, aliases=join.aliases, threads=1, late=join.late,
            keep=join.keep, algorithm=join.algorithm,
        )  # fmt: skip
    except (SlideJoinError, ValueError) as error:
        msg = f"join: {in_toml(str(error))}"
        raise ConfigError(msg) from error
    for side, name in zip(SIDES, (join.left, join.right or join.left), strict=True):
        known = columns[name]
        if known is None:
            continue
        for key, column in _named(join, spec, side):
            if not has_column(known, column):
                msg = (
                    f"{key}: the {side} source {name!r} has no column {column!r}; it has {', '.join(known)}."
                    f"{nearest(column, known)}"
                )
                raise ConfigError(msg)
    return spec


def _named(join: Join, spec: JoinSpec, side: Side) -> Iterator[tuple[str, str]]:
    """Yield the columns of a side that the job names, with the keys that do."""
    for name in columns_of(spec.on, side):
        yield "join.on", name
    for name in join.window.event_times(side):
        yield "join.window", name
    if join.order_by is not None:
        yield "join.window.order_by", join.order_by
    if join.keep is not None:
        yield "join.keep", join.keep.names(join.aliases)[SIDES.index(side)]
    alias = join.aliases[SIDES.index(side)]
    for entry in join.select or ():
        # Plain words; other entries may be written in other ways.
        if re.fullmatch(rf"{re.escape(alias)}\.\w+", entry):
            yield "join.select", entry.removeprefix(f"{alias}.")


def shown_source(source: Source) -> str:
    """Return a source in words."""
    kind = "streaming" if source.stream else "static"
    again = "" if source.refresh is None else f", read again every {source.refresh}"
    return f"source {source.name}: {kind} {_place(source)}{again}{bad_rows_in_words(source)}"


def _place(source: Source) -> str:
    """Return what a source reads, in words."""
    if source.kafka is not None:
        return f"kafka, {topics_in_words(source.kafka)}"
    rows = "files" if source.format in FILES else "rows, as Spark's format of that name reads them"
    rows = "table" if source.format in LAKES else rows
    return f"{source.format} {rows}{'' if source.path is None else f', {source.path}'}"


def shown_sink(sink: Sink) -> str:
    """Return a sink in words."""
    trigger = "once, over all that is there" if sink.interval is None else f"every {sink.interval}"
    trigger += ", in one micro-batch" if sink.once else ""
    trigger += "" if sink.stop_after is None else f"; stops after {sink.stop_after}"
    where = f", {sink.path}" if sink.path else ""
    if sink.kafka is not None:
        where = f", {topics_in_words(sink.kafka)}"
    return f"{sink.format}{where}; {trigger}"
