"""Counters of a `Feed`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from slidejoin.display import figures_html, figures_text

__all__ = ["FeedStats"]


@dataclass(slots=True, repr=False)
class FeedStats:
    """What a feed has seen and done so far; it prints one rounded figure a line.

    Attributes
    ----------
    queued_rows : int
        Rows that wait for the join now.
    result_rows : int
        Rows of results that wait for `Feed.get` now.
    rows_left, rows_right : int
        Rows taken by a put so far, without those dropped.
    dropped_left, dropped_right : int
        Rows dropped so far, by side.
    estimated_lost : float
        The share of the join's pairs that is missing because rows were dropped, from 0 to 1, estimated.
    sampled_pairs : int
        Pairs of sampled rows that the estimate rests on; its standard error is about 0.5 / sqrt(sampled_pairs) at most,
        and a few times that where a few rows have most of the pairs.
    pushes : int
        Pushes into the join.
    largest_batch : int
        Rows of the largest of them.
    waits : int
        Puts that found no room and waited.
    seconds : dict of str to float
        ``push``: in the join; ``idle``: of the join's thread without rows; ``held``: of the join's thread until results
        were taken; ``wait``: of all puts, for room; ``shed``: of all puts, to choose the rows that are dropped.
    """

    queued_rows: int = 0
    result_rows: int = 0
    rows_left: int = 0
    rows_right: int = 0
    dropped_left: int = 0
    dropped_right: int = 0
    estimated_lost: float = 0.0
    sampled_pairs: int = 0
    pushes: int = 0
    largest_batch: int = 0
    waits: int = 0
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("push", "idle", "held", "wait", "shed"), 0.0)
    )

    def __repr__(self) -> str:
        return figures_text(asdict(self))

    def _repr_html_(self) -> str:
        return figures_html(asdict(self))

    def to_json(self) -> dict[str, Any]:
        """Return all counters as plain JSON values."""
        return asdict(self)
