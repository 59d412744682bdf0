"""Buckets: the units in which a join is spread over state partitions.

Spark assigns a group to partition ``pmod(murmur3(key), partitions)``. Bucket ids are chosen so that each partition gets
one bucket of a join, if there are as many partitions as buckets; consecutive ids would collide.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.predicate.truth.hashes import mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Grid", "bucket_ids", "bucket_of", "cut", "partition_of", "square_enough"]

WORD = 0xFFFFFFFF
SEED = 42


def _rotated(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (32 - bits))) & WORD


def _mixed(hash_: int, word: int) -> int:
    k = _rotated(word * 0xCC9E2D51 & WORD, 15) * 0x1B873593 & WORD
    return (_rotated(hash_ ^ k, 13) * 5 + 0xE6546B64) & WORD


def partition_of(bucket: int, partitions: int) -> int:
    """Return the partition on which Spark's hash partitioning puts a bigint key.

    Examples
    --------
    >>> [partition_of(bucket, 4) for bucket in range(6)]
    [1, 1, 0, 3, 0, 0]
    """
    raw = bucket & 0xFFFFFFFFFFFFFFFF
    hash_ = _mixed(_mixed(SEED, raw & WORD), raw >> 32)
    hash_ ^= 8
    hash_ = (hash_ ^ (hash_ >> 16)) * 0x85EBCA6B & WORD
    hash_ = (hash_ ^ (hash_ >> 13)) * 0xC2B2AE35 & WORD
    hash_ ^= hash_ >> 16
    signed = hash_ - (1 << 32) if hash_ >> 31 else hash_
    return signed % partitions


def bucket_ids(buckets: int) -> tuple[int, ...]:
    """Return one id for each of the partitions, the smallest that is assigned to it.

    They depend on the number of buckets alone. Id 0 is always among them, so that a query restarted with another number
    of buckets finds the old state of bucket 0 and fails.

    Examples
    --------
    >>> ids = bucket_ids(4)
    >>> [partition_of(bucket, 4) for bucket in ids], 0 in ids
    ([0, 1, 2, 3], True)
    """
    ids: dict[int, int] = {}
    bucket = 0
    while len(ids) < buckets:
        ids.setdefault(partition_of(bucket, buckets), bucket)
        bucket += 1
    return tuple(ids[partition] for partition in range(buckets))


@dataclass(frozen=True, slots=True)
class Grid:
    """Columns of consecutive buckets, in which a left and a right row of one group share exactly one bucket.

    A left row has one bucket in every column; a right row has one column, and is copied to every bucket of it in which
    a left row of its groups may be::

                   column 0   column 1   column 2
                      .          R          .
        left row      L          .          L         they meet in LR, and nowhere else, even if the right row
                      .         LR          .         belongs to several groups, as all of it stays in its column
                      .          R          .

    The bucket within a column and the column are chosen by hashes of the rows. With one column only right rows are
    copied.

    Attributes
    ----------
    starts, sizes : tuple of int
        First bucket number of each column, and how many it has.
    depth : int
        How many buckets of a column the left rows of one group use; 0 for all of them.
    """

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    depth: int

    @property
    def columns(self) -> int:
        """The number of columns."""
        return len(self.sizes)

    def ranks(self, hashes: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """Return which of its group's buckets each left row uses in a column of that size, (n,)."""
        return bucket_of(hashes, self.depth or size)

    def columns_of(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the column of each right row, (n,): larger columns get more of them.

        Mixed once more, since in a self-join the column and the bucket within columns use one hash.
        """
        numbers = bucket_of(mix(hashes), sum(self.sizes))
        return np.searchsorted(np.array(self.starts), numbers, "right") - 1

    def loads(self, groups: float) -> tuple[list[float], list[float]]:
        """Return the expected copies of one left row and of one right row in each bucket, if hashes are even.

        `groups` is to how many groups a right row belongs on average; those beyond the first take one bucket more each,
        because they begin one bucket further.
        """
        count = sum(self.sizes)
        left = [1 / size for size in self.sizes for _ in range(size)]
        right = [min(self.depth + groups - 1 if self.depth else size, size) / count for size in self.sizes]
        return left, [load for load, size in zip(right, self.sizes, strict=True) for _ in range(size)]


def bucket_of(numbers: NDArray[np.int64], count: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number below `count` for each of these hashes."""
    whole = numbers.view(np.uint64)
    return parted(whole, np.asarray(count).astype(np.uint64)[()])[1].astype(np.int64)


def parted(numbers: NDArray[Any], by: Any) -> tuple[NDArray[Any], NDArray[Any]]:  # noqa: ANN401 - a number or many
    """Return `numpy.divmod` by one number, in a third of its time, because NumPy then multiplies instead.

    Examples
    --------
    >>> [part.tolist() for part in parted(np.array([-5, 0, 7]), 3)]
    [[-2, 0, 2], [1, 0, 1]]
    """
    whole = numbers // by
    return whole, numbers - whole * by


@lru_cache(maxsize=64)
def cut(count: int, columns: int, depth: int) -> Grid:
    """Divide so many buckets into columns that differ by one bucket at most.

    Examples
    --------
    >>> cut(8, 3, 0)
    Grid(starts=(0, 3, 6), sizes=(3, 3, 2), depth=0)
    """
    sizes = tuple(count // columns + (column < count % columns) for column in range(columns))
    return Grid(tuple(accumulate(sizes[:-1], initial=0)), sizes, depth)


@lru_cache(maxsize=64)
def square_enough(count: int) -> Grid:
    """Return the grid for sides of one size: its fullest bucket gets least, and of those the one with fewest copies.

    Examples
    --------
    >>> [square_enough(count).columns for count in (1, 2, 3, 4, 8, 9, 16)]
    [1, 1, 2, 2, 3, 3, 4]
    """

    def cost(grid: Grid) -> tuple[float, float]:
        loads = [sum(pair) for pair in zip(*grid.loads(1), strict=True)]
        return round(max(loads), 9), round(sum(loads), 9)

    return min((cut(count, columns, 0) for columns in range(1, min(count, 2 * isqrt(count)) + 1)), key=cost)
