"""What all tests share: reproducible random examples, a compile cache that processes do not fight over, Spark's Python.

This module is loaded before any test imports Numba or Spark, which read their settings as they are imported.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "slidejoin"

# The same examples in every run: a failure is there again when one looks for it, and no run fails by chance. No
# deadlines and no health check on time, which would depend on how busy the machine is and on what compiles first.
hypothesis.settings.register_profile(
    "default",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
# New examples in every run, many more of them; a failing one is printed with the line that reproduces it.
hypothesis.settings.register_profile(
    "nightly", hypothesis.settings.get_profile("default"), derandomize=False, max_examples=1000
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def compile_cache() -> Path:
    """Return the folder for this process and its children to keep compiled kernels in.

    Two processes that add to one cache at once may mix up its entries (numba issue 4807), so every xdist worker has
    its own. Numba looks only at the file of a kernel itself, not at what that calls in other files, so the folder
    belongs to one state of all files beside those that import Numba.
    """
    folders = {path.parent for path in SOURCES.rglob("*.py") if "numba" in path.read_text(encoding="utf-8")}
    state = hashlib.sha256(sys.version.encode())
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        state.update(path.read_bytes())
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    return ROOT / ".cache" / "numba" / state.hexdigest()[:16] / worker


def use_compile_cache() -> None:
    """Point Numba to this process's cache and drop those of earlier states of the sources."""
    cache = compile_cache()
    cache.mkdir(parents=True, exist_ok=True)
    os.environ["NUMBA_CACHE_DIR"] = str(cache)
    for other in cache.parent.parent.iterdir():
        if other != cache.parent:
            shutil.rmtree(other, ignore_errors=True)


use_compile_cache()

# Spark's workers run the Python of the tests, and nothing listens on, or looks up, the machine's outer name.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a Spark module on one xdist worker: starting a session takes longer than most tests.

    The hook of tests/spark runs before this one and marks them.
    """
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
