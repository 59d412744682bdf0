"""Join two batches with the installed wheel and check the pairs; run by wheel_test.sh in an environment of its own."""

from __future__ import annotations

import sys
from importlib import metadata, resources
from importlib.util import find_spec

import slidejoin as sj

EXTRAS = ("pandas", "pyspark", "typer", "rich", "duckdb", "polars", "matplotlib")


def main() -> int:
    """Return 0 if the wheel alone joins two batches rightly, 1 after saying what is wrong."""
    present = [name for name in EXTRAS if find_spec(name)]
    if present:
        sys.stderr.write(f"the environment should hold core dependencies only, but has {present}\n")
        return 1
    if not resources.files("slidejoin").joinpath("py.typed").is_file():
        sys.stderr.write("the wheel lacks py.typed\n")
        return 1
    join = sj.StreamJoin(on="l.a BETWEEN r.b - 1 AND r.b + 1", window=sj.CountWindow(100))
    pairs = join.push(left={"a": [1, 5]}, right={"b": [2, 9]}).to_pylist()
    pairs += join.push(left={"a": [10, 3]}).to_pylist()
    expected = [{"a": 1, "b": 2}, {"a": 10, "b": 9}, {"a": 3, "b": 2}]
    if pairs != expected:
        sys.stderr.write(f"got the pairs {pairs}, expected {expected}\n")
        return 1
    sys.stdout.write(f"slidejoin {metadata.version('slidejoin')} from its wheel: {len(pairs)} pairs, as expected\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
