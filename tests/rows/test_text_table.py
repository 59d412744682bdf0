"""A table of texts gives equal texts one code, different ones different codes, and forgets what nobody needs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.rows.kernels.text_table import CODE
from slidejoin.rows.text_table import TextTable
from tests.law.checks import examples
from tests.narrow import tune

KINDS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
]
FEW, MANY = 3, 40
TEXTS = st.none() | st.sampled_from(
    ["", "a", "b", "a\0", "\0", "é", "1234567", "12345678", "123456789012345", "1234567890123456", "1234567890123457"]
    + ["x" * 23 + end for end in "yz"] + ["x" * 24 + end for end in "yz"] + ["z" + "x" * 24]
)  # fmt: skip


def arrow(kind: pa.DataType, texts: list[str | None]) -> pa.Array[Any]:
    if pa.types.is_dictionary(kind):
        return pa.array(texts, kind.value_type).dictionary_encode().cast(kind)
    return pa.array([None if text is None else text.encode() for text in texts], pa.binary()).cast(kind)


def longest_run(table: TextTable) -> int:
    """The longest row of taken slots, which is what a search may read."""
    taken = np.flatnonzero(table._table.slots[:, CODE] == 0)
    return int(np.diff(taken).max()) - 1


def test_texts_that_are_chosen_do_not_meet() -> None:
    """Texts that differ so that products by any odd number agree: in the uppermost bits of two words."""
    table = TextTable()
    halves = [b"0123456\x00abc\x00def\x00", b"0123456\x80abc\x80def\x80"]
    texts = [b"".join(parts) for parts in product(halves, repeat=10)]
    table.codes(pa.chunked_array([texts], pa.binary()), 0)
    assert table.texts == len(set(texts))
    assert longest_run(table) < 60


def test_each_table_has_secrets_of_its_own_and_the_same_codes() -> None:
    texts = pa.chunked_array([[f"{number * 7919 % 500}" for number in range(2000)]])
    one, two = TextTable(), TextTable()
    assert one.codes(texts, 0).equals(two.codes(texts, 0))
    assert not np.array_equal(one._table.slots[:, 0], two._table.slots[:, 0])


@examples(150)
@given(
    pushes=st.lists(
        st.tuples(st.sampled_from(KINDS), st.lists(TEXTS, max_size=12), st.integers(0, 3), st.integers(0, 3)),
        max_size=8,
    ),
    bits=st.sampled_from([0, 3, (1 << 64) - 1]),
    epochs=st.integers(1, 3),
)
def test_codes(pushes: list[tuple[pa.DataType, list[str | None], int, int]], bits: int, epochs: int) -> None:
    """A text keeps its code while it is remembered, whatever its type and however hashes collide."""
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, text_room=2, text_hash_bits=bits)
        table = TextTable()
        known: dict[str, tuple[int, int]] = {}
        for epoch, (kind, texts, skipped, cut) in enumerate(pushes):
            table.oldest = max(epoch - epochs, 0)
            known = {text: (code, seen) for text, (code, seen) in known.items() if seen >= table.oldest}
            array = arrow(kind, ["before"] * skipped + texts)[skipped:]
            codes = table.codes(pa.chunked_array([array[:cut], array[cut:]], kind), epoch)
            codes.validate(full=True)
            for text, code in zip(texts, codes.to_pylist(), strict=True):
                assert (text is None) == (code is None)
                if text is not None:
                    assert known.setdefault(text, (code, epoch))[0] == code
                    known[text] = code, epoch
            assert len({code for code, _ in known.values()}) == len(known)
            for plain in (pa.string(), pa.large_binary()):
                again = table.texts_of(codes, plain)
                again.validate(full=True)
                assert again.cast(pa.large_binary()).equals(
                    pa.chunked_array([arrow(pa.large_binary(), texts)], pa.large_binary())
                )


def test_codes_and_memory_stay_small_for_ever() -> None:
    """Only the texts of two epochs are alive; a hundred times as many come."""
    table = TextTable()
    sizes, most, rows = [], 0, 1000
    for epoch in range(100):
        table.oldest = max(epoch - 1, 0)
        texts = pa.array([f"text {number} of epoch {epoch}" for number in range(rows)])
        codes = table.codes(pa.chunked_array([texts]), epoch).to_numpy()
        assert np.unique(codes).size == rows
        most = max(most, int(codes.max()))
        sizes.append(table.nbytes)
    assert most < 4 * 2 * rows
    assert max(sizes[10:]) <= 2 * max(sizes[:10])


def test_a_large_dictionary_costs_its_rows() -> None:
    """Entries that no row has get no code."""
    table, entries = TextTable(), pa.array([str(number) for number in range(MANY)])
    column = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([7, None, 7], pa.int32()), entries)])
    assert table.codes(column, 0).to_pylist() == [0, None, 0]
    assert table.texts <= FEW


def test_entries_of_dictionaries_may_be_null() -> None:
    for entries in (["a", None, "b"], ["a", None, "b", "c", "d", "e", "f", "g"]):
        column = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 2, 0]), pa.array(entries))])
        one, two, three, four, five = TextTable().codes(column, 0).to_pylist()
        assert one is three is None
        assert two == five != four
        assert four is not None
