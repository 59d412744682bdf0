"""What a long case shows while it runs."""

from __future__ import annotations

import sys

__all__ = ["say"]


def say(text: str) -> None:
    """Show on a terminal what is going on."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{text} …\n")
