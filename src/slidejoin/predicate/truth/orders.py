"""Integers in place of values: the first bytes of strings, in the same order, and codes in which NULL is a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slidejoin.predicate.truth import exact, floats
from slidejoin.predicate.truth.types import BYTES, Kind, Type
from slidejoin.rows.arrow_buffers import from_buffer

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slidejoin.predicate.truth.values import Values

__all__ = ["PREFIX_REACH", "codes", "prefixes"]

PREFIX_REACH = 1 << 62
"""No prefix is farther from 0, so that ends of ranges can be added to it."""
_WORD = 8
# Which bits of the first eight bytes belong to a string of so many bytes.
_MASKS = np.array([0, *(((1 << 64) - 1) ^ ((1 << (64 - 8 * n)) - 1) for n in range(1, _WORD + 1))], np.uint64)
_NULL_CODE, _NAN_CODE = -0x61C8864680B583EB, -0x3C6EF372FE94F82B
_LOW_WORD = (1 << 64) - 1


def prefixes(array: pa.Array[Any]) -> NDArray[np.int64]:
    r"""Return the first 63 bits of binary values as integers in the same order, (n,).

    Values that differ further back have one prefix, as have ``a`` and ``a`` with zero bytes behind it.

    Parameters
    ----------
    array
        Large binary; what lies under NULL gives any number.

    Examples
    --------
    >>> import pyarrow as pa
    >>> codes = prefixes(pa.array([b"", b"a", b"ab", b"\xff"], pa.large_binary()))
    >>> (np.diff(codes) > 0).all()
    np.True_
    """
    n = len(array)
    words = np.zeros(n, np.uint64)
    _, offsets, data = array.buffers()
    if n and data is not None and data.size:
        ends = from_buffer(offsets, np.int64, n + 1, array.offset * 8)
        starts, letters = ends[:-1], from_buffer(data, np.uint8)
        lengths = np.minimum(np.diff(ends), _WORD)
        whole = starts <= letters.size - _WORD
        if letters.size >= _WORD:
            # Eight bytes from every place on, without a copy; the first one counts most.
            every = np.ndarray((letters.size - _WORD + 1,), ">u8", letters, strides=(1,))
            words[whole] = every[starts[whole]]
        for row in np.flatnonzero(~whole):
            words[row] = int.from_bytes(bytes(letters[starts[row] : ends[row + 1]])[:_WORD].ljust(_WORD, b"\0"))
        words &= _MASKS[lengths]
    return (words >> np.uint64(1)).view(np.int64) - PREFIX_REACH


def codes(values: Values, of: Type, to: Type) -> NDArray[np.int64]:
    """Return integers that are the same for values that are not distinct, NULL and NaN being values, (n,).

    Parameters
    ----------
    values
        Of type `of`; hashes of strings and binary.
    to
        The type of which both operands of the comparison can be.
    """
    if of.kind in BYTES:
        codes: NDArray[Any] = values.data
    elif to.kind is Kind.FLOAT:
        data = floats.to_float(values, of.scale) if of.exact else values.data
        codes = np.where(np.isnan(data), _NAN_CODE, floats.float_keys(data))
    elif values.data.dtype == np.bool_:
        codes = values.data.astype(np.int64)
    else:
        codes = exact.rescale(values, to.scale - of.scale).data
        if codes.dtype == object:
            low = [int(number) & _LOW_WORD for number in codes.tolist()]
            codes = np.array(low, np.uint64).view(np.int64)
    return codes if values.valid is None else np.where(values.valid, codes, _NULL_CODE)
