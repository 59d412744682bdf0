"""What differs between the join that a state belongs to and the one that is to continue from it, and what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["differences"]

COLUMN = re.compile(r",\s+(?![^<\[(]*[>\])])")
"""Between two columns of a description; types have commas inside of brackets."""

WHAT_TO_DO = {
    "partitions": "set partitions={was} (for another number see slidejoin state --repartition)",
    "strategy": "set strategy= and spread= as they were: {was}",
    "window": "give the window that it was",
    "order_by": "set order_by={was!r}",
    "output": "set output={was!r}",
    "how": "set how={was!r}",
    "keep": "set keep={was}",
    "planned": "go on with the version of slidejoin that wrote the state",
}


def differences(known: Mapping[str, Any], described: Mapping[str, Any]) -> str | None:
    """Return what differs, and what to do about it, as sentences; None if nothing does.

    Examples
    --------
    >>> known = {"partitions": 8, "left columns": "k int64"}
    >>> print(differences(known, {"partitions": 4, "left columns": "k int64, s string"}))
    left columns: the state lacks s string; partitions was 8 and is now 4. Leave columns that the state lacks out of
    select= and the predicate, set partitions=8 (for another number see slidejoin state --repartition), or start the
    query with a new checkpoint
    """
    told, advice = [], []
    for name in sorted({*known, *described}):
        was, now = known.get(name), described.get(name)
        if was == now:
            continue
        if "columns" in name and isinstance(was, str) and isinstance(now, str):
            lacking, more = (list(_missing(*pair)) for pair in ((now, was), (was, now)))
            parts = ([f"the state lacks {', '.join(lacking)}"] if lacking else []) + (
                [f"the state also has {', '.join(more)}"] if more else []
            )
            told.append(f"{name}: {' and '.join(parts) or f'they were {was} and are now {now}'}")
            todo = ["leave columns that the state lacks out of select= and the predicate"] if lacking else []
            todo += [f"name {', '.join(more)} in select= again"] if more else []
            todo += [] if parts else ["give the inputs their columns in the order of the state"]
            advice += [one for one in todo if one not in advice]
        else:
            told.append(f"{name} was {was!r} and is now {now!r}")
            advice.append(WHAT_TO_DO.get(name, f"give {name} as it was").format(was=was))
    if not told:
        return None
    steps = ", ".join(advice)
    return f"{'; '.join(told)}. {steps[0].upper()}{steps[1:]}, or start the query with a new checkpoint"


def _missing(of: str, among: str) -> Iterator[str]:
    """Yield the columns of one description that another one has not."""
    there = set(COLUMN.split(among))
    yield from (column for column in COLUMN.split(of) if column and column not in there)
