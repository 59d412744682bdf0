"""As-of joins of streams in order: the latest right rows of each key in a table, beside the search in sorted runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from tests.law.checks import examples, same_tables
from tests.narrow import tune

if TYPE_CHECKING:
    from collections.abc import Iterator

PREDICATES = {
    "key": "l.k = r.k",
    "text": "l.s = r.s",
    "keys": "l.k = r.k AND l.s = r.s",
    "three keys": "l.k = r.k AND l.s = r.s AND l.w % 2 = r.w % 2",
    "shifted": "l.k = r.k + 1",
    "tolerance": "l.k = r.k AND l.v - r.v < 9",
    "strictly before": "l.k = r.k AND l.v > r.v",
    "the same value": "l.k = r.k AND r.v >= l.v",
    "filters": "l.k = r.k AND l.w > 20 AND r.w < 180",
    "no key": "l.v - r.v <= 50 AND r.w > 100",
}

WINDOWS = {
    "count": sj.CountWindow(90),
    "sizes": sj.CountWindow(left=70, right=60, slide=7),
    "time": sj.TimeWindow(left=15, right=40, left_on="v", right_on="v", lateness=6),
}

KINDS: dict[str, Any] = {"int64": pa.int64(), "int32": pa.int32(), "time": pa.timestamp("us", "UTC")}


def rows(rng: np.random.Generator, at: int, many: int, jitter: int, kind: str, nulls: float = 0.05) -> pa.Table:
    """One side's rows of a push, about in the order of their values: many ties, and a share of NULLs."""
    v = np.sort(rng.integers(at, at + 12, many)) + rng.integers(0, jitter + 1, many)
    k = rng.integers(0, 5, many)
    return pa.table(
        {
            "k": pa.array(k, pa.int64(), mask=rng.random(many) < nulls),
            "s": pa.array([f"symbol {one}" for one in k], pa.string()),
            "v": pa.array(v, pa.int64(), mask=rng.random(many) < nulls).cast(KINDS[kind]),
            "w": rng.integers(0, 200, many),
        }
    )


def pushes(
    seed: int, jitter: int, kind: str, lag: int = 0, nulls: float = 0.05, calm: int = 0
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Pushes of all sizes; right values lie `lag` behind those of the left side.

    The first `calm` ones are in order and without NULLs.
    """
    rng = np.random.default_rng(seed)
    for push, many in enumerate([30, 1, 0, 25, 40, 3, 60, 30, 30, 30, 30, 30]):
        at, others = 12 * push, int(many * rng.random() * 2)
        one, two = (0, 0.0) if push < calm else (jitter, nulls)
        yield rows(rng, at + lag, many, one, kind, two), rows(rng, at, others, one, kind, two)


def answers(stream: list[tuple[pa.Table, pa.Table]], restart: int = -1, **options: Any) -> tuple[list[pa.Table], bool]:
    """Return what all pushes and the end give, and whether the table told all of it."""
    schema = stream[0][0].schema
    join = sj.StreamJoin(schemas=(schema, schema), **options)
    found = []
    for number, (left, right) in enumerate(stream):
        if number == restart:
            join = sj.StreamJoin.restore(join.snapshot())
        found.append(join.push(left, right))
    found.append(join.finish())
    latest = join._state.operator.latest
    return found, latest is not None and latest.tells


def asked(predicate: str, kind: str, window: str) -> dict[str, Any]:
    on, spans = PREDICATES[predicate], WINDOWS[window]
    if kind == "time":
        for number in ("9", "50"):
            on = on.replace(f"< {number}", f"< INTERVAL '{number}' MICROSECOND")
            on = on.replace(f"<= {number}", f"<= INTERVAL '{number}' MICROSECOND")
        if window == "time":
            spans = sj.TimeWindow(
                left="15 microseconds", right="40 microseconds", left_on="v", right_on="v", lateness="6 microseconds"
            )
    return {"on": on, "window": spans, "keep": sj.Nearest("l.v", "r.v")}


@examples(500)
@given(
    seed=st.integers(0, 1 << 30),
    predicate=st.sampled_from(list(PREDICATES)),
    window=st.sampled_from(list(WINDOWS)),
    kind=st.sampled_from(list(KINDS)),
    jitter=st.sampled_from([0, 0, 2, 30]),
    lag=st.sampled_from([0, 0, 25, -25]),
    restart=st.integers(-1, 12),
    how=st.sampled_from(["inner", "left"]),
    output=st.sampled_from(["pairs", "positions"]),
    slots=st.sampled_from([2, 1024]),
    nulls=st.sampled_from([0.0, 0.0, 0.05]),
    calm=st.sampled_from([0, 5, 8]),
)
def test_the_same_as_sorted_runs(
    seed: int, predicate: str, window: str, kind: str, jitter: int, lag: int, restart: int, how: str, output: str,
    slots: int, nulls: float, calm: int,
) -> None:  # fmt: skip
    stream = list(pushes(seed, jitter, kind, lag, nulls, calm))
    options = asked(predicate, kind, window) | {"how": how, "output": output}
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, latest_slots=slots, latest_queue=slots, waiting_rows=slots)
        tune(patch, chunk_rows=slots, flowing_rows=slots, flowing_window=slots)
        found, _ = answers(stream, restart, **options)
    expected, told = answers(stream, algorithm="bi_sort", **options)
    assert not told
    assert all(same_tables(one, two) for one, two in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    "predicate", [pytest.param(name, marks=pytest.mark.nojit if name == "shifted" else ()) for name in PREDICATES]
)
def test_streams_in_order_need_no_index(predicate: str, window: str, kind: str) -> None:
    options = asked(predicate, kind, window)
    found, told = answers(list(pushes(7, 0, kind)), 5, **options)
    assert told
    assert sum(table.num_rows for table in found) > 50


@pytest.mark.parametrize("predicate", ["key", "text", "tolerance", "strictly before"])
@pytest.mark.parametrize("nulls", [0.0, 0.2])
@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_are_queued_later_while_they_come_in_order(side: str, nulls: float, predicate: str) -> None:
    """Right rows wait in their window until some of one side are out of order, or have no key."""
    stream = list(pushes(7, 0, "int64", nulls=0.0)) * 2
    stream = [(one, two) if number < 12 else later(one, two) for number, (one, two) in enumerate(stream)]
    other = rows(np.random.default_rng(3), 144 + 80, 40, 2 * (nulls == 0), "int64", nulls)
    one, two = stream[20]
    stream[20] = (other, two) if side == "left" else (one, other)
    found, waiting = [], []
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, waiting_rows=8)
        join = sj.StreamJoin(
            schemas=(other.schema, other.schema), on=PREDICATES[predicate], window=sj.CountWindow(90),
            keep=sj.Nearest("l.v", "r.v"),
        )  # fmt: skip
        for left, right in stream:
            found.append(join.push(left, right))
            waiting.append(join._state.operator.latest._next is not None)
    expected, _ = answers(
        stream, on=PREDICATES[predicate], window=sj.CountWindow(90), keep=sj.Nearest("l.v", "r.v"), algorithm="bi_sort"
    )
    assert all(same_tables(one, two) for one, two in zip(found, expected[:-1], strict=True))
    assert all(waiting[:20])
    assert waiting[20] == (side == "left")


def later(left: pa.Table, right: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows with values of the stream's second half."""
    place = left.schema.get_field_index("v")
    one, two = (table.set_column(place, "v", pc.add(table["v"], 144)) for table in (left, right))
    return one, two


def test_what_is_too_far_out_of_order_is_looked_up() -> None:
    """A left row far behind, whose key has had later rows since, is answered by the index, and so are all after it."""
    window, keep = sj.CountWindow(2), sj.Nearest("l.t", "r.t")
    join = sj.StreamJoin(on="l.k = r.k", window=window, keep=keep, output="positions")
    join.push({"k": [1], "t": [10]}, {"k": [1, 1], "t": [5, 9]})
    join.push({"k": [1, 1], "t": [20, 6]}, {"k": [], "t": []})
    assert "nearest rows: the latest of each key, in a table" in join.explain()
    join.push({"k": [1], "t": [21]}, {"k": [1], "t": [15]})
    assert join.finish().to_pydict() == {"left": [2, 3], "right": [0, 2]}
    assert "nearest rows: from the index" in join.explain()


def test_keys_that_have_no_room_side_by_side() -> None:
    """Of a left row they have no partner; of a right row all are looked up by the index from then on."""
    keep = sj.Nearest("l.t", "r.t")
    join = sj.StreamJoin(
        on="l.a = r.a AND l.b = r.b", window=sj.CountWindow(9), keep=keep, output="positions", how="left"
    )
    far = 1 << 40
    join.push({"a": [1, far, -1], "b": [2, 2, far], "t": [9, 9, 9]}, {"a": [1, 1], "b": [2, 3], "t": [7, 8]})
    assert "in a table" in join.explain()
    join.push({"a": [far], "b": [2], "t": [12]}, {"a": [far, 0], "b": [2, 2], "t": [10, 11]})
    assert join.finish().to_pydict() == {"left": [0, 1, 2, 3], "right": [0, None, None, 2]}
    assert "from the index, as" in join.explain()


@pytest.mark.parametrize(
    ("on", "options"),
    [
        ("l.k = r.k", {"algorithm": "bi_sort"}),
        ("l.k = r.k", {"memory_limit": 1 << 30}),
        ("l.k = r.k", {"keep": sj.Nearest("l.v", "r.v", k=2)}),
        ("l.k = r.k", {"keep": sj.Nearest("l.v", "r.v", "forward")}),
        ("l.k = r.k", {"keep": sj.Nearest("l.x", "r.x")}),
        ("l.k = r.k", {"window": sj.TimeWindow(5, on="w")}),
        ("l.k = r.k AND l.w < r.w", {}),
        ("l.k = r.k AND l.w * r.w <> 7", {}),
        ("l.k = r.k OR l.w = r.w", {}),
        ("l.k <> r.k", {}),
    ],
    ids=str,
)
def test_whom_a_table_cannot_answer(on: str, options: dict[str, Any]) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("w", pa.int64()), ("x", pa.float64())])
    given_: dict[str, Any] = {"window": sj.CountWindow(9), "keep": sj.Nearest("l.v", "r.v")} | options
    join = sj.StreamJoin(on=on, schemas=(schema, schema), **given_)
    join.push({"k": [1], "v": [1], "w": [1], "x": [1.0]}, None)
    assert join._state.operator.latest is None
    assert "in a table" not in join.explain()
