"""Snapshots with a right checksum and wrong contents: made, restored, and used, in a process of its own.

``python -m tests.api.hostile FIRST COUNT`` tries mutants FIRST to FIRST + COUNT of each case, and writes what it is
about to try: a process that dies says with its last line of what. A mutant is refused with a `StateError`, or it is a
join that works: it takes rows, ends, and gives tables whose every value is one.
"""

from __future__ import annotations

import copy
import random
import resource
import signal
import struct
import sys
import warnings
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import slidejoin as sj
from slidejoin.api.snapshot_format import read_snapshot, write_snapshot
from slidejoin.tuning import CURRENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("a", pa.int64()),
        ("b", pa.float64()),
        ("s", pa.string()),
        ("d", pa.dictionary(pa.int8(), pa.string())),
        ("l", pa.list_(pa.int64())),
        ("m", pa.decimal128(9, 2)),
        ("ts", pa.int64()),
    ]
)
COUNT = sj.CountWindow(left=9, right=7, slide=2)
TIME = sj.TimeWindow(left=5, right=9, left_on="ts", right_on="ts", lateness=3)
BAND = "l.a BETWEEN r.a - 1 AND r.a + 1"
SUMS = sj.Aggregate(
    n="count", i="sum(r.a)", dec="sum(r.m)", x="mean(r.a)", f="sum(r.b)", lo="min(r.s)", hi="max(r.b)", k="count(r.s)"
)

JOINS: dict[str, dict[str, Any]] = {
    "inner count": {"window": COUNT, "order": "strict"},
    "inner time": {"window": TIME, "late": "emit"},
    "two terms": {"window": TIME, "on": "l.a < r.a AND l.b > r.b"},
    "texts": {"window": COUNT, "on": "l.s = r.s AND l.d <> r.d"},
    "positions": {"window": COUNT, "output": "positions"},
    "counted": {"window": TIME, "output": "count"},
    "idle": {"window": TIME, "idle_timeout": "5 seconds", "wall_clock": lambda: 7.0},
    "left count": {"window": COUNT, "how": "left"},
    "full count": {"window": sj.CountWindow(6), "how": "full", "output": "positions"},
    "full time": {"window": TIME, "how": "full"},
    "right time": {"window": TIME, "how": "right"},
    "semi": {"window": COUNT, "how": "left_semi"},
    "anti": {"window": TIME, "how": "left_anti"},
    "self count": {"window": COUNT, "self_join": True},
    "self time": {"window": sj.TimeWindow(6, on="ts"), "self_join": True, "how": "full"},
    "nearest count": {"window": COUNT, "keep": sj.Nearest("l.b", "r.b", "nearest", 3), "on": "l.s = r.s"},
    "latest count": {"window": COUNT, "keep": sj.Nearest("l.ts", "r.ts"), "on": "l.s = r.s", "how": "left"},
    "nearest time": {"window": TIME, "keep": sj.Nearest("l.ts", "r.ts", "forward", 2), "output": "positions"},
    "sums count": {"window": COUNT, "output": SUMS},
    "sums time": {"window": TIME, "output": SUMS},
    "sums self": {"window": COUNT, "output": SUMS, "self_join": True},
}
WAITING = {"left count", "full time", "latest count", "sums time", "counted", "inner time"}
"""Joins that are also tried while they know one schema."""

MULTI: dict[str, dict[str, Any]] = {
    "many count": {"windows": {"x": sj.CountWindow(5), "y": sj.CountWindow(7, slide=3), "z": sj.CountWindow(4)}},
    "many time": {"windows": {one: sj.TimeWindow(5, on="ts", lateness=2) for one in "xyz"}},
}


def rows(count: int, first: int, seed: str) -> pa.Table:
    """Rows with few values, NULLs, and event times that step back; `first` is the first id."""
    draw = random.Random(f"{seed} {first}")
    texts = [draw.choice(["a", "b", "c" * 40, None]) for _ in range(count)]
    return pa.table(
        {
            "id": range(first, first + count),
            "a": [draw.choice([None, *range(5)]) for _ in range(count)],
            "b": [draw.choice([None, float("nan"), 0.1, 0.3, 0.7]) for _ in range(count)],
            "s": texts,
            "d": pa.array(texts).dictionary_encode().cast(SCHEMA.field("d").type),
            "l": [draw.choice([None, [], [1, None], [2, 3]]) for _ in range(count)],
            "m": [draw.choice([None, Decimal("1.25"), Decimal("-9999999.99")]) for _ in range(count)],
            "ts": [first + n - draw.randrange(5) for n in range(count)],
        },
        SCHEMA,
    )


@dataclass(frozen=True)
class Case:
    """A state, and what reads it and goes on from it."""

    name: str
    state: bytes
    restore: Callable[[bytes], Any]
    sides: tuple[str, ...]


def cases() -> Iterator[Case]:
    """All of them, each with rows that have left, are there, and wait, and with answers that were folded."""
    for name, options in JOINS.items():
        given = {"on": BAND} | options
        clock = given.get("wall_clock")
        sides = ("left",) if given.get("self_join") else ("left", "right")

        def restore(state: bytes, clock: Any = clock) -> Any:
            return sj.StreamJoin.restore(state, wall_clock=clock, threads=1)

        join = sj.StreamJoin(**given, schemas=(SCHEMA, SCHEMA), threads=1)
        join.push(**{side: rows(20, 0, side) for side in sides})
        join.push(**{side: rows(3, 20, side) for side in sides})
        if "right" in sides:
            # Many rows of one side: answers of the other side's rows are folded.
            for first in range(23, 83, 20):
                join.push(right=rows(20, first, "right"))
        yield Case(name, join.snapshot(), restore, sides)
        if name in WAITING:
            waiting = sj.StreamJoin(**given, threads=1)
            for first in range(0, 40, 8):
                waiting.push(right=rows(8, first, "right"))
            yield Case(f"{name}, waiting", waiting.snapshot(), restore, sides)
    for name, options in MULTI.items():
        many = sj.MultiJoin(options["windows"], on="x.a = y.a AND y.s = z.s AND x.b <= z.b", threads=1)
        for known in (("x", "y"), ("x", "y", "z"), ("x", "y", "z")):
            many.push({one: rows(12, 12 * len(known), one) for one in known})
            yield Case(f"{name}, {len(known)} known", many.snapshot(), sj.MultiJoin.restore, ("x", "y", "z"))


# -- mutants -----------------------------------------------------------------------------------------------------------

EDGES = [0, 1, 2, -1, 1 << 31, -(1 << 31), 1 << 40, (1 << 56) - 5, 1 << 62, (1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 70]
OTHERS: list[Any] = [None, True, False, 0.5, -1e300, 1e308, "", "l", "x" * 300, "\udc00", [], [0], [[]], {}, {"a": 1}]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All places in a JSON value."""
    yield at
    if isinstance(value, dict):
        for name, one in value.items():
            yield from places(one, (*at, name))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from places(one, (*at, number))


def mutated_value(draw: random.Random, plain: Any) -> tuple[str, Any]:
    """A JSON value with another one at some place of it, or without that place, or with it twice."""
    plain = copy.deepcopy(plain)
    at = draw.choice([one for one in places(plain) if one])
    inside = plain
    for step in at[:-1]:
        inside = inside[step]
    last, value = at[-1], inside[at[-1]]
    kind = draw.choice(["edge", "near", "near", "other", "gone", "twice", "deep", "from elsewhere"])
    if kind == "gone":
        del inside[last]
        return f"{at} gone", plain
    if kind == "twice" and isinstance(inside, list):
        inside.insert(last, value)
        return f"{at} twice", plain
    if kind == "near" and isinstance(value, (int, float)):
        inside[last] = not value if isinstance(value, bool) else value + draw.choice([-1000, -2, -1, 1, 2, 1000])
    elif kind == "deep":
        deep: Any = value
        for _ in range(draw.choice([5, 50, 250])):
            deep = [deep] if draw.random() < 0.5 else {"node": "not", "operand": deep}
        inside[last] = deep
    elif kind == "from elsewhere":
        there: Any = plain
        for step in draw.choice(list(places(plain))):
            there = there[step]
        inside[last] = copy.deepcopy(there)
    else:
        inside[last] = draw.choice(OTHERS if kind == "other" else EDGES)
        return f"{at} is {inside[last]!r:.80}", plain
    return f"{at} {kind}", plain


def regions(data: bytes) -> list[tuple[str, int, int]]:
    """The buffers of a table in an Arrow stream: a name, where it begins, and its bytes."""
    source = pa.py_buffer(data)
    with pa.ipc.open_stream(source) as reader:
        table = reader.read_all()
    found = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        for chunk in column.chunks:
            arrays = [chunk, chunk.dictionary] if isinstance(chunk, pa.DictionaryArray) else [chunk]
            buffers = [one for array in arrays for one in array.buffers() if one is not None and one.size]
            begins = [(one.address - source.address, one.size) for one in buffers]
            found += [(name, begin, size) for begin, size in begins if 0 <= begin < source.size]
    return found


def mutated_bytes(draw: random.Random, data: bytes) -> tuple[str, bytes]:
    """A part with other bytes somewhere: in a buffer of its table, if it is one, or anywhere."""
    changed = bytearray(data)
    try:
        known = regions(data)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        known = []
    if known and draw.random() < 0.8:
        name, begin, size = draw.choice(known)
        width = draw.choice([one for one in (8, 4, 1) if size >= one])
        at = begin + width * draw.randrange(size // width)
        number = int.from_bytes(changed[at : at + width], "little", signed=True)
        value = draw.choice([*EDGES, number + 1, number - 1, number + 1000]) & ((1 << 8 * width) - 1)
        changed[at : at + width] = value.to_bytes(width, "little")
        return f"{name} has {value} at byte {at - begin} of {size}", bytes(changed)
    if not changed:
        return "nothing", data
    at = draw.randrange(len(changed))
    match draw.choice(["bit", "cut", "long", "word"]):
        case "cut":
            return f"cut at {at}", bytes(changed[:at])
        case "long":
            return "longer", data + data[:at]
        case "word" if len(changed) >= 8:
            at = draw.randrange(len(changed) // 8) * 8
            struct.pack_into("<Q", changed, at, draw.choice(EDGES) & ((1 << 64) - 1))
        case _:
            changed[at] ^= 1 << draw.randrange(8)
    return f"other bytes at {at}", bytes(changed)


def mutated_rows(draw: random.Random, data: bytes) -> tuple[str, bytes]:
    """A part with fewer rows, or with some of them twice, or in another order."""
    try:
        with pa.ipc.open_stream(data) as reader:
            table = reader.read_all()
        table.validate(full=True)  # of a part that was changed before, Arrow would take rows from anywhere
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return "no table", data[: len(data) // 2]
    some = [draw.randrange(table.num_rows) for _ in range(draw.randrange(2 * table.num_rows))] if table.num_rows else []
    match draw.choice(["fewer", "more", "some", "compressed"]):
        case "fewer":
            table, what = table.slice(draw.choice([0, 1]), max(table.num_rows - 1, 0)), "a row less"
        case "more":
            table, what = pa.concat_tables([table, table.slice(0, 1)]), "a row more"
        case "some":
            table, what = table.take(pa.array(some, pa.int64())), "other rows"
        case _:
            what = "compressed"
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd" if what == "compressed" else None)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return what, sink.getvalue().to_pybytes()


def mutant(draw: random.Random, state: bytes) -> tuple[str, bytes]:
    """A state with one or two things changed, and what these are; its checksum is right."""
    header, parts = read_snapshot(state)
    told = []
    for _ in range(draw.choice([1, 1, 1, 2])):
        number = draw.randrange(len(parts)) if parts else 0
        match draw.choice(["header"] * 3 + ["bytes"] * 4 + ["rows", "parts"]):
            case "bytes" if parts:
                what, parts[number] = mutated_bytes(draw, parts[number])
                told.append(f"part {number}: {what}")
            case "rows" if parts:
                what, parts[number] = mutated_rows(draw, parts[number])
                told.append(f"part {number}: {what}")
            case "parts" if parts:
                other = draw.randrange(len(parts))
                match draw.choice(["gone", "twice", "moved"]):
                    case "gone":
                        del parts[number]
                    case "twice":
                        parts.insert(other, parts[number])
                    case _:
                        parts[number], parts[other] = parts[other], parts[number]
                told.append(f"parts {number} and {other}")
            case _:
                what, header = mutated_value(draw, header)
                told.append(what)
    return "; ".join(told), write_snapshot(header, parts)


# -- trying them -------------------------------------------------------------------------------------------------------

EXPECTED = (sj.JoinClosedError, sj.MemoryLimitError, sj.AggregateOverflowError)
"""What a join that was accepted may say: it was finished, has a limit, or sums that have grown too large."""


def tried(case: Case, state: bytes) -> bool:
    """Restore a state and go on; tell whether it was accepted."""
    try:
        join = case.restore(state)
    except sj.StateError:
        return False
    try:
        for first, count in ((83, 5), (88, 30)):
            given = {side: rows(count, first, side) for side in case.sides}
            out = join.push(given) if isinstance(join, sj.MultiJoin) else join.push(**given)
            out.validate(full=True)
        case.restore(join.snapshot())
        join.finish().validate(full=True)
    except EXPECTED:
        pass
    except sj.SchemaError as error:
        # A column got another type or name, as with other bytes in its schema; its sides are those that it has.
        if "self-join" in str(error):
            raise
    except sj.StateError as error:
        # The next snapshot, of ordinals that have gone beyond those that a stream can reach.
        if "rows_seen" not in str(error):
            raise
    except sj.PredicateError:
        # Whether the predicate suits a schema that is not known yet is seen once it is; nothing is taken then.
        assert "waiting" in case.name or "2 known" in case.name
    return True


def tell(line: str) -> None:
    """Write a line at once: the process may die next."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run(first: int, count: int) -> None:
    """Try mutants of all cases."""
    warnings.simplefilter("ignore")
    CURRENT.value = replace(CURRENT.value, unfolded_rows=4, chunk_rows=4)
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    accepted = 0
    for case in cases():
        assert tried(case, case.state), f"{case.name}: the state itself is refused"
        for seed in range(first, first + count):
            told, state = mutant(random.Random(f"{case.name} {seed}"), case.state)
            tell(f"{case.name}, {seed}: {told}")
            signal.alarm(60)
            accepted += tried(case, state)
            signal.alarm(0)
    tell(f"{accepted} of them were accepted, and worked")


if __name__ == "__main__":
    run(*map(int, sys.argv[1:3]))
