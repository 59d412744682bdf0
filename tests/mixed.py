"""A plugin of pytest (``-p tests.mixed``): some kernels are run by Python for good, some for a while, some never.

So it is in the first minute of an installation, where kernels are compiled by another process meanwhile. Which ones is
drawn by ``MIXED_SEED``. A join must not notice: both forms of a kernel work on the same arrays.
"""

from __future__ import annotations

import os
import random
from typing import Any

import slidejoin.operator.fused.partner as second_thread
from slidejoin.jit.interpreted import Interpreter
from slidejoin.jit.registry import of_joins

SEED = os.environ.get("MIXED_SEED", "0")
SHARED = {"do_tasks", "hand_on", "serve"}
"""Kernels by which threads share pushes that are too large for Python; plain ones are for a single thread."""

calls_left: dict[str, float] = {}


def takes(_interpreter: Interpreter, kernel: Any) -> bool:
    """Run a kernel as Python as many times as was drawn for it."""
    name = f"{kernel.__module__}.{kernel.py_func.__qualname__} {id(kernel)}"
    if name not in calls_left:
        number = sum(known.rpartition(" ")[0] == name.rpartition(" ")[0] for known in calls_left)
        chosen = random.Random(f"{SEED} {name.rpartition(' ')[0]} {number}")
        calls_left[name] = chosen.choice([0, chosen.randrange(1, 50), float("inf")])
    if not of_joins(kernel) or kernel.__name__ in SHARED or calls_left[name] == 0:
        return False
    calls_left[name] -= 1
    return True


def pytest_configure() -> None:
    """Mix from here on, in a run that asked for this plugin: looking for doctests imports this module too."""
    Interpreter.takes = takes  # type: ignore[assignment, method-assign]
    second_thread.partner = lambda: None  # type: ignore[assignment]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how much was mixed."""
    chosen = list(calls_left.values())
    terminalreporter.write_line(f"kernels: {len(chosen)}, run by Python: {sum(left > 0 for left in chosen)} still")
