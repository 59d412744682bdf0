"""State of a query with right checksums and wrong contents: made, and gone on from, in a process of its own.

``python -m tests.spark.hostile FIRST COUNT`` tries mutants of each join, and writes what it is about to try, see
`tests.api.hostile`. A micro-batch either refuses the state with a `StateError` or goes through.
"""

from __future__ import annotations

import copy
import json
import random
import resource
import signal
import sys
import tempfile
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import slidejoin as sj
from slidejoin.sides import SIDES
from slidejoin.spark.state.blocks import HEADER, seal
from slidejoin.spark.state.compact import to_compact
from slidejoin.spark.state.records import BEFORE_CHECKSUM
from tests.api.hostile import mutated_value, tell
from tests.spark.feeds import SECOND
from tests.spark.killing import LENGTH, ON, streams
from tests.spark.stores import Query, flat, wire

TIME, ROWS = sj.TimeWindow(f"{LENGTH} seconds", on="ts"), sj.CountWindow(left=37, right=29, slide=3)
JOINS: dict[str, dict[str, Any]] = {
    "pairs": {"window": TIME},
    "counts": {"window": TIME, "output": "count"},
    "rows": {"window": ROWS, "order_by": "id"},
    "full": {"window": TIME, "how": "full"},
    "semi": {"window": TIME, "how": "left_semi", "strategy": "grid", "partitions": 3},
    "self": {"window": TIME, "self_join": True},
    "nearest": {"window": TIME, "keep": sj.Nearest("l.ts", "r.ts", "nearest", 2), "how": "left"},
    "sums": {"window": ROWS, "order_by": "id", "output": sj.Aggregate(n="count", total="sum(r.id)", low="min(r.name)")},
}
BEFORE, AFTER = 5, 2
"""Micro-batches before and behind the restart."""


def record(draw: random.Random, data: bytes) -> tuple[str, bytes]:
    """A manifest, or another record, with another value, and a checksum that fits."""
    plain = json.loads(data)
    plain.pop("crc", None)
    what, plain = mutated_value(draw, plain)
    body = json.dumps(plain, separators=(",", ":")).encode()[:-1]
    return what, body + BEFORE_CHECKSUM + b"%d}" % zlib.crc32(body)


def owner_of(bucket: int, place: str, data: bytes) -> bytes:
    """What a segment is sealed with: its bucket, its stream and its place."""
    crc = np.frombuffer(data, HEADER, 1)[0]["crc"]
    owners = [f"{bucket}/{side}/{place}".encode() for side in (*SIDES, "ids")]
    return next((one for one in owners if zlib.crc32(data[HEADER.itemsize :], zlib.crc32(one)) == crc), owners[0])


def segment(draw: random.Random, bucket: int, part: str, data: bytes) -> tuple[str, bytes]:
    """A segment, or bits of one, with other bytes or of other rows, and a checksum that fits."""
    owner, body = owner_of(bucket, part.partition("/")[0], data), bytearray(data[HEADER.itemsize :])
    kind = draw.choice(["byte", "byte", "word", "cut", "rows", "times"])
    if kind == "rows":
        return "other rows", seal(to_compact(pa.table({"0": range(draw.choice([0, 1, 5]))})), owner)
    if kind == "times" and not part.endswith("matched"):
        return "NULLs", seal(to_compact(pa.table([pa.nulls(9, pa.int64())] * 4, names=list("abcd"))), owner)
    at = draw.randrange(len(body))
    if kind == "cut":
        del body[at:]
    elif kind == "word":
        body[at : at + 8] = draw.choice([b"\xff" * 8, b"\x00" * 8, b"\x7f" * 8])
    else:
        body[at] ^= 1 << draw.randrange(8)
    return f"{kind} at {at}", seal(bytes(body), owner)


def mutate(draw: random.Random, query: Query) -> str:
    """Change one value of a query's state and return what it is."""
    stores = [variables.store for variables in (*query.state.values(), *query.homes.values())]
    stores += [query.sequencer.store] if query.spec.numbered else []
    store = draw.choice([one for one in stores if one])
    places = sorted((place for place in flat(store) if place[0] != "timers"), key=repr)
    name, key, part = draw.choice(places)
    value = flat(store)[name, key, part][0]
    if isinstance(value, str):
        plain = json.loads(value)
        if name == "totals":
            what, data = record(draw, value.encode())
            store[name, key] = (data.decode("utf-8", "replace"),)
        else:
            what, plain = mutated_value(draw, plain)
            store[name, key] = (json.dumps(plain),)
    elif part is None:
        what, data = record(draw, value)
        store[name, key] = (data,)
    else:
        what, data = segment(draw, key, part[0], value)
        store[name, key][part] = (data,)
    return f"{name} of {key}, {part}: {what}"


def run(first: int, count: int) -> None:
    """Try mutants of all joins."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    accepted = 0
    for name, options in JOINS.items():
        for seed in range(first, first + count):
            with tempfile.TemporaryDirectory() as folder:
                draw = random.Random(f"{name} {seed}")
                query = Query(wire(Path(folder), ON, **{"strategy": "cell", "partitions": 2} | options), 5 * SECOND)
                batches = streams(BEFORE + AFTER, rows=10, seed=seed % 5)
                if query.spec.config.self_join:
                    batches = [{"left": batch["left"]} for batch in batches]
                for batch in batches[:BEFORE]:
                    query.micro_batch(batch)
            for _ in range(6):
                with tempfile.TemporaryDirectory() as folder:
                    again = copy.deepcopy(query)
                    tell(f"{name}, {seed}: {mutate(draw, again)}")
                    signal.alarm(60)
                    accepted += goes_on(again, batches[BEFORE:])
                    signal.alarm(0)
    tell(f"{accepted} of them were accepted, and worked")


def goes_on(query: Query, batches: list[dict[str, Any]]) -> bool:
    """Tell whether a query accepts its state."""
    try:
        for batch in batches:
            query.micro_batch(batch)
    except sj.StateError:
        return False
    except sj.AggregateOverflowError:
        return True
    return True


if __name__ == "__main__":
    run(*map(int, sys.argv[1:3]))
