"""Hypothesis strategies: joins that a table of cells can answer, and limits so small that they reach all paths."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import assume
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.tuning import CURRENT
from tests.strategies import (
    FAMILIES,
    TIME_FAMILIES,
    Case,
    Family,
    count_windows,
    pushes,
    tables,
    time_windows,
)  # fmt: skip

if TYPE_CHECKING:
    from types import ModuleType

    import pytest

    from tests.strategies import Node

A, B = (("col", side, "a") for side in ("left", "right"))
P, Q = (("col", side, "b") for side in ("left", "right"))

_NEAR = [-2, -1, 0, 1, 2, 3, 4]
_FAR = [*_NEAR * 3, 2**32, 2**32 + 1, 2**32 - 1, 2**33, 2**33 + 2]
CELLS = {name: family for name, family in FAMILIES.items() if name != "number"} | {
    # Keys that 32 bits tell apart, and keys that they do not.
    "near": Family("near", {pa.int64(): _NEAR, pa.int32(): _NEAR, pa.int8(): _NEAR}, offsets=(0, 1, 2, 3)),
    "whole": Family("whole", {pa.int64(): [*_NEAR * 8, 2**31, 2**32 + 1, 2**63 - 1]}, offsets=(0, 1, 2, 3, 2**31)),
    "far": Family(
        "far",
        {
            pa.int64(): [*_FAR, -(2**32), -(2**32) - 1, -(2**63), 2**63 - 1],
            pa.uint64(): [v for v in [*_FAR, 2**63, 2**64 - 1] if v >= 0],
        },
        offsets=(0, 1, 2, 2**31, 2**31 + 1, 2**32, 2**33, 2**62),
    ),
}


@st.composite
def narrow_terms(draw: st.DrawFn, family: Family) -> Node:
    """An equality, or a band of fixed width."""
    left, right = draw(st.permutations([A, B]))
    if not family.offsets or draw(st.integers(0, 2)) == 0:
        return ("=", left, right)
    offset = st.sampled_from(family.offsets).map(lambda value: ("lit", value))
    form = draw(st.sampled_from(["shift", "band", "band", "band", "abs", "ends"]))
    if form == "shift":
        return ("=", (draw(st.sampled_from("+-")), left, draw(offset)), right)
    if form == "abs":
        return (draw(st.sampled_from(["<=", "<"])), ("abs", ("-", left, right)), draw(offset))
    if form == "ends":
        return ("and", (">", left, ("-", right, draw(offset))), ("<=", left, ("+", right, draw(offset))))
    if family.name in ("near", "whole", "far", "int") and draw(st.integers(0, 3)) == 0:
        # Ranges of one side are wider than those of the other.
        factor = ("lit", draw(st.sampled_from([2, 3, 13])))
        return ("between", ("*", left, factor), ("-", right, draw(offset)), ("+", right, draw(offset)))
    return ("between", left, ("-", right, draw(offset)), ("+", right, draw(offset)))


MORE: list[Node | None] = [
    None,
    None,
    ("<", P, Q),
    (">=", P, Q),
    ("<>", P, Q),
    ("between", P, ("-", Q, ("lit", 2)), Q),
    ("or", ("=", P, Q), ("=", P, ("+", Q, ("lit", 2)))),
    ("col", "left", "flag"),
    ("or", ("col", "right", "flag"), ("<", P, Q)),
    ("not", ("isnull", P)),
]
"""What else must hold: nothing, further dimensions of several shapes, filters of one side and of pairs."""


@st.composite
def narrow_cases(
    draw: st.DrawFn,
    *,
    window: str | None = None,
    family: str | None = None,
    self_join: bool = False,
    most: int = 24,
    plain: bool = False,
) -> Case:
    """Whole joins for ``algorithm="band_cells"``; with `plain` there is nothing but one term, and no NULL in it."""
    first = CELLS[family or draw(st.sampled_from(["near", "far", *CELLS]))]
    timed = draw(st.sampled_from(["int", "naive", "zoned"]))
    kinds: list[dict[str, tuple[pa.DataType, list[Any]]]] = []
    for _ in ("left", "right"):
        made = {}
        for name, domains in (
            ("a", first.domains),
            ("b", CELLS["near"].domains),
            ("ts", TIME_FAMILIES[timed]),
        ):
            kind = draw(st.sampled_from(list(domains)))
            made[name] = (kind, domains[kind])
        kinds.append(made)
    left = draw(tables(kinds[0], most, ordered=True))
    if plain:
        left = left.filter(left["a"].is_valid())
    right = left if self_join else draw(tables(kinds[1], most, ordered=True))
    if plain:
        right = right.filter(right["a"].is_valid())
    chosen = window or draw(st.sampled_from(["count", "time"]))
    scope = draw(count_windows(draw(st.sampled_from([3, 30]))) if chosen == "count" else time_windows(timed))
    term = draw(narrow_terms(first))
    more = None if plain else draw(st.sampled_from(MORE))
    case = Case(
        term if more is None else ("and", term, more),
        scope,
        left,
        right,
        self_join=self_join,
        as_text=draw(st.booleans()),
    )
    assume(suits(case))
    case.pushes = draw(pushes(left, right, 7))
    return case


def suits(case: Case) -> bool:
    """Whether a table of cells can answer it; which terms have to is a test of its own."""
    try:
        case.join(algorithm="band_cells")
    except sj.PredicateError as error:
        if "algorithm='band_cells' needs" not in str(error):
            raise
        return False
    return True


LIMITS = {
    "FIRST_ROWS": [1, 64],  # tables grow
    "SMALLEST_SPREAD": [1, 1 << 13],  # two threads
    "SMALLEST_DEAR_SPREAD": [1, 1 << 10],
    "SMALLEST_SEARCH": [1, 3, 1 << 11],
    "LEAST_APART": [1, 128],
    "LEAST_STRETCH": [1, 3, 1 << 10],
    "SMALLEST_PART": [1, 4, 1 << 17],
    "SMALLEST_SLICE": [1, 2, 1 << 11],  # pushes are cut
    "MOST_FOUND": [1, 9, 1 << 22],  # probes are answered in turns
    "SMALLEST_POOL": [1, 8],
    "SMALLEST_LIMIT": [1, 2, 4096],  # rows leave soon
    "MANY_ROWS": [1, 3, 1 << 12],  # with the next one: rows are written past the caches
    "LARGE_WINDOW": [1, 1 << 24],
    "SWEEP": [7, 1 << 30],
    "SWEPT_AT_ONCE": [1, 256],
}


TUNED = {
    "SMALLEST_SPREAD": ("push_spread", "text_spread"),
    "SMALLEST_PART": ("owned_probe_spread", "write_spread", "search_spread", "reduction_spread"),
    "SMALLEST_LIMIT": ("chunk_rows", "smallest_run"),
    "MANY_ROWS": ("flowing_rows",),
    "LARGE_WINDOW": ("flowing_window",),
    "LOADED_AT_ONCE": ("loaded_rows",),
    "IN_ORDER": ("ordered_probes",),
    "AT_ONCE": ("merge_at_once",),
    "MOST_FOUND": ("cell_matches",),
    "SMALLEST_POOL": ("smallest_pool",),
    "SWEEP": ("sweep_rows",),
    "SWEPT_AT_ONCE": ("swept_lines",),
    "SHARE": ("merge_share",),
    "SMALLEST_DEAR_SPREAD": ("dear_push_spread",),
    "SMALLEST_SEARCH": ("probe_spread",),
    "SMALLEST_SLICE": ("smallest_slice",),
    "LARGEST_SLICE": ("largest_slice",),
    "CHANGE_COST": ("index_change_cost", "terms_change_cost"),
    "ENOUGH": ("index_check_rows",),
    "FEWEST_ROWS": ("epoch_rows",),
}
"""Values of `Tuning` that have the name of a constant which other modules still have."""


def tune(patch: pytest.MonkeyPatch, **values: float) -> None:
    """Let joins that are planned from here on take other values."""
    patch.setattr(CURRENT, "value", replace(CURRENT.value, **values))


def set_limits(patch: pytest.MonkeyPatch, **limits: int) -> None:
    """Set constants wherever they are known by that name, and values of `Tuning`."""
    import_users()
    for name, value in limits.items():
        tune(patch, **dict.fromkeys(TUNED.get(name, ()), value))
        known = modules_with(name, len(sys.modules))
        assert known or name in TUNED, name
        for module in known:
            patch.setattr(module, name, value)


@cache
def import_users() -> None:
    """Import what a join may import later: a module that is first imported while a constant is set would keep it."""
    for package in (import_module(f"slidejoin.{name}") for name in ("index", "operator", "rows", "runtime")):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)


@cache
def modules_with(name: str, _imported: int) -> list[ModuleType]:
    """The modules of slidejoin that know that name; looked up again once others are imported."""
    return [m for n, m in list(sys.modules.items()) if n.startswith("slidejoin.") and hasattr(m, name)]


limits = st.one_of(
    st.fixed_dictionaries({name: st.just(values[0]) for name, values in LIMITS.items()}),
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in LIMITS.items()}),
)
"""All as small as they go, or some."""
