"""The number of processor cores that this process may use."""

from __future__ import annotations

import os

__all__ = ["cores"]


def cores() -> int:
    """Return the number of cores that the process may run on, at least one.

    That is less than the machine has where it was pinned (``taskset``, a container's cpuset): threads beyond it would
    only take turns.

    Examples
    --------
    >>> 1 <= cores() <= (os.cpu_count() or 1)
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
