"""What all tests share: reproducible random examples, one cache of compiled kernels, Spark's Python.

This module is loaded before any test imports Numba or Spark, which read their settings as they are imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from slidejoin.spark.job.spark_home import link_spark_home
from tests.cli.shell import Shell
from tests.dear import leave_to_the_night

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent

# Few examples, and the same ones in every run: a failure is there again when one looks for it, none comes by chance. No
# deadlines and no health check on time, which would depend on how busy the machine is and on what compiles first.
hypothesis.settings.register_profile(
    "default",
    # Plain Python takes a hundred times as long; what it shows is that kernels mean what they say.
    max_examples=4 if os.environ.get("NUMBA_DISABLE_JIT") else 8,
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


def use_compile_cache() -> None:
    """Keep compiled kernels where all processes of the tests find them; files of other sources have other names."""
    cache = ROOT / ".cache" / "numba"
    cache.mkdir(parents=True, exist_ok=True)
    os.environ["NUMBA_CACHE_DIR"] = str(cache)
    # Tests are of compiled kernels, and of nothing that goes on behind their backs.
    os.environ["SLIDEJOIN_COMPILE"], os.environ["SLIDEJOIN_QUIET"] = "now", "1"


use_compile_cache()

# Spark's workers run the Python of the tests, and nothing listens on, or looks up, the machine's outer name.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
SPARK_HOME = ROOT / ".cache" / "spark_home"
if "SPARK_HOME" not in os.environ and link_spark_home(SPARK_HOME):
    os.environ["SPARK_HOME"] = str(SPARK_HOME)
# Java optimises only lightly: it would spend most of a test on code that is soon done with. And it does not verify the
# classes of Spark, a second of each start.
os.environ.setdefault(
    "JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


COMPILE_ALL = "from slidejoin.jit.warming import compile_all; compile_all()"


def pytest_configure(config: pytest.Config) -> None:
    """Compile all kernels on all cores before several workers start; those of tests are compiled by who runs them."""
    if getattr(config.option, "numprocesses", None) and not os.environ.get("PYTEST_XDIST_WORKER"):
        # What is wrong with a kernel is told by the tests.
        environment = os.environ | {"SLIDEJOIN_QUIET": ""}
        subprocess.run([sys.executable, "-c", COMPILE_ALL], env=environment, check=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave cases of dear tests to the night, before pytest deselects by marks."""
    leave_to_the_night(items)


@pytest.fixture(scope="session")
def slidejoin() -> Iterator[Shell]:
    """The command, in a process that lives as long as all tests that call it: Spark starts once."""
    with Shell() as shell:
        yield shell


STARTS_SPARK = ("SparkSession", "pytest.mark.spark")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep tests that share a session of Spark on one xdist worker: starting one takes longer than most tests.

    The modules of tests/spark share two, those that call the command another, others have their own. Not by marks,
    which pytest-xdist 3.8 does not see with pytest 9.2 (pytest-xdist issue 1386). The largest groups are begun first,
    so that none is left over at the end.
    """
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    @cache
    def group(module: str) -> str | None:
        path = ROOT / module
        text = path.read_text(encoding="utf-8") if path.suffix == ".py" else ""
        if not any(word in text for word in STARTS_SPARK):
            return None
        if path.parent.name == "spark":
            # Two halves of about the same length: a single one would end when all other tests have long been done.
            return "first session" if path.name < "test_j" else "second session"
        return "command" if "Shell" in text else module

    class Grouped(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid.partition("::")[0]) or nodeid

    return Grouped(config, log) if config.getoption("dist") == "loadgroup" else None
