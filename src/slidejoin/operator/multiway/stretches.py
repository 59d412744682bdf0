"""Slices of a push, and the stretches of a slice that threads take: what they produce is put into one order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slidejoin.operator.multiway.chains import Combinations, Stretch
from slidejoin.operator.multiway.kernels.widening import count_before
from slidejoin.operator.window.side import LARGEST_SLICE
from slidejoin.rows.widths import SLICE, chunked, in_one_chunk, widths_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slidejoin.operator.multiway.arrivals import MultiPush
    from slidejoin.operator.multiway.chains import Chains
    from slidejoin.plan.multiway.multi_plan import MultiPlan

__all__ = ["merged", "slices_of", "stretch_of", "stretches_of"]

SMALLEST_SLICE = 1 << 11
SMALLEST_STRETCH = 1 << 13
"""Rows of a stretch that are worth a thread."""

LARGEST_STRETCH = 1 << 16

END = np.iinfo(np.int64).max


def slices_of(plan: MultiPlan, push: MultiPush) -> Iterator[MultiPush]:
    """Cut a push into slices of its arrival order, of no more rows than the windows hold: they are inserted at once."""
    if not push.rows:
        return
    step = LARGEST_SLICE
    if plan.spec.counted:
        step = min(max(sum(window.right for window in plan.spec.windows), SMALLEST_SLICE), step)  # type: ignore[misc]  # of rows
    else:
        step = min(max(_at_once(plan, push), SMALLEST_SLICE), step)
    if any(map(chunked, (one.table for one in push.streams))):
        # Tables too large for one Arrow array a column are small enough in slices.
        widest = sum(widths_of(one.table).nbytes for one in push.streams)
        step = max(min(step, push.rows * SLICE.nbytes // (4 * max(widest, 1))), 1)
    for first in range(0, push.rows, step):
        part = push.between(first, min(first + step, push.rows))
        yield type(part)(
            tuple(type(one)(in_one_chunk(one.table), one.ranks, one.times) for one in part.streams), part.rows
        )


def _at_once(plan: MultiPlan, push: MultiPush) -> int:
    """Return how many of the rows the windows of all streams hold at once, as far as their event times tell."""
    times = [one.times for one in push.streams if one.times is not None and one.times.size]
    span = max(int(own.max()) for own in times) - min(int(own.min()) for own in times)
    return push.rows * sum(scope.right_length for scope in plan.scopes) // max(span, 1)


def stretches_of(rows: int, threads: int) -> list[tuple[int, int]]:
    """Cut so many arrivals of a slice into stretches for threads: the first and behind the last one of each."""
    size = min(max(-(-rows // threads), SMALLEST_STRETCH), LARGEST_STRETCH)
    return [(begin, min(begin + size, rows)) for begin in range(0, rows, size)]


def stretch_of(push: MultiPush, first: Sequence[int], begin: int, end: int) -> Stretch:
    """Return the arrivals begin…end-1 of a slice, whose rows have ordinals from `first` on. O(end - begin)."""
    streams, ordinals, before = push.between(begin, end).streams, [], []
    for whole, own, start in zip(push.streams, streams, first, strict=True):
        counts = np.empty(end - begin + 1, np.int64)
        count_before(own.ranks, start + int(np.searchsorted(whole.ranks, begin)), counts)
        ordinals.append(int(counts[0]))
        before.append(counts)
    return Stretch(streams, tuple(ordinals), tuple(first), tuple(before), end - begin)


def merged(chains: Chains, stretch: Stretch, order: str) -> Iterator[Combinations]:
    """Yield what all streams' rows of a stretch produce, in bounded parts.

    Each stream's chain yields its combinations by producer, in arrival order. So what lies before the last producer of
    the slowest chain is complete, and what that one has found so far may follow. For ``strict`` the combinations of a
    producer stay together; without a promised order parts are yielded as they come.
    """
    open_chains = {stream: chains.found(stretch, stream) for stream, own in enumerate(stretch.streams) if own.rows}
    if order == "none":
        for chain in open_chains.values():
            yield from chain
        return
    waiting: dict[int, list[Combinations]] = {stream: [] for stream in open_chains}
    # The rank up to which a stream's combinations have come; more of the row at that place may follow.
    reached = dict.fromkeys(open_chains, -1)
    while open_chains or any(waiting.values()):
        slowest = min(reached.values())
        for stream in [one for one in open_chains if reached[one] == slowest]:
            part = next(open_chains[stream], None)
            if part is None:
                del open_chains[stream]
                reached[stream] = END
            else:
                waiting[stream].append(part)
                reached[stream] = int(part.ranks[-1])
        slowest = min(reached.values())
        ready = []
        for parts in waiting.values():
            if parts:
                own = Combinations.together(parts)
                cut = int(np.searchsorted(own.ranks, slowest, side="left" if order == "strict" else "right"))
                ready += [own.at(slice(0, cut))] if cut else []
                parts[:] = [own.at(slice(cut, None))] if cut < len(own) else []
        if ready:
            yield Combinations.together(ready)
