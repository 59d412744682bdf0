"""OR of different columns: an index of each branch, and a pair that several branches find is put out once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.index.union import answers, row_values
from slidejoin.plan import plan as plan_module
from slidejoin.plan.disjunction import Branches
from tests.law.checks import ORDERS, assert_counts, assert_groups, assert_pairs, examples, lines, pair_lines
from tests.law.test_composite_keys import column, few_bits, ranges, served
from tests.law.test_positions import assert_positions
from tests.narrow import limits, set_limits, tune
from tests.strategies import FAMILIES, TIME_FAMILIES, Case, comparisons, count_windows, pushes, tables, time_windows

if TYPE_CHECKING:
    from tests.strategies import Family, Node

ALGORITHMS = ("auto", "auto", "auto", "band_cells", "bi_sort", "planar", "po_join", "wib_tree", "nested_loop", "hash")


@st.composite
def branches(draw: st.DrawFn, families: dict[str, Family]) -> Node:
    """One branch: an equality, a range, both, or anything with a filter of one side."""
    form = draw(st.sampled_from(["equal", "equal", "equals", "range", "both", "any", "filter", "nested"]))
    name = draw(st.sampled_from("acd"))
    equal: Node = ("=", *column(name))
    if form == "equal":
        return equal
    if form == "range":
        return draw(ranges(families["b"].offsets))
    if form == "equals":
        return ("and", equal, ("=", *column(draw(st.sampled_from("acd")))))
    if form == "both":
        return ("and", equal, draw(ranges(families["b"].offsets)))
    if form == "any":
        other = draw(st.sampled_from("acdb"))
        return ("and", equal, draw(comparisons(families[other], other)))
    if form == "nested":
        return ("and", equal, ("or", draw(ranges(families["b"].offsets)), ("=", *column(draw(st.sampled_from("acd"))))))
    return ("and", equal, draw(st.sampled_from([("col", "left", "flag"), ("isnull", ("col", "right", "b"))])))


@st.composite
def unions(draw: st.DrawFn, *, self_join: bool = False, most: int = 16) -> Case:
    """Joins with OR of two to four branches, mostly alone."""
    equal = [FAMILIES[draw(st.sampled_from(["int", "number", "text", *FAMILIES]))] for _ in "acd"]
    ordered = FAMILIES[draw(st.sampled_from([name for name, one in FAMILIES.items() if one.offsets]))]
    timed = draw(st.sampled_from(["int", "naive", "zoned"]))
    families = dict(zip("acd", equal, strict=True)) | {"b": ordered}
    domains = {name: family.domains for name, family in families.items()} | {"ts": TIME_FAMILIES[timed]}
    kinds = []
    for _ in ("left", "right"):
        made = {}
        for name, choices in domains.items():
            kind = draw(st.sampled_from(list(choices)))
            # Few values, so that several branches find a row.
            made[name] = kind, choices[kind][:: draw(st.sampled_from([1, 2, 4]))]
        kinds.append(made)
    left = draw(tables(kinds[0], most, ordered=True))
    right = left if self_join else draw(tables(kinds[1], most, ordered=True))
    predicate: Node = ("or", *(draw(branches(families)) for _ in range(draw(st.integers(2, 4)))))
    beside = draw(st.sampled_from(["", "", "", "equal", "range", "or", "filter", "not"]))
    if beside == "equal":
        predicate = ("and", ("=", *column("d")), predicate)
    elif beside == "range":
        predicate = ("and", predicate, draw(ranges(ordered.offsets)))
    elif beside == "or":
        predicate = ("and", predicate, ("or", ("=", *column("a")), draw(branches(families))))
    elif beside == "filter":
        predicate = ("and", predicate, ("col", "left", "flag"))
    elif beside == "not":
        predicate = ("and", predicate, ("not", ("and", ("<>", *column("a")), ("<>", *column("c")))))
    window = draw(count_windows() if draw(st.booleans()) else time_windows(timed))
    case = Case(predicate, window, left, right, self_join=self_join, as_text=draw(st.booleans()))
    case.pushes = draw(pushes(left, right, 5))
    return case


LISTED = {"AT_ONCE": [1, 3, 1 << 20], "MOST_KEPT": [0, 5, 1 << 22]}
listed = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in LISTED.items()})
algorithms, orders = st.sampled_from(ALGORITHMS), st.sampled_from(ORDERS)


def count_branches(case: Case, **options: Any) -> None:
    """Tell Hypothesis how many branches a case has, for ``--hypothesis-show-statistics``."""
    told = str(case.join(**options).explain())
    event(f"branches: {sum(line.startswith('branch ') for line in told.splitlines())}")


@examples(60)
@given(
    case=unions(), algorithm=algorithms, order=orders, at_once=listed, given_limits=limits, threads=st.integers(1, 3)
)
def test_pairs(
    case: Case, algorithm: str, order: str, at_once: dict[str, int], given_limits: dict[str, int], threads: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits, **at_once)
        algorithm = served(case, algorithm)
        count_branches(case, algorithm=algorithm)
        assert_pairs(case, order, algorithm=algorithm, threads=threads)


@examples(25)
@given(case=unions(self_join=True), algorithm=algorithms, at_once=listed, bits=st.sampled_from([63, 12]))
def test_pairs_of_self_joins(case: Case, algorithm: str, at_once: dict[str, int], bits: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few_bits(patch, bits)
        set_limits(patch, **at_once)
        assert_pairs(case, "strict", algorithm=served(case, algorithm))


@examples(25)
@given(case=unions(), algorithm=algorithms, at_once=listed, bits=st.sampled_from([63, 12]), given_limits=limits)
def test_counts(case: Case, algorithm: str, at_once: dict[str, int], bits: int, given_limits: dict[str, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        few_bits(patch, bits)
        set_limits(patch, **given_limits, **at_once)
        assert_counts(case, algorithm=served(case, algorithm))


@examples(60)
@given(
    case=st.one_of(unions(), unions(self_join=True)), topology=st.sampled_from(sj.topologies()),
    threads=st.integers(1, 4), given_limits=limits,
)  # fmt: skip
def test_every_topology(case: Case, topology: str, threads: int, given_limits: dict[str, int]) -> None:
    """A core's view of a window may show rows that its probes do not see."""
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits)
        assert_pairs(case, "strict", topology=topology, threads=threads)
        assert_counts(case, topology=topology, threads=threads)


@examples(25)
@given(case=unions(most=12), order=orders, at_once=listed)
def test_positions(case: Case, order: str, at_once: dict[str, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **at_once)
        assert_positions(case, order)


@examples(25)
@given(case=unions(most=14), data=st.data(), order=orders)
def test_restart_between_pushes(case: Case, data: st.DataObject, order: str) -> None:
    join, other = case.join(order=order), data.draw(st.sampled_from(["auto", "bi_sort"]))
    for push, steps in zip(case.pushes, case.steps(case.oracle()), strict=True):
        if data.draw(st.booleans()):
            join = sj.StreamJoin.restore(join.snapshot(), algorithm=other)
        assert_groups(lines(join.push(**push.arguments())), pair_lines(steps), order)


@examples(25)
@given(case=unions(most=14), order=orders, at_once=listed, given_limits=limits)
def test_tables_of_a_push_together_are_its_pairs(
    case: Case, order: str, at_once: dict[str, int], given_limits: dict[str, int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, **given_limits, **at_once)
        join = case.join(order=order)
        for push, steps in zip(case.pushes, case.steps(case.oracle()), strict=True):
            rows = [line for table in join.push_iter(**push.arguments()) for line in lines(table)]
            assert_groups(rows, pair_lines(steps), order)


# -- larger streams ----------------------------------------------------------------------------------------------------


def stream(rows: int, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Rows that several branches find, whose times go on, with one far ahead now and then."""
    draw = np.random.default_rng(seed)
    ahead = np.where(draw.random(rows) < 0.002, 10**7, 0)
    return {
        "a": draw.integers(0, 40, rows),
        "b": draw.integers(-(2**62), 2**62, rows) // 2**57,
        "x": draw.normal(0, 50, rows).round(1),
        "ts": seed * 200 + np.sort(draw.integers(0, 200, rows)) + ahead,
    }


ENOUGH = 100
WINDOWS = [
    sj.CountWindow(700),
    sj.CountWindow(left=300, right=900, slide=7),
    sj.TimeWindow(900, on="ts", lateness=10**7),
]
PREDICATES = [
    "l.a = r.a OR l.b = r.b",
    "l.x BETWEEN r.x - 1 AND r.x + 1 OR (l.a = r.a AND l.b = r.b) OR (l.a = r.b AND l.x < r.x)",
    "l.a < r.a OR (l.a = r.a AND l.x < r.x)",
    "l.a = r.a AND (l.b = r.b OR l.x = r.x)",
    "(l.a = r.b OR l.b = r.a) AND l.x > r.x",
    "l.b = r.b AND l.x < r.x AND l.a > r.a OR l.x BETWEEN r.x AND r.x + 0.5",
]


def whole_only(patch: pytest.MonkeyPatch) -> None:
    """Plan without branches."""
    patch.setattr(plan_module, "branches_of", lambda on, *_: Branches((on,)))


@pytest.mark.parametrize("window", WINDOWS, ids=["count", "slide", "time"])
@pytest.mark.parametrize("on", PREDICATES)
def test_long_streams_agree_with_every_row_against_every_row(on: str, window: sj.CountWindow | sj.TimeWindow) -> None:
    """Tables grow, runs are merged, rows expire; positions, counts and two threads give what one filter gives."""
    found_by: list[list[pa.Table]] = []
    for split in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not split:
                whole_only(patch)
            joins = [
                sj.StreamJoin(on, window, output="positions", order="strict", threads=2),
                sj.StreamJoin(on, window, output="count"),
            ]
            if split:
                set_limits(patch, SMALLEST_SPREAD=1, SMALLEST_SEARCH=64)
            pushes_of = [(stream(rows, 2 * n), stream(rows, 2 * n + 1)) for n, rows in enumerate([30, 250, 400] * 3)]
            found_by += [[join.push(*one, order_by="ts") for one in pushes_of] for join in joins]
            told = [str(join.explain()) for join in joins]
            assert all(("branch 2: " in one) == split for one in told)
    assert sum(table.num_rows for table in found_by[0]) > ENOUGH
    for ours, theirs in zip(found_by[:2], found_by[2:], strict=True):
        assert all(one.equals(two) for one, two in zip(ours, theirs, strict=True))


def test_one_row_far_ahead_keeps_no_memory_of_those_after_it() -> None:
    """The values of a time window's rows do not grow with ordinals, see `RowValues`."""
    join = sj.StreamJoin("l.a = r.a OR l.b = r.b", sj.TimeWindow(10, on="ts", lateness=0), output="count")
    draw, sizes = np.random.default_rng(4), []

    def rows(n: int, number: int) -> dict[str, Any]:
        return {
            "a": draw.integers(0, 90, n),
            "b": draw.integers(0, 90, n),
            "ts": np.arange(number * n, (number + 1) * n),
        }

    with pytest.MonkeyPatch.context() as patch:
        tune(patch, ordinal_spread=1, largest_slice=1 << 8)
        join.push(left={"a": [1], "b": [1], "ts": [10**9]})
        for number in range(40):
            join.push(rows(500, number), rows(500, number), order_by="ts")
            sizes.append(join.stats.window_bytes)
    assert max(sizes[15:]) < 2 * max(sizes[:15])


# -- what is kept of rows ----------------------------------------------------------------------------------------------


@given(data=st.data())
@examples(25)
def test_row_values_are_found_by_ordinal(data: st.DataObject) -> None:
    """Whatever has expired, rows that live have their values; also where most of those between are gone."""
    timed, first = data.draw(st.booleans()), data.draw(st.integers(0, 9))
    held = row_values.RowValues(2, 1 if timed else None, first, room=1)
    known: dict[int, int] = {}
    floor, oldest = first, -100
    for _ in range(data.draw(st.integers(1, 12))):
        times = data.draw(st.lists(st.integers(0, 50) | st.just(10**6), max_size=9))
        held.put(np.array([[time * 3, time] for time in times], np.int64).reshape(-1, 2))
        known |= {held.next - len(times) + place: time for place, time in enumerate(times)}
        if data.draw(st.booleans()):
            floor = max(floor, data.draw(st.integers(first, held.next)))
            held.expire(floor)
        if timed:
            oldest = data.draw(st.integers(oldest, 60))
            held.expire_below(oldest)
        if timed and data.draw(st.integers(0, 5)) == 0:
            held.skip_to(held.next + data.draw(st.integers(0, 4)))
        values, rows, ordinals, start = held.stored
        every = list(range(start, start + rows)) if not ordinals.size else ordinals.tolist()
        places = {ordinal: place for place, ordinal in enumerate(every)}
        for ordinal, time in known.items():
            if ordinal >= floor and (not timed or time >= oldest):
                assert values[places[ordinal]].tolist() == [time * 3, time]


# -- plans -------------------------------------------------------------------------------------------------------------

SCHEMA = pa.schema([(name, pa.int64()) for name in "abcd"] + [("s", pa.string()), ("flag", pa.bool_())])


@pytest.mark.parametrize(
    ("on", "branches_told"),
    [
        ("l.a = r.a OR l.b = r.b", ["l.a = r.a", "l.b = r.b"]),
        ("l.b = r.b OR l.a < r.a", ["l.a < r.a", "l.b = r.b"]),  # the widest first
        ("l.c = r.c AND (l.a = r.a OR l.b = r.b)", ["l.c = r.c AND l.a = r.a", "l.c = r.c AND l.b = r.b"]),
        ("l.a = r.a OR l.a = r.a + 9 OR l.b = r.b", ["l.a = r.a OR l.a = r.a + 9", "l.b = r.b"]),
        ("NOT (l.a <> r.a AND l.b <> r.b)", ["l.a = r.a", "l.b = r.b"]),
        ("l.a = r.a OR FALSE AND l.b = r.b OR l.c = r.c", ["l.a = r.a", "l.c = r.c"]),
        ("l.d < r.d AND (l.a = r.a OR l.b = r.b)", ["l.d < r.d AND l.a = r.a", "l.d < r.d AND l.b = r.b"]),
        ("(l.a = r.a OR l.b = r.b) AND (l.c = r.c OR l.d = r.d)",
         ["l.a = r.a AND l.c = r.c", "l.a = r.a AND l.d = r.d", "l.b = r.b AND l.c = r.c", "l.b = r.b AND l.d = r.d"]),
        ("l.s = r.s AND (l.a < r.a OR l.b < r.b)", []),  # neither branch is narrower than the equality
        ("l.a = r.a OR l.a = r.a + 1", []),  # ranges of one key
        ("l.a = r.a OR l.flag", []),  # a branch without an index
        ("l.a = r.a OR (l.b + r.b) % 2 = 0", []),
        (" OR ".join(f"(l.a = r.a + {n} AND l.b = r.b + {n})" for n in range(9)), []),  # too many
    ],
)  # fmt: skip
def test_what_becomes_a_branch(on: str, branches_told: list[str]) -> None:
    join = sj.StreamJoin(on, sj.CountWindow(9), schemas=(SCHEMA, SCHEMA))
    told = [line.partition(": ")[2] for line in join.explain().splitlines() if line.startswith("branch ")]
    assert told == branches_told


def test_explain_names_each_branch_and_its_index() -> None:
    on = "l.s = r.s OR (l.a = r.a AND l.b < r.b)"
    told = sj.StreamJoin(on, sj.CountWindow(9), schemas=(SCHEMA, SCHEMA)).explain().splitlines()
    assert told[3:] == [
        "index: one for each of 2 branches of OR; a pair that several find is emitted once",
        "branch 1: l.s = r.s",
        "  index: a hash table of cells as wide as the band",
        "  because an equality needs one cell: a probe reads one or two cells, and rows are neither sorted nor merged",
        "  indexed: l.s = r.s (equality)",
        "branch 2: l.a = r.a AND l.b < r.b",
        "  index: sorted runs (PanJoin, section III-D)",
        "  because cells need ranges of one narrow width",
        "  indexed: l.a = r.a (equality)",
        "  indexed with it: l.b < r.b (open-ended range)",
    ]


@pytest.mark.filterwarnings("error::slidejoin.NoIndexWarning")
def test_branches_are_an_index() -> None:
    sj.StreamJoin("l.a = r.a OR l.b = r.b", sj.CountWindow(9), schemas=(SCHEMA, SCHEMA))
    with pytest.warns(sj.NoIndexWarning):
        sj.StreamJoin(
            "l.a = r.a OR l.flag = r.flag AND l.b + r.b > 5 OR l.flag", sj.CountWindow(9), schemas=(SCHEMA,) * 2
        )


def test_counts_of_the_first_branch_are_not_enumerated() -> None:
    """A count of half of the window costs nothing, and of the others only their own rows are looked at."""
    join = sj.StreamJoin("l.a < r.a OR l.b = r.b", sj.CountWindow(4000), output="count")
    rows = {"a": np.arange(3000), "b": np.arange(3000)}
    asked: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        expanded = answers.BranchRows._expanded

        def listing(self: answers.BranchRows, *given_: Any) -> Any:
            for one in expanded(self, *given_):
                asked.append(one[3].size)
                yield one

        patch.setattr(answers.BranchRows, "_expanded", listing)
        table = join.push(rows, rows)
    assert table["match_count"].to_pylist()[3000:] == [n + 1 for n in range(3000)]
    assert sum(asked) <= 6000
