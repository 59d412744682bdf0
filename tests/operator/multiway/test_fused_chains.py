"""Fused chains give what the law says, and what the general path gives; and it is known when they are taken."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.multiway import multi_operator, orders
from slidejoin.operator.multiway.fused_chains import FusedChains
from slidejoin.rows.widths import TableLimit
from tests.law.checks import assert_groups, examples, line, lines
from tests.multi_cases import SCHEMA, MultiCase, cases
from tests.narrow import tune
from tests.tables import rows_of

if TYPE_CHECKING:
    from slidejoin.operator.multiway.chains import Stretch
    from slidejoin.operator.multiway.fused_chains import Walk

ORDERS = ("probe", "strict", "none")
CHAIN = "a.k = b.k AND c.x BETWEEN b.x - 2 AND b.x + 3"
LAST = (1 << 63) - 1


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several slices and stretches of little rows, and orders that are looked at again and again."""
    tune(monkeypatch, smallest_slice=7, stretch_rows=3)
    for name, value in (("FIRST_LOOK", 5), ("SMALLEST_LOOK", 6), ("LEAST", 1), ("ENOUGH", 2), ("BETTER", 1.0)):
        monkeypatch.setattr(orders, name, value)


# -- the law -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_parts")
@given(
    case=cases(plain=True),
    order=st.sampled_from(ORDERS),
    threads=st.sampled_from([1, 2]),
    output=st.sampled_from(["positions", "pairs", "count"]),
)
@examples(150)
def test_what_chains_of_integers_give_is_the_law(case: MultiCase, order: str, threads: int, output: str) -> None:
    join, oracle = case.join(order=order, threads=threads, output=output), case.oracle()
    names = list(case.windows)
    for push in case.pushes:
        steps = oracle.push({name: rows_of(own) for name, own in push.items()}, case.order_by)
        table = join.push({name: own for name, own in push.items() if own.num_rows}, order_by=case.order_by)
        table.validate(full=True)
        if output == "positions":
            assert_groups(lines(table), [[line(found) for found in step.ordinals] for step in steps], order)
        elif output == "pairs":
            assert_groups(lines(table), [[line(*rows) for rows in step.rows] for step in steps], order)
        else:
            none = [None] * len(SCHEMA)
            assert lines(table) == [
                line(
                    [step.stream],
                    *(list(step.row.values()) if name == step.stream else none for name in names),
                    [len(step.rows)],
                )
                for step in steps
                if step.counted
            ]
    assert join.stats.pairs == oracle.pairs


# -- the general path, on more rows ------------------------------------------------------------------------------------


class Watched:
    """Counts the stretches that fused chains were asked for, and those that they answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = self.answered = 0
        prepared, found, counted = FusedChains.prepared, FusedChains.combinations, FusedChains.counted

        def counting_prepared(fused: FusedChains, stretch: Stretch, given: Any) -> Walk | None:
            self.asked += 1
            return prepared(fused, stretch, given)

        def counting_found(fused: FusedChains, walk: Walk, stretch: Stretch, most: int) -> Any:
            out = found(fused, walk, stretch, most)
            self.answered += out is not None
            return out

        def counting_counted(fused: FusedChains, walk: Walk, into: Any) -> bool:
            out = counted(fused, walk, into)
            self.answered += out
            return out

        monkeypatch.setattr(FusedChains, "prepared", counting_prepared)
        monkeypatch.setattr(FusedChains, "combinations", counting_found)
        monkeypatch.setattr(FusedChains, "counted", counting_counted)

    def look(self) -> tuple[int, int]:
        """Return both counts, and begin anew."""
        counts = self.asked, self.answered
        self.asked = self.answered = 0
        return counts


class General(FusedChains):
    """Never takes a stretch."""

    def prepared(self, stretch: Stretch, orders: Any) -> None:  # noqa: ARG002 - as the other takes them
        return None


def twins(monkeypatch: pytest.MonkeyPatch, windows: dict[str, Any], on: str, **options: Any) -> list[sj.MultiJoin]:
    """Return the same join twice, first with fused chains."""
    schemas = options.pop("schemas")
    made: list[sj.MultiJoin] = []
    for kind in (General, FusedChains):  # what is restored later is the latter
        monkeypatch.setattr(multi_operator, "FusedChains", kind)
        made.insert(0, sj.MultiJoin(windows, on=on, schemas=dict.fromkeys(windows, schemas), **options))
    return made


def table_of(rng: np.random.Generator, schema: pa.Schema, rows: int, most: int) -> pa.Table:
    columns = [pa.array(rng.integers(0, most, rows)).cast(field.type, safe=False) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def schema_of(k: Any, x: Any) -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("k", k), ("x", x)])


PLAIN = schema_of(pa.int64(), pa.int64())

QUERIES = {
    "chain": ("abc", CHAIN, PLAIN),
    "star of 4": ("abcd", "a.k = b.k AND a.x BETWEEN c.x - 4 AND c.x + 4 AND a.k = d.k", PLAIN),
    "one key": ("abc", "a.k = b.k AND b.k = c.k", PLAIN),
    "conditions on one": ("abc", f"{CHAIN} AND a.x > 20 AND c.k % 2 = 0 AND b.k <> 7", PLAIN),
    "small integers": ("abc", CHAIN, schema_of(pa.int8(), pa.int16())),
    "integers of 32 bits": ("abc", CHAIN, schema_of(pa.int32(), pa.int32())),
    "times": ("abc", "a.k = b.k AND b.x = c.x", schema_of(pa.timestamp("ms"), pa.time64("us"))),
    "two streams": ("ab", "a.k BETWEEN b.x - 1 AND b.x + 1", PLAIN),
    "six streams": ("abcdef", " AND ".join(f"{one}.k = {two}.k" for one, two in pairwise("abcdef")), PLAIN),
    "sign": ("abc", "a.k + b.x BETWEEN 90 AND 92 AND b.k = c.k", PLAIN),
}  # fmt: skip


@pytest.mark.parametrize("output", ["positions", "pairs", "count"])
@pytest.mark.parametrize("query", QUERIES)
def test_chains_are_taken_and_give_what_the_general_path_gives(
    monkeypatch: pytest.MonkeyPatch, query: str, output: str
) -> None:
    streams, on, schema = QUERIES[query]
    windows = {name: sj.CountWindow(700 + 100 * at) for at, name in enumerate(streams)}
    fused, general = twins(monkeypatch, windows, on, schemas=schema, output=output, order="strict", threads=2)
    watched, rng = Watched(monkeypatch), np.random.default_rng(3)
    most = 100 if len(streams) < 4 else 1000
    for number in range(6):
        push = {name: table_of(rng, schema, 250, most) for name in streams}
        if number % 2:
            push = {
                name: own.set_column(0, "id", pa.array(np.sort(own.column("id").to_numpy())))
                for name, own in push.items()
            }
        by = "id" if number % 2 else None
        ours = fused.push(push, order_by=by)
        asked, answered = watched.look()
        assert asked == answered > 0
        assert ours.equals(general.push(push, order_by=by))
        assert watched.look() == (0, 0)
    assert fused.stats.pairs == general.stats.pairs > 0


TIMED = pa.schema([*PLAIN, ("ts", pa.timestamp("ms"))])


@pytest.mark.parametrize("output", ["positions", "pairs", "count"])
@pytest.mark.parametrize("on", [CHAIN, "a.k = b.k AND b.k = c.k AND b.x > 20"])
def test_time_windows(monkeypatch: pytest.MonkeyPatch, on: str, output: str) -> None:
    windows = {
        name: sj.TimeWindow(f"{length} seconds", on="ts", lateness="2 seconds")
        for name, length in zip("abc", (9, 4, 6), strict=True)
    }
    fused, general = twins(monkeypatch, windows, on, schemas=TIMED, output=output, order="strict", threads=2)
    watched, rng = Watched(monkeypatch), np.random.default_rng(12)
    for number in range(8):
        push = {}
        for name, rows in zip("abc", (300, 200, 1 if number == 5 else 400), strict=True):
            times = number * 2000 + rng.integers(0, 4500, rows)  # some of these are late
            push[name] = table_of(rng, PLAIN, rows, 60).append_column("ts", pa.array(times, pa.timestamp("ms")))
        by = "ts" if number % 3 == 2 else None
        ours = fused.push(push, order_by=by)
        asked, answered = watched.look()
        # Rows of a snapshot are not found by their ordinals alone, so that chains take the general path for a while.
        assert asked > 0
        assert answered == asked or number > 3
        assert ours.equals(general.push(push, order_by=by))
        watched.look()
        if number == 3:
            fused = sj.MultiJoin.restore(fused.snapshot(), threads=2)
            watched.look()
    assert fused.stats.pairs == general.stats.pairs > 0
    assert fused.stats.late_rows == general.stats.late_rows > 0


def test_event_times_near_the_ends_of_int64(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([*PLAIN, ("ts", pa.int64())])
    windows = {name: sj.TimeWindow(5 if name == "b" else 1 << 62, on="ts", lateness=1 << 62) for name in "abc"}
    on = "a.k = b.k AND b.k = c.k"
    fused, general = twins(monkeypatch, windows, on, schemas=schema, output="positions", order="strict")
    rng = np.random.default_rng(13)
    for times in ([-LAST - 1, -LAST, -3, 4], [5, LAST - 4, LAST], [LAST - 1, 1 << 61, LAST]):
        push = {
            name: table_of(rng, PLAIN, len(times), 2).append_column("ts", pa.array(times, pa.int64())) for name in "abc"
        }
        assert fused.push(push).equals(general.push(push))
    assert fused.stats.pairs == general.stats.pairs > 0


def taken_by(monkeypatch: pytest.MonkeyPatch, pushes: list[dict[str, Any]], window: Any, on: str = CHAIN) -> list[bool]:
    """Push to both twins, in every form of output, compare, and return which pushes fused chains answered at all."""
    found: list[list[bool]] = []
    watched = Watched(monkeypatch)
    schema = next(iter(pushes[0].values())).schema
    for output in ("positions", "count"):
        windows = dict.fromkeys("abc", window)
        fused, general = twins(monkeypatch, windows, on, schemas=schema, output=output, order="strict", threads=1)
        found.append([])
        for push in pushes:
            ours = fused.push(push)
            found[-1].append(watched.look()[1] > 0)
            assert ours.equals(general.push(push))
    assert found[0] == found[1]
    return found[0]


def test_a_row_with_more_partners_than_a_block_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    pushes = [{name: table_of(rng, PLAIN, 600, 1000) for name in "abc"} for _ in range(3)]
    pushes.insert(1, {"b": table_of(rng, PLAIN, 5000, 900).set_column(1, "k", pa.array(np.full(5000, 2000)))})
    pushes.insert(2, {"a": pa.table({"id": [1], "k": [2000], "x": [1]}, schema=PLAIN)})
    assert taken_by(monkeypatch, pushes, sj.CountWindow(8000)) == [True, True, False, True, True]


def test_keys_near_the_ends_of_int64(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    near = [table_of(rng, PLAIN, 300, 50) for _ in range(9)]
    ends = {name: pa.table({"id": [1, 2], "k": [3, LAST], "x": [-LAST - 1, LAST]}, schema=PLAIN) for name in "abc"}
    plain = [dict(zip("abc", near[at : at + 3], strict=True)) for at in (0, 3, 6)]
    # Tables of keys that lie so far apart are wide: what they find is checked by whole keys, on the general path.
    assert taken_by(monkeypatch, [plain[0], ends, plain[1], plain[2]], sj.CountWindow(400))[:2] == [True, False]


def test_nulls_among_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    plain = [{name: table_of(rng, PLAIN, 300, 50) for name in "abc"} for _ in range(2)]
    null = {name: own.set_column(1, "k", pa.array([None, *range(299)], pa.int64())) for name, own in plain[0].items()}
    assert taken_by(monkeypatch, [plain[0], null, plain[1]], sj.CountWindow(400))[:2] == [True, False]


def test_windows_that_slide(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    pushes = [{name: table_of(rng, PLAIN, 333, 80) for name in "abc"} for _ in range(5)]
    assert all(taken_by(monkeypatch, pushes, sj.CountWindow(400, slide=50)))


@pytest.mark.parametrize(
    "on",
    [
        "a.k = b.k AND b.k = c.k AND a.x + b.x < c.x",
        "a.k = b.k AND b.k < c.k AND b.x <> c.x",
        "a.k + a.x = b.k AND b.k = c.k",
        "a.k = b.k AND b.k = c.k AND a.k = c.k",
    ],
)
def test_what_needs_a_check_or_an_expression_takes_the_general_path(monkeypatch: pytest.MonkeyPatch, on: str) -> None:
    rng = np.random.default_rng(8)
    pushes = [{name: table_of(rng, PLAIN, 100, 30) for name in "abc"} for _ in range(3)]
    assert not any(taken_by(monkeypatch, pushes, sj.CountWindow(150), on))


def test_more_combinations_than_a_table_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    fused, general = twins(monkeypatch, dict.fromkeys("abc", sj.CountWindow(500)), CHAIN, schemas=PLAIN, order="strict")
    for number in range(4):
        push = {name: table_of(rng, PLAIN, 200, 200) for name in "abc"}
        if number == 2:
            for join in (fused, general):
                operator = join._state.operator
                assert operator is not None
                operator.limit = operator.chains._probing._limit = TableLimit(100, 1 << 20)
        parts = list(fused.push_iter(push))
        assert max(part.num_rows for part in parts) <= (100 if number >= 2 else 1 << 22)
        assert pa.concat_tables(parts).equals(pa.concat_tables(general.push_iter(push)))
    assert fused.stats.pairs == general.stats.pairs > 20_000


def test_what_steps_found_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(10)
    windows = dict.fromkeys("abc", sj.CountWindow(2000))
    fused, general = twins(monkeypatch, windows, CHAIN, schemas=PLAIN, output="count", threads=1)
    for number in range(3):
        push = {name: table_of(rng, PLAIN, 900, 1000) for name in "abc"}
        if number:
            # Blocks of these are halved before they fit.
            push["b"] = table_of(rng, PLAIN, 900, 30)
            push["a"] = table_of(rng, PLAIN, 900, 30)
        assert fused.push(push).equals(general.push(push))
    told = [
        [text for text in join.explain().splitlines() if "rows a probe" in text or "probes" in text]
        for join in (fused, general)
    ]
    assert told[0] == told[1] != []


@pytest.mark.nojit
@pytest.mark.parametrize("output", ["positions", "count"])
def test_plain_kernels_give_the_same(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    rng, schema = np.random.default_rng(11), schema_of(pa.int8(), pa.int32())
    windows = dict.fromkeys("abc", sj.CountWindow(20))
    fused, general = twins(monkeypatch, windows, f"{CHAIN} AND a.x > 1", schemas=schema, output=output, order="strict")
    watched = Watched(monkeypatch)
    for _ in range(2):
        push = {name: table_of(rng, schema, 15, 6) for name in "abc"}
        assert fused.push(push).equals(general.push(push))
    assert watched.look() == (2, 2)
    assert fused.stats.pairs == general.stats.pairs > 0
