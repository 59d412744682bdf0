"""Snapshots of somebody else: whatever they say, they are refused, or are joins that work.

Mutants with right checksums are tried in a process of their own, see `tests.api.hostile`: a kernel that follows a wrong
number may end it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.api.snapshot_format import HEAD, LENGTH, MAGIC, read_snapshot, table_to_bytes, tables_of, write_snapshot
from tests.api.hostile import JOINS, SCHEMA, rows
from tests.narrow import tune

if TYPE_CHECKING:
    from collections.abc import Callable

MUTANTS = 4
"""Of each case, in the tests."""
NIGHTLY = int(os.environ.get("SLIDEJOIN_MUTANTS", "3000"))
"""The same in ``make nightly``: about an hour."""


def tried(first: int, count: int, **environment: str) -> None:
    """Try mutants in another process; its last line says of what it died."""
    command = [sys.executable, "-m", "tests.api.hostile", str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert done.returncode == 0, f"{done.stdout[-600:]}\n{done.stderr[-2500:]}"
    assert "were accepted, and worked" in done.stdout


def test_mutants_are_refused_or_work() -> None:
    tried(0, MUTANTS)


@pytest.mark.nightly  # compiled ones by day
def test_mutants_without_compilation() -> None:
    """Kernels are Python then: an access out of bounds is an error, where a compiled one reads what lies there."""
    tried(1000, 1, NUMBA_DISABLE_JIT="1")


@pytest.mark.nightly
def test_many_mutants() -> None:
    tried(10_000, NIGHTLY)


@pytest.mark.nightly
def test_many_mutants_without_compilation() -> None:
    tried(5_000, NIGHTLY // 20, NUMBA_DISABLE_JIT="1")


def saved(name: str) -> tuple[dict[str, Any], list[bytes]]:
    """The snapshot of a join whose left rows wait, with answers that were folded."""
    with pytest.MonkeyPatch.context() as patch:
        tune(patch, unfolded_rows=4)
        join = sj.StreamJoin(
            on="l.s = r.s", schemas=(SCHEMA, SCHEMA), **{n: v for n, v in JOINS[name].items() if n != "on"}
        )
        join.push(left=rows(20, 0, "left"), right=rows(20, 0, "right"))
        for first in range(20, 80, 20):
            join.push(right=rows(20, first, "right"))
    header, parts = read_snapshot(join.snapshot())
    assert sj.StreamJoin.restore(write_snapshot(header, parts)).finish().num_rows > 0
    return header, parts


def numbers(part: bytes, change: Callable[[list[int]], list[int]]) -> bytes:
    """A part of one column of numbers, with others."""
    with pa.ipc.open_stream(part) as reader:
        table = reader.read_all()
    changed = pa.array(change(table.column(0).to_pylist()), pa.int64())
    return table_to_bytes(pa.table({table.column_names[0]: changed}))


@pytest.mark.parametrize(
    ("part", "change", "text"),
    [
        (-3, lambda found: [1 << 40, *found[1:]], "the nearest rows should be from 0 to"),
        (-3, lambda found: [-7, *found[1:]], "the nearest rows should be from 0 to"),
        (-3, lambda found: [*found[1:], 0], "nearest rows of 10 left rows differ from the"),
        (-3, lambda found: found[1:], "nearest rows of 10 left rows differ from the"),
        (-4, lambda found: [1 << 30, *found[1:]], "the numbers of nearest rows should be from 0 to 3"),
        (-2, lambda found: [*found[:-1], 1 << 33], "the ordinals of right rows that were nearest should be from 0 to"),
        (-2, lambda found: found[::-1], "nearest rows of 10 left rows differ from the"),
        (-5, lambda found: [-(1 << 62), *found[1:]], "the first rows that waiting rows see should be from"),
        (-5, lambda found: [*found[:-1], 1 << 62], "the first rows that waiting rows see should be from"),
        (-5, lambda found: found[1:], "the snapshot lists .* waiting left rows from ordinal"),
    ],
)
def test_positions_of_nearest_answers(part: int, change: Callable[[list[int]], list[int]], text: str) -> None:
    header, parts = saved("nearest count")
    parts[part] = numbers(parts[part], change)
    with pytest.raises(sj.StateError, match=text):
        sj.StreamJoin.restore(write_snapshot(header, parts))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("waiting", 0, "the snapshot lists .* waiting left rows from ordinal"),
        ("waiting", True, "waiting of deferred of the snapshot should be a whole number"),
        ("folded", {"first": 3, "end": 73}, "left rows from 3 on were folded, but those from 10 to 20 wait"),
        ("folded", {"first": 11, "end": 1 << 70}, "end of folded of deferred of the snapshot should be a whole number"),
        ("folded", {"first": 11, "end": 79}, "end of folded of deferred of the snapshot should be a whole number"),
        ("folded", {"end": 73}, "folded of deferred of the snapshot lacks first"),
        ("folded", [11, 73], "folded of deferred of the snapshot should be an object, got"),
    ],
)
def test_numbers_of_nearest_answers(name: str, value: object, text: str) -> None:
    header, parts = saved("nearest count")
    header["deferred"][name] = value
    with pytest.raises(sj.StateError, match=text):
        sj.StreamJoin.restore(write_snapshot(header, parts))


@pytest.mark.parametrize(
    ("name", "path", "value", "text"),
    [
        (
            "inner time",
            ("clock", "left"),
            3,
            "the clock has seen event times up to 3 of the left rows",
        ),
        ("inner time", ("clock", "right"), 1 << 63, "right of clock of the snapshot should be a whole number, got 92"),
        ("full count", ("rows_seen", "left"), 25, "20 left rows from 0 on, of 25, are not those of CountWindow"),
        (
            "left count",
            ("rows_seen", "right"),
            (1 << 63) - 9,
            "rows_seen of the snapshot should be a whole number",
        ),
        (
            "left count",
            ("stats", "pairs"),
            "many",
            "pairs of the counters of the state should be a whole",
        ),
        # counted on, the next snapshot could not be read
        ("left count", ("stats", "pairs"), (1 << 63) - 1, "pairs of the counters of the state should be a whole"),
        ("left count", ("stats", "seconds"), {"write": 9.2e18}, "write of seconds of .* should be a number from 0 to"),
        ("left count", ("stats", "nothing"), 1, "the counters of the state have an unknown 'nothing'"),
        ("left count", ("matched",), ["left", "left"], "matched of the snapshot should be a list without"),
        ("left count", ("memory_limit",), -5, "memory_limit of the snapshot should be a whole number from 1"),
        ("left count", ("finished",), 0, "finished of the snapshot should be true or false, got 0"),
        ("left count", ("config", "how"), "right", "it has match bits for .* left rows"),
        ("left count", ("config", "window", "slide"), 100, "the window in the state cannot be: CountWindow slide must"),
        ("left count", ("config", "window", "left"), 1e300, "left of the window in the state should be a whole number"),
        ("left count", ("config", "aliases"), ["l"], "aliases of the join of the state should be a list of 2 items"),
        ("left count", ("config", "late"), "emit", "the state describes a join that there is not: late='emit' is for"),
        ("nearest count", ("config", "keep", "k"), 1 << 40, "k of the nearest matches of the state should be a whole"),
    ],
)
def test_numbers_of_joins(name: str, path: tuple[str, ...], value: object, text: str) -> None:
    join = sj.StreamJoin(**{"on": "l.s = r.s"} | JOINS[name], schemas=(SCHEMA, SCHEMA))
    join.push(left=rows(20, 0, "left"), right=rows(20, 0, "right"))
    header, parts = read_snapshot(join.snapshot())
    inside: Any = header
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    with pytest.raises(sj.StateError, match=text):
        sj.StreamJoin.restore(write_snapshot(header, parts))


def test_a_self_join_that_waits_for_its_other_side() -> None:
    join = sj.StreamJoin("l.a = r.a", sj.CountWindow(3))
    join.push(right=rows(4, 0, "right"))
    header, parts = read_snapshot(join.snapshot())
    header["config"]["self_join"] = True
    with pytest.raises(sj.StateError, match=r"rows of the right side wait .*, but it is a self-join"):
        sj.StreamJoin.restore(write_snapshot(header, parts))


def test_rows_that_wait_are_those_of_their_window() -> None:
    """Nearest matches need all rows of it; some have been dropped here."""
    join = sj.StreamJoin("l.a = r.a", sj.CountWindow(9), keep=sj.Nearest("l.b", "r.b"))
    for first in range(0, 40, 8):
        join.push(right=rows(8, first, "right"))
    header, parts = read_snapshot(join.snapshot())
    assert sj.StreamJoin.restore(write_snapshot(header, parts)).stats.rows_right == join.stats.rows_right
    header["config"]["window"]["right"] = 1000
    with pytest.raises(sj.StateError, match=r"16 right rows from 24 on, of 40, are not those of CountWindow"):
        sj.StreamJoin.restore(write_snapshot(header, parts))


@pytest.mark.parametrize("kind", [pa.decimal128(9, 1 << 30), pa.list_(pa.decimal128(9, -(1 << 30)))], ids=str)
def test_decimals_of_an_absurd_scale(kind: pa.DataType) -> None:
    """Arrow would read memory that is not its own where rows are cast to such a type."""
    part = table_to_bytes(pa.table({"m": pa.array([], kind)}))
    with pytest.raises(sj.StateError, match="column 'm' has the type"):
        tables_of([part])


def sealed(header: bytes, parts: list[bytes]) -> bytes:
    body = MAGIC + HEAD.pack(3, 1 + len(parts)) + b"".join(LENGTH.pack(len(one)) + one for one in (header, *parts))
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (b'{"config":' + b"[" * 200_000, "the snapshot is nested too deeply"),
        (
            b'{"planned":false,"planned":true}',
            "the snapshot cannot be read: a field comes twice among planned",
        ),
        (b'{"clock":NaN}', "the snapshot cannot be read: NaN is no number"),
        (b'{"clock":' + b"9" * 5000 + b"}", "the snapshot cannot be read: Exceeds the limit"),
        (b"[]", r"the snapshot should be an object, got \[\]"),
    ],
)
def test_headers_that_no_join_writes(header: bytes, text: str) -> None:
    with pytest.raises(sj.StateError, match=text):
        sj.StreamJoin.restore(sealed(header, []))
    with pytest.raises(sj.StateError, match=text):
        sj.MultiJoin.restore(sealed(header, []))


def test_an_expression_that_is_nested_deeply() -> None:
    header, parts = saved("nearest count")
    on: Any = header["config"]["on"]
    for _ in range(300):
        on = {"node": "not", "operand": on}
    header["config"]["on"] = on
    with pytest.raises(sj.StateError, match="nested more than 100 levels deep"):
        sj.StreamJoin.restore(write_snapshot(header, parts))


def test_parts_that_unpack_to_more_than_they_are() -> None:
    join = sj.StreamJoin(on="l.k = r.k", window=sj.CountWindow(1 << 40))
    join.push(left={"k": [1], "nothing": [None]}, right={"k": [1]})
    header, parts = read_snapshot(join.snapshot())
    with pa.ipc.open_stream(parts[2]) as reader:
        table = reader.read_all()
    zeros = pa.table({"k": pa.array([0] * 100_000, pa.int64()), "nothing": pa.nulls(100_000)}, table.schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(zeros)
    packed = [*parts[:2], sink.getvalue().to_pybytes(), parts[3]]
    with pytest.raises(sj.StateError, match="part 3 of the snapshot has compressed buffers, which no version"):
        sj.StreamJoin.restore(write_snapshot(header, packed))
    many = [*parts[:2], table_to_bytes(pa.table({"nothing": pa.nulls(1 << 30)})), parts[3]]
    with pytest.raises(sj.StateError, match=r"part 3 of the snapshot says that its \d+ bytes are 1,073,741,824 rows"):
        sj.StreamJoin.restore(write_snapshot(header, many))


def far_apart(how: str, second: int) -> bytes:
    """The snapshot of a join with two rows of each side, the second of which has that ordinal."""
    join = sj.StreamJoin(on="l.k = r.k", window=sj.TimeWindow(9, on="t"), how=how)
    rows = {"k": [1, 2], "t": [1, 2]}
    join.push(left=rows, right={"k": [2, 3], "t": [1, 2]})
    header, parts = read_snapshot(join.snapshot())
    for side in ("left", "right"):
        header["stretches"][side] = [[0, 1], [second, 1]]
        header["rows_seen"][side] = second + 1
    return write_snapshot(header, parts)


@pytest.mark.parametrize("how", ["left", "full", "left_anti"])
def test_rows_far_apart_take_no_memory_for_those_between(how: str) -> None:
    state = far_apart(how, 1 << 33)
    tracemalloc.start()
    try:
        join = sj.StreamJoin.restore(state)
        again = sj.StreamJoin.restore(join.snapshot())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 << 20
    for one in (join, again):
        found = one.push(left={"k": [3, 1], "t": [3, 3]}).num_rows + one.finish().num_rows
        # A pair, and two left rows without one.
        assert found == (2 if how == "left_anti" else 3)
    with pytest.raises(sj.StateError, match=r"the oldest left row is 1,099,511,627,777 rows old; marks of matches"):
        sj.StreamJoin.restore(far_apart(how, 1 << 40))


def test_a_self_join_has_one_clock() -> None:
    """Rows of the side that lags would expire without being emitted."""
    join = sj.StreamJoin(on="l.a = r.a", window=sj.TimeWindow(6, on="ts"), self_join=True, how="full")
    join.push(left={"a": [1, 2], "ts": [3, 4]})
    header, parts = read_snapshot(join.snapshot())
    assert header["clock"] == {"left": 4, "right": 4}
    header["clock"]["left"] = 9
    with pytest.raises(sj.StateError, match="newest event times of both sides of a self-join differ: 9 and 4"):
        sj.StreamJoin.restore(write_snapshot(header, parts))
