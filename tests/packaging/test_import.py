"""What `import slidejoin` gives, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

import slidejoin

HEAVY = ("numba", "numpy", "pandas", "pyarrow", "pyspark", "sqlglot", "typer")


def test_import_alone_loads_nothing_heavy():
    code = f"import sys, slidejoin; dir(slidejoin); print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_numba_is_loaded_when_a_join_is_planned_and_not_before():
    code = """
import sys
import slidejoin as sj
join = sj.StreamJoin(on="l.a BETWEEN r.b - 1 AND r.b + 1", window=sj.CountWindow(10))
join.push(left={"a": [1]}), join.explain(), sj.StreamJoin.restore(join.snapshot())
print("numba" in sys.modules)
join.push(right={"b": [1]})
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("name", slidejoin.__all__)
def test_every_public_name_is_there_and_listed(name):
    value = getattr(slidejoin, name)
    assert getattr(slidejoin, name) is value
    assert name in dir(slidejoin)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'slidejoin' has no attribute 'streamjoin'$"):
        slidejoin.streamjoin  # noqa: B018 - looking it up is the test
