"""The named figures of a running join: one table, which every engine fills and everything that shows figures reads.

Names are those of Prometheus: all begin with ``slidejoin_``, counters end in ``_total``, and the unit stands before
that. Counters begin at 0 with the process, or where a snapshot or a checkpoint has left them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

__all__ = ["FIGURES", "Figure", "FigureKind", "figure_table", "figures_by_name"]

FigureKind: TypeAlias = Literal["counter", "gauge", "histogram"]


class Figure(NamedTuple):
    """A named figure.

    Attributes
    ----------
    name : str
        As Prometheus has it.
    kind : {"counter", "gauge", "histogram"}
        A counter only grows, a gauge goes both ways, a histogram counts values by their size.
    unit : str
        ``rows``, ``seconds``, ``bytes``, ``ratio``; empty for other counts.
    help : str
        What it says, in one sentence.
    labels : tuple of str
        The names of its labels.
    """

    name: str
    kind: FigureKind
    unit: str
    help: str
    labels: tuple[str, ...] = ()


FIGURES: tuple[Figure, ...] = (
    Figure(
        "slidejoin_rows_total", "counter", "rows",
        "Rows that arrived at the join, without late rows and those without event time.", ("side",),
    ),
    Figure("slidejoin_pairs_total", "counter", "rows", "Pairs that were emitted, or counted."),
    Figure(
        "slidejoin_late_rows_total", "counter", "rows",
        "Rows that arrived below the watermark.", ("side",),
    ),
    Figure("slidejoin_null_time_rows_total", "counter", "rows", "Rows without event time."),
    Figure(
        "slidejoin_unmatched_rows_total", "counter", "rows",
        "Rows that an outer or anti join emitted without a match.", ("side",),
    ),
    Figure("slidejoin_bad_rows_total", "counter", "rows", "Rows of a source that could not be read."),
    Figure("slidejoin_result_rows_total", "counter", "rows", "Rows that a job wrote to its sink."),
    Figure(
        "slidejoin_window_rows", "gauge", "rows", "Rows that the window of a side stores now, expired ones too.",
        ("side",),
    ),
    Figure("slidejoin_window_bytes", "gauge", "bytes", "Memory, or state on Spark, of all windows now."),
    Figure(
        "slidejoin_event_time_seconds", "gauge", "seconds", "Newest event time of a side, in Unix time.", ("side",)
    ),
    Figure(
        "slidejoin_watermark_seconds", "gauge", "seconds",
        "Newest event time of a side less the lateness, in Unix time.",
        ("side",),
    ),
    Figure(
        "slidejoin_watermark_held_by", "gauge", "", "1 for the side that holds back the watermark, 0 for the others.",
        ("side",),
    ),
    Figure(
        "slidejoin_lag_seconds", "gauge", "seconds", "Wall clock less the newest event time of a side.", ("side",)
    ),
    Figure(
        "slidejoin_step_seconds_total", "counter", "seconds", "Time in a step of the join, of all threads.", ("step",)
    ),
    Figure(
        "slidejoin_push_seconds", "histogram", "seconds",
        "Time of a push; of a micro-batch on Spark.",
    ),
    Figure("slidejoin_micro_batches_total", "counter", "", "Micro-batches that a job has committed."),
    Figure("slidejoin_bucket_rows", "gauge", "rows", "Rows in the state of a bucket on Spark now.", ("bucket",)),
    Figure(
        "slidejoin_bucket_skew", "gauge", "ratio",
        "Rows in the state of the largest bucket on Spark as a multiple of the mean.",
    ),
    Figure(
        "slidejoin_cache_rebuilds_total", "counter", "",
        "Segments of the state on Spark that were sorted again because a cache did not have them.",
    ),
    Figure("slidejoin_feed_rows", "gauge", "rows", "Rows that wait in the queue of a feed now."),
    Figure("slidejoin_feed_capacity_rows", "gauge", "rows", "Rows that the queue of a feed has room for."),
    Figure("slidejoin_feed_dropped_rows_total", "counter", "rows", "Rows that a feed dropped.", ("side",)),
    Figure(
        "slidejoin_index_changes_total", "counter", "",
        "How often the index was replaced by another one, or the order of probing by another one.",
    ),
)  # fmt: skip
"""All figures, in the order in which they are shown."""


def figures_by_name() -> dict[str, Figure]:
    """Return all figures by their names.

    Examples
    --------
    >>> figures_by_name()["slidejoin_pairs_total"].kind
    'counter'
    """
    return {figure.name: figure for figure in FIGURES}


def figure_table() -> str:
    """Return the figures as the table of the documentation, in Markdown.

    Examples
    --------
    >>> print(figure_table().splitlines()[2])
    | `slidejoin_rows_total` | counter | `side` | Rows that arrived at the join, without late rows and those without event time. |
    """  # noqa: E501 - a row of the table is a line
    lines = ["| figure | kind | labels | what it says |", "| --- | --- | --- | --- |"]
    for figure in FIGURES:
        labels = ", ".join(f"`{label}`" for label in figure.labels)
        lines.append(f"| `{figure.name}` | {figure.kind} | {labels} | {figure.help} |")
    return "\n".join(lines)
