"""The index is changed when counting many matches makes the other one cheaper, and the results stay the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.operator import advisors as choosing
from slidejoin.tuning import Tuning
from tests.narrow import tune

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64())])


def batch(random: np.random.Generator, start: int, rows: int, keys: int) -> pa.Table:
    return pa.table([random.integers(0, keys, rows), np.arange(start, start + rows)], schema=SCHEMA)


def there_and_back(*, self_join: bool) -> Iterator[dict[str, pa.Table]]:
    """Pushes with few keys, so many matches, in the middle, and again few matches at the end."""
    random = np.random.default_rng(3)
    for number in range(40):
        keys = 2 if 10 <= number < 25 else 2000
        sides = ("left",) if self_join else ("left", "right")
        yield {side: batch(random, 50 * number, 50, keys) for side in sides}


def cheap_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, runs_push_cost=0.0)
    tune(monkeypatch, runs_small_push_cost=0.0)


@pytest.mark.parametrize("window", [sj.CountWindow(300), sj.TimeWindow(300, on="ts")], ids=["count", "time"])
@pytest.mark.parametrize("self_join", [False, True])
def test_there_and_back(window: Any, self_join: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_pushes(monkeypatch)
    tune(monkeypatch, index_change_cost=5.0)
    tune(monkeypatch, index_check_rows=100)
    options = {"window": window, "output": "count", "self_join": self_join, "schemas": (SCHEMA, SCHEMA)}
    auto = sj.StreamJoin(on="l.k = r.k", **options)
    fixed = sj.StreamJoin(on="l.k = r.k", algorithm="bi_sort", **options)
    used = []
    for rows in there_and_back(self_join=self_join):
        assert auto.push(**rows).equals(fixed.push(**rows))
        operator = auto._state.operator
        assert operator is not None
        used.append({window.index.name for window in operator.windows.values()})
    assert used[0] == used[-1] == {"band_cells"}
    assert {"bi_sort"} in used
    assert "matches a row; expected time a row: cells" in auto.explain()
    assert "measured:" not in fixed.explain()


@pytest.mark.parametrize(
    "options",
    [
        {"output": "pairs", "window": sj.TimeWindow(300, on="ts")},
        {"algorithm": "band_cells"},
        {"on": "l.k = r.k AND l.ts * r.ts > r.k * r.k"},
    ],
)
def test_a_choice_that_is_not_open_stays(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_pushes(monkeypatch)
    tune(monkeypatch, index_check_rows=10)
    given = {"on": "l.k = r.k", "window": sj.CountWindow(300), "output": "count", "schemas": (SCHEMA, SCHEMA)} | options
    join, random = sj.StreamJoin(**given), np.random.default_rng(3)
    for number in range(5):
        join.push(left=batch(random, 100 * number, 100, 1), right=batch(random, 100 * number, 100, 1))
    assert "a hash table of cells" in join.explain()
    assert "measured:" not in join.explain()


@pytest.mark.parametrize("self_join", [False, True])
def test_many_pairs_are_written_from_runs(self_join: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, index_change_cost=5.0)
    tune(monkeypatch, index_check_rows=100)
    cheap_pushes(monkeypatch)
    options = {"window": sj.CountWindow(300), "order": "strict", "self_join": self_join, "schemas": (SCHEMA, SCHEMA)}
    auto = sj.StreamJoin(on="l.k = r.k", **options)
    cells = sj.StreamJoin(on="l.k = r.k", algorithm="band_cells", **options)
    used = []
    for rows in there_and_back(self_join=self_join):
        assert auto.push(**rows).equals(cells.push(**rows))
        assert auto._state.operator is not None
        used.append(auto._state.operator.windows["left"].index.name)
    assert used[0] == used[-1] == "band_cells"
    assert "bi_sort" in used
    assert "matches a row; expected time a row: cells" in auto.explain()


@pytest.mark.parametrize("output", ["positions", "count"])
@pytest.mark.parametrize(
    ("on", "window"),
    [
        ("l.s = r.s AND l.k BETWEEN r.k - 1 AND r.k + 1", sj.CountWindow(300)),
        ("l.s = r.s AND l.k = r.k", sj.CountWindow(300)),
        ("l.s = r.s AND l.k BETWEEN r.k - 1 AND r.k + 1", sj.TimeWindow(300, on="ts")),
    ],
)
def test_composite_keys_change_too(on: str, window: Any, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where pairs are output of a time window: runs would be checked row by row at their ends."""
    cheap_pushes(monkeypatch)
    tune(monkeypatch, index_change_cost=5.0)
    tune(monkeypatch, index_check_rows=100)
    options = {"window": window, "output": output, "order": "strict"}
    auto, fixed = (sj.StreamJoin(on=on, algorithm=algorithm, **options) for algorithm in ("auto", "nested_loop"))
    used = []
    for rows in there_and_back(self_join=False):
        given = {side: one.append_column("s", pa.array(np.arange(50) % 2)) for side, one in rows.items()}
        assert auto.push(**given).equals(fixed.push(**given))
        used.append(auto._state.operator.windows["left"].index.name)
    assert used[0] == used[-1] == "band_cells"
    assert ("bi_sort" in used) == (output == "count" or isinstance(window, sj.CountWindow))


def test_keys_that_are_compared_again_do_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values with no room are hashed: rows of sorted runs would be compared one by one, too."""
    cheap_pushes(monkeypatch)
    tune(monkeypatch, index_change_cost=0.0)
    tune(monkeypatch, index_check_rows=100)
    join, random = sj.StreamJoin(on="l.s = r.s AND l.k = r.k", window=sj.CountWindow(300)), np.random.default_rng(3)
    for number in range(20):
        far = pa.array([2**62, -(2**62)] * 25)
        join.push(*(batch(random, 50 * number, 50, 2).append_column("s", far) for _ in "lr"))
    assert "a hash table of cells" in join.explain()
    assert "matches a row" in join.explain()


def test_small_pushes_of_many_pairs_stay_with_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch, index_check_rows=100)
    join, random = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(300)), np.random.default_rng(3)
    for number in range(20):
        join.push(left=batch(random, 50 * number, 50, 2), right=batch(random, 50 * number, 50, 2))
    assert "a hash table of cells" in join.explain()


def test_explain_says_what_is_used_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_pushes(monkeypatch)
    tune(monkeypatch, index_check_rows=10)
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(2000), output="count", schemas=(SCHEMA, SCHEMA))
    random = np.random.default_rng(3)
    assert "a hash table of cells" in join.explain()
    for number in range(5):
        join.push(left=batch(random, 500 * number, 500, 1), right=batch(random, 500 * number, 500, 1))
    text = join.explain()
    assert "index: sorted runs" in text
    assert "measured to be faster than a hash table of cells" in text


def estimates(output: str, **seen: float) -> str | None:
    """What cells are changed to after a million rows with what was `seen` of them."""
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(300), output=output, schemas=(SCHEMA, SCHEMA))
    assert join._state.operator is not None
    chooser = choosing.IndexAdvisor(join._state.operator.plan)
    rows, crowded, window = 1_000_000, seen.pop("crowded"), int(seen.pop("window", 1000))
    assert chooser.better("band_cells", rows=0, pairs=0, pushes=0, window=0, spilled=0) is None
    return chooser.better(
        "band_cells", rows=rows, pairs=int(seen.pop("matches") * rows), pushes=int(rows / seen.pop("push")),
        window=window, spilled=int(crowded * rows),
    )  # fmt: skip


def test_many_matches_of_even_keys_take_runs_and_those_of_a_few_hot_cells_do_not() -> None:
    assert estimates("positions", matches=100.0, push=32_768.0, crowded=0.91) == "bi_sort"
    assert estimates("positions", matches=100.0, push=32_768.0, crowded=0.19) is None
    assert estimates("positions", matches=100.0, push=256.0, crowded=0.91) is None
    assert estimates("positions", matches=100.0, push=256.0, crowded=0.98, window=2 << 20) == "bi_sort"
    assert estimates("positions", matches=100.0, push=256.0, crowded=0.19, window=2 << 20) is None
    assert estimates("positions", matches=60.0, push=256.0, crowded=0.98, window=2 << 20) is None
    assert estimates("count", matches=2000.0, push=32_768.0, crowded=0.91) == "bi_sort"
    assert estimates("count", matches=2.0, push=32_768.0, crowded=0.0) is None


def test_nothing_is_changed_before_staying_has_cost_as_much() -> None:
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(300), schemas=(SCHEMA, SCHEMA))
    assert join._state.operator is not None
    chooser, window = choosing.IndexAdvisor(join._state.operator.plan), 10_000_000
    seen = {"pairs": 0, "pushes": 0, "window": window, "spilled": 0}
    assert chooser.better("bi_sort", **seen | {"rows": 0}) is None
    # 55 ns a row are lost, and inserting ten million rows takes 30 ns each.
    for rows in range(100_000, 5_400_000, 50_000):
        assert chooser.better("bi_sort", **seen | {"rows": rows}) is None
        assert chooser.due == rows + Tuning().index_check_rows
    assert chooser.better("bi_sort", **seen | {"rows": 5_600_000}) == "band_cells"


def test_rows_that_a_change_moves_into_cells_are_not_what_comes() -> None:
    """A tenth of the rows lie behind full buckets, of those that were moved as of those that come."""
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(300), schemas=(SCHEMA, SCHEMA))
    assert join._state.operator is not None
    chooser, window = choosing.IndexAdvisor(join._state.operator.plan), 2_000_000
    for rows in range(0, 4_000_000, Tuning().index_check_rows):
        seen = {"rows": rows, "pairs": 100 * rows, "pushes": rows // 32_768, "window": window}
        assert chooser.better("band_cells", **seen, spilled=window // 10 + rows // 10) is None
