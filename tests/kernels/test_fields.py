"""Records of kernels: compiled code, plain Python and whoever sets their words read and write the same fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from numba import types

from slidejoin.jit.compiling import OUT_I64, U64, kernel
from slidejoin.jit.vectors.atomics import read_word, swap_word, write_word
from slidejoin.jit.vectors.fields import ARRAY, WORD, i64_in, record, records_in, u32_in, u64_in, word, words_for
from slidejoin.runtime.array_pool import address_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.nojit

ROWS = record(["first", ("keys", ARRAY), ("marks", ARRAY), ("found", ARRAY), 8])
PUSH = record([("sides", ROWS, 2), "pairs", 4, ("stage", WORD, 1), 4, ("stops", WORD, 3)])
pushes_in = records_in(PUSH)


@kernel(OUT_I64, types.int64, returns=types.int64)
def add_up(words: NDArray[np.int64], side: int) -> int:
    """Sum up one side's arrays and write to each kind of field."""
    push = pushes_in(words)[0]
    rows = push.sides[U64(side)]
    total = 0
    for key in i64_in(rows.keys):
        total += key
    push.pairs += int(u64_in(rows.marks)[0]) + int(u32_in(rows.found)[1])
    push.stops[U64(side)] = total
    rows.keys.length = rows.first = 1
    write_word(push.stage, 0, read_word(push.stage, 0) + 5)
    return total + int(swap_word(push.stage, 0, 5, 6))


def test_a_kernel_reads_and_writes_what_python_does() -> None:
    words = words_for(PUSH)
    keys, marks, found = np.arange(10), np.array([2**40], np.uint64), np.array([0, 2**32 - 1], np.uint32)
    for name, array in (("keys", keys), ("marks", marks), ("found", found)):
        place = word(PUSH, "sides", 1, name)
        words[place + word(ARRAY, "address")], words[place + word(ARRAY, "length")] = address_of(array), array.size
    assert add_up(words, 1) == 45 + 1
    push = words.view(PUSH)[0]
    assert (push.sides[1].first, push.sides[1].keys.length, push.sides[0].first) == (1, 1, 0)
    assert (push.pairs, push.stage.tolist(), push.stops.tolist()) == (2**40 + 2**32 - 1, [6], [0, 45, 0])
    assert words[word(PUSH, "sides", 1, "keys", "length")] == 1
    assert words[word(PUSH, "stage")] == 6
    assert words[word(PUSH, "stops") + 1] == 45


def test_fields_begin_where_a_line_does() -> None:
    assert [word(PUSH, name) for name in ("sides", "pairs", "stage", "stops")] == [0, 16, 20, 24]
    assert (word(PUSH, "sides", 1), ROWS.itemsize, PUSH.itemsize) == (8, 8 * 8, 8 * 27)


def test_a_field_that_every_record_has() -> None:
    message = "a field of a record has the name 'put', which is an attribute of all records of NumPy; rename it"
    with pytest.raises(ValueError, match=message):
        record(["first", ("put", WORD, 2)])
