"""A push with millions of pairs takes no more memory than its tables, whatever index finds them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.daily import some_by_day

STORED, PROBES = 5000, 4000

CHILD = """
import json, sys
import numpy as np
import slidejoin as sj

def peak():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(fields["VmHWM"].split()[0]) << 10

def run(stored, probes):
    ids = np.arange(stored)
    rows = {"s": ids % 2, "a": ids, "b": -ids}
    later = {"s": ids % 2, "a": ids + 10**6, "b": -ids - 10**6}
    join = sj.StreamJoin(on=on, window=sj.CountWindow(stored), threads=2, **options)
    join.push(left=rows)
    if touch:
        open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
    before, pairs, tables = peak(), 0, 0
    for table in join.push_iter(right={name: column[:probes] for name, column in later.items()}):
        pairs, tables = pairs + table.num_rows, tables + 1
        del table
    return {"pairs": pairs, "tables": tables, "bytes": peak() - before}

on, options, stored, probes = json.loads(sys.argv[1])
touch = False
run(100, 90)  # kernels are loaded
touch = True
print(json.dumps(run(stored, probes)))
"""

CASES = {
    "planar": ("l.a < r.a AND l.b > r.b", {"output": "positions"}, "planar", 1),
    "planar, with columns": ("l.a < r.a AND l.b > r.b", {"select": ["l.a", "r.b"], "order": "strict"}, "planar", 1),
    "composite, planar": ("l.s = r.s AND l.a < r.a AND l.b > r.b", {"output": "positions"}, "planar", 2),
    "composite, runs": ("l.s = r.s AND l.a < r.a", {"output": "positions"}, "bi_sort", 2),
    "composite, cells": (
        "l.s = r.s AND l.a BETWEEN r.a - 9000000 AND r.a + 9000000", {"output": "positions"}, "band_cells", 2,
    ),
}  # fmt: skip

BOUND = 165 << 20
"""Two tables of 64 MiB, one being made while the other is read, and at times one of 16 MiB that the allocator has not
given back yet; all positions at once take 320 MB."""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
@pytest.mark.parametrize("name", some_by_day(list(CASES), first=1))
def test_twenty_million_pairs_stay_within_bounds(name: str) -> None:
    on, options, index, groups = CASES[name]
    given = json.dumps([on, options | {"algorithm": index}, STORED * groups, PROBES])
    done = subprocess.run([sys.executable, "-c", CHILD, given], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["pairs"] == STORED * PROBES
    assert found["tables"] >= STORED * PROBES >> 20
    assert found["bytes"] <= BOUND
