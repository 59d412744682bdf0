"""A join that goes on from a snapshot is the join that was written down."""

from __future__ import annotations

from typing import Any

import pytest

import slidejoin as sj
from tests.narrow import tune
from tests.operator.streams import PREDICATES, SCHEMA, WINDOWS, lines, pushes, rows


@pytest.mark.parametrize(
    "options",
    [{"order": "strict"}, {"output": "count"}, {"order": "strict", "self_join": True}, {"select": ["r.b", "l.id"]}],
    ids=str,
)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("predicate", ["band", "two terms and a filter"])
def test_restart_after_every_push(
    predicate: str, window: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, loaded_rows=3)  # so that a restored window has several sub-windows
    options = {"order": "strict"} | options
    join = sj.StreamJoin(on=PREDICATES[predicate], window=WINDOWS[window], **options)
    again = sj.StreamJoin.restore(join.snapshot())
    for number, push in enumerate(pushes((1, 40, 7, 20, 0, 30))):
        given = {name: value for name, value in push.items() if name != "right" or not options.get("self_join")}
        assert lines(again.push(**given)) == lines(join.push(**given))
        names = {"pairs", "late_rows", "null_time_rows", "rows_left", "rows_right"}
        assert [again.stats.to_json()[n] for n in names] == [join.stats.to_json()[n] for n in names]
        # A snapshot holds rows, not an index: any restores it.
        algorithm = ("bi_sort", "auto")[number % 2]
        again = sj.StreamJoin.restore(again.snapshot(), threads=2, algorithm=algorithm)
    assert again.explain() == join.explain()
    assert repr(again) == repr(join)[:-1] + ", threads=2)"
    assert again._state.operator is not None
    assert join._state.operator is not None
    assert again._state.operator.plan.config.to_json() == join._state.operator.plan.config.to_json()


@pytest.mark.parametrize("window", [sj.CountWindow(50), sj.TimeWindow(50, on="ts")], ids=["count", "time"])
def test_expiry_goes_on_after_restore(window: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, loaded_rows=4, chunk_rows=4, smallest_run=4)
    join = sj.StreamJoin(on="l.id = r.id", window=window, schemas=(SCHEMA, SCHEMA))
    for i in range(0, 2000, 5):
        batch = rows(5, i).set_column(3, "ts", rows(5, i).column("id"))
        join.push(left=batch, right=batch)
        if i % 100 == 0:
            join = sj.StreamJoin.restore(join.snapshot())
    assert join.stats.rows_left == 2000
    assert join.stats.window_left == join.stats.window_right <= 120
    assert len(join.snapshot()) < 20_000


def test_the_memory_limit_and_the_end_are_kept() -> None:
    join = sj.StreamJoin(on="l.id = r.id", window=sj.CountWindow(50), memory_limit=9000)
    join.push(left=rows(1), right=rows(1))
    again = sj.StreamJoin.restore(join.snapshot())
    with pytest.raises(sj.MemoryLimitError, match="memory_limit is 9000 bytes"):
        again.push(left=rows(500))
    again.finish()
    with pytest.raises(sj.JoinClosedError, match="is finished and takes no more rows; create a new StreamJoin"):
        sj.StreamJoin.restore(again.snapshot()).push(left=rows(1))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"threads": 0}, "threads must be a whole number, at least 1, or None; got 0"),
        ({"threads": "two"}, "threads must be a whole number, at least 1, or None; got 'two'"),
        ({"threads": True}, "threads must be a whole number, at least 1, or None; got True"),
        ({"algorithm": "bisort"}, r"algorithm must be one of .*; got 'bisort'. Did you mean 'bi_sort'\?"),
    ],
)
def test_restore_checks_how_it_should_go_on(arguments: dict[str, Any], text: str) -> None:
    state = sj.StreamJoin(on="l.id = r.id", window=sj.CountWindow(5)).snapshot()
    with pytest.raises(ValueError, match=text) as error:
        sj.StreamJoin.restore(state, **arguments)
    assert not isinstance(error.value, sj.StateError)
    assert sj.StreamJoin.restore(state).push().num_rows == 0
