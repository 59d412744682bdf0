"""Several equalities and a range are one key: whatever types they have, and however few bits there are for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from tests.law.checks import ORDERS, assert_counts, assert_pairs, examples
from tests.narrow import limits, set_limits, tune
from tests.strategies import FAMILIES, TIME_FAMILIES, Case, comparisons, count_windows, pushes, tables, time_windows

if TYPE_CHECKING:
    from tests.strategies import Node

ALGORITHMS = (
    "auto",
    "auto",
    "band_cells",
    "bi_sort",
    "planar",
    "po_join",
    "chained_css_tree",
    "wib_tree",
    "nested_loop",
    "hash",
)
BITS = [63, 40, 12, 6]
ENOUGH = 100


def column(name: str) -> tuple[Node, Node]:
    """The column of both sides."""
    return ("col", "left", name), ("col", "right", name)


@st.composite
def ranges(draw: st.DrawFn, offsets: tuple[Any, ...]) -> Node:
    """A range of column b: a band of fixed width, one of columns, one or two open ends, all but one value."""
    left, right = draw(st.permutations(column("b")))
    form = draw(st.sampled_from(["band", "band", "open", "half", "not-equal", "two"] if offsets else ["open"]))
    if form == "open":
        return (draw(st.sampled_from(["<", "<=", ">", ">="])), left, right)
    below, above = (("lit", draw(st.sampled_from(offsets))) for _ in "ab")
    if form == "band":
        return ("between", left, ("-", right, below), ("+", right, above))
    if form == "half":
        return ("and", (">=", left, ("-", right, below)), ("<", left, right))
    if form == "not-equal":
        return ("<>", left, right)
    return ("or", ("=", left, right), (">", left, ("+", right, above)))


@st.composite
def composites(draw: st.DrawFn, *, self_join: bool = False) -> Case:
    """Joins with up to three equalities of any types, mostly with a range beside them."""
    equal = [FAMILIES[draw(st.sampled_from(["int", "number", "text", *FAMILIES]))] for _ in "acd"]
    ordered = FAMILIES[draw(st.sampled_from([name for name, one in FAMILIES.items() if one.offsets]))]
    timed = draw(st.sampled_from(["int", "naive", "zoned"]))
    domains = {name: family.domains for name, family in zip("acd", equal, strict=True)}
    domains |= {"b": ordered.domains, "ts": TIME_FAMILIES[timed]}
    kinds = []
    for _ in ("left", "right"):
        made = {}
        for name, choices in domains.items():
            kind = draw(st.sampled_from(list(choices)))
            # Few values, so that several columns are equal at once.
            made[name] = kind, choices[kind][:: draw(st.sampled_from([1, 2, 4]))]
        kinds.append(made)
    left = draw(tables(kinds[0], 16, ordered=True))
    right = left if self_join else draw(tables(kinds[1], 16, ordered=True))
    terms: list[Node] = [("=", *column(name)) for name in "acd"[: draw(st.integers(1, 3))]]
    if draw(st.integers(0, 3)):
        terms.append(draw(ranges(ordered.offsets)))
    if not draw(st.integers(0, 3)):
        terms.append(draw(comparisons(ordered, "b")))
    if not draw(st.integers(0, 2)):
        terms.append((draw(st.sampled_from(["<", ">=", "<>"])), *column("id")))
    window = draw(count_windows() if draw(st.booleans()) else time_windows(timed))
    predicate = terms[0] if len(terms) == 1 else ("and", *draw(st.permutations(terms)))
    case = Case(predicate, window, left, right, self_join=self_join, as_text=draw(st.booleans()))
    case.pushes = draw(pushes(left, right, 5))
    return case


def served(case: Case, algorithm: str) -> str:
    """The algorithm, or `auto` where the predicate does not suit it."""
    try:
        case.join(algorithm=algorithm)
    except sj.PredicateError as error:
        if f"algorithm='{algorithm}'" not in str(error):
            raise
        return "auto"
    return algorithm


def few_bits(patch: pytest.MonkeyPatch, bits: int) -> None:
    """Give keys so few bits that equalities are hashed to some, and that ranges lose theirs."""
    tune(patch, key_bits=bits, key_group_bits=min(bits // 2, 31), near_key_bits=min(bits - 2, 46))


algorithms, bits_of_a_key = st.sampled_from(ALGORITHMS), st.sampled_from(BITS)


@examples(150)
@given(case=composites(), algorithm=algorithms, order=st.sampled_from(ORDERS), bits=bits_of_a_key, given_limits=limits)
def test_pairs(case: Case, algorithm: str, order: str, bits: int, given_limits: dict[str, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few_bits(patch, bits)
        set_limits(patch, **given_limits)
        assert_pairs(case, order, algorithm=served(case, algorithm))


@examples(60)
@given(case=composites(self_join=True), algorithm=algorithms, bits=bits_of_a_key)
def test_pairs_of_self_joins(case: Case, algorithm: str, bits: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few_bits(patch, bits)
        assert_pairs(case, "strict", algorithm=served(case, algorithm))


@examples(80)
@given(case=composites(), algorithm=algorithms, bits=bits_of_a_key, given_limits=limits)
def test_counts(case: Case, algorithm: str, bits: int, given_limits: dict[str, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few_bits(patch, bits)
        set_limits(patch, **given_limits)
        assert_counts(case, algorithm=served(case, algorithm))


# -- larger streams, whose keys outgrow their room ---------------------------------------------------------------------


def growing(rows: int, start: int) -> dict[str, np.ndarray[Any, Any]]:
    """Rows whose times go on, and of which each hundredth has a value far out."""
    draw = np.random.default_rng(start)
    far = draw.random(rows) < 0.01
    return {
        "k": np.where(far, draw.integers(-(2**63), 2**63 - 1, rows), draw.integers(0, 20, rows)),
        "x": start * 3 + np.sort(draw.integers(0, rows, rows)),
        "f": draw.normal(0, 10.0 ** (start // rows % 7), rows),
    }


@pytest.mark.parametrize(
    "on",
    [
        "l.k = r.k AND l.x BETWEEN r.x - 40 AND r.x + 40",
        "l.k = r.k AND l.f BETWEEN r.f - 0.5 AND r.f + 0.5",
        "l.k = r.k AND l.x < r.x",
        "l.k = r.k AND l.x = r.x",
    ],
)
@pytest.mark.parametrize("algorithm", ["auto", "bi_sort"])
def test_values_that_have_no_room_make_more(on: str, algorithm: str) -> None:
    """Keys are laid out anew again and again; a nested loop finds the same."""
    found = []
    for name in (algorithm, "nested_loop"):
        join = sj.StreamJoin(on, sj.CountWindow(700), output="positions", order="strict", algorithm=name)
        tables_of = [
            join.push(growing(rows, start), growing(rows, start + 7))
            for start, rows in zip(range(0, 7000, 250), [1, 249, 250, 400] * 7, strict=True)
        ]
        found.append(pa.concat_tables(tables_of))
    assert found[0].num_rows > ENOUGH
    assert found[0].equals(found[1])


def test_explain_names_all_terms_of_a_key() -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int64()), ("x", pa.float64())])
    on = "l.x BETWEEN r.x - 1 AND r.x + 1 AND l.b = r.b AND l.a = r.a"
    join = sj.StreamJoin(on, sj.CountWindow(5), schemas=(schema, schema))
    lines = [line for line in join.explain().splitlines() if line.startswith("indexed")]
    assert sorted(line.partition(": ")[2] for line in lines) == [
        "l.a = r.a (equality)",
        "l.b = r.b (equality)",
        "l.x >= r.x - 1 AND l.x <= r.x + 1 (band of fixed width)",
    ]
