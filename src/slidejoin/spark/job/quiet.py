"""Redirecting the output of the Java process and of the Python workers that it starts."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["output_of_children"]


@contextmanager
def output_of_children(log: int, *, json: bool) -> Iterator[None]:
    """Let processes that start meanwhile write errors to `log`, and with `json` their output to standard error.

    `log` is the descriptor of an open file.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {1: os.dup(1), 2: os.dup(2)}
    try:
        if json:
            os.dup2(kept[2], 1)
        os.dup2(log, 2)
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
