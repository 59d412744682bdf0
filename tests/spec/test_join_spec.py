"""What a join is asked for: arguments, and what their errors say."""

from __future__ import annotations

import json
from typing import Any

import pytest

import slidejoin as sj
from slidejoin.options import STRUCTURES, BiSort, Hash, NestedLoop, RapTable, WibTree
from slidejoin.spec.join_spec import JoinSpec, algorithms, make_join_spec

GOOD: dict[str, Any] = {"on": "l.a < r.b", "window": sj.CountWindow(5)}


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("window", 5, "window must be a CountWindow or a TimeWindow, got 5"),
        ("how", "outer", "how must be one of 'inner', 'left', 'right', 'full', 'left_semi', 'left_anti'; got 'outer'"),
        ("how", "iner", "got 'iner'. Did you mean 'inner'?"),
        ("self_join", "yes", "self_join must be True or False, got 'yes'"),
        (
            "output",
            "count(*)",
            "output must be one of 'pairs', 'count', 'positions'; got 'count(*)'. Did you mean 'count'?",
        ),
        ("order", None, "order must be one of 'probe', 'strict', 'none'; got None"),
        ("order", "stric", "Did you mean 'strict'?"),
        (
            "algorithm",
            "hashed",
            f"{', '.join(map(repr, sj.algorithms()))}; got 'hashed'. Did you mean 'hash'?",
        ),
        ("threads", 0, "threads must be a whole number, at least 1, or None; got 0"),
        ("threads", 1.5, "threads must be a whole number, at least 1, or None; got 1.5"),
        ("threads", True, "threads must be a whole number, at least 1, or None; got True"),
        ("memory_limit", -5, "memory_limit must be a whole number, at least 1, or None; got -5"),
        ("suffix", 3, "suffix must be text such as '_right', got 3"),
        ("select", "l.id", "select must be a list of columns such as ['l.id', 'r.id'], got 'l.id'"),
        ("select", [1], "select must name columns as text such as 'l.id', 'r.id', got 1"),
    ],
)
def test_options_out_of_range(option: str, value: Any, text: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - its whole text is compared
        make_join_spec(**GOOD | {option: value})
    assert text in str(error.value)


def test_a_self_join_has_one_event_time() -> None:
    window = sj.TimeWindow(5, left_on="a", right_on="b")
    with pytest.raises(ValueError, match="a self-join has one event-time column; got left_on='a', right_on='b'"):
        make_join_spec(on="l.a < r.b", window=window, self_join=True)


def test_json_keeps_what_decides_the_results() -> None:
    window = sj.TimeWindow("1 minute", on="ts", lateness="1 s")
    config = make_join_spec(
        on='x.a < y."b c"', window=window, order="strict", select=["x.a"], suffix="_2", aliases=("x", "y"), threads=3,
        memory_limit=10**9,
    )  # fmt: skip
    data = json.loads(json.dumps(config.to_json()))
    assert not {"threads", "algorithm", "memory_limit"} & data.keys()
    assert JoinSpec.from_json(data, threads=3, memory_limit=10**9) == config
    assert JoinSpec.from_json(data).threads is None


@pytest.mark.parametrize("key", ["on", "window", "how", "output", "order", "select", "suffix", "self_join", "aliases"])
def test_a_state_without_a_key_is_refused(key: str) -> None:
    data = make_join_spec(**GOOD).to_json()
    del data[key]
    with pytest.raises(sj.StateError, match=f"the join of the state lacks {key}"):
        JoinSpec.from_json(data)


def test_algorithms() -> None:
    assert algorithms() == sj.algorithms() == ("auto", "band_cells", "bi_sort", "planar", *STRUCTURES)


def test_select_may_be_any_iterable() -> None:
    assert make_join_spec(**GOOD, select=(name for name in ("l.a", "r.b"))).select == ("l.a", "r.b")


def test_what_can_be_set_of_an_algorithm() -> None:
    config = make_join_spec(**GOOD, algorithm=NestedLoop(batch=4))
    assert (config.algorithm, config.options) == ("nested_loop", NestedLoop(batch=4))
    assert make_join_spec(**GOOD, algorithm="nested_loop").options is None
    with pytest.raises(ValueError, match="batch of nested_loop must be a whole number from 1 to 1,024; got 0"):
        NestedLoop(batch=0)
    with pytest.raises(ValueError, match="buckets of hash must be a whole number from 1 to 268,435,456, or None"):
        Hash(buckets=True)
    for sigma in (1, 17.0, True, "1.2", float("nan")):
        with pytest.raises(ValueError, match="sigma of rap_table must be a number above 1 and up to 16; got"):
            RapTable(sigma=sigma)
    with pytest.raises(ValueError, match="fan_out of wib_tree must be a whole number from 4 to 4,096; got 3"):
        WibTree(fan_out=3)


def test_what_can_be_set_of_sorted_runs() -> None:
    join = sj.StreamJoin(on="l.a < r.a", window=sj.CountWindow(9), algorithm=BiSort(buffer_size=16, fan_out=8))
    join.push(left={"a": [1]}, right={"a": [2]})
    for side in ("left", "right"):
        assert join._state.operator.windows[side].index.options == BiSort(buffer_size=16, fan_out=8)
    with pytest.raises(ValueError, match="must be a whole number from 1 to 1,048,576, or None; got 0"):
        BiSort(buffer_size=0)
