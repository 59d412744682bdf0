"""Whichever terms of a predicate are indexed, and however often that changes, the pairs are those of the law."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.operator.advisors import PairAdvisor
from tests.law.checks import ORDERS, assert_counts, assert_pairs, examples
from tests.narrow import limits, set_limits, tune
from tests.strategies import FAMILIES, TIME_FAMILIES, Case, comparisons, count_windows, pushes, tables, time_windows

if TYPE_CHECKING:
    from tests.strategies import Node

ORDERED = [name for name, one in FAMILIES.items() if one.offsets]
NAMES = "abcd"


@st.composite
def several_terms(draw: st.DrawFn, *, self_join: bool = False) -> Case:
    """Joins with one to four ranges, an equality or none, a filter or none, over both windows."""
    families = {name: FAMILIES[draw(st.sampled_from(["int", "number", *ORDERED]))] for name in NAMES}
    timed = draw(st.sampled_from(["int", "naive", "zoned"]))
    domains = {name: family.domains for name, family in families.items()}
    domains |= {"s": FAMILIES[draw(st.sampled_from(["int", "text"]))].domains, "ts": TIME_FAMILIES[timed]}
    kinds = []
    for _ in ("left", "right"):
        made = {}
        for name, choices in domains.items():
            kind = draw(st.sampled_from(list(choices)))
            made[name] = kind, choices[kind][:: draw(st.sampled_from([1, 2, 4]))]
        kinds.append(made)
    left = draw(tables(kinds[0], 16, ordered=True))
    right = left if self_join else draw(tables(kinds[1], 16, ordered=True))
    terms: list[Node] = []
    for name in NAMES[: draw(st.integers(1, 4))]:
        one, two = ("col", "left", name), ("col", "right", name)
        offset = ("lit", draw(st.sampled_from(families[name].offsets)))
        forms = [("<", one, two), (">=", one, two), ("between", two, ("-", one, offset), ("+", one, offset))]
        terms.append(draw(st.one_of(st.sampled_from(forms), comparisons(families[name], name))))
    if draw(st.booleans()):
        terms.append(("=", ("col", "left", "s"), ("col", "right", "s")))
    if not draw(st.integers(0, 3)):
        terms.append(("col", "left", "flag"))
    window = draw(count_windows() if draw(st.booleans()) else time_windows(timed))
    predicate = terms[0] if len(terms) == 1 else ("and", *draw(st.permutations(terms)))
    case = Case(predicate, window, left, right, self_join=self_join, as_text=draw(st.booleans()))
    case.pushes = draw(pushes(left, right, 5))
    return case


def restless(patch: pytest.MonkeyPatch, places: list[int]) -> None:
    """Change to one choice after the other, at each push."""
    turns = cycle(places)

    def better(advisor: PairAdvisor, *_: Any) -> Any:
        return advisor._choices[next(turns) % len(advisor._choices)]

    patch.setattr(PairAdvisor, "due", lambda *_: True)
    patch.setattr(PairAdvisor, "better", better)


choices = st.lists(st.integers(0, 60), min_size=1, max_size=6)


@examples(70)
@given(
    case=several_terms(), order=st.sampled_from(ORDERS), places=choices, given_limits=limits,
    threads=st.integers(1, 3),
)  # fmt: skip
def test_any_choice_gives_the_same_pairs(
    case: Case, order: str, places: list[int], given_limits: dict[str, int], threads: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        restless(patch, places)
        set_limits(patch, **given_limits)
        assert_pairs(case, order, threads=threads)


@examples(40)
@given(case=several_terms(), places=choices, given_limits=limits, threads=st.integers(1, 3))
def test_any_choice_gives_the_same_counts(
    case: Case, places: list[int], given_limits: dict[str, int], threads: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        restless(patch, places)
        set_limits(patch, **given_limits)
        assert_counts(case, threads=threads)


@examples(30)
@given(case=several_terms(self_join=True), places=choices)
def test_any_choice_gives_the_same_pairs_of_self_joins(case: Case, places: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        restless(patch, places)
        assert_pairs(case, "strict")


@examples(70)
@given(case=st.one_of(several_terms(), several_terms(self_join=True)), order=st.sampled_from(ORDERS))
def test_choices_by_samples_of_a_few_rows_give_the_same_pairs(case: Case, order: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, EARLY=0, LEAST=1, CHANGE_COST=0)
        tune(patch, terms_stay=0.5)
        tune(patch, terms_patience=0.0)
        assert_pairs(case, order)
