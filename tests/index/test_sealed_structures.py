"""Sealed parts of the papers' structures: mapped again and attached, they find what a look at every row finds."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.index.factory import Keyspace, make_index, part_format
from slidejoin.index.keys import RowKeys
from slidejoin.index.protocol import Occupancy
from slidejoin.papers.spo_join.part import ProbeBoxes
from slidejoin.papers.spo_join.po_join_index import POJoinIndex
from slidejoin.papers.structure import Structure
from tests.index.test_planar import expected, rows_and_probes
from tests.law.checks import examples
from tests.structures import SMALL

if TYPE_CHECKING:
    from slidejoin.index.part_format import PartFormat, SealedPart
    from slidejoin.options import Options

SEALING = ("po_join", "rap_table", "wib_tree", "im_tree", "pim_tree", "chained_css_tree")
OPTIONS = [options for name in SEALING for options in SMALL[name]]


def mapped(parts_of: PartFormat, rows: RowKeys) -> SealedPart:
    """A part as it comes from a file, whose memory cannot be written."""
    arrays = {name: np.ascontiguousarray(array).copy() for name, array in parts_of.seal(rows).arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    return parts_of.mapped(rows.rows, arrays)


def some_of(content: Any, begin: int, end: int) -> RowKeys:
    keys, aux, kept = content
    return RowKeys(keys[begin:end], aux[begin:end], kept[begin:end], frozenset({begin}))


def structure(options: Options, dims: int, first: int) -> Structure:
    made = make_index(options.name, Keyspace(dims, None, options, merge=False), Occupancy(first, first, 0, None))
    assert isinstance(made, Structure)
    return made


def assert_found(
    options: Options, *, seed: int, rows: int, dims: int, pieces: int, spread: str, parts: int, floor: int
) -> None:
    """Some rows are sealed, in several parts, the newest are inserted; then the oldest expire."""
    first = 1000
    content, probes = rows_and_probes(seed, rows, spread, dims, pieces, base=first)
    # As event times do.
    content[1][:, 2:].sort(axis=0)
    rng = np.random.default_rng(seed)
    bounds = [0, *np.sort(rng.integers(0, rows, parts)).tolist()]
    content[2][bounds[0] : bounds[1]] &= bool(rng.integers(0, 3))
    index, parts_of = structure(options, dims, first), part_format([options.name], options)
    for begin, end in pairwise(bounds):
        if end > begin:
            index.attach(mapped(parts_of, some_of(content, begin, end)), first + begin, end)
    for begin, end in pairwise([bounds[-1], (bounds[-1] + rows) // 2, rows]):
        new = some_of(content, begin, end)
        index.insert(index.prepare(new, first + begin), end)
    assert index.inexact >= {begin for begin, end in pairwise(bounds) if end > begin}
    assert index.count <= rows
    index.expire(first + floor * rows // 3)
    found = index.search(probes)
    right = expected(content, probes.seeing_from(index.floor), first)
    assert found.counts.tolist() == [len(one) for one in right]
    pairs, stored = np.empty((2, int(found.counts.sum())), np.int64)
    found.fill(0, len(probes), np.cumsum(found.counts) - found.counts, pairs, stored)
    each = np.split(stored, np.cumsum(found.counts)[:-1])
    assert [sorted(part.tolist()) for part in each] == right
    if isinstance(index, POJoinIndex):
        counts = index.count_boxes(ProbeBoxes(probes.seeing_from(index.floor)))
        assert counts is None or counts.tolist() == found.counts.tolist()
        assert counts is not None or dims > 1


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@examples(12)
@given(
    seed=st.integers(0, 1 << 20), rows=st.sampled_from([4, 65, 300, 3000]), dims=st.integers(0, 3),
    pieces=st.integers(1, 2), spread=st.sampled_from(["ties", "near", "far"]), parts=st.integers(1, 4),
    floor=st.integers(0, 2),
)  # fmt: skip
def test_parts_and_new_rows_are_found(options: Options, **drawn: Any) -> None:
    assert_found(options, **drawn)


@pytest.mark.nojit
@pytest.mark.parametrize("name", SEALING)
@pytest.mark.parametrize("dims", [0, 2])
def test_a_few_rows(name: str, dims: int) -> None:
    assert_found(SMALL[name][-1], seed=dims, rows=60, dims=dims, pieces=1, spread="near", parts=3, floor=1)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_whole_parts_expire(options: Options) -> None:
    content, _ = rows_and_probes(1, 400, "near", 2, 1, base=0)
    index, parts_of = structure(options, 2, 0), part_format([options.name], options)
    for begin in range(0, 400, 100):
        index.attach(mapped(parts_of, some_of(content, begin, begin + 100)), begin, begin + 100)
    before, held = index.count, index.held_bytes
    index.expire(250)
    assert index.count == int(content[2][200:].sum())
    assert before == int(content[2].sum())
    assert index.held_bytes < held


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_arrays_of_another_type_or_length_are_refused(options: Options) -> None:
    content, _ = rows_and_probes(1, 400, "near", 1, 1, base=0)
    parts_of = part_format([options.name], options)
    arrays = parts_of.seal(some_of(content, 0, 400)).arrays()
    for name, array in arrays.items():
        others = [array.view(f"f{array.itemsize}"), array[None]]
        # The levels of a tree say how long the others are.
        others += [array[:-1]] if name != "inexact" and array.size > 1 else []
        for other in others:
            with pytest.raises(ValueError, match=r"sealed part|a tree|the trees|the levels|a table"):
                parts_of.mapped(400, arrays | {name: other})
        without = {other: array for other, array in arrays.items() if other != name}
        with pytest.raises(KeyError, match=name.rpartition(".")[2]):
            parts_of.mapped(400, without)


def test_a_part_of_another_structure_is_refused() -> None:
    content, _ = rows_and_probes(1, 40, "near", 1, 1, base=0)
    stored = part_format(["bplus_tree"], None)
    assert stored.name == "keys"
    part = part_format(["po_join"], None).seal(some_of(content, 0, 40))
    with pytest.raises(TypeError, match=r"bplus_tree has no sealed parts of its own, got .* with the ordinals 7 to 46"):
        structure(SMALL["bplus_tree"][0], 1, 0).attach(part, 7, 40)


def test_a_part_with_other_dimensions_is_refused() -> None:
    content, _ = rows_and_probes(1, 40, "near", 1, 1, base=0)
    part = part_format(["po_join"], None).seal(some_of(content, 0, 40))
    with pytest.raises(ValueError, match="a sealed part has 1 further dimensions, expected 2"):
        structure(SMALL["po_join"][0], 2, 0).attach(part, 0, 40)
