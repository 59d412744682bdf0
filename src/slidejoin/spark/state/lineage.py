"""Detecting lost state: whether a state continues the previous micro-batch, or is new, or was idle.

Spark numbers micro-batches consecutively, and a bucket is called in every micro-batch in which any task has input, so a
bucket's manifest says in which micro-batch it was written last. An empty micro-batch, by which Spark only advances the
watermark, calls no bucket: then each state store records, under a key of its own, since when it has been idle::

    micro-batch         7         8         9         10        11
    buckets are      called    called      idle      idle     called
    a store has       m 7       m 8     m 8, idle  m 8, idle    m 11
                                         9 to 9     9 to 10

In micro-batch 11 the manifest has to be that of 10, or that of the last one before the store was idle up to 10. So a
store that has lost its last changes, some of them, or everything, is detected by what remains.

In an empty micro-batch, timers may call some buckets, whose rows are due: the store's record has these, and the
watermark, by which a timer that was lost is detected.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from slidejoin.errors import StateError
from slidejoin.spark.state.records import WHAT_TO_DO, from_record, to_record
from slidejoin.stored import StoredValue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from slidejoin.spark.state.variables import Variables

__all__ = ["NEVER", "STORE", "Idle", "check_follows", "idle_of", "note_idle"]

STORE = -1
"""Key of the records of a state store itself; buckets have numbers from 0 on."""

NEVER = -1
"""Instead of a micro-batch's number: a bucket that has not been called yet."""


class Idle(NamedTuple):
    """Consecutive micro-batches in which no bucket of a state store was called for rows.

    Attributes
    ----------
    since, until : int
        The first and the last of them.
    watermark : int or None
        Of the last one, in milliseconds, if buckets have timers.
    fired : dict from int to int
        Buckets that were called by a timer meanwhile, and in which micro-batch last.
    """

    since: int
    until: int
    watermark: int | None = None
    fired: Mapping[int, int] = MappingProxyType({})


def idle_of(value: tuple[Any, ...] | None) -> Idle | None:
    """Read the idle micro-batches of a store from its own manifest; None if it has never been idle.

    Raises
    ------
    StateError
        If it is damaged.
    """
    if value is None:
        return None
    what = "the record of a state store's idle micro-batches"
    stored = StoredValue(from_record(value[0], what, "since", "until"), what)
    watermark, fired = stored.get("watermark"), stored.get("fired")
    called = {} if fired is None else fired.fields
    try:
        at = {int(bucket): batch.whole(0) for bucket, batch in called.items()}
    except ValueError as error:
        msg = f"{what} is damaged: {error}. {WHAT_TO_DO}"
        raise StateError(msg) from error
    since, until = stored["since"].whole(0), stored["until"].whole(0)
    return Idle(since, until, None if watermark is None else watermark.or_none(StoredValue.whole), at)


def note_idle(variables: Variables, batch: int, watermark: int | None = None, fired: Collection[int] = ()) -> None:
    """Record that no bucket of this store was called for rows in a micro-batch.

    Parameters
    ----------
    watermark : int, optional
        In milliseconds, if buckets have timers.
    fired : collection of int
        Those that were called by a timer.
    """
    variables.point_at(STORE)
    before = idle_of(variables.manifest.get())
    goes_on = before is not None and before.until == batch - 1
    plain: dict[str, Any] = {"since": before.since if before is not None and goes_on else batch, "until": batch}
    if watermark is not None:
        called = dict(before.fired) if before is not None and goes_on else {}
        plain["watermark"] = watermark
        plain["fired"] = {str(bucket): at for bucket, at in (called | dict.fromkeys(fired, batch)).items()}
    variables.manifest.update((to_record(plain),))


def check_follows(
    bucket: int, last: int, batch: int, idle: Callable[[], Idle | None], timer: int | None = None
) -> None:
    """Check that a bucket's state is the one that a micro-batch must continue from.

    Parameters
    ----------
    last : int
        Micro-batch in which the bucket was called last, by its manifest; `NEVER` if it has none.
    batch : int
        The micro-batch that begins.
    idle : function
        Returns the idle micro-batches of the bucket's store.
    timer : int, optional
        The time at which Spark was to call the bucket.

    Raises
    ------
    StateError
        If there are others between the two than those in which the store was idle, or if Spark has not called the
        bucket in time.
    """
    if last == batch - 1:
        return
    stretch = idle()
    if stretch is None or stretch.until != batch - 1 or last != stretch.fired.get(bucket, stretch.since - 1):
        has = "has no state" if last == NEVER else f"has the state after micro-batch {last}"
        msg = (
            f"bucket {bucket} {has}, but micro-batch {batch} must continue from the state after micro-batch "
            f"{batch - 1}: the checkpoint has lost state, or has an older or newer one. {WHAT_TO_DO}"
        )
        raise StateError(msg)
    if timer is not None and stretch.watermark is not None and timer <= stretch.watermark:
        msg = (
            f"bucket {bucket} was to be called when the watermark is {timer} ms, and it was {stretch.watermark} ms in "
            f"micro-batch {batch - 1}, which has not called it: the checkpoint has lost its timer. {WHAT_TO_DO}"
        )
        raise StateError(msg)
