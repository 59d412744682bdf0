"""A sorted run: the keys of one sub-window in ascending order, with a directory that narrows each search."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.index.kernels.ages import CLASSES, GROUP, OFFSETS, class_shift, fill_ages, groups_of
from slidejoin.index.kernels.searching import close_directory, mark_directory
from slidejoin.index.sorted_runs.kernels.further import gather_further, take_further
from slidejoin.index.sorted_runs.kernels.merging import drop_words, take_words
from slidejoin.index.sorted_runs.kernels.visibility import COME, GONE, WIDTH, Seen, count_in_turns, place_rows, see_rows
from slidejoin.jit.vectors.sorting import BITS, SMALL, settle, sort_words, sorted_order
from slidejoin.jit.vectors.words import PAD
from slidejoin.runtime.array_pool import ArrayPool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slidejoin.index.deferred import ValueInKey
    from slidejoin.index.sorted_runs.values import Summaries, ValuesByKey

__all__ = [
    "EVERY_ROW", "FAR", "KEYS_A_BUCKET", "Run", "build_run", "ends_of", "new_directory", "shift_of", "step_of",
    "words_pool",
]  # fmt: skip

HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)
KEYS_A_BUCKET = 3
"""Buckets of a directory hold 2**2 to 2**3 keys, if keys are spread evenly: one or two lines of a cache."""

EVERY_ROW = np.empty(0, np.int32)

FAR = 1 << 61
"""Distances below which sums of a few fit 64 bits."""

words_pool, places_pool, bits_pool = ArrayPool(np.uint64), ArrayPool(np.uint32), ArrayPool(np.uint64)


SAVED = ("words", "directory", "aux", "aux_min", "aux_max")
"""Arrays of a run that every one has."""


class Ages:
    """The arrival classes of a run that is partly seen, for `index.kernels.ages`: some nine bytes a row."""

    __slots__ = ("_arrays", "_line", "address")

    def __init__(self, words: NDArray[np.uint64], size: int, rows: int) -> None:
        groups, shift = groups_of(size), class_shift(rows)
        codes, younger = np.zeros(groups * GROUP, np.uint8), np.empty(groups * (CLASSES + 1), np.uint32)
        offsets, begins = np.empty(size + OFFSETS, np.uint32), np.empty(CLASSES + 1, np.int64)
        fill_ages(_address(words), size, shift, codes, younger, offsets, begins)
        self._arrays = (codes, younger, offsets, begins)
        self._line = np.array([*(_address(array) for array in (codes, younger, offsets, begins)), shift], np.int64)
        self.address = _address(self._line)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self._arrays)


REBUILT_FROM = 32
"""If more than 1/32 of a run's rows have entered or left since, all levels are rebuilt."""


def new_seen(size: int) -> Seen:
    """Return memory for the bitmap of a run with so many keys; nothing is known yet."""
    words = size // WIDTH + 1
    stretches = -(-words // WIDTH)
    large = -(-stretches // WIDTH)
    return Seen(
        bits_pool.take(words),
        np.empty(stretches * WIDTH, np.uint16),
        np.empty(large * WIDTH, np.uint32),
        np.empty(large, np.uint32),
        np.full(2, -1, np.int64),
    )


class Visibility:
    """The bitmaps of the seen rows of a run, one for each thread that searches at once.

    They are stored from push to push, since most of them does not change.

    Parameters
    ----------
    words : (size + PAD,) uint64
        The words of the run.
    size, rows : int
        How many rows have a key, and the number of all rows.
    """

    __slots__ = ("_idle", "_places", "_size", "_words")

    def __init__(self, words: NDArray[np.uint64], size: int, rows: int) -> None:
        self._words, self._size = words, size
        self._places: NDArray[np.uint32] = places_pool.take(rows)
        place_rows(_address(words), size, self._places)
        # Taking and returning are atomic list operations, so any thread may do both.
        self._idle: list[Seen] = []

    def count(
        self,
        seen_by_ends: tuple[int, int, int, int],
        view: NDArray[np.int64],
        rank: NDArray[np.int64],
        base: int,
        ranges: NDArray[np.uint64],
        counts: NDArray[np.int64],
    ) -> None:
        """Add to `counts` (n,) int64 how many rows each probe sees in its range, (n,) uint64; `base` is the run's.

        The first three say what probes see, see `slidejoin.index.sorted_runs.probes.OrderedProbes`.
        """
        rows = self._places.size
        gone, come = (min(max(seen - base, 0), rows) for seen in seen_by_ends[::2])
        try:
            seen = self._idle.pop()
        except IndexError:
            seen = new_seen(self._size)
        left, entered = gone - int(seen.state[GONE]), come - int(seen.state[COME])
        if seen.state[GONE] < 0 or min(left, entered) < 0 or max(left, entered) > rows // REBUILT_FROM:
            see_rows(self._words, self._size, gone, come, seen)
        count_in_turns(self._places, seen, ranges, rank, view, base, counts)
        self._idle.append(seen)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._places.nbytes + sum(level.nbytes for seen in list(self._idle) for level in seen[:-1])


class Run:
    """The keys of one sub-window, sorted and immutable.

    A key and its row lie in one word of 64 bits: the key's distance from the run's smallest in the upper half, the row
    within the sub-window in the lower. If keys are too far apart for 32 bits, words have the upper bits of the
    distance, and the whole keys are stored separately. Ties stay in arrival order, which is the words' own order.

    Parameters
    ----------
    base : int
        Ordinal of the sub-window's first row.
    rows : int
        Ordinals that the sub-window spans, m or more: rows that can match nothing have no key here.
    keys : (m,) int64
        Ascending.
    offsets : (m,) int32
        Row within the sub-window of each key.
    aux : (m, d) int64
        The further dimensions of each row.
    aux_min, aux_max : (d,) int64
        Bounds of each dimension, by which a whole run is skipped.
    inexact : frozenset of int
        Numbers of the predicate's terms whose keys had to be clipped: their pairs are rechecked.
    """

    __slots__ = (
        "_ages", "_directory", "_line", "_looked_at", "_making", "_sights", "_values_within", "aux", "aux_max",
        "aux_min", "base", "inexact", "largest_key", "rows", "shift", "size", "smallest", "step", "summaries",
        "values", "wide", "words",
    )  # fmt: skip

    def __init__(
        self,
        base: int,
        rows: int,
        keys: NDArray[np.int64],
        offsets: NDArray[np.int32],
        aux: NDArray[np.int64],
        aux_min: NDArray[np.int64],
        aux_max: NDArray[np.int64],
        inexact: frozenset[int] = frozenset(),
    ) -> None:
        size = keys.size
        ends = (int(keys[0]), int(keys[-1])) if size else (0, 0)
        shift = shift_of(*ends)
        words = words_pool.take(size + PAD)
        # Differences beyond 2**63 wrap round and are right again as unsigned numbers.
        distances = (keys - np.int64(ends[0])).view(np.uint64) if size else np.empty(0, np.uint64)
        words[:size] = (distances >> np.uint64(shift) << HALF) | offsets.astype(np.uint64)
        self._set(
            base, rows, size, words, ends,
            wide=keys if shift else None, aux=aux, aux_ends=(aux_min, aux_max), inexact=inexact,
        )  # fmt: skip

    @staticmethod
    def made(
        base: int,
        rows: int,
        size: int,
        words: NDArray[np.uint64],
        ends: tuple[int, int],
        *,
        wide: NDArray[np.int64] | None = None,
        aux: NDArray[np.int64] | None = None,
        aux_ends: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
        inexact: frozenset[int] = frozenset(),
        directory: NDArray[np.uint32] | None = None,
    ) -> Run:
        """Return the run of words that are made already, `size` of them and PAD more; `directory` may be marked.

        `ends` are its smallest and its largest key, `wide` its keys if words lack some of their bits.
        """
        run = object.__new__(Run)
        aux = np.empty((size, 0), np.int64) if aux is None else aux
        aux_ends = ends_of(aux) if aux_ends is None else aux_ends
        run._set(
            base, rows, size, words, ends,
            wide=wide, aux=aux, aux_ends=aux_ends, inexact=inexact, directory=directory,
        )  # fmt: skip
        return run

    def _set(
        self,
        base: int,
        rows: int,
        size: int,
        words: NDArray[np.uint64],
        ends: tuple[int, int],
        *,
        wide: NDArray[np.int64] | None,
        aux: NDArray[np.int64],
        aux_ends: tuple[NDArray[np.int64], NDArray[np.int64]],
        inexact: frozenset[int],
        directory: NDArray[np.uint32] | None = None,
    ) -> None:
        self.base, self.rows, self.size = base, rows, size
        self.words: NDArray[np.uint64] = words[: size + PAD]
        if self.words.flags.writeable:  # a mapped directory was closed when it was written
            self.words[size:] = ~np.uint64(0)
        self.smallest, self.largest_key = ends
        self.shift = shift_of(*ends)
        self.step = step_of(*ends, self.shift, size)
        self.wide = wide
        self.aux, (self.aux_min, self.aux_max) = aux, aux_ends
        self.inexact = inexact
        if directory is not None:
            close_directory(directory)
        self._directory = directory
        self._line: tuple[int, ...] | None = None
        self._ages: Ages | None = None
        self._looked_at = 0
        self._making = Lock()
        self._sights: Visibility | None = None
        self._values_within: tuple[ValueInKey, int, int] | None = None
        self.summaries: Summaries | None = None
        self.values: ValuesByKey | None = None
        """What aggregates need of the rows, see `slidejoin.index.sorted_runs.reduced_rows`."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the run as named arrays, from which `from_arrays` restores it."""
        arrays: dict[str, NDArray[np.generic]] = {name: getattr(self, name) for name in SAVED}
        arrays["inexact"] = np.array(sorted(self.inexact), np.int64)
        arrays["ends"] = np.array([self.smallest, self.largest_key], np.int64)
        if self.wide is not None:
            arrays["wide"] = self.wide
        return arrays

    @staticmethod
    def from_arrays(rows: int, arrays: Mapping[str, NDArray[Any]]) -> Run:
        """Return the run of so many rows that `arrays` returned, beginning at ordinal 0; nothing is copied."""
        words, directory, aux, *aux_ends = (arrays[name] for name in SAVED)
        smallest, largest = arrays["ends"].tolist()
        inexact = frozenset(arrays["inexact"].tolist())
        return Run.of_words(
            rows, words, directory, (smallest, largest), arrays.get("wide"), aux, (aux_ends[0], aux_ends[1]), inexact
        )

    @staticmethod
    def of_words(
        rows: int,
        words: NDArray[np.uint64],
        directory: NDArray[np.uint32],
        ends: tuple[int, int],
        wide: NDArray[np.int64] | None,
        aux: NDArray[np.int64],
        aux_ends: tuple[NDArray[np.int64], NDArray[np.int64]],
        inexact: frozenset[int],
    ) -> Run:
        """Return a run that begins at ordinal 0 and shares the `words` and `directory` of another one."""
        size = words.size - PAD
        run = Run.made(0, rows, size, words, ends, wide=wide, aux=aux, aux_ends=aux_ends, inexact=inexact)
        run._directory = directory  # noqa: SLF001 - of another run: it was closed when it was made
        return run

    def orders(self, around: tuple[int, int], rows: int) -> bool:
        """Tell whether so many probes can be processed in the order of these keys, with ranges around them.

        Every row needs a whole key in its word, and sums of keys and distances have to fit 64 bits.
        """
        plain = self.size == rows and self.wide is None and not self.inexact
        return plain and max(abs(self.smallest), abs(self.largest_key), *around) < FAR

    @property
    def directory(self) -> NDArray[np.uint32]:
        """The first place of each bucket, built on first use: a run merged in the same push needs none."""
        if self._directory is None:
            directory = new_directory(self.smallest, self.largest_key, self.shift, self.step)
            mark_directory(self.words, 0, self.size, self.step, directory)
            close_directory(directory)
            self._directory = directory
        return self._directory

    @property
    def line(self) -> tuple[int, ...]:
        """The run's line in the table, see `index.kernels.searching.FIELDS`; cached, as addresses are slow."""
        if self._line is None:
            self._line = (
                _address(self.words), self.size, self.smallest, self.largest_key, self.shift, self.step,
                _address(self.directory), self.base, self.rows, 0 if self.wide is None else _address(self.wide),
                _address(self.aux) if self.aux.size else 0, self.aux.shape[1], 0, 0,
            )  # fmt: skip
        return self._line

    @property
    def keys(self) -> NDArray[np.int64]:
        """(m,) int64, ascending."""
        if self.wide is not None:
            return self.wide
        return (self.words[: self.size] >> HALF).astype(np.int64) + self.smallest

    @property
    def offsets(self) -> NDArray[np.int32]:
        """(m,) int32, the row within the sub-window of each key."""
        return (self.words[: self.size] & LOW_HALF).astype(np.int32)

    def ages_for(self, candidates: int, most: int) -> int:
        """Return the address of the arrival classes, see `index.kernels.ages`; 0 if there are none.

        They are built once more than `most` candidates for each row have been checked one by one.
        """
        # One of the threads builds them for all: replacing them would free memory that a kernel reads.
        with self._making:
            if self._ages is None:
                self._looked_at += candidates
                if self._looked_at < most * self.size:
                    return 0
                self._ages = Ages(self.words, self.size, self.rows)
            return self._ages.address

    @property
    def sights(self) -> Visibility:
        """The bitmap that counts the seen rows of a range for one probe after the other."""
        with self._making:
            if self._sights is None:
                self._sights = Visibility(self.words, self.size, self.rows)
            return self._sights

    def largest(self, dimension: int) -> int:
        """Return the largest value in a dimension, -1 for the key itself; the run has a key."""
        return int(self.largest_key if dimension < 0 else self.aux_max[dimension])

    def values_within(self, place: ValueInKey) -> tuple[int, int]:
        """Return the smallest and the largest value that rows have in their keys; the run has a key."""
        if place.dimension >= 0:
            return int(self.aux_min[place.dimension]), int(self.aux_max[place.dimension])
        if place.mask < 0:
            return self.smallest, self.largest_key
        if self._values_within is None or self._values_within[0] != place:
            values = self.keys & place.mask
            self._values_within = place, place.base + int(values.min()), place.base + int(values.max())
        return self._values_within[1:]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without the room for others that lent memory may have."""
        wide = 0 if self.wide is None else self.wide.nbytes
        summaries = sum(one.nbytes for one in (self.summaries, self.values) if one is not None)
        held = self.words.nbytes + self.directory.nbytes + self.aux.nbytes + self.nbytes_of_ages
        return int(held + wide + summaries)

    @property
    def nbytes_of_ages(self) -> int:
        """Bytes that say when rows arrived, 0 until that is needed."""
        return sum(one.nbytes for one in (self._ages, self._sights) if one is not None)

    def rebased(self, base: int) -> Run:
        """Return the same run for a sub-window that begins at another ordinal; the arrays are shared."""
        if base == self.base:
            return self
        run = object.__new__(Run)
        for name in Run.__slots__:
            setattr(run, name, getattr(self, name))
        run.base = base
        run._line = None
        return run

    def trimmed(self, ordinal: int) -> Run:
        """Return the run without its rows before an ordinal of it or before it; in memory of its own, if any go."""
        if ordinal <= self.base or self.size == 0:
            return self
        cut, memory = ordinal - self.base, words_pool.take(self.size + PAD)
        size = int(drop_words(self.words, self.size, np.uint64(cut), memory))
        return self._part(ordinal, self.base + self.rows, memory, size)

    def stretch(self, first: int, end: int) -> Run:
        """Return the run of its rows with ordinals first…end-1, which it spans; in memory of its own."""
        low, high = np.uint64(first - self.base), np.uint64(end - self.base)
        memory = words_pool.take(min(self.size, end - first) + PAD)
        size = int(take_words(self.words, self.size, low, high, memory))
        return self._part(first, end, memory, size)

    def _part(self, base: int, end: int, memory: NDArray[np.uint64], size: int) -> Run:
        """Return the run of the rows with ordinals base…end-1, whose `size` words were taken over."""
        origin, wide, aux, aux_ends = self.smallest, self.wide, self.aux[:size], ends_of(self.aux[:0])
        if aux.shape[1]:
            aux, aux_ends = self._taken(self.aux, base, end, size)
        if wide is not None:
            wide = self._taken(wide.reshape(-1, 1), base, end, size)[0].reshape(-1)
        words = memory[:size]
        ends = (0, 0)
        if size:
            ends = (origin + int(words[0] >> HALF), origin + int(words[-1] >> HALF))
            if wide is not None:
                ends = (int(wide[0]), int(wide[-1]))
        shift = shift_of(*ends)
        if wide is not None:
            upper = (wide - np.int64(ends[0])).view(np.uint64) >> np.uint64(shift) << HALF
            words[:] = upper | (words & LOW_HALF)
            wide = wide if shift else None
        elif size and ends[0] != origin:
            words -= np.uint64((ends[0] - origin) << 32)
        return Run.made(
            base, end - base, size, memory, ends, wide=wide, aux=aux, aux_ends=aux_ends, inexact=self.inexact
        )

    def _taken(
        self, values: NDArray[np.int64], base: int, end: int, size: int
    ) -> tuple[NDArray[np.int64], tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Return of (m, d) values of the words those of the `size` rows with ordinals base…end-1, and ends."""
        out, ends = np.empty((size + 1, values.shape[1]), np.int64), np.empty((2, values.shape[1]), np.int64)
        low, high = np.uint64(base - self.base), np.uint64(end - self.base)
        values = np.ascontiguousarray(values)
        if not take_further(self.words, self.size, low, high, values, out, ends):
            return out[:0], ends_of(out[:0])
        return out[:size], (ends[0], ends[1])


def _address(array: NDArray[np.generic]) -> int:
    return int(array.__array_interface__["data"][0])


def shift_of(smallest: int, largest: int) -> int:
    """Return by how many bits distances are shifted so that they, and the largest plus one, fit 32 bits.

    Examples
    --------
    >>> shift_of(-5, 2**32 - 7), shift_of(-5, 2**32 - 6), shift_of(-(2**63), 2**63 - 1)
    (0, 1, 33)
    """
    span = largest - smallest
    shift = max(0, span.bit_length() - 32)
    return shift + (span >> shift >= (1 << 32) - 1)


def step_of(smallest: int, largest: int, shift: int, size: int) -> int:
    """Return by how many more bits words are shifted for a bucket of the directory; never by all 64 bits."""
    upper = (largest - smallest) >> shift
    return max(0, upper.bit_length() - max(1, size.bit_length() - KEYS_A_BUCKET))


def new_directory(smallest: int, largest: int, shift: int, step: int) -> NDArray[np.uint32]:
    """Return a directory in which nothing is marked."""
    return np.zeros(((largest - smallest) >> shift >> step) + 2, np.uint32)


def build_run(
    base: int,
    rows: int,
    keys: NDArray[np.int64],
    aux: NDArray[np.int64],
    matchable: NDArray[np.bool_] | None,
    inexact: frozenset[int] = frozenset(),
) -> Run:
    """Sort one sub-window's keys.

    `keys` (rows,) int64 and `aux` (rows, d) int64 in arrival order; `matchable` (rows,) bool, the rows that may match,
    or None for all. Ties stay in arrival order. O(rows).
    """
    if matchable is None:
        chosen, among = EVERY_ROW, keys
    else:
        chosen = np.flatnonzero(matchable).astype(np.int32)
        among = keys[chosen]
    size = among.size
    ends = (int(among.min()), int(among.max())) if size else (0, 0)
    shift = shift_of(*ends)
    memory = words_pool.take(size + PAD)
    words, wide = memory[:size], None
    if size:
        keys = np.ascontiguousarray(keys)
        passes = -(-((ends[1] - ends[0]) >> shift).bit_length() // BITS) if size >= SMALL else 0
        spare = words_pool.take(size) if passes else memory
        sort_words(keys, chosen, matchable is None, ends[0], shift, passes, words, spare)
        if not passes:
            words.sort()
        if shift:
            wide = np.empty(size, np.int64)
            if not settle(keys, 4 * size, words, wide):
                # Most keys are one number in their upper bits.
                order = sorted_order(among)
                wide = among[order]
                offsets = order.astype(np.uint64) if matchable is None else chosen[order].astype(np.uint64)
                words[:] = ((wide - np.int64(ends[0])).view(np.uint64) >> np.uint64(shift) << HALF) | offsets
    further, bounds = np.empty((size, aux.shape[1]), np.int64), np.empty((2, aux.shape[1]), np.int64)
    if further.size:
        gather_further(memory, size, np.ascontiguousarray(aux), further, bounds)
    aux_ends = (bounds[0], bounds[1]) if size else ends_of(further)
    return Run.made(base, rows, size, memory, ends, wide=wide, aux=further, aux_ends=aux_ends, inexact=inexact)


def ends_of(aux: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the smallest and the largest value of each further dimension, an empty range if there is no row."""
    if aux.size == 0:
        empty = np.zeros(aux.shape[1], np.int64)
        return empty + 1, empty
    return aux.min(axis=0), aux.max(axis=0)
