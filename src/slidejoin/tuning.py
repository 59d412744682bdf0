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
    push_spread_nanoseconds: int = 300_000
    """What a push of fewer rows has to take on one thread, by the last one, where its rows have many candidates."""
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

    # -- indexes -------------------------------------------------------------------------------------------------------

    explained_rows: int = 1 << 14
    """Rows of a window from which on an index says why its sizes are what they are."""

    # -- cells ---------------------------------------------------------------------------------------------------------

    cell_matches: int = 1 << 22
    """Positions written at once: 16 MiB a thread; more are written batch by batch."""
    smallest_pool: int = 8
    """Lines of a pool."""
    smallest_crowded: int = 1 << 15
    """Rows of tables that are given more buckets where keys crowd: smaller ones are in the caches."""
    spilled_share: float = 1 / 20
    """Part of the rows that find their bucket full from which on crowding matters: of even keys it is a fiftieth."""
    shared_buckets: float = 0.5
    """Part of the full buckets that several cells share from which on more buckets help: rows of one cell have one
    bucket, however many there are."""
    sweep_rows: int = 1 << 30
    """Rows that come while all lines are renewed once: a position that is half a round of 32 bits old would live
    again."""
    swept_lines: int = 256
    """Lines renewed at once."""

    # -- sorted runs ---------------------------------------------------------------------------------------------------

    search_spread: int = 1 << 11
    """Probes of a search: handing over a part costs some 30 µs, as much as 500 probes."""
    reduction_spread: int = 1 << 10
    """Probes whose nearest rows or reductions are searched for."""
    ordered_probes: int = 512
    """Probes above which sorting them pays: fewer read separate lines anyway."""
    probes_together: int = 1 << 17
    """Probes searched together at most: the more there are, the more often neighbours read the same line of a run."""
    few_matches: int = 32
    """Matches a probe, on average, up to which they are written as they are located: otherwise ranges are stored. With
    open ranges a few probes have nearly all matches, which are contiguous: 1.1 times as fast with 10 a probe, 0.8 with
    100."""
    few_matches_around: int = 160
    """The same of ranges around the probes' own keys, which are equally wide: with 10 to 100 of them positions are 1.9
    to 1.4 times as fast, with 300 0.95 times."""
    spare_matches: int = 1 << 10
    """Spare room for matches, so that one probe with many does not stop all."""
    ranges_again: int = 32
    """Batches answered by ranges after one that had too many matches to be written at once, which costs a search."""
    wide_range: int = 128
    """Candidates a probe from which on ranges are wide: the newest push stays a run of its own."""
    ages_from: int = 8
    """Candidates, for each row of a run, that are checked one by one before ages are built to count them: building
    takes a row about as long."""
    smallest_run: int = 1 << 12
    """Rows up to which runs are merged however small the window is: below it a merge costs less than one more
    search."""
    merge_at_once: int = 1 << 13
    """Rows that a push may merge besides its own: as many take 15 µs."""
    merge_share: int = 32
    """Rows merged at once for each row of a push: they take about as long as the row's other steps."""
    row_move_cost: float = 3.5
    """Nanoseconds of moving a row once, with its place in a directory."""
    halved_from: int = 1 << 12
    """Rows of a run that leave and are reduced one by one rather than halved: a few in each range, as a part more costs
    a search."""

    # -- small pushes, and what takes another path ---------------------------------------------------------------------

    small_push_rows: int = 1 << 10
    """Rows of a small push at most: larger ones need more room for results than is preallocated."""
    small_push_pairs: int = 1 << 12
    """Pairs of a table from which results of small pushes are sliced: each keeps up to 64 KiB for two columns alive."""
    run_matches: int = 16
    """Matches of a probe of sorted runs that there is room for at first, in a fused push."""
    most_run_matches: int = 1 << 20
    """Room for the matches of a side at most, 4 MiB; more are left to the general path."""
    most_run_counts: int = 1 << 17
    """The same where matches are only counted, since the general path counts ranges without reading their rows."""
    run_rest: int = 32
    """Pushes that take the general path after one with more matches than that."""
    program_rest: int = 64
    """Pushes that take the general path after one for which a program gave up: such values hardly come alone."""
    stretch_rows: int = 1 << 13
    """Rows of many streams that are worth a thread."""

    # -- rows ----------------------------------------------------------------------------------------------------------

    chunk_rows: int = 1 << 12
    """Rows of a chunk at least: only whole chunks expire, so small ones for small windows."""
    flowing_rows: int = 1 << 12
    """So many rows of a window of `flowing_window` bytes, or more, are written past the caches: they are not read
    soon."""
    flowing_window: int = 1 << 24
    directory_units: int = 16
    """Units of a directory of chunks at first."""
    directory_spread: int = 16
    """A ring of chunks may be so many times longer than these."""

    # -- windows -------------------------------------------------------------------------------------------------------

    loaded_rows: int = 1 << 11
    """Rows that are inserted at once when a window is loaded, and at least an eighth."""
    ordinal_spread: int = 4
    """Times the stored rows that an index may span: one row far ahead in time could make it grow for ever."""
    folded_from: int = 2
    """Right rows fold once the window holds so many times the rows that it needs at even rates."""
    unfolded_rows: int = 1 << 12
    """Right rows up to which nothing folds, however small the window is."""
    waiting_rows: int = 1 << 10
    """Left rows for which there is room at first where these are answered as they expire."""
    latest_slots: int = 1 << 10
    """Slots of an empty table of the latest rows of each key."""
    latest_queue: int = 1 << 12
    """Rows for which its queue has room at first."""
    latest_probes: int = 1 << 13
    """Left rows for which right rows are queued at once: a queue for 5 M rows had 0.1 s of fresh memory."""

    # -- on Spark ------------------------------------------------------------------------------------------------------

    frame_rows: int = 1 << 18
    """Rows passed between Python and Java at once."""
    frame_bytes: int = 32 << 20
    """Bytes passed between Python and Java at once: more gains nothing, and costs memory on both ends of the pipe."""
    packed_bytes: int = 64 << 20
    """A task with more input than this writes several blocks for each bucket: a static table may be one partition."""
    segment_column_bytes: int = (1 << 31) - 1
    """Bytes of one column of strings, binary or nested values in one segment at most: the offsets of Arrow have 32
    bits."""

    # -- texts ---------------------------------------------------------------------------------------------------------

    text_block: int = 1 << 12
    """Bytes of the first block of long texts, unless more are added at once; each block is twice the one before."""
    largest_text_block: int = 1 << 20
    text_room: int = 1 << 9
    """Texts for which there is room at first."""
    text_hash_bits: int = (1 << 64) - 1
    """The bits of a hash that are used; with few of them hashes collide."""
    epoch_rows: int = 1 << 12
    """Rows of an epoch of texts at least."""
    epoch_share: int = 8
    """Rows of an epoch: at least this share of the texts that are known."""


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
