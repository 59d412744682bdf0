"""Time windows of many streams: the event times of each in common ticks, and the scope of one step.

For every row of a combination the largest event time less its own is at most its stream's length. So a stored row of
stream s is in scope of the rows before it, the wide row, iff its time is at most the smallest of their times plus their
lengths (`UNTIL`), and at least the largest of their times (`NEWEST`) less the length of s. Both are numbers of the wide
row, so that this is a range of event times, as in a join of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.errors import PredicateError
from slidejoin.plan.window_term import TimeScope, common_scale, event_time_type, family_of, saturating_add, ticks_of
from slidejoin.predicate.ranges.ranges import Ranges
from slidejoin.spec.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from slidejoin.sides import Side
    from slidejoin.spec.multi_spec import MultiSpec

__all__ = ["NEWEST", "UNTIL", "StepScope", "stream_scopes"]

NEWEST, UNTIL = "#newest", "#until"
"""Columns of the wide row, int64 ticks; no column of a stream has such a name there."""


@dataclass(frozen=True, slots=True)
class StepScope(TimeScope):
    """The scope of a stored stream, the right side, for the wide row on the left."""

    def columns(self, side: Side) -> tuple[str, ...]:
        """Return the columns that tell whether that side's rows are in scope."""
        return (NEWEST, UNTIL) if side == "left" else (self.window.right_on,)

    def ranges(self, probe_side: Side, columns: Mapping[str, Any]) -> Ranges:
        """Return the event times in scope of each wide row; only these probe."""
        if probe_side != "left":
            return TimeScope.ranges(self, probe_side, columns)
        low = saturating_add(np.asarray(columns[NEWEST]), -self.right_length)
        return Ranges(low[None, :], np.asarray(columns[UNTIL])[None, :], exact=True)


def stream_scopes(spec: MultiSpec, schemas: Sequence[pa.Schema]) -> tuple[StepScope, ...]:
    """Return the scope of each stream, all with the same ticks; nothing for count windows.

    Raises
    ------
    PredicateError
        For a column that is missing or is no event time, streams that do not compare, or lengths of the other kind.
    """
    windows = [window for window in spec.windows if isinstance(window, TimeWindow)]
    if not windows:
        return ()
    named = list(zip(spec.streams, windows, schemas, strict=True))
    kinds = [event_time_type(schema, window.right_on, f"stream {stream!r}") for stream, window, schema in named]
    if len(set(map(family_of, kinds))) > 1:
        shown = ", ".join(f"{stream} {kind}" for stream, kind in zip(spec.streams, kinds, strict=True))
        msg = f"the event times of the streams are not comparable: {shown}; cast some of them"
        raise PredicateError(msg)
    scale, scopes = common_scale(kinds), []
    for (stream, window, _), kind in zip(named, kinds, strict=True):
        column = f"column {window.right_on!r} of stream {stream!r} is {kind}"
        length, lateness = (ticks_of(one, scale, column) for one in (window.right, window.lateness))
        scopes.append(StepScope(window, length, length, lateness, scale))
    return tuple(scopes)
