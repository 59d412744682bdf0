"""Equal texts are found by codes: what comes out is the law's, however hashes collide and however soon codes die."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.rows.text_table import TextTable
from tests.daily import some_by_day
from tests.law.checks import ORDERS, assert_counts, assert_pairs, examples, lines
from tests.narrow import tune
from tests.strategies import FAMILIES, TIME_FAMILIES, Case, count_windows, pushes, tables, time_windows

LONG = ["0123456789abcd", "0123456789abce", "0123456789abcdef", "0123456789abcdeg", "x0123456789abcdefghij", ""]
TEXTS = {kind: LONG for kind in FAMILIES["text"].domains if not pa.types.is_dictionary(kind)}
ROWS, ENOUGH = 250, 100
BAND = "l.p BETWEEN r.p - 9 AND r.p + 9"


@st.composite
def of_texts(draw: st.DrawFn, *, self_join: bool = False) -> Case:
    """Joins on one to three equalities of texts, some with a band, an inequality, or OR beside them."""
    kinds = []
    for _ in ("left", "right"):
        domains = {name: draw(st.sampled_from([FAMILIES["text"].domains, TEXTS])) for name in "acd"}
        timed = {"b": FAMILIES["int"].domains, "ts": TIME_FAMILIES["int"]}
        kinds.append({name: draw(st.sampled_from(list(one.items()))) for name, one in (domains | timed).items()})
    left = draw(tables(kinds[0], 20, ordered=True))
    right = left if self_join else draw(tables(kinds[1], 20, ordered=True))

    def equal(one: str, two: str) -> Any:
        return "=", ("col", "left", one), ("col", "right", two)

    b = ("col", "left", "b"), ("col", "right", "b")
    beside = [
        ("between", b[0], ("-", b[1], ("lit", 1)), ("+", b[1], ("lit", 1))),
        ("<", *b),
        ("<>", ("col", "left", "d"), ("col", "right", "d")),
        ("or", equal("c", "c"), equal("d", "a")),
        ("not", equal("a", "d")),
    ]
    terms = [
        equal(*draw(st.sampled_from([("a", "a"), ("a", "a"), ("a", "c"), ("c", "c"), ("d", "d")])))
        for _ in range(draw(st.integers(1, 3)))
    ]
    terms += draw(st.lists(st.sampled_from(beside), max_size=2))
    predicate = terms[0] if len(terms) == 1 else (draw(st.sampled_from(["and", "and", "and", "or"])), *terms)
    window = draw(count_windows() if draw(st.booleans()) else time_windows("int"))
    case = Case(predicate, window, left, right, self_join=self_join, as_text=draw(st.booleans()))
    case.pushes = draw(pushes(left, right, 7))
    return case


def forget_at_once(patch: pytest.MonkeyPatch) -> None:
    """Forget what no window holds at each push, not only when room is scarce, and let rows leave one by one."""

    def complete(table: TextTable, *given: Any) -> pa.ChunkedArray[Any]:
        table.make_room()
        return original(table, *given)

    original = TextTable.complete
    tune(patch, chunk_rows=1)
    patch.setattr(TextTable, "complete", complete)
    tune(patch, epoch_share=1 << 30)
    tune(patch, text_spread=1)


def few(patch: pytest.MonkeyPatch, bits: int) -> None:
    """Let hashes collide, tables begin with room for two texts, and each push be an epoch."""
    tune(patch, epoch_rows=1, text_room=2, text_hash_bits=bits)
    forget_at_once(patch)


all_bits = st.sampled_from([0, 1, (1 << 64) - 1])
algorithms = st.sampled_from(["auto", "auto", "bi_sort", "nested_loop"])


@examples(100)
@given(case=of_texts(), order=st.sampled_from(ORDERS), algorithm=algorithms, bits=all_bits)
def test_pairs(case: Case, order: str, algorithm: str, bits: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few(patch, bits)
        assert_pairs(case, order, algorithm=algorithm)


@examples(40)
@given(case=of_texts(self_join=True), bits=all_bits)
def test_pairs_of_self_joins(case: Case, bits: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few(patch, bits)
        assert_pairs(case, "strict")


@examples(40)
@given(case=of_texts(), bits=all_bits)
def test_counts(case: Case, bits: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few(patch, bits)
        assert_counts(case)


@examples(40)
@given(case=of_texts(), data=st.data())
def test_snapshots_hold_texts(case: Case, data: st.DataObject) -> None:
    """Texts that are not output are not kept: codes become texts again in a snapshot, and others when it is loaded."""
    with pytest.MonkeyPatch.context() as patch:
        few(patch, 1)
        whole, broken = (case.join(output="positions", order="strict") for _ in "ab")
        for push in case.pushes:
            if data.draw(st.booleans()):
                broken = sj.StreamJoin.restore(broken.snapshot())
            given_ = push.arguments(self_join=case.self_join)
            assert lines(whole.push(**given_)) == lines(broken.push(**given_))


# -- larger streams ----------------------------------------------------------------------------------------------------


def named(rows: int, start: int, *, dictionary: bool) -> pa.Table:
    """Rows whose names go on: a name may come again after a window's rows; now and then a long one, or none."""
    draw = np.random.default_rng(start)
    number = start // 2 + draw.integers(0, draw.integers(1, 600, rows), rows)
    name = [None if one % 97 == 0 else f"name {one}" if one % 5 else f"a long name {one}" for one in number.tolist()]
    column = pa.array(name)
    return pa.table({"s": column.dictionary_encode() if dictionary else column, "p": draw.integers(0, 20, rows)})


@pytest.mark.parametrize(
    ("on", "output", "dictionary"),
    some_by_day(
        [f"l.s = r.s AND {BAND}", "l.s = r.s", "l.s = r.s AND l.p < r.p"], ["positions", "count"], [False, True]
    ),
)
def test_names_that_come_and_go(on: str, dictionary: bool, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes are given out again while the join runs; a nested loop that compares the texts finds the same."""
    tune(monkeypatch, epoch_rows=200)
    forget_at_once(monkeypatch)
    found = []
    for options in ({}, {"algorithm": "nested_loop", "memory_limit": 1 << 40}):
        join = sj.StreamJoin(on, sj.CountWindow(700), output=output, **options)
        parts = []
        for start, rows in zip(range(0, 40 * ROWS, ROWS), [1, 249, 250, 400] * 10, strict=True):
            # Only pushes without NULL take the fused path.
            sides = [named(rows, start + shift, dictionary=dictionary) for shift in (0, 7)]
            left, right = (side.drop_null() if start % 3 else side for side in sides)
            # Now and then one side stands still for more than the other's window: its rows, and their codes, stay.
            still = start // (8 * ROWS) % 4
            parts.append(join.push(left if still != 2 else None, right if still != 3 else None))
        table = pa.concat_tables(parts)
        by = [("left", "ascending"), ("right", "ascending")]
        found.append(table.sort_by(by) if output == "positions" else table.select(["match_count"]))
    assert found[0].num_rows > ENOUGH
    assert found[0].equals(found[1])


def test_what_is_only_compared_is_kept_as_codes() -> None:
    rows = named(500, 1000, dictionary=False)
    bytes_of = []
    for output in ("positions", "pairs"):
        join = sj.StreamJoin("l.s = r.s", sj.CountWindow(500), output=output)
        join.push(rows, rows)
        bytes_of.append(join.stats.window_bytes)
    assert bytes_of[0] < bytes_of[1]


def test_a_column_may_have_the_name_of_the_codes() -> None:
    schema = {"s": ["a", "b"], "code of s": ["x", "y"]}
    join = sj.StreamJoin('l.s = r.s AND l."code of s" = r."code of s"', sj.CountWindow(5))
    assert join.push(schema, schema).to_pylist() == [
        {"s": one, "code of s": two, "s_right": one, "code of s_right": two} for one, two in [("a", "x"), ("b", "y")]
    ]
