"""Where long runs are cut, so that counting has to look at rows of short runs only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from slidejoin.index.planar.run import PlanarRun
    from slidejoin.index.probe import Probes

__all__ = ["bounds_in_time", "bounds_of", "seeing_parts"]

SMALL_RUN = 1 << 12
"""Rows of a run up to which the ordinals of candidates are compared to count them."""


def seeing_parts(run: PlanarRun, probes: Probes) -> list[tuple[int, int]]:
    """Return the stretches of probes that see some rows of a run and not others."""
    # Both ends of what probes see ascend.
    inside = [
        (int(np.searchsorted(ends, run.base, side="right")), int(np.searchsorted(ends, run.end)))
        for ends in (probes.seen_from, probes.seen_to)
    ]
    parts: list[tuple[int, int]] = []
    for first, last in sorted(stretch for stretch in inside if stretch[0] < stretch[1]):
        if parts and first <= parts[-1][1]:
            parts[-1] = parts[-1][0], max(last, parts[-1][1])
        else:
            parts.append((first, last))
    return parts


def bounds_of(run: PlanarRun, zone: tuple[int, int]) -> list[int]:
    """Return the ordinals at which a run is cut, so that only short parts have an end of some probe's view inside.

    Ends lie in ``zone[0] <= end <= zone[1]``; none are returned if it is not to be cut.
    """
    if run.rows <= SMALL_RUN or zone[1] <= run.base or zone[0] >= run.end:
        return []
    bounds, parts = [run.base, run.end], [(run.base, run.end)]
    while parts:
        first, last = parts.pop()
        if last - first <= SMALL_RUN or zone[1] <= first or zone[0] >= last:
            continue
        middle = (first + last) // 2
        bounds.append(middle)
        parts += [(first, middle), (middle, last)]
    return sorted(bounds)


def bounds_in_time(run: PlanarRun, dimension: int, times: tuple[int, int]) -> list[int]:
    """Return the ordinals at which a run is cut, so that rows of times that some probes ask for are in short parts.

    Rows below ``times[0]`` are asked for by no probe, those from ``times[1]`` on by all. Where rows did not come in the
    order of their times, so that a cut would separate few, none are returned.
    """
    if dimension < 1 or run.rows <= SMALL_RUN or not (run.size and run.in_time):
        return []
    if int(run.x.aux_min[dimension - 1]) >= times[1]:
        return []
    asked, offsets = run.x.aux[:, dimension - 1], run.x.offsets
    early = offsets[asked < times[1]]
    last, gone = int(early.max()) + 1, offsets[asked >= times[0]]
    run.in_time = 4 * last <= 3 * run.rows and 2 * early.size >= last
    if not run.in_time:
        return []
    first = int(gone.min()) if gone.size else 0
    return bounds_of(run, (run.base + first, run.base + last))
