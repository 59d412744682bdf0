"""64-bit hashes of strings and binary: equal bytes have equal hashes, in every layout, process and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pat

from slidejoin.predicate.truth.values import Column, Values, bytes_array, one_array
from slidejoin.rows.arrow_buffers import from_buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["hash_values", "hashed", "mix"]

_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_STEP = np.uint64(0x9E3779B97F4A7C15)


def hashed(column: Column) -> Values:
    """Return the hash of each value as int64; dictionaries are hashed once for each entry."""
    array = one_array(column)
    if pat.is_dictionary(array.type):
        indices, dictionary = array.indices, array.dictionary  # type: ignore[attr-defined]  # of dictionaries, by its type
        entries = hashed(dictionary)
        valid = pc.is_valid(array).to_numpy(zero_copy_only=False) if array.null_count else None
        codes = indices.fill_null(0) if indices.null_count else indices
        places = codes.to_numpy(zero_copy_only=False)
        if entries.valid is not None:  # an entry of the dictionary itself may be NULL
            inner = entries.valid[places] if len(entries.data) else np.zeros(len(places), np.bool_)
            valid = inner if valid is None else inner & valid
        data = entries.data[places] if len(entries.data) else np.zeros(len(places), np.int64)
        return Values(data, valid)
    whole = bytes_array(array)
    valid = pc.is_valid(whole).to_numpy(zero_copy_only=False) if whole.null_count else None
    return Values(hash_values(whole), valid)


def hash_values(array: pa.Array[Any]) -> NDArray[np.int64]:
    """Return the hash of each value of a large-binary array, (n,); anything under NULL."""
    from slidejoin.predicate.kernels.hashing import hash_bytes  # noqa: PLC0415  compiled only if strings are compared

    out = np.empty(len(array), np.int64)
    _, offsets, data = array.buffers()
    if len(array):
        ends = from_buffer(offsets, np.int64, len(array) + 1, array.offset * 8)
        letters = from_buffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
        hash_bytes(ends, letters, out)
    return out


def mix(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return well spread numbers, equal for equal ones (the finaliser of SplitMix64)."""
    z = numbers.view(np.uint64) + _STEP
    z = (z ^ (z >> np.uint64(30))) * _MULTIPLIERS[0]
    z = (z ^ (z >> np.uint64(27))) * _MULTIPLIERS[1]
    return (z ^ (z >> np.uint64(31))).view(np.int64)
