"""From pairs to output rows of joins that are not inner, against loops over arrivals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.jit.vectors.fields import word, words_for
from slidejoin.operator.kernels import joining
from slidejoin.operator.kernels.joining import EVERY_PAIR, FIRST_PAIRS, JOINING, NO_PAIRS, SIDE_ROWS
from slidejoin.operator.kernels.matched import mark_matches, mark_probes
from slidejoin.operator.window.matched_rows import MatchedRows
from slidejoin.runtime.array_pool import address_of, point
from tests.law.checks import examples

SIDES = ("left", "right")
Pushed = dict[str, Any]


@st.composite
def pushes(draw: st.DrawFn) -> Pushed:
    """Arrivals of a push with their pairs, and the window that they come to."""
    arrivals = draw(st.lists(st.sampled_from(SIDES), max_size=90))
    slide = draw(st.sampled_from([1, 1, 3]))
    kept = draw(st.sampled_from([NO_PAIRS, EVERY_PAIR, EVERY_PAIR, FIRST_PAIRS]))
    return {
        "kept": kept,
        # Semi and anti joins have no right rows in their output.
        "output": draw(st.sampled_from([("left",), ("right",), SIDES])) if kept == EVERY_PAIR else ("left",),
        "arrivals": arrivals,
        "slide": slide,
        "sizes": [draw(st.sampled_from([slide, 5, 70])) for _ in SIDES],
        # Across the ends of words and of blocks of marks.
        "first": [draw(st.sampled_from([0, 60, 4090, 8191])) for _ in SIDES],
        # By what found the pairs, or with them.
        "marked": kept != FIRST_PAIRS and draw(st.booleans()),
        "seed": draw(st.integers(0, 1 << 16)),
    }


def displaced(seen: int, size: int, slide: int) -> int:
    outside = seen - size
    return outside - outside % slide if outside > 0 else 0


def expected(drawn: Pushed, pairs: list[list[tuple[int, int]]], marked: list[set[int]]) -> tuple[list[Any], list[int]]:
    """The output rows, and how many rows of each side were output alone, arrival by arrival."""
    rows: list[Any] = []
    alone, seen, slide = [0, 0], list(drawn["first"]), drawn["slide"]
    for side, found in zip(drawn["arrivals"], pairs, strict=True):
        for one, two in found:
            if drawn["kept"] == EVERY_PAIR or (drawn["kept"] == FIRST_PAIRS and one not in marked[0]):
                rows.append((one, two if drawn["kept"] == EVERY_PAIR else None))
            marked[0].add(one)
            marked[1].add(two)
        number = SIDES.index(side)
        gone = displaced(seen[number], drawn["sizes"][number], slide)
        seen[number] += 1
        for row in range(gone, displaced(seen[number], drawn["sizes"][number], slide)):
            if side in drawn["output"] and drawn["kept"] != FIRST_PAIRS and row not in marked[number]:
                rows.append((row, None) if side == "left" else (None, row))
                alone[number] += 1
    return rows, alone


def words_of(
    drawn: Pushed, marks: list[MatchedRows], every: Any, ranks: list[Any], counts: list[Any], out: Any, bits: Any
) -> Any:
    """The words of a push, which refer to its arrays."""
    words, slide = words_for(JOINING), drawn["slide"]
    ways = words.view(JOINING)[0]
    ways.output, ways.slide, ways.marked = drawn["kept"], slide, drawn["marked"]
    ways.pairs, ways.room = every.shape[1], out.shape[1]
    for number, (side, own) in enumerate(zip(SIDES, (ways.left, ways.right), strict=True)):
        own.window, own.ordinal, own.lone = drawn["sizes"][number], drawn["first"][number], -1
        own.leaving = displaced(own.ordinal, own.window, slide) if side in drawn["output"] else -1
        own.pairs, own.rank = address_of(every[number]), address_of(ranks[number])
        own.out, own.known = address_of(out[number]), address_of(bits[number])
        view, begin = marks[number].view, word(JOINING, side)
        own.first_block = view.first
        for name, array in (("marks", view.words), ("blocks", view.blocks), ("counts", counts[number])):
            point(words, begin + word(SIDE_ROWS, name), array)
    return words


@pytest.mark.nojit
@examples(400)
@given(drawn=pushes())
def test_rows_of_a_push(drawn: Pushed) -> None:
    rng, first, sizes, slide = np.random.default_rng(drawn["seed"]), drawn["first"], drawn["sizes"], drawn["slide"]
    sides = [drawn["arrivals"].count(side) for side in SIDES]
    ranks = [np.array([n for n, one in enumerate(drawn["arrivals"]) if one == side], np.int64) for side in SIDES]
    seen, pairs = list(first), []
    for side in drawn["arrivals"]:
        number = SIDES.index(side)
        own, other = seen[number], 1 - number
        stored = range(displaced(seen[other], sizes[other], slide), seen[other])
        partners = [row for row in stored if rng.random() < 0.02 + 0.3 * (row % 5 == 0)]
        pairs.append([(own, row) if number == 0 else (row, own) for row in partners])
        seen[number] += 1
    marks, known = [], []
    for number, side in enumerate(SIDES):
        matched = MatchedRows()
        matched.start_at(displaced(first[number], sizes[number], slide))
        matched.extend(first[number] + sides[number])
        before = [row for row in range(displaced(first[number], sizes[number], slide), first[number]) if row % 3 == 0]
        matched.mark(np.array(before, np.int64))
        is_marked = side in drawn["output"] or (drawn["kept"] == FIRST_PAIRS and side == "left")
        marks.append(matched if is_marked else MatchedRows())
        known.append(set(before))
    rows, alone = expected(drawn, pairs, known)
    every = np.array([pair for found in pairs for pair in found], np.int64).reshape(-1, 2).T.copy()
    counts = [np.array([len(pairs[rank]) for rank in own], np.int32) for own in ranks]
    for number, matched in enumerate(marks):
        if drawn["marked"] and matched.view[1].size:
            partners = [pair[number] for rank in ranks[1 - number] for pair in pairs[rank]]
            base = displaced(first[number], sizes[number], slide)
            mark_matches(
                matched.view, np.array([0, *partners, 0], np.uint32) + np.uint32(1), 1, 1 + len(partners), base
            )
            mark_probes(matched.view, counts[number], first[number])
    room = every.shape[1] + sum(sides) + 2 * slide + 1
    out, bits = np.full((2, room), -9), np.empty((2, room // 8 + 1), np.uint8)
    words = words_of(drawn, marks, every, ranks, counts, out, bits)
    ways, done = words.view(JOINING)[0], joining.join_rows(words)
    assert list(zip(*out[:, :done].tolist(), strict=True)) == [
        tuple(-1 if one is None else one for one in row) for row in rows
    ]
    present = np.unpackbits(bits, axis=1, count=done, bitorder="little")
    assert present.tolist() == [[row[number] is not None for row in rows] for number in range(2)]
    if drawn["kept"] != FIRST_PAIRS:
        assert [ways.left.lone, ways.right.lone] == alone
    for number, matched in enumerate(marks):
        if matched.view[1].size:
            begin = displaced(first[number], sizes[number], slide)
            every_row = np.arange(begin, first[number] + sides[number])
            unmarked = every_row[matched.without(every_row)].tolist()
            assert unmarked == [row for row in every_row.tolist() if row not in known[number]]
