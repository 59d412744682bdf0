"""Names of columns on their way to tasks: ``mapInArrow`` looks columns up by names, where a dot means a field."""

from __future__ import annotations

__all__ = ["task_column"]

PREFIX = "#slidejoin:"


def task_column(number: int, name: str) -> str:
    """Return the name under which tasks get the input column of that number among those that they need.

    Examples
    --------
    >>> task_column(0, "price"), task_column(1, "order.id")
    ('price', '#slidejoin:1')
    """
    return f"{PREFIX}{number}" if name == "*" or {".", "`"} & set(name) or name.startswith(PREFIX) else name
