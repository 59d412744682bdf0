"""How a push is cut into slices and chunks changes nothing, and a push that is refused leaves nothing behind."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.operator import join_operator as module
from slidejoin.rows.widths import TableLimit
from tests.narrow import tune
from tests.operator.streams import PREDICATES, SCHEMA, WINDOWS, in_order, pushes, results, rows

BOTH = {"schemas": (SCHEMA, SCHEMA)}


def counted(join: sj.StreamJoin) -> dict[str, Any]:
    return {name: value for name, value in join.stats.to_json().items() if name not in {"seconds", "window_bytes"}}


def outcome(on: str, window: Any, **options: Any) -> tuple[Any, Any]:
    join = sj.StreamJoin(on=on, window=window, **BOTH, **options)
    return results(join, pushes()), counted(join)


OPTIONS: list[dict[str, Any]] = [
    {"order": "strict"},
    {"order": "probe"},
    {"order": "none"},
    {"output": "count"},
    {"order": "strict", "self_join": True},
    {"output": "count", "self_join": True},
]


# Half of them at night, so that each option, window and predicate is met by day.
EACH = [
    pytest.param(
        predicate,
        window,
        options,
        marks=pytest.mark.nightly if (i + j + k) % 2 else (),
        id=f"{predicate}-{window}-{options}",
    )
    for i, predicate in enumerate(PREDICATES)
    for j, window in enumerate(WINDOWS)
    for k, options in enumerate(OPTIONS)
]


@pytest.mark.parametrize(("predicate", "window", "options"), EACH)
def test_tiny_chunks_and_slices(
    predicate: str, window: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    on, order = PREDICATES[predicate], options.get("order", "strict")
    found, stats = outcome(on, WINDOWS[window], **options)
    counts = [[row["match_count"] for row in push] for push in outcome(on, WINDOWS[window], output="count")[0]]
    for chunk, slices in ((1, 1 << 18), (7, 5)):
        chunks_of(chunk, monkeypatch)
        tune(monkeypatch, counted_at_once=chunk)
        tune(monkeypatch, largest_slice=slices)
        tune(monkeypatch, smallest_slice=min(slices, 5))
        again, counters = outcome(on, WINDOWS[window], **options)
        assert in_order(again, order, counts) == in_order(found, order, counts)
        window_rows = {"window_left", "window_right"}  # whole sub-windows leave, and these are cut differently
        assert {k: v for k, v in counters.items() if k not in window_rows} == {
            k: v for k, v in stats.items() if k not in window_rows
        }


@pytest.mark.parametrize("size", [1, 3, 7])
def test_output_tables_are_bounded(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks_of(size, monkeypatch)
    for on in PREDICATES.values():
        join = sj.StreamJoin(on=on, window=sj.CountWindow(50), **BOTH)
        sizes = [table.num_rows for push in pushes() for table in join.push_iter(**push)]
        assert max(sizes) <= size
        assert sum(sizes) == join.stats.pairs > 0


# -- iterators ---------------------------------------------------------------------------------------------------------


def open_join(rows_a_side: int = 60) -> tuple[sj.StreamJoin, Any, pa.Table]:
    join = sj.StreamJoin(on="l.id % 2 = r.id % 2", window=sj.CountWindow(1000), **BOTH)
    batch = rows(rows_a_side)
    return join, join.push_iter(left=batch, right=batch), batch


def chunks_of(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let engines hold so few candidates at once."""
    options = module.JoinOperator.__init__.__kwdefaults__ | {"limit": TableLimit(rows, 1 << 60)}
    monkeypatch.setattr(module.JoinOperator.__init__, "__kwdefaults__", options)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of 10 rows and tables of 5."""
    chunks_of(5, monkeypatch)
    tune(monkeypatch, largest_slice=10)
    tune(monkeypatch, smallest_slice=10)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("read", [0, 1, 3, 100])
@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_an_iterator_given_up_at_any_point_takes_all_rows(read: int, how: str) -> None:
    join, iterator, batch = open_join()
    for _ in range(read):
        next(iterator)
    if how == "closed":
        iterator.close()
        iterator.close()
        assert list(iterator) == []
    else:
        del iterator
        gc.collect()
    assert (join.stats.rows_left, join.stats.rows_right) == (60, 60)
    assert join.push(left=rows(2, 60)).num_rows == 60
    assert sj.StreamJoin.restore(join.snapshot()).push(left=batch.slice(0, 1)).num_rows == 30


@pytest.mark.usefixtures("small")
def test_a_loop_that_is_left_early_does_not_close_the_join() -> None:
    join = sj.StreamJoin(on="l.id % 2 = r.id % 2", window=sj.CountWindow(1000), **BOTH)
    for table in join.push_iter(left=rows(60), right=rows(9)):
        assert table.num_rows == 5
        break
    for table in join.push_iter(left=rows(5)):
        assert table.num_rows
        break
    assert join.push(right=rows(1)).num_rows == 33


@pytest.mark.usefixtures("small")
def test_an_open_iterator_blocks_everything_but_looking() -> None:
    join, iterator, batch = open_join()
    next(iterator)
    for call in (lambda: join.push(left=batch), lambda: join.push_iter(left=batch), join.finish, join.snapshot):
        with pytest.raises(sj.JoinClosedError, match="still open; read it to its end or close it first"):
            call()
    assert "index:" in join.explain()
    assert join.stats.pairs > 0
    assert sum(1 for _ in iterator) > 0
    assert join.push(left=batch).num_rows == 60 * 30


def test_an_iterator_without_output_can_be_closed_too() -> None:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(3))
    iterator = join.push_iter(left={"a": [1]})
    iterator.close()  # type: ignore[attr-defined]
    assert join.push(right={"a": [1]}).num_rows == 1


def test_a_push_that_is_interrupted_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    join, iterator, batch = open_join()
    iterator.close()
    state = join.snapshot()

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("slidejoin.operator.topology.join_topology.probe_batch", interrupt)
        with pytest.raises(KeyboardInterrupt):
            join.push(left=batch)
    for call in (lambda: join.push(left=batch), join.finish, join.snapshot):
        with pytest.raises(sj.JoinClosedError, match=r"interrupted by KeyboardInterrupt.*restore the last snapshot"):
            call()
    assert sj.StreamJoin.restore(state).push(left=batch).num_rows > 0


# -- errors ------------------------------------------------------------------------------------------------------------

SECONDS = pa.schema([("a", pa.int64()), ("t", pa.timestamp("s")), ("o", pa.float64())])
NANOS = pa.schema([("a", pa.int64()), ("t", pa.timestamp("ns")), ("o", pa.float64())])


def timed(schema: pa.Schema, *times: int, order: tuple[float | None, ...] = ()) -> pa.Table:
    column = pa.array(times, pa.int64()).cast(schema.field("t").type)
    return pa.Table.from_arrays(
        [pa.array([1] * len(times)), column, pa.array(order or times, pa.float64())], schema=schema
    )


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "left overflows": ({"left": timed(SECONDS, 2**40)}, sj.SchemaError, "does not fit 64 bits in the other side's"),
    "left overflows, right is fine": (
        {"left": timed(SECONDS, 2**40), "right": timed(NANOS, 10**10)},
        sj.SchemaError,
        "column 't' does not fit 64 bits in the other side's finer unit; cast that side",
    ),
    "another type": (
        {"right": timed(SECONDS, 2**40)},
        sj.SchemaError,
        r"'t' of the right batch is timestamp\[s\], expected timestamp\[ns\] as in the first batch, and not all of its",
    ),
    "second batch wrong": (
        {"left": timed(SECONDS, 9), "right": {"a": [1]}},
        sj.SlideJoinError,
        "the right batch lacks column 't'; it has a.|the right side has no event-time column 't'; its columns are a.",
    ),
    "NULL in order": (
        {"left": timed(SECONDS, 9), "right": timed(NANOS, 9, order=(None,)), "order_by": "o"},
        sj.SchemaError,
        "order_by='o': 1 rows of the right batch are NULL in it and cannot be ordered; drop them first",
    ),
    "NaN in order": (
        {"left": timed(SECONDS, 9, order=(float("nan"),)), "order_by": "o"},
        sj.SchemaError,
        "order_by='o': 1 rows of the left batch are NaN in it and cannot be ordered; drop them first",
    ),
    "memory": (
        {"left": timed(SECONDS, *[9] * 5000)},
        sj.MemoryLimitError,
        r"memory_limit is 9000 bytes; the window holds \d+ and this push of 5000 rows may need \d+ more.*was added",
    ),
}


@pytest.mark.parametrize(
    ("name", "begun"),
    # The first batch of a side decides its types, so there is none to refuse.
    [
        (name, begun)
        for name in REFUSED
        for begun in ("left", "right", "both")
        if (name, begun) != ("another type", "left")
    ],
)
def test_a_refused_push_changes_nothing(name: str, begun: str) -> None:
    arguments, error, text = REFUSED[name]
    window = sj.TimeWindow("10 seconds", on="t", lateness="1 second")
    join = sj.StreamJoin(on="l.a = r.a", window=window, memory_limit=9000)
    first = {"left": timed(SECONDS, 5), "right": timed(NANOS, 5 * 10**9)}
    for side, batch in first.items():
        if begun in {side, "both"}:
            join.push(**{side: batch})
    twin = sj.StreamJoin.restore(join.snapshot())
    before = join.snapshot()
    if begun == "left" and name == "left overflows":
        arguments = arguments | {"right": timed(NANOS, 1)}  # the unit of the other side is not known otherwise
    with pytest.raises(error, match=text):
        join.push(**arguments)
    assert join.snapshot() == before
    late = {"left": timed(SECONDS, 3, 4, 6), "right": timed(NANOS, 3 * 10**9, 4 * 10**9, 5 * 10**9)}
    assert join.push(**late).to_pylist() == twin.push(**late).to_pylist()
    assert counted(join) == counted(twin)


def test_a_preparation_that_fails_leaves_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two terms and the scope: the short way makes no such preparation.
    join = sj.StreamJoin(on="l.a = r.a AND l.b <= r.b", window=sj.TimeWindow(10, on="ts"), **BOTH)
    join.push(left=rows(5), right=rows(5))
    before = join.snapshot()

    def refuse(*_: object) -> None:
        msg = "offset overflow"
        raise pa.ArrowInvalid(msg)

    with monkeypatch.context() as patch:
        patch.setattr("slidejoin.operator.ingest.ingest.Push", refuse)  # is made after the clock, before rows are taken
        later = pa.table({"id": [1, 2], "a": [1, 1], "b": [0.0, 0.0], "ts": [90, 99]}, SCHEMA)
        with pytest.raises(pa.ArrowInvalid, match="offset overflow"):
            join.push(left=later, right=later, order_by="id")
    assert join.snapshot() == before
    assert join.push(left=rows(5, 5)).schema.names == join.push().schema.names


# -- time at the ends --------------------------------------------------------------------------------------------------

LOW, HIGH = -(2**63), 2**63 - 1


@pytest.mark.parametrize("length", [0, 1, 2**62, HIGH])
@pytest.mark.parametrize("lateness", [0, 5, HIGH])
def test_event_times_at_the_ends_of_int64(length: int, lateness: int) -> None:
    times = [LOW, LOW + 1, LOW + 2, -1, 0, 1, HIGH - 1, HIGH]
    window = sj.TimeWindow(length, on="ts", lateness=lateness)
    join = sj.StreamJoin(on="l.a = r.a", window=window, select=["l.ts", "r.ts"])
    seen: dict[str, list[int]] = {"left": [], "right": []}
    expected: list[tuple[int, int]] = []
    got: list[tuple[int, int]] = []
    late = 0
    for ts in times:
        for side, other in (("left", "right"), ("right", "left")):
            out = join.push(**{side: {"a": [1], "ts": [ts]}})
            if "ts_right" in out.schema.names:
                got += zip(out.column("ts").to_pylist(), out.column("ts_right").to_pylist(), strict=True)
            if seen["left"] and seen["right"] and ts < min(max(seen["left"]), max(seen["right"])) - lateness:
                late += 1
                continue
            pairs = [(ts, t) if side == "left" else (t, ts) for t in seen[other] if abs(t - ts) <= length]
            expected += pairs
            seen[side].append(ts)
    assert sorted(got) == sorted(expected)
    assert join.stats.late_rows == late


def test_a_stored_row_at_the_very_end_of_its_time_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    window = sj.TimeWindow(left=10, right=3, left_on="ts", right_on="ts", lateness=2)
    tune(monkeypatch, chunk_rows=1, smallest_run=1)
    join = sj.StreamJoin(on="l.a = r.a", window=window, select=["l.ts", "r.ts"], **BOTH)

    def push(side: str, ts: int) -> list[int]:
        table = pa.table({"id": [0], "a": [1], "b": [0.0], "ts": [ts]}, SCHEMA)
        return sorted(join.push(**{side: table}).column("ts" if side == "right" else "ts_right").to_pylist())

    push("left", 0)
    push("left", 1)
    push("left", 12)
    push("right", 12)  # watermark 10: the left row at 0 may still be seen from 10
    assert join.stats.window_left == 3
    assert push("right", 10) == [0, 1, 12]
    push("left", 13)
    push("right", 13)  # watermark 11
    assert join.stats.window_left == 3  # the row at 0 is gone
    assert push("right", 11) == [1, 12, 13]
    assert push("right", 10) == []
    assert join.stats.late_rows == 1


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "window"),
    [
        ("bi_sort", sj.CountWindow(300)),
        ("band_cells", sj.TimeWindow(300, on="ts")),
        pytest.param("bi_sort", sj.TimeWindow(300, on="ts"), marks=pytest.mark.nightly),
        pytest.param("band_cells", sj.CountWindow(300), marks=pytest.mark.nightly),
    ],
    ids=str,
)
def test_many_tiny_pushes_leave_only_the_window(algorithm: str, window: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, chunk_rows=16, smallest_run=16)
    on = "l.a BETWEEN r.a - 1 AND r.a + 1 AND l.b < r.b"
    join = sj.StreamJoin(on=on, window=window, algorithm=algorithm, schemas=(SCHEMA, SCHEMA))
    sizes = []
    for i in range(1200):
        batch = pa.table({"id": [i], "a": [i % 7], "b": [0.5], "ts": [i]}, SCHEMA)
        join.push(left=batch, right=batch)
        sizes.append((join.stats.window_bytes, join.stats.window_left))
    operator = join._state.operator
    assert operator is not None
    assert all(len(w.payload.pieces) < 30 and len(getattr(w.index, "runs", ())) < 30 for w in operator.windows.values())
    assert max(sizes[800:])[0] <= 1.2 * max(sizes[:800])[0]
    assert max(kept for _, kept in sizes) <= 300 + 64


def test_a_slice_of_a_large_table_does_not_keep_it_alive() -> None:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(10), **BOTH)
    n = 100_000
    huge = pa.table({"id": np.arange(n), "a": np.arange(n), "b": np.zeros(n), "ts": np.arange(n)}, SCHEMA)
    join.push(left=huge.slice(50_000, 20), right=huge)
    operator = join._state.operator
    assert operator is not None
    for window in operator.windows.values():
        assert sum(piece.table.get_total_buffer_size() for piece in window.payload) < 1_000_000


def test_select_nothing_puts_out_the_number_of_pairs() -> None:
    join = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(10), select=[])
    out = join.push(left={"a": [1, 1, 2]}, right={"a": [1, 2, 2]})
    assert (out.num_rows, out.num_columns) == (4, 0)
    assert join.push(right={"a": [5]}).num_rows == 0
    counts = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(10), select=[], output="count")
    out = counts.push(left={"a": [1]}, right={"a": [1, 2]})
    assert out.to_pydict() == {"side": ["left", "right", "right"], "match_count": [0, 1, 0]}
    one_side = sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(10), select=["r.a"])
    assert one_side.push(left={"a": [1, 1]}, right={"a": [1]}).to_pydict() == {"a_right": [1, 1]}


@pytest.mark.parametrize("on", ["l.k = r.k", "l.k < r.k"])  # the time scope is a further dimension, or the key
def test_one_row_from_far_ahead_does_not_keep_those_that_follow(on: str) -> None:
    join = sj.StreamJoin(on=on, window=sj.TimeWindow(10, on="ts"), output="count", select=[])
    join.push(left={"k": [0], "ts": [1 << 40]})
    for start in range(0, 100_000, 5_000):
        batch = {"k": np.arange(5_000) % 7, "ts": np.arange(start, start + 5_000)}
        join.push(left=batch, right=batch)
    assert join.stats.late_rows == 0
    assert join.stats.window_left <= 25_000
    assert join.stats.window_right <= 25_000
