"""Groups in words: a kernel reads and writes the arrays that a structure has, empty ones too."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from numba import types

from slidejoin.jit.compiling import I64, OUT_I32, OUT_I64, U64, kernel
from slidejoin.papers.kernels.in_words import reader
from slidejoin.papers.structure import words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.nojit


class Shelf(NamedTuple):
    """Arrays of both types, and a number between them."""

    keys: NDArray[np.int64]
    step: int
    sizes: NDArray[np.int32]


shelf_in = reader(Shelf, OUT_I64, types.int64, OUT_I32)


@kernel(I64, returns=types.int64)
def raise_all(words: NDArray[np.int64]) -> int:
    """Add the step to each key and 1 to each size; return the number of both."""
    shelf = shelf_in(words)
    for at in range(shelf.keys.size):
        shelf.keys[U64(at)] += shelf.step
    for at in range(shelf.sizes.size):
        shelf.sizes[U64(at)] += 1
    return shelf.keys.size + shelf.sizes.size


@pytest.mark.parametrize(("keys", "sizes"), [(3, 5), (0, 2), (4, 0), (0, 0)])
def test_arrays_are_those_of_the_structure(keys: int, sizes: int) -> None:
    shelf = Shelf(np.arange(keys), -7, np.arange(sizes, dtype=np.int32))
    assert raise_all(words_of(shelf)) == keys + sizes
    assert shelf.keys.tolist() == [key - 7 for key in range(keys)]
    assert shelf.sizes.tolist() == list(range(1, sizes + 1))
