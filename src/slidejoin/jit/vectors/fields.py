"""Records of kernels: named fields in an array of words, for compiled code, plain Python, and Python that sets them.

A kernel takes the words, and reads fields as attributes of the records in them. Python sets many fields a push, and to
set an attribute takes four times as long as an item of a memoryview: so it sets words, at the place that `word` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from slidejoin.jit.compiling import inlined
from slidejoin.jit.vectors.memory import i64_at, place_of, u32_at, u64_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

__all__ = ["ARRAY", "LENGTH", "WORD", "i64_in", "record", "records_in", "u32_in", "u64_in", "word", "words_for"]

WORD: np.dtype[Any] = np.dtype(np.int64)
"""The type of a field that is a number, a flag or an address."""

Field: TypeAlias = "str | int | tuple[str, np.dtype[Any]] | tuple[str, np.dtype[Any], int]"


def record(fields: Iterable[Field]) -> np.dtype[np.record]:
    """Return the type of a record with these fields, in order.

    Parameters
    ----------
    fields
        Of each its name, if it is a word; or a name and a type, `WORD` or that of another record; or a name, a type and
        how many of that type there are. A number among them means that what follows begins at a multiple of so many
        words: on another line of the cache, say; behind them, that the next record does.

    Raises
    ------
    ValueError
        If a name is one of the attributes of NumPy's records: plain Python would find that instead of the field.

    Examples
    --------
    >>> ROWS = record(["first", ("keys", ARRAY), 4])
    >>> PUSH = record([("sides", ROWS, 2), "pairs", ("stops", WORD, 3)])
    >>> push = np.zeros(1, PUSH)[0]
    >>> push.sides[1].keys.length = 7
    >>> push.stops[2] = push.sides[1].keys.length + 1
    >>> push.sides.tolist(), push.stops.tolist()
    ([(0, (0, 0)), (0, (0, 7))], [0, 0, 8])
    """
    names, kinds, places, end = list[str](), list[Any](), list[int](), 0
    for field in fields:
        if isinstance(field, int):
            end = -(-end // field) * field
            continue
        name, kind, *count = (field, WORD) if isinstance(field, str) else field
        if hasattr(np.record, name):
            msg = f"a field of a record has the name {name!r}, which is an attribute of all records of NumPy; rename it"
            raise ValueError(msg)
        whole = np.dtype((kind, tuple(count))) if count else kind
        names.append(name)
        kinds.append(whole)
        places.append(end * WORD.itemsize)
        end += whole.itemsize // WORD.itemsize
    described = {"names": names, "formats": kinds, "offsets": places, "itemsize": end * WORD.itemsize}
    return cast("np.dtype[np.record]", np.dtype((np.record, np.dtype(described, align=True))))  # type: ignore[call-overload]


def word(kind: np.dtype[Any], *path: str | int) -> int:
    """Return where a field of a record begins, in words.

    Parameters
    ----------
    kind
        The type of the record.
    path
        The name of the field; of one in another record, the names from the outside in. Behind the name of a field of
        which there are several, which of these.

    Examples
    --------
    >>> ROWS = record(["first", ("keys", ARRAY)])
    >>> PUSH = record(["pairs", ("sides", ROWS, 2)])
    >>> word(ROWS, "keys", "length"), word(PUSH, "sides", 1), word(PUSH, "sides", 1, "keys")
    (2, 4, 5)
    """
    place = 0
    for step in path:
        if isinstance(step, str):
            assert kind.fields is not None  # noqa: S101 - a record
            kind, offset, *_ = kind.fields[step]
        else:
            kind = kind.base
            offset = step * kind.itemsize
        place += offset
    return place // WORD.itemsize


def words_for(kind: np.dtype[Any], count: int = 1) -> NDArray[np.int64]:
    """Return the words of so many records, all 0: what kernels take, since arrays of records take longer to pass.

    Examples
    --------
    >>> words_for(ARRAY, 2)
    array([0, 0, 0, 0])
    """
    return np.zeros(count * (kind.itemsize // WORD.itemsize), np.int64)


def records_in(kind: np.dtype[Any]) -> Callable[[NDArray[np.int64]], NDArray[np.record]]:
    """Return a function for kernels, which makes an array (n,) of the records that words hold, in the same memory."""
    if numba.config.DISABLE_JIT:
        return lambda words: words.view(kind)

    pointers, size = types.CPointer(numba.from_dtype(kind)), kind.itemsize // WORD.itemsize

    @intrinsic
    def pointer(_typing: Any, address: Any) -> Any:  # noqa: ANN401, ARG001 - Numba looks at the names
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return pointers(types.int64), generate

    def view(words: NDArray[np.int64]) -> NDArray[np.record]:
        return numba.carray(pointer(place_of(words)), words.size // size)  # type: ignore[no-any-return]

    return inlined(view)


ARRAY = record(
    [
        "address",  # where the values of an array begin
        "length",  # how many there are
    ]
)
"""An array in memory that the caller keeps alive."""
LENGTH = word(ARRAY, "length")
"""The place of its length among its words."""


@inlined
def i64_in(array: np.record) -> NDArray[np.int64]:
    """Return the array of int64 that an ARRAY has the address of."""
    return i64_at(array.address, array.length)


@inlined
def u32_in(array: np.record) -> NDArray[np.uint32]:
    """Return the array of uint32 that an ARRAY has the address of."""
    return u32_at(array.address, array.length)


@inlined
def u64_in(array: np.record) -> NDArray[np.uint64]:
    """Return the array of uint64 that an ARRAY has the address of."""
    return u64_at(array.address, array.length)
