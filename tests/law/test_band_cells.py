"""Joins by tables of cells obey the law: all types, windows and orders, with limits that make small inputs go all ways.

What is too large for the oracle is compared with sorted runs, which have tests of their own.
"""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.index.cells.band_cells import BandCells
from slidejoin.index.cells.kernels.buckets import BUCKETS
from slidejoin.operator.window import side
from slidejoin.predicate.truth.floats import float_keys
from slidejoin.rows.widths import TableLimit
from tests.law.checks import (
    ORDERS,
    assert_counts,
    assert_groups,
    assert_pairs,
    assert_same_output,
    count_lines,
    examples,
    lines,
    pair_lines,
    same_tables,
)
from tests.law.test_positions import assert_positions
from tests.narrow import CELLS, A, B, limits, narrow_cases, set_limits, tune
from tests.oracle import CountScope, TimeScope
from tests.strategies import FAMILIES, Case, Push, WindowCase, array
from tests.tables import ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.law.checks import Line

CELLS_ON = {"algorithm": "band_cells"}
THREADS = st.sampled_from([1, 2, 3])


def cells_of(join: sj.StreamJoin, of: str = "right") -> BandCells:
    """The table of one side; fails where it is another index."""
    index = join._state.operator.windows[of].index
    assert isinstance(index, BandCells)
    return index


def smallest(**other: int) -> dict[str, int]:
    """All limits as small as they go."""
    return {
        "FIRST_ROWS": 1,
        "SMALLEST_SPREAD": 1,
        "SMALLEST_SEARCH": 1,
        "SMALLEST_PART": 1,
        "SMALLEST_SLICE": 1,
        "SMALLEST_LIMIT": 1,
    } | other


# -- against the oracle ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@examples(25)
@given(case=narrow_cases(), given_limits=limits, threads=THREADS)
def test_pairs(order: str, case: Case, given_limits: dict[str, int], threads: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_pairs(case, order, threads=threads, **CELLS_ON)


@examples(25)
@given(case=narrow_cases(), given_limits=limits, threads=THREADS)
def test_counts(case: Case, given_limits: dict[str, int], threads: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_counts(case, threads=threads, **CELLS_ON)


@examples(25)
@given(case=narrow_cases(self_join=True), given_limits=limits, order=st.sampled_from(ORDERS), threads=THREADS)
def test_self_joins(case: Case, given_limits: dict[str, int], order: str, threads: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_pairs(case, order, threads=threads, **CELLS_ON)
        assert_counts(case, threads=threads, **CELLS_ON)


@pytest.mark.parametrize("order", ORDERS)
@examples(25)
@given(
    case=st.booleans().flatmap(lambda self_join: narrow_cases(self_join=self_join, most=40)),
    first_rows=st.sampled_from([1, 64]),
    threads=THREADS,
)
def test_tables_made_roomier_as_soon_as_rows_leave(order: str, case: Case, first_rows: int, threads: int) -> None:
    roomier: list[bool] = []
    make = side.SideWindow.relieve

    def noted(window: side.SideWindow) -> bool:
        made = make(window)
        roomier.append(made)
        return made

    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **smallest(FIRST_ROWS=first_rows))
        tune(patch, crowding_check_rows=1, smallest_crowded=1, spilled_share=-1.0, shared_buckets=-1.0)
        patch.setattr(side.SideWindow, "relieve", noted)
        assert_pairs(case, order, threads=threads, **CELLS_ON)
        assert_counts(case, threads=threads, **CELLS_ON)
    event(f"made roomier {sum(roomier)} times")


@pytest.mark.parametrize("family", sorted(CELLS))
@examples(10)
@given(data=st.data())
def test_every_type(family: str, data: st.DataObject) -> None:
    case = data.draw(narrow_cases(family=family, most=14))
    assert_pairs(case, "strict", threads=1, **CELLS_ON)


@pytest.mark.parametrize("order", ["probe", "none"])
@examples(25)
@given(
    case=st.sampled_from(["whole", "far"]).flatmap(
        lambda family: narrow_cases(window="count", family=family, plain=True, most=40)
    ),
    given_limits=limits,
    threads=THREADS,
    start=st.sampled_from([0, 2**31, 2**32, 2**33]),
)
def test_positions_of_whole_numbers_at_any_ordinal(
    order: str, case: Case, given_limits: dict[str, int], threads: int, start: int
) -> None:
    """The plainest joins, as they are after very many rows."""
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_positions(case, order, threads=threads, **CELLS_ON)
        slide = case.window.window.slide
        first = start // slide * slide - 3 * slide if start else 0
        join, oracle = case.join(order=order, threads=threads, **CELLS_ON), case.oracle()
        for window in join._state.operator.windows.values():
            window.start_at(first)
        for table, steps in zip(case.results(join), case.steps(oracle), strict=True):
            assert_groups(lines(table), pair_lines(steps), order)
        assert cells_of(join).next == first + join._state.operator.stats.rows_right


TERMS: dict[str, Any] = {
    "=": ("=", A, B),
    "band": ("between", A, ("-", B, ("lit", 1)), ("+", B, ("lit", 2))),
    "abs": ("<=", ("abs", ("-", A, B)), ("lit", 1)),
    "shifted": ("=", ("+", A, ("lit", 1)), B),
}


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("kind", [*FAMILIES["int"].domains, *FAMILIES["float"].domains, pa.decimal128(18, 6)], ids=str)
def test_numbers_qualify(kind: pa.DataType, term: str) -> None:
    empty = pa.schema([("a", kind)]).empty_table()
    cells_of(Case(TERMS[term], _count(3), empty, empty).join(**CELLS_ON))


@pytest.mark.parametrize("family", ["clock", "text", "binary", "bool", "naive", "zoned", "span"])
def test_equalities_of_all_kinds_qualify(family: str) -> None:
    for one in FAMILIES[family].domains:
        for two in FAMILIES[family].domains:
            left, right = pa.schema([("a", one)]), pa.schema([("a", two)])
            join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(3), schemas=(left, right), **CELLS_ON)
            cells_of(join)


@pytest.mark.parametrize("on", ["l.a < r.a", "l.a <> r.a", "l.a BETWEEN r.a - r.b AND r.a", "l.a = r.a OR l.a < r.b"])
def test_other_terms_are_refused(on: str) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    with pytest.raises(sj.PredicateError, match=r"algorithm='band_cells' needs an equality or a band of fixed width"):
        sj.StreamJoin(on=on, window=sj.CountWindow(3), schemas=(schema, schema), **CELLS_ON)


@pytest.mark.parametrize("width", [0.00001, 0.1, 3.0, 1e-300, 1e300, 5e-324])
def test_places_of_doubles_keep_the_order_and_tell_far_ones_apart(width: float) -> None:
    """A band that is tiny beside the values must not put them all into one cell."""
    schema = pa.schema([("x", pa.float64())])
    on = abs(sj.left.x - sj.right.x) <= width
    axis = sj.StreamJoin(on=on, window=sj.CountWindow(9), schemas=(schema, schema))._state.operator.plan.axis
    if axis is None:
        assert width == 5e-324  # sorted runs take it
        return
    chosen = random.Random(1)
    values = [0.0, np.inf, np.finfo(float).max, 5e-324, *(10.0 ** chosen.uniform(-320, 308) for _ in range(3000))]
    values += [2.0**52 * 2.0**e * (1 + chosen.uniform(-1e-15, 1e-15)) for e in range(-40, 40) for _ in range(20)]
    values += [chosen.uniform(1, 2) * width * 2.0**36 for _ in range(500)]
    every = np.sort(np.array([*values, *(-value for value in values)]))
    keys = np.concatenate([[-(2**63)], float_keys(every), [2**63 - 1]])
    places = axis.places(keys)
    assert places.dtype == np.int64
    assert (places[1:].astype(object) >= places[:-1].astype(object)).all()
    base = 1.6e9 if 1e-9 < width < 1e9 else min(width * 1e15, 1e307)
    some = base * (1 + np.arange(1000) / 1e6)
    cells = axis.places(float_keys(some)) >> axis.shift
    assert len(set(cells.tolist())) >= 900
    spans = axis.places(float_keys(some + width)) - axis.places(float_keys(some))
    assert spans.max() >> axis.shift <= 2


@pytest.mark.parametrize("factor", [1, 13, 1000])
def test_ranges_of_unequal_width_have_cells_of_their_own(factor: int) -> None:
    schema = pa.schema([("a", pa.int64())])
    for on in (f"l.a * {factor} BETWEEN r.a - 50 AND r.a + 50", f"abs(l.a * {factor} - r.a) <= 50"):
        join = sj.StreamJoin(on=on, window=sj.CountWindow(9), schemas=(schema, schema))
        indexes = [join._state.operator.windows[side].index for side in ("left", "right")]
        assert [index.axis.shift for index in indexes] == [max(100 // factor - 1, 0).bit_length(), 7]


UNEQUAL = {
    "integers": ("l.a * 1000 BETWEEN r.a - 700 AND r.a + 700", pa.int64(), pa.int64()),
    "doubles": ("l.a BETWEEN (r.a - 700) / 1000 AND (r.a + 700) / 1000", pa.float64(), pa.float64()),
    "doubles, scaled": ("abs(l.a * 1000 - r.a) <= 700", pa.float64(), pa.float64()),
    "integers against doubles": ("l.a * 1000 BETWEEN r.a - 700 AND r.a + 700", pa.int32(), pa.float64()),
    "doubles against integers": ("abs(l.a * 1000 - r.a) <= 700", pa.float64(), pa.int64()),
}


@pytest.mark.parametrize("case", UNEQUAL)
def test_unequal_ranges_and_kinds_find_what_sorted_runs_find(case: str) -> None:
    on, *kinds = UNEQUAL[case]
    rng, found = np.random.default_rng(1), []
    values = [rng.integers(-900, 900, 600) / 2, 1000 * rng.integers(-900, 900, 600) / 2 + rng.normal(0, 500, 600)]
    columns = [
        pa.array(np.rint(side).astype(np.int64)).cast(kind) if pa.types.is_integer(kind) else pa.array(side)
        for side, kind in zip(values, kinds, strict=True)
    ]
    left, right = (pa.table({"id": range(600), "a": column}) for column in columns)
    for algorithm in ("band_cells", "bi_sort"):
        join = sj.StreamJoin(on=on, window=sj.CountWindow(250), algorithm=algorithm, order="strict")
        pushes = [join.push(left=left.slice(at, 60), right=right.slice(at, 60)) for at in range(0, 600, 60)]
        found.append(ids(pa.concat_tables(pushes)))
    assert found[0] == found[1]
    assert len(found[0]) > 100


def _count(left: int, right: int | None = None, slide: int = 1) -> WindowCase:
    right = left if right is None else right
    return WindowCase(sj.CountWindow(left=left, right=right, slide=slide), CountScope(left, right, slide))


# -- cut, stopped and started anywhere ---------------------------------------------------------------------------------


@examples(20)
@given(case=narrow_cases(), given_limits=limits, data=st.data())
def test_restart_with_any_algorithm(case: Case, given_limits: dict[str, int], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        join, oracle = case.join(order="strict", **CELLS_ON), case.oracle()
        for push, steps in zip(case.pushes, case.steps(oracle), strict=True):
            if data.draw(st.booleans()):
                algorithm = data.draw(st.sampled_from(["band_cells", "bi_sort", "auto"]))
                join = sj.StreamJoin.restore(
                    join.snapshot(), algorithm=algorithm, threads=data.draw(st.sampled_from([1, 2]))
                )
                operator = join._state.operator
                assert operator.windows["left"].index.name == operator.plan.algorithm
                assert algorithm in {operator.plan.algorithm, "auto"}
            got = join.push(**push.arguments(self_join=case.self_join))
            assert lines(got) == [one for group in pair_lines(steps) for one in group]


@examples(20)
@given(case=narrow_cases(), given_limits=limits, chunk=st.sampled_from([1, 3, 1 << 20]))
def test_cuts_do_not_matter(case: Case, given_limits: dict[str, int], chunk: int) -> None:
    """Each push row by row, left rows first, gives what the push gives at once."""
    case.pushes = [Push(push.left, push.right) for push in case.pushes]
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        one, two = (case.join(order="strict", threads=n, **CELLS_ON) for n in (1, 2))
        two._state.operator.limit = TableLimit(chunk, 1 << 60)
        counts = case.join(output="count", **CELLS_ON)
        for push, steps in zip(case.pushes, case.steps(case.oracle()), strict=True):
            singly: list[Line] = []
            for role, table in (("left", push.left), ("right", push.right)):
                for row in range(0 if table is None else table.num_rows):
                    singly += lines(one.push(**{role: table.slice(row, 1)}))
            given_ = push.arguments()
            assert lines(two.push(**given_)) == singly
            assert lines(counts.push(**given_)) == count_lines(case, steps)


# -- tables that change ------------------------------------------------------------------------------------------------


def streams(seed: int, rows: int, keys: Any, **columns: Any) -> pa.Table:
    """Seeded rows; `keys` makes one key."""
    chosen = random.Random(seed)
    made = {"id": range(rows), "a": pa.array([keys(chosen, i) for i in range(rows)], pa.int64())}
    made |= {name: [value(chosen, i) for i in range(rows)] for name, value in columns.items()}
    return pa.table(made)


def cut(left: pa.Table, right: pa.Table, sizes: list[int]) -> Iterator[dict[str, pa.Table]]:
    """Both tables in pushes of these sizes, over and over."""
    at = 0
    while at < left.num_rows:
        size = sizes[at % len(sizes)]
        yield {"left": left.slice(at, size), "right": right.slice(at, size)}
        at += size


def test_keys_that_become_wide_in_mid_stream() -> None:
    """First a table that knows 32 bits of a key, then one that checks all of them; later narrow again."""

    def keys(chosen: random.Random, i: int) -> int:
        far = [0, 2**32, -(2**32), 2**33 + 1, 2**62, -(2**63)] if 40 <= i < 60 else [0]
        return chosen.randrange(4) + chosen.choice(far)

    for term in (TERMS["="], TERMS["band"]):
        left, right = streams(1, 120, keys), streams(2, 120, keys)
        case = Case(term, _count(25, 18), left, right)
        case.pushes = [Push(**parts) for parts in cut(left, right, [1, 7, 2, 16])]
        assert_pairs(case, "strict", **CELLS_ON)
        assert_counts(case, **CELLS_ON)
        join = case.join(**CELLS_ON)
        wide = []
        for push in case.pushes:
            join.push(**push.arguments())
            wide.append(cells_of(join).wide)
        assert wide[0] is False
        assert wide[-1] is True


@pytest.mark.parametrize("threads", [1, 2])
def test_tables_grow_and_stay_as_large_as_their_windows(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    set_limits(monkeypatch, **smallest(SMALLEST_LIMIT=16))
    left, right = (streams(seed, 900, lambda chosen, _: chosen.randrange(90)) for seed in (1, 2))
    options = {"on": "l.a = r.a", "window": sj.CountWindow(left=300, right=40), "order": "strict"}
    cells = sj.StreamJoin(**options, threads=threads, **CELLS_ON)
    runs = sj.StreamJoin(**options, algorithm="bi_sort")
    buckets = set()
    for parts in cut(left, right, [1, 3, 60, 2, 11]):
        assert cells.push(**parts).equals(runs.push(**parts))
        buckets.add((int(cells_of(cells, "left").state[BUCKETS]), int(cells_of(cells).state[BUCKETS])))
    assert len(buckets) >= 3
    assert max(buckets) == (150, 20)  # two rows a bucket
    assert cells.stats.pairs == runs.stats.pairs > 1000


@pytest.mark.parametrize("spread", [50, 1 << 40])
def test_the_table_of_a_time_window_gets_smaller_once_it_was_too_large_for_a_window(
    spread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows come faster for a while: the table grows, and later shrinks to what the window has then."""
    set_limits(monkeypatch, **smallest(SMALLEST_ROOMY=8, LARGE=64))
    options = {"on": "l.a = r.a", "window": sj.TimeWindow(100, on="ts"), "order": "strict"}
    cells, runs = sj.StreamJoin(**options, **CELLS_ON), sj.StreamJoin(**options, algorithm="bi_sort")
    chosen, sizes = random.Random(4), []
    for time in range(0, 1200, 10):
        count = 60 if 300 <= time < 500 else 10
        rows = {
            "a": [chosen.randrange(8) * (spread // 8) for _ in range(count)],
            "ts": [time + i * 10 // count for i in range(count)],
        }
        assert cells.push(left=rows, right=rows).equals(runs.push(left=rows, right=rows))
        sizes.append(cells_of(cells).rows)
    assert max(sizes) >= 600
    assert sizes[-1] <= 1.25 * 130
    assert cells.stats.pairs == runs.stats.pairs > 1000


@pytest.mark.parametrize("self_join", [False, True])
def test_a_row_far_ahead_in_time_turns_the_table_into_runs(monkeypatch: pytest.MonkeyPatch, self_join: bool) -> None:
    """It stays for ever and would keep all rows after it in the table, dead as they are."""
    set_limits(monkeypatch, **smallest(LARGEST_SLICE=8))
    tune(monkeypatch, ordinal_spread=1)
    scope = WindowCase(sj.TimeWindow(left=5, right=3, left_on="ts", right_on="ts"), TimeScope(5, 3, "ts", "ts"))

    def time(_chosen: random.Random, i: int) -> int:
        return 1000 if i == 20 and not self_join else i

    left = streams(1, 150, lambda chosen, _: chosen.randrange(4), ts=time)
    right = streams(2, 150, lambda chosen, _: chosen.randrange(4), ts=lambda _, i: i)
    case = Case(TERMS["="], scope, left, right, self_join=self_join)
    case.pushes = [Push(**parts) for parts in cut(left, right, [1, 4, 2])]
    for options in ({"threads": 1}, {"threads": 2}):
        assert_pairs(case, "strict", **options, **CELLS_ON)
        assert_counts(case, **options, **CELLS_ON)
    join = case.join(**CELLS_ON)
    names = []
    for push in case.pushes:
        join.push(**push.arguments(self_join=self_join))
        names.append(join._state.operator.windows["left"].index.name)
    assert names[0] == "band_cells"
    assert names[-1] == ("band_cells" if self_join else "bi_sort")
    assert self_join or "measured to be faster" in join.explain()
    again = sj.StreamJoin.restore(join.snapshot())
    case.left = pa.table({"id": [1000, 1001], "a": [1, 2], "ts": [1000, 150]})
    case.right = pa.table({"id": [1000, 1001], "a": [1, 2], "ts": [150, 1000]})
    case.pushes.append(Push(case.left, None if self_join else case.right))
    groups = pair_lines(case.steps(case.oracle())[-1])
    for one in (again, join):
        assert_groups(lines(one.push(**case.pushes[-1].arguments(self_join=self_join))), groups, "probe")


# -- more rows than the oracle takes -----------------------------------------------------------------------------------


def skewed(chosen: random.Random, i: int) -> int:
    """Keys with a drift, a few hot ones, and some far away."""
    if i % 5 == 0:
        return 7
    return int(chosen.gauss(i / 10, 30)) + (2**32 if i % 97 == 0 else 0)


PREDICATES = [
    "l.a = r.a",
    "l.a BETWEEN r.a - 3 AND r.a + 2",
    "l.c BETWEEN r.c - 3 AND r.c + 2",
    "l.a * 3 BETWEEN r.a - 20 AND r.a + 20",
    "l.a = r.a AND l.b < r.b",
    "abs(l.x - r.x) <= 0.25",
    "l.a BETWEEN r.a - 5 AND r.a AND l.b <> r.b AND l.x > r.x",
    "l.a BETWEEN r.a - 5000000000 AND r.a + 2500000000 AND l.b = 3",
]
WINDOWS = [
    sj.CountWindow(500),
    sj.CountWindow(left=3, right=700, slide=2),
    sj.TimeWindow(left=300, right=150, left_on="ts", right_on="ts", lateness=20),
]


# By day each predicate has one of the three windows.
PAIRED = [
    pytest.param(on, window, id=f"{on}-{window}", marks=[] if (i + j) % 3 == 1 else [pytest.mark.nightly])
    for i, on in enumerate(PREDICATES)
    for j, window in enumerate(WINDOWS)
]


@pytest.mark.parametrize(("on", "window"), PAIRED)
def test_the_same_as_sorted_runs(monkeypatch: pytest.MonkeyPatch, on: str, window: Any) -> None:
    left, right = (
        streams(
            seed,
            1500,
            skewed,
            c=lambda chosen, _: chosen.randrange(100),
            b=lambda chosen, _: chosen.choice([None, *range(5)]),
            x=lambda chosen, i: chosen.choice([None, float("nan"), float("inf"), -0.0, i / 50, chosen.random() * 4]),
            ts=lambda chosen, i: i + chosen.randrange(-15, 15),
        )
        for seed in (1, 2)
    )
    expected, counts = [], []
    options: dict[str, Any] = {"on": on, "window": window, "order": "strict"}
    runs = sj.StreamJoin(**options, algorithm="bi_sort", threads=1)
    numbers = sj.StreamJoin(**options, algorithm="bi_sort", threads=1, output="count")
    sizes = [1, 400, 3, 64, 17, 250]
    for parts in cut(left, right, sizes):
        expected.append(runs.push(**parts))
        counts.append(numbers.push(**parts))
    assert runs.stats.pairs > 100
    for given_limits, threads in (({}, 1), (smallest(), 2), (smallest(MOST_FOUND=16, SMALLEST_POOL=1, SWEEP=500), 3)):
        set_limits(monkeypatch, **given_limits)
        cells = sj.StreamJoin(**options, threads=threads, **CELLS_ON)
        looser = {
            order: sj.StreamJoin(**(options | {"order": order}), threads=threads, **CELLS_ON)
            for order in ("probe", "none")
        }
        numbers = sj.StreamJoin(**options, threads=threads, output="count", **CELLS_ON)
        for parts, pairs, count in zip(cut(left, right, sizes), expected, counts, strict=True):
            assert same_tables(cells.push(**parts), pairs)
            for order, join in looser.items():
                assert_same_output(join.push(**parts), pairs, np.asarray(count["match_count"]), order)
            assert same_tables(numbers.push(**parts), count)
        assert cells.stats.pairs == runs.stats.pairs
        cells_of(cells)


# -- plain Python too --------------------------------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("window", ["count", "time"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.timestamp("ms")], ids=str)
def test_fixed_streams(monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, window: str, threads: int) -> None:
    set_limits(monkeypatch, **smallest(MOST_FOUND=4))
    chosen = random.Random(3)
    domains: dict[pa.DataType, list[Any]] = {
        pa.int64(): [None, 0, 1, 1, 2, 2**32, 2**32 + 1, 2**63 - 1, -(2**63)],
        pa.float64(): [None, float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 0.1, 0.2, 0.3, 1e300],
        pa.timestamp("ms"): [None, 0, 1, 2, 1000, 1001],
    }
    width: dict[pa.DataType, Any] = {
        pa.int64(): 1,
        pa.float64(): 0.1,
        pa.timestamp("ms"): timedelta(milliseconds=1),
    }
    scope = (
        _count(20, 13, 4)
        if window == "count"
        else WindowCase(
            sj.TimeWindow(left=6, right=4, left_on="ts", right_on="ts", lateness=2), TimeScope(6, 4, "ts", "ts", 2)
        )
    )

    def stream() -> pa.Table:
        return pa.table(
            {
                "id": range(40),
                "a": array([chosen.choice(domains[kind]) for _ in range(40)], kind),
                "b": [chosen.choice([None, 1, 2, 3]) for _ in range(40)],
                "ts": [i // 2 + chosen.randrange(4) for i in range(40)],
            }
        )

    left, right = stream(), stream()
    band = ("between", A, ("-", B, ("lit", width[kind])), ("+", B, ("lit", width[kind])))
    for predicate in (band, ("and", ("=", A, B), ("<>", ("col", "left", "b"), ("col", "right", "b")))):
        for self_join in (False, True):
            case = Case(predicate, scope, left, right, self_join=self_join)
            for i, (start, end) in enumerate(pairwise([0, 1, 2, 9, 10, 28, 40])):
                pieces = [rows.slice(start, end - start) for rows in (left, right)]
                case.pushes.append(Push(*pieces, "ts" if i % 3 == 2 else None))
            assert_pairs(case, "strict", threads=threads, **CELLS_ON)
            assert_counts(case, threads=threads, **CELLS_ON)
