"""A snapshot and a restore at any point change nothing; damaged state is refused whole."""

from __future__ import annotations

import copy
import hashlib
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.api.snapshot_format import read_snapshot, write_snapshot
from tests.law.checks import ORDERS, assert_groups, count_lines, examples, lines, pair_lines
from tests.narrow import tune
from tests.strategies import Case, cases


@pytest.mark.parametrize("options", [{"order": order} for order in ORDERS] + [{"output": "count"}], ids=str)
@examples(40)
@given(case=cases(most=14), data=st.data())
def test_restart_between_pushes(options: dict[str, str], case: Case, data: st.DataObject) -> None:
    whole, broken = case.join(**options), case.join(**options)
    for push, steps in zip(case.pushes, case.steps(case.oracle()), strict=True):
        if data.draw(st.booleans()):
            broken = sj.StreamJoin.restore(broken.snapshot())
        given_ = push.arguments(self_join=case.self_join)
        one, two = whole.push(**given_), broken.push(**given_)
        assert one.schema.equals(two.schema)
        if "output" in options:
            assert lines(one) == lines(two) == count_lines(case, steps)
            continue
        # Within a probe only "strict" has an order: a table that is filled again has rows in other places.
        for table in (one, two):
            assert_groups(lines(table), pair_lines(steps), options["order"])
    broken = sj.StreamJoin.restore(broken.snapshot())
    for name in ("pairs", "late_rows", "null_time_rows", "rows_left", "rows_right"):
        assert getattr(whole.stats, name) == getattr(broken.stats, name), name


@examples(25)
@given(case=cases(self_join=True, most=14))
def test_restart_of_a_self_join(case: Case) -> None:
    whole, broken = case.join(order="strict"), case.join(order="strict")
    for push in case.pushes:
        given_ = push.arguments(self_join=True)
        assert lines(whole.push(**given_)) == lines(broken.push(**given_))
        broken = sj.StreamJoin.restore(broken.snapshot())


@examples(25)
@given(case=cases(most=14))
def test_a_snapshot_takes_nothing_and_shares_nothing(case: Case) -> None:
    join = case.join(order="strict")
    half = len(case.pushes) // 2
    case.results(join, case.pushes[:half])
    state = join.snapshot()
    rest = [lines(table) for table in case.results(join, case.pushes[half:])]
    for _ in range(2):
        again = sj.StreamJoin.restore(copy.copy(state))
        assert [lines(table) for table in case.results(again, case.pushes[half:])] == rest


@pytest.mark.parametrize("threads", [1, 2])
def test_restore_takes_other_threads_and_algorithm(threads: int) -> None:
    join, rows = small_join()
    again = sj.StreamJoin.restore(join.snapshot(), threads=threads, algorithm="auto")
    assert again.push(right=rows).equals(join.push(right=rows))


def small_join() -> tuple[sj.StreamJoin, pa.Table]:
    rows = pa.table({"id": range(6), "x": pa.array([0.5, None, float("nan"), 1.5, 2.5, -0.0]), "s": list("abcdef")})
    join = sj.StreamJoin(
        on="l.x <= r.x + 1 AND l.s <> r.s",
        window=sj.CountWindow(4),
        order="strict",
        schemas=(rows.schema, rows.schema),
    )
    join.push(left=rows, right=rows)
    return join, rows


def test_every_truncation_is_refused() -> None:
    join, _ = small_join()
    state = join.snapshot()
    step = max(1, len(state) // 400)
    for length in sorted({*range(0, len(state), step), *range(min(64, len(state))), len(state) - 1}):
        with pytest.raises(sj.StateError):
            sj.StreamJoin.restore(state[:length])


def test_every_flipped_byte_is_refused() -> None:
    join, _ = small_join()
    state = join.snapshot()
    chosen = random.Random(2)
    places = {*range(min(64, len(state))), *(chosen.randrange(len(state)) for _ in range(300)), len(state) - 1}
    for place in sorted(places):
        damaged = bytearray(state)
        damaged[place] ^= 1 << chosen.randrange(8)
        with pytest.raises(sj.StateError):
            sj.StreamJoin.restore(bytes(damaged))


@pytest.mark.parametrize("tail", [b"\x00", b"junk"])
def test_bytes_after_the_end_are_refused(tail: bytes) -> None:
    join, _ = small_join()
    with pytest.raises(sj.StateError):
        sj.StreamJoin.restore(join.snapshot() + tail)


@pytest.mark.parametrize(
    "foreign", [b"", b"PK\x03\x04", b"\x80\x05K\x01.", b"ARROW1\x00\x00" * 20, b"\x00" * 500], ids=repr
)
def test_foreign_bytes_are_refused(foreign: bytes) -> None:
    with pytest.raises(sj.StateError):
        sj.StreamJoin.restore(foreign)


def test_state_is_bytes_without_pickles() -> None:
    join, _ = small_join()
    state = join.snapshot()
    assert isinstance(state, bytes)
    assert b"pyarrow.lib" not in state
    assert b"\x80\x04\x95" not in state
    assert b"\x80\x05\x95" not in state


MAGIC = b"slidejoin-snapshot\n"


def sealed(body: bytes) -> bytes:
    """A body with the digest that fits it, as only a writer would make."""
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize("future", [4, 77, 65_535])
def test_state_of_a_future_version_says_which_format_it_has(future: int) -> None:
    join, _ = small_join()
    body = bytearray(join.snapshot()[:-32])
    body[len(MAGIC) : len(MAGIC) + 2] = future.to_bytes(2, "little")
    with pytest.raises(sj.StateError, match=rf"format {future}\b.*version"):
        sj.StreamJoin.restore(sealed(bytes(body)))


def test_a_whole_block_that_lies_is_refused() -> None:
    """The digest is right but the content is not: still a StateError, never another one."""
    join, _ = small_join()
    body = join.snapshot()[:-32]
    chosen = random.Random(3)
    for _ in range(200):
        place = chosen.randrange(len(MAGIC) + 2, len(body))
        lying = bytearray(body)
        lying[place] ^= 1 << chosen.randrange(8)
        try:
            sj.StreamJoin.restore(sealed(bytes(lying)))
        except sj.StateError as error:
            assert len(str(error)) > 20  # noqa: PT017 - some flips are in the rows, and nothing can tell them


SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("s", pa.string()), ("ts", pa.int64())])


def numbered(start: int) -> pa.Table:
    """Eight rows."""
    ids = range(start, start + 8)
    columns = {"id": ids, "k": [i % 3 for i in ids], "s": [f"row {i}" for i in ids], "ts": [i // 2 for i in ids]}
    return pa.table(columns, SCHEMA)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    ("name", "window"), [("count", sj.CountWindow(10, slide=2)), ("time", sj.TimeWindow(4, on="ts", lateness=2))]
)
def test_former_formats_are_read(number: int, name: str, window: sj.CountWindow | sj.TimeWindow) -> None:
    """Written when 24 rows of each side had come: 1 before there were stretches, 2 before there were join types."""
    join = sj.StreamJoin(on="l.k = r.k", window=window, order="strict", output="positions", schemas=(SCHEMA, SCHEMA))
    for start in (0, 8, 16):
        join.push(left=numbered(start), right=numbered(start))
    again = sj.StreamJoin.restore((Path(__file__).parent / "snapshots" / f"format_{number}_{name}.bin").read_bytes())
    for start in (24, 32):
        out = again.push(left=numbered(start), right=numbered(start))
        assert out.num_rows > 0
        assert out.equals(join.push(left=numbered(start), right=numbered(start)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stretches", [[0, 3], [2, 3]]),
        ("stretches", [[0, 5]]),
        ("stretches", [[-1, 6]]),
        ("stretches", [[0, 7], [7, -1]]),
        ("stretches", [[5, 6]]),
        ("stretches", "none"),
        ("rows_seen", 5),
        ("rows_seen", 1 << 80),
    ],
)
def test_ordinals_that_cannot_be_are_refused(name: str, value: object) -> None:
    join = sj.StreamJoin(on="l.k = r.k", window=sj.TimeWindow(9, on="ts"), schemas=(SCHEMA, SCHEMA))
    join.push(left=numbered(0).slice(2), right=numbered(0))
    header, parts = read_snapshot(join.snapshot())
    assert header["stretches"]["left"] == [[0, 6]]
    assert sj.StreamJoin.restore(write_snapshot(header, parts)).stats.window_left == 6
    header[name]["left"] = value
    with pytest.raises(sj.StateError):
        sj.StreamJoin.restore(write_snapshot(header, parts))


@pytest.mark.parametrize("far", [1 << 20, 1 << 31, 1 << 33])
def test_one_row_that_stayed_while_billions_left(far: int) -> None:
    options = {"output": "positions", "order": "strict", "schemas": (SCHEMA, SCHEMA)}
    join = sj.StreamJoin(on="l.k = r.k", window=sj.TimeWindow(99, on="ts"), **options)
    join.push(left=numbered(2).slice(2), right=numbered(0))
    header, parts = read_snapshot(join.snapshot())
    header["stretches"]["left"], header["rows_seen"]["left"] = [[0, 1], [far, 5]], far + 5
    again = sj.StreamJoin.restore(write_snapshot(header, parts))
    for start in (8, 16, 24):
        one, two = (it.push(left=numbered(start), right=numbered(start)).to_pydict() for it in (join, again))
        assert two["right"] == one["right"]
        assert two["left"] == [ordinal if ordinal < 1 else ordinal - 1 + far for ordinal in one["left"]]


@pytest.mark.parametrize("state", [None, "text", 5, [b"slidejoin-snapshot"]], ids=repr)
def test_what_is_not_bytes_is_refused(state: object) -> None:
    with pytest.raises(sj.StateError):
        sj.StreamJoin.restore(state)


@pytest.mark.parametrize("output", ["pairs", "count"])
@pytest.mark.parametrize("window", [sj.CountWindow(3), sj.TimeWindow(2, on="id", lateness=1)], ids=str)
def test_restart_before_the_other_side_is_known(window: sj.CountWindow | sj.TimeWindow, output: str) -> None:
    rows = pa.table({"id": range(5), "x": [1, 1, 2, 2, 1]})
    options = {"on": "l.x = r.x", "window": window, "output": output, "order": "strict"}
    whole, broken = sj.StreamJoin(**options), sj.StreamJoin(**options)
    for batch in ({}, {"left": rows.slice(0, 2)}, {"left": rows.slice(2)}, {"right": rows}, {"left": rows}):
        broken = sj.StreamJoin.restore(broken.snapshot())
        assert broken.push(**batch).equals(whole.push(**batch))
        assert broken.explain() == whole.explain()
    assert whole.stats.pairs == broken.stats.pairs > 0


@pytest.mark.parametrize(
    "window",
    [
        sj.CountWindow(10, slide=4),
        sj.CountWindow(left=7, right=30, slide=7),
        sj.TimeWindow(left=9, right=3, left_on="ts", right_on="ts", lateness=2),
    ],
    ids=str,
)
@pytest.mark.parametrize("self_join", [False, True])
def test_restart_after_sub_windows_have_left(
    window: sj.CountWindow | sj.TimeWindow, self_join: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows leave in chunks of four, so the oldest rows kept are others than the window's."""
    tune(monkeypatch, chunk_rows=4)
    chosen = random.Random(5)
    schema = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("ts", pa.int64())])
    options = {"on": "l.x <= r.x", "window": window, "order": "strict", "schemas": (schema, schema)}
    whole, broken = sj.StreamJoin(**options, self_join=self_join), sj.StreamJoin(**options, self_join=self_join)
    seen = 0
    for size in (65, 1, 2, 1, 5, 1, 1, 3, 37, 2, 1, 1, 4, 1, 9, 1, 1, 1, 1, 2, 3, 1, 1):
        batches = {}
        for side in ("left",) if self_join else ("left", "right"):
            numbers = range(seen, seen + size)
            batches[side] = pa.table(
                {
                    "id": numbers,
                    "x": [chosen.randrange(5) for _ in numbers],
                    "ts": [number + chosen.randrange(3) for number in numbers],
                },
                schema,
            )
        seen += size
        broken = sj.StreamJoin.restore(broken.snapshot())
        assert broken.push(**batches).equals(whole.push(**batches))
    assert self_join or whole.stats.window_left < seen
    assert whole.stats.pairs == broken.stats.pairs > 0


def test_an_algorithm_that_does_not_suit_is_named() -> None:
    join = sj.StreamJoin(on="l.k BETWEEN r.k - 1 AND r.k + 1", window=sj.CountWindow(4))
    join.push(pa.table({"k": [1]}), pa.table({"k": [1]}))
    with pytest.raises(sj.PredicateError, match="algorithm='hash' supports only equality"):
        sj.StreamJoin.restore(join.snapshot(), algorithm="hash")
