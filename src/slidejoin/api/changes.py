"""What a restored join may have otherwise than the one that was saved, and when its results are then exact.

A snapshot holds rows, not results, so that anything that only decides how rows are shown may change: `select`, as far
as the rows have the columns, `suffix`, `order`, `aliases`. A window may change its lengths:

- **Shorter**: exact at once. Every row that the new window shows was in the former one.
- **Longer**: rows that had left the former window are gone. Pairs with these are missing, and no others: results equal
  those of a join that had the new window from the start as soon as no row that arrives could see one of these rows. In
  a count window that is when as many more rows of that side have arrived as the window is longer; in a time window when
  the watermark has advanced by as much as the side's length has grown. What a chunk of memory still holds of rows that
  had left is dropped, so that it does not depend on how rows were pushed.

Joins that are not inner keep their window: which rows have a match by now depends on it; so do nearest matches and
aggregates, whose right rows stay for as long as left rows wait for them. Lateness, the columns of event
times, and the kind of window decide which rows were taken: they cannot change.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from slidejoin.errors import StateError
from slidejoin.rows.arrow_buffers import by_name
from slidejoin.rows.widths import in_one_chunk
from slidejoin.sides import SIDES
from slidejoin.spec.join_spec import make_join_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.plan.window_term import Scope
    from slidejoin.sides import Side
    from slidejoin.spec.join_spec import JoinSpec
    from slidejoin.spec.window import Window

__all__ = ["UNCHANGED", "LoadedRows", "Unchanged", "changed", "log_missing", "without_gone"]

log = logging.getLogger(__name__)

LoadedRows: TypeAlias = tuple[pa.Table, list[tuple[int, int]], int]
"""Rows of one side, the first ordinal and the number of each stretch of them, and how many rows the side has seen."""

START_ANEW = "create a new StreamJoin, or restore without it"


class Unchanged(Enum):
    """Stands for an argument that is left as it was."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return self.value


UNCHANGED = Unchanged.UNCHANGED


def changed(config: JoinSpec, changes: Mapping[str, Any]) -> JoinSpec:
    """Return the specification of a saved join with other arguments.

    Raises
    ------
    StateError
        For a window that cannot continue from the saved one.
    PredicateError, ArgumentError
        For arguments that no join takes.
    """
    if not changes:
        return config
    given: dict[str, Any] = {
        "select": config.select,
        "suffix": config.suffix,
        "order": config.order,
        "aliases": config.aliases,
    }
    given |= {"window": config.window} | dict(changes)
    if "aliases" in changes and "select" not in changes and config.select is not None:
        given["select"] = [_renamed(item, config.aliases, changes["aliases"]) for item in config.select]
    output = config.output if config.aggregate is None else config.aggregate
    new = make_join_spec(
        on=config.on, how=config.how, output=output, keep=config.keep, self_join=config.self_join, **given
    )
    if new.window != config.window:
        if config.deferred:
            what = f"keep={config.keep!r}" if config.keep is not None else f"output={config.aggregate!r}"
            msg = (
                f"the snapshot is of a join with {what}, whose left rows wait for what the right rows of "
                f"{config.window!r} bring; another window would need other right rows. "
                f"{START_ANEW[0].upper()}{START_ANEW[1:]}"
            )
            raise StateError(msg)
        if config.how != "inner":
            msg = (
                f"window= cannot change for how={config.how!r}: the snapshot records which rows matched within "
                f"{config.window!r}, and another window gives other matches. "
                f"{START_ANEW[0].upper()}{START_ANEW[1:]}"
            )
            raise StateError(msg)
        _check_window(config.window, new.window)
    return replace(
        config, select=new.select, suffix=new.suffix, order=new.order, aliases=new.aliases, window=new.window
    )


def _renamed(item: str, former: tuple[str, str], aliases: tuple[str, str]) -> str:
    for old, new in zip(former, aliases, strict=True):
        if item.startswith(f"{old}."):
            return f"{new}.{item.removeprefix(f'{old}.')}"
    return item


def _check_window(old: Window, new: Window) -> None:
    """Refuse windows whose results the rows of the former one could never give."""
    if old.kind != new.kind:
        msg = (
            f"the snapshot has {old!r}, a window {old.kind}; {new!r} is {new.kind}, which takes other rows. Give a "
            f"window of the same kind; {START_ANEW}"
        )
        raise StateError(msg)
    for name, why in (
        ("left_on", "the rows are of other times"),
        ("right_on", "the rows are of other times"),
        ("lateness", "other rows were late"),
    ):
        was, now = getattr(old, name, None), getattr(new, name, None)
        if was != now:
            msg = (
                f"the snapshot has a window with {name}={was!s}, the new one has {name}={now!s}: {why}. Only the "
                f"lengths of a window can change; {START_ANEW}"
            )
            raise StateError(msg)


def without_gone(
    scope: Scope, rows: Mapping[Side, LoadedRows], watermark: int | None, *, self_join: bool
) -> dict[Side, LoadedRows]:
    """Return the rows that the saved window still shows some row that may come; see the module for why.

    Parameters
    ----------
    scope : Scope
        Of the saved join.
    watermark : int, optional
        Of the saved join, in ticks.
    """
    oldest: dict[Side, int] = {}
    if scope.counted is not None:
        oldest = {side: scope.counted.first(side, seen) for side, (_, _, seen) in rows.items()}
    elif watermark is not None:
        oldest = {side: scope.oldest(side, watermark) for side in SIDES}
    if self_join and oldest:
        # A row is there as long as either of its roles needs it.
        oldest = dict.fromkeys(SIDES, min(oldest.values()))
    stored = dict(rows)
    for side, least in oldest.items():
        table, stretches, seen = rows[side]
        numbers = [np.arange(first, first + count) for first, count in stretches]
        ordinals = np.concatenate([np.empty(0, np.int64), *numbers])
        times = scope.times(side, by_name(in_one_chunk(table)))
        stay = (ordinals if times is None else times) >= least
        if not stay.all():
            stored[side] = table.filter(pa.array(stay)), _stretches(ordinals[stay]), seen
    return stored


def _stretches(ordinals: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the first and the number of each stretch of consecutive ordinals.

    Examples
    --------
    >>> _stretches(np.array([3, 4, 9]))
    [(3, 2), (9, 1)]
    """
    if not ordinals.size:
        return []
    starts = np.flatnonzero(np.diff(ordinals, prepend=ordinals[0] - 2) != 1)
    counts = np.diff(starts, append=ordinals.size)
    return [(int(ordinals[start]), int(count)) for start, count in zip(starts, counts, strict=True)]


def log_missing(
    before: Window, after: Window, rows: Mapping[Side, tuple[int, int]], ticks: Mapping[Side, int] | None = None
) -> None:
    """Log until when results of a longer window lack pairs, if rows have left the former one.

    Parameters
    ----------
    before, after : Window
    rows : dict from side to pair of int
        How many rows a side has seen, and how many of these are there.
    ticks : dict from side to int, optional
        By how much longer rows of a side stay, in ticks of the event times.
    """
    for side, (seen, stored) in rows.items():
        until, longer = None, (ticks or {}).get(side, 0)
        first = before.first(side, seen)
        if after.first(side, seen) < first:
            size, slide = after.view(side)
            until = f"{size + -(-first // slide) * slide - seen:,} more {side} rows have arrived"
        elif stored < seen and longer > 0:
            until = f"the watermark has advanced by {longer:,} ticks of the event times"
        if until is not None:
            log.warning(
                "%r shows more %s rows than %r, which the snapshot had, and rows that had left it are gone: pairs with "
                "these are missing until %s", after, side, before, until,
            )  # fmt: skip
