"""Joins of many streams give what the law of docs/many-streams.md says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.operator.multiway import orders
from slidejoin.rows.widths import TableLimit
from tests.law.checks import assert_groups, examples, line, lines
from tests.multi_cases import SCHEMA, MultiCase, cases
from tests.multi_oracle import MultiOracle, Within
from tests.narrow import tune
from tests.tables import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.multi_oracle import MultiStep

ORDERS = ("probe", "strict", "none")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let little rows be many: several slices and stretches, and orders that are looked at again and again."""
    tune(monkeypatch, smallest_slice=7, stretch_rows=3)
    for name, value in (("FIRST_LOOK", 5), ("SMALLEST_LOOK", 6), ("LEAST", 1), ("ENOUGH", 2), ("BETTER", 1.0)):
        monkeypatch.setattr(orders, name, value)


def tables(case: MultiCase, join: sj.MultiJoin) -> Iterator[tuple[pa.Table, dict[str, Any]]]:
    """The output of every push, and the rows that were pushed."""
    for push in case.pushes:
        given_ = {name: table for name, table in push.items() if table.num_rows}
        yield join.push(given_, order_by=case.order_by), {name: rows_of(table) for name, table in push.items()}


def groups(steps: list[MultiStep]) -> list[list[tuple[str, ...]]]:
    return [[line(*rows) for rows in step.rows] for step in steps]


@given(case=cases(), order=st.sampled_from(ORDERS), threads=st.sampled_from([1, 2, 3]))
@examples(130)
def test_combinations_are_those_of_the_law(case: MultiCase, order: str, threads: int) -> None:
    join, oracle = case.join(order=order, threads=threads), case.oracle()
    for table, rows in tables(case, join):
        table.validate(full=True)
        assert_groups(lines(table), groups(oracle.push(rows, case.order_by)), order)
    assert join.finish().num_rows == 0
    stats = join.stats
    assert (stats.pairs, stats.late_rows, stats.null_time_rows) == (
        oracle.pairs, oracle.late_rows, oracle.null_time_rows,
    )  # fmt: skip
    assert stats.rows == {name: len(kept) for name, kept in oracle.kept.items()}


@given(case=cases(), order=st.sampled_from(ORDERS))
@examples(50)
def test_positions_are_the_ordinals_of_the_law(case: MultiCase, order: str) -> None:
    join, oracle = case.join(order=order, output="positions"), case.oracle()
    for table, rows in tables(case, join):
        assert table.schema == pa.schema([(name, pa.int64()) for name in case.windows])
        law = [[line(found) for found in step.ordinals] for step in oracle.push(rows, case.order_by)]
        assert_groups(lines(table), law, order)


@given(case=cases())
@examples(50)
def test_counts_are_those_of_the_law(case: MultiCase) -> None:
    join, oracle = case.join(output="count", threads=2), case.oracle()
    names = list(case.windows)
    for table, rows in tables(case, join):
        law = []
        for step in oracle.push(rows, case.order_by):
            if step.counted:
                none = [None] * len(SCHEMA)
                columns = [list(step.row.values()) if name == step.stream else none for name in names]
                law.append(line([step.stream], *columns, [len(step.rows)]))
        assert lines(table) == law
    assert join.stats.pairs == oracle.pairs


@given(case=cases(order_by=True), data=st.data())
@examples(40)
def test_cuts_into_pushes_and_restarts_change_nothing(case: MultiCase, data: st.DataObject) -> None:
    # One arrival order: that of the ids. Each push of `case` is cut again.
    whole, again = case.join(order="strict"), case.join(order="strict")
    for push in case.pushes:
        expected = lines(whole.push(push, order_by="id"))
        ids: list[int] = [number for table in push.values() for number in table.column("id").to_numpy().tolist()]
        at = data.draw(st.sampled_from([*ids, -1]))
        parts = []
        for low, high in ((-1, at), (at, 1 << 60)):
            part = {}
            for name, table in push.items():
                values = table.column("id").to_numpy()
                part[name] = table.filter(pa.array((values > low) & (values <= high)))
            parts += lines(again.push(part, order_by="id"))
            if data.draw(st.booleans()):
                again = sj.MultiJoin.restore(again.snapshot(), threads=data.draw(st.sampled_from([1, 2])))
        assert parts == expected
    assert again.stats.rows == whole.stats.rows
    assert again.stats.pairs == whole.stats.pairs


@given(case=cases())
@examples(40)
def test_tables_and_parts_of_two_rows(case: MultiCase) -> None:
    join, oracle = case.join(order="strict"), case.oracle()
    operator = join._state.operator
    assert operator is not None
    operator.limit = operator.chains._probing._limit = TableLimit(2, 1 << 10)
    for push in case.pushes:
        law = groups(oracle.push({name: rows_of(table) for name, table in push.items()}, case.order_by))
        found = list(join.push_iter(push, order_by=case.order_by))
        assert all(table.num_rows <= 2 for table in found)
        assert_groups([one for table in found for one in lines(table)], law, "strict")


@given(case=cases(), order=st.sampled_from(ORDERS))
@examples(40)
def test_schemas_that_become_known_with_the_rows(case: MultiCase, order: str) -> None:
    join, oracle = case.join(order=order, schemas=None), case.oracle()
    for push in case.pushes:
        table = join.push({name: own for name, own in push.items() if own.num_rows}, order_by=case.order_by)
        found = groups(oracle.push({name: rows_of(own) for name, own in push.items()}, case.order_by))
        if table.num_columns == len(case.windows) * len(SCHEMA):
            assert_groups(lines(table), found, order)
        else:
            assert not any(found)
        join = sj.MultiJoin.restore(join.snapshot())
    assert join.stats.rows == {name: len(kept) for name, kept in oracle.kept.items()}
    assert join.stats.null_time_rows == oracle.null_time_rows


@given(case=cases(most=2), order=st.sampled_from(ORDERS))
@examples(40)
def test_two_streams_are_a_stream_join(case: MultiCase, order: str) -> None:
    windows = {"left": case.public_windows["a"], "right": case.public_windows["b"]}
    on = _two(case)
    one, two = windows.values()
    if isinstance(one, sj.CountWindow):
        if one.slide != two.slide:
            return
        window: Any = sj.CountWindow(left=one.left, right=two.left, slide=one.slide)
    else:
        if one.lateness != two.lateness:
            return
        window = sj.TimeWindow(left=one.left, right=two.left, on="ts", lateness=one.lateness)
    many = sj.MultiJoin(windows, on=on, order=order, schemas={"left": SCHEMA, "right": SCHEMA})
    pair = sj.StreamJoin(on=on, window=window, order=order, aliases=("left", "right"), schemas=(SCHEMA, SCHEMA))
    for push in case.pushes:
        ours = many.push(left=push["a"], right=push["b"], order_by=case.order_by)
        theirs = pair.push(left=push["a"], right=push["b"], order_by=case.order_by)
        assert ours.schema.equals(theirs.schema)
        assert (lines(ours) == lines(theirs)) if order == "strict" else (sorted(lines(ours)) == sorted(lines(theirs)))


def _two(case: MultiCase) -> str:
    from tests.multi_cases import wide_text

    text = wide_text(case.predicate)
    for name in ("id", "k", "x", "f", "s", "ts"):
        text = text.replace(f"a.{name}", f'"left".{name}').replace(f"b.{name}", f'"right".{name}')
    return text


def test_event_times_of_any_units() -> None:
    kinds = {"a": pa.timestamp("s"), "b": pa.timestamp("ms"), "c": pa.date32()}
    windows = {
        "a": sj.TimeWindow("2 days", on="ts", lateness="1 day"),
        "b": sj.TimeWindow("36 hours", on="ts", lateness="1 day"),
        "c": sj.TimeWindow("1 day", on="ts"),
    }
    day, hour = 86_400 * 10**9, 3_600 * 10**9
    law = {"a": Within(2 * day, "ts", day), "b": Within(36 * hour, "ts", day), "c": Within(day, "ts")}
    rng = np.random.default_rng(2)
    join = sj.MultiJoin(windows, on="a.k <= b.k", order="strict", threads=2)
    oracle = MultiOracle(law, ("<=", ("col", "left", "a.k"), ("col", "left", "b.k")))
    for number in range(6):
        push = {}
        for name, kind in kinds.items():
            hours = number * 24 + rng.integers(-30, 24, 5)
            ticks = {"a": hours * 3600, "b": hours * 3_600_000, "c": hours // 24}[name]
            times = pa.array(ticks.astype(np.int32 if name == "c" else np.int64)).cast(kind)
            push[name] = pa.table({"k": rng.integers(0, 3, 5), "ts": times})
        found = groups(oracle.push({name: rows_of(table) for name, table in push.items()}))
        assert lines(join.push(push)) == [one for group in found for one in group]
    assert join.stats.late_rows == oracle.late_rows > 0
    assert join.stats.pairs == oracle.pairs > 0


def test_a_large_clique_in_small_memory_is_counted_as_it_is_listed() -> None:
    rng = np.random.default_rng(1)
    windows = dict.fromkeys("abc", sj.CountWindow(3000))
    on = "a.k = b.k AND b.k = c.k AND a.x + b.x < c.x"
    whole, counting = sj.MultiJoin(windows, on=on, threads=2), sj.MultiJoin(windows, on=on, output="count", threads=2)
    for _ in range(4):
        push = {name: {"k": rng.integers(0, 500, 2000), "x": rng.integers(0, 100, 2000)} for name in "abc"}
        assert whole.push(push).num_rows == sum(counting.push(push).column("match_count").to_pylist())
