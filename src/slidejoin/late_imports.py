"""Imports that lower rooms need and may not name: the package registers them, and they run when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KERNELS", "PAPERS", "LateImports"]


class LateImports:
    """Imports that run when they are needed, as often as that is: Python does each once.

    Examples
    --------
    >>> imports = LateImports()
    >>> imports.register(lambda: print("imported"))
    >>> imports.run()
    imported
    """

    def __init__(self) -> None:
        self._functions: list[Callable[[], object]] = []

    def register(self, function: Callable[[], object]) -> None:
        """Add a function that imports modules."""
        self._functions.append(function)

    def run(self) -> None:
        """Import everything that is registered."""
        for function in self._functions:
            function()


KERNELS = LateImports()
"""All modules of kernels, for compiling them ahead of time."""
PAPERS = LateImports()
"""The options of the papers' structures and topologies, which register themselves."""
