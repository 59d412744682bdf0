"""The registry of all kernels defined so far in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KERNELS"]

KERNELS: list[tuple[Callable[..., Any], float]] = []
"""All kernels so far and the seconds that each took to compile or to be found in the cache, see `warming`."""
