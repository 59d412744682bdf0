"""Buckets: the units in which a join is spread over state partitions.

Spark assigns a group to partition ``pmod(murmur3(key), partitions)``. Bucket ids are chosen so that each partition gets
one bucket of a join, if there are as many partitions as buckets; consecutive ids would collide.
"""

from __future__ import annotations

__all__ = ["bucket_ids", "partition_of"]

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
    found: dict[int, int] = {}
    bucket = 0
    while len(found) < buckets:
        found.setdefault(partition_of(bucket, buckets), bucket)
        bucket += 1
    return tuple(found[partition] for partition in range(buckets))
