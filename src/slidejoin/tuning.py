"""Thresholds and costs that were measured: one frozen object, which a join takes as it is planned.

Nothing here changes a result, only how long it takes. Tests plan joins with another one, so that small pushes do what
large ones do (`tests.narrow.tune`).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CURRENT", "Tuning", "tuning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What was measured, with the measurement next to each value."""

    # -- from how much work on a further thread pays -------------------------------------------------------------------

    push_spread: int = 1 << 13
    """Rows of a push: they take 0.4 ms, handing over 60 µs."""
    dear_push_spread: int = 1 << 10
    """Rows of a push where probes are dear: as many take 0.7 ms and more."""
    probe_spread: int = 1 << 11
    """Probes, once threads are at work."""
    owned_probe_spread: int = 1 << 14
    """Probes for a third thread and more, where two own an index each: on sixteen cores four threads take as long as
    two for so many, and longer for fewer."""
    write_spread: int = 1 << 17
    """Pairs that are written: as many take 0.2 ms, handing over 60 µs."""
    condition_spread: int = 1 << 12
    """Candidates that a condition is computed for: as many take 60 µs."""
    gather_spread: int = 1 << 13
    """Pairs whose columns are gathered by a thread for each side: handing over takes some 30 µs."""
    filter_spread: int = 1 << 12
    """Pairs that are filtered: 0.2 ms or more, handing over takes some 30 µs."""
    streams_spread: int = 1 << 14
    """Rows of a push of many streams."""
    text_spread: int = 1 << 12
    """Rows of each side whose texts are looked up: they take 0.1 ms, handing over 60 µs."""

    # -- how much at once ----------------------------------------------------------------------------------------------

    smallest_slice: int = 1 << 11
    """Rows of a slice at least, if as many came."""
    largest_slice: int = 1 << 18
    """Rows of a slice at most: they are inserted before their probes."""
    counted_at_once: int = 1 << 20
    """Candidates that are counted together."""

    # -- which index ---------------------------------------------------------------------------------------------------

    runs_push_cost: float = 400_000.0
    """Nanoseconds that sorted runs take for a push of any size."""
    runs_small_push_cost: float = 125_000.0
    """The same beyond cells, for a push that has a fused path too."""
    index_change_cost: float = 30.0
    """Nanoseconds for each row of the window of changing the index: not done before staying has cost as much."""
    index_check_rows: int = 1 << 14
    """Rows between two checks of the index, and before the first."""
    terms_change_cost: float = 250.0
    """Nanoseconds for each row of the window of changing to an index of other terms, as `index_change_cost`."""
    terms_stay: float = 1.25
    """An index of other terms has to be this many times cheaper."""
    terms_patience: float = 1.0
    """Seconds from one check of the terms to the next, however few rows came: a wrong choice may be a thousand times
    slower."""
    crowding_check_rows: int = 1 << 14
    """Rows between two checks whether keys crowd in an index."""

    # -- composite keys ------------------------------------------------------------------------------------------------

    key_bits: int = 63
    """Bits of a composite key, at most as many: keys are never negative."""
    key_group_bits: int = 31
    """Bits of a group in a key with a range: hashes of so many bits tell 2**20 groups apart, all but one in 2000."""
    near_key_bits: int = 46
    """Bits of a key up to which a table of cells can tell keys apart by 32 bits and their place, and still spreads them
    evenly."""

    # -- texts ---------------------------------------------------------------------------------------------------------

    epoch_rows: int = 1 << 12
    """Rows of an epoch of texts at least, and at least an eighth of the texts that are known."""


class Current:
    """What joins take that are planned now.

    Attributes
    ----------
    value : Tuning
    """

    def __init__(self) -> None:
        self.value = Tuning()


CURRENT = Current()
"""Of this process."""


def tuning() -> Tuning:
    """Return what a join that is planned now takes."""
    return CURRENT.value
