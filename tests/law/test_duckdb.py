"""Against DuckDB on larger random data, with the window written as SQL over arrival numbers or event times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from tests.daily import some_by_day

if TYPE_CHECKING:
    from numpy.typing import NDArray

duckdb = pytest.importorskip("duckdb")
ROWS = 20_000

# For each row: how many rows of each side arrived up to it (itself included), and the watermark as it arrives.
ARRIVALS = """
WITH arrivals AS (
    SELECT 0 AS side, id, seq, ts FROM lefts UNION ALL SELECT 1, id, seq, ts FROM rights
), marked AS (
    SELECT *,
        max(ts) FILTER (WHERE side = 0) OVER before AS seen_left,
        max(ts) FILTER (WHERE side = 1) OVER before AS seen_right
    FROM arrivals
    WINDOW before AS (ORDER BY seq, side, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), kept AS (
    SELECT side, id, seq FROM marked
    WHERE {late} OR seen_left IS NULL OR seen_right IS NULL OR ts >= least(seen_left, seen_right) - {lateness}
), placed AS (
    SELECT side, id,
        count(*) FILTER (WHERE side = 0) OVER upto AS lefts, count(*) FILTER (WHERE side = 1) OVER upto AS rights
    FROM kept WINDOW upto AS (ORDER BY seq, side, id ROWS UNBOUNDED PRECEDING)
), l AS (
    SELECT lefts.*, lefts AS l_lefts, rights AS l_rights FROM lefts JOIN placed USING (id) WHERE side = 0
), r AS (
    SELECT rights.*, lefts AS r_lefts, rights AS r_rights FROM rights JOIN placed USING (id) WHERE side = 1
)
"""


def streams(seed: int) -> tuple[pa.Table, pa.Table]:
    """Two streams with ties, NULLs, NaN and event times that run a little out of order."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(2):
        wild = random.normal(0, 50, ROWS).round(1)
        wild[random.random(ROWS) < 0.02] = np.nan
        made.append(
            pa.table(
                {
                    "id": np.arange(ROWS),
                    "k": pa.array(random.integers(0, 500, ROWS), mask=random.random(ROWS) < 0.01),
                    "x": random.integers(0, 100_000, ROWS).astype(np.int32),
                    "y": random.integers(0, 1_000, ROWS).astype(np.uint16),
                    "f": pa.array(wild, from_pandas=False),
                    "ts": np.arange(ROWS) // 4 + random.integers(0, 40, ROWS),
                    "seq": np.sort(random.integers(0, 3 * ROWS, ROWS)),
                }
            )
        )
    return made[0], made[1]


def by_duckdb(lefts: pa.Table, rights: pa.Table, scope: str, on: str, lateness: int | None = None) -> NDArray[Any]:
    """The pairs of ids that DuckDB finds, sorted. NaN equals itself and is the largest there: `on` excludes it."""
    head = ARRIVALS.format(late="false" if lateness is not None else "true", lateness=lateness or 0)
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("lefts", lefts)
        database.register("rights", rights)
        query = f"{head} SELECT l.id AS a, r.id AS b FROM l JOIN r ON ({on}) AND ({scope})"  # noqa: S608
        found = database.execute(query).fetchnumpy()
    return sorted_pairs(found["a"], found["b"])


def sorted_pairs(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Pairs of ids as one sorted column of numbers."""
    return np.sort(left.astype(np.int64) * ROWS + right.astype(np.int64))


def by_slidejoin(lefts: pa.Table, rights: pa.Table, window: Any, on: str, size: int = 3_000) -> NDArray[Any]:
    """The pairs of ids that slidejoin finds, in pushes of `size` arrival numbers."""
    join = sj.StreamJoin(
        on=on, window=window, order="none", select=["l.id", "r.id"], schemas=(lefts.schema, rights.schema)
    )
    at = {name: table.column("seq").to_numpy() for name, table in (("left", lefts), ("right", rights))}
    found = []
    for start in range(0, 3 * ROWS, size):
        part = {}
        for name, table in (("left", lefts), ("right", rights)):
            low, high = np.searchsorted(at[name], [start, start + size])
            part[name] = table.slice(low, high - low)
        found.append(join.push(**part, order_by="seq"))
    whole = pa.concat_tables([*found, join.finish()])
    assert whole.num_rows == join.stats.pairs
    return sorted_pairs(whole.column("id").to_numpy(), whole.column("id_right").to_numpy())


def count_scope(left: int, right: int, slide: int = 1) -> str:
    """The scope of a count window; a row's ordinal is its number minus one."""
    return f"""CASE WHEN l_lefts <= r_lefts
        THEN l_lefts - 1 >= greatest(r_lefts - {left}, 0) // {slide} * {slide}
        ELSE r_rights - 1 >= greatest(l_rights - {right}, 0) // {slide} * {slide} END"""


NO_NAN = "NOT isnan(l.f) AND NOT isnan(r.f)"
PREDICATES = {
    "equality": ("l.k = r.k", "l.k = r.k"),
    "band": ("l.x BETWEEN r.x - 20 AND r.x + 30", "l.x BETWEEN r.x - 20 AND r.x + 30"),
    "band of floats": ("abs(l.f - r.f) <= 0.1", f"{NO_NAN} AND abs(l.f - r.f) <= 0.1"),
    "inequalities": ("l.x < r.x - 99000 AND l.f > r.f", f"{NO_NAN} AND l.x < r.x - 99000 AND l.f > r.f"),
    "equality and inequality": ("l.k = r.k AND l.y < r.y", "l.k = r.k AND l.y < r.y"),
    "single-side filters": (
        "l.k = r.k AND l.y < 500 AND r.f > 0.5",
        "l.k = r.k AND l.y < 500 AND NOT isnan(r.f) AND r.f > 0.5",
    ),
    "or of bands": (
        "l.x BETWEEN r.x - 5 AND r.x + 5 OR l.x = r.x + 1000",
        "l.x BETWEEN r.x - 5 AND r.x + 5 OR l.x = r.x + 1000",
    ),
    "any filter": ("l.k = r.k AND (l.x + r.x) % 3 = 1", "l.k = r.k AND (l.x + r.x) % 3 = 1"),
}


@pytest.mark.parametrize(("on", "sql"), some_by_day(PREDICATES.values()), ids=PREDICATES)
def test_count_window(on: str, sql: str) -> None:
    lefts, rights = streams(1)
    expected = by_duckdb(lefts, rights, count_scope(3_000, 5_000), sql)
    assert len(expected) > 1_000
    assert np.array_equal(by_slidejoin(lefts, rights, sj.CountWindow(left=3_000, right=5_000), on), expected)


@pytest.mark.parametrize(("slide", "size"), [(7, 60_000), (1_000, 60), (1_000, 1_234)])
def test_slide_and_sizes_of_pushes(slide: int, size: int) -> None:
    lefts, rights = streams(2)
    expected = by_duckdb(lefts, rights, count_scope(2_000, 1_000, slide), "l.k = r.k")
    window = sj.CountWindow(left=2_000, right=1_000, slide=slide)
    assert np.array_equal(by_slidejoin(lefts, rights, window, "l.k = r.k", size), expected)


@pytest.mark.parametrize(
    ("name", "lateness", "size"),
    [("equality", 0, 3_000), ("equality", 100, 60_000), ("inequalities", 10, 60_000), ("or of bands", 100, 700)],
)
def test_time_window(name: str, lateness: int, size: int) -> None:
    lefts, rights = streams(3)
    on, sql = PREDICATES[name]
    expected = by_duckdb(lefts, rights, "r.ts - l.ts <= 300 AND l.ts - r.ts <= 500", sql, lateness)
    assert len(expected) > 100
    window = sj.TimeWindow(left=300, right=500, left_on="ts", right_on="ts", lateness=lateness)
    assert np.array_equal(by_slidejoin(lefts, rights, window, on, size), expected)


def test_scope_alone() -> None:
    lefts, rights = streams(4)
    expected = by_duckdb(lefts, rights, "abs(r.ts - l.ts) <= 3", "true", 5)
    found = by_slidejoin(lefts, rights, sj.TimeWindow(3, on="ts", lateness=5), "l.id >= 0 OR r.id >= 0")
    assert np.array_equal(found, expected)
