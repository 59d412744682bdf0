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


@pytest.mark.parametrize("name", slidejoin.__all__)
def test_every_public_name_is_there_and_listed(name):
    value = getattr(slidejoin, name)
    assert getattr(slidejoin, name) is value
    assert name in dir(slidejoin)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'slidejoin' has no attribute 'streamjoin'$"):
        slidejoin.streamjoin  # noqa: B018 - looking it up is the test
