"""Which Python Spark's workers run: the driver's, or one with the same version of slidejoin.

Spark starts its workers with ``PYSPARK_PYTHON``, or else with the ``python3`` on the PATH. A script that is run by the
Python of an environment that is not activated, ``venv/bin/python job.py``, would get workers without its packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from slidejoin import __version__
from slidejoin.spark.job.checks import SparkJoinError, check_session, check_state_store, is_local
from slidejoin.spark.job.workers import compile_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["check_python", "check_workers", "workers_of", "workers_run_this_python"]

DEFAULT = "python3"
"""The interpreter that Spark runs by default."""

SAFE_PATH = "PYTHONSAFEPATH"
"""The variable that keeps the working directory out of the path of modules."""

ASK = "import slidejoin; print(slidejoin.__version__)"

_one_at_a_time = Lock()


def check_python(session: SparkSession) -> None:
    """Check that the Python that was chosen for workers on this machine has the driver's version of slidejoin.

    Raises
    ------
    SparkJoinError
        If it is missing, has no slidejoin, or one of another version.
    """
    if not is_local(session):
        return  # workers on other machines report it themselves, see `slidejoin.spark.bucket.tasks`
    context = session.sparkContext
    # Files that were added to the session are in the workers' path, so that slidejoin may be one of them.
    if context.pythonExec == DEFAULT or getattr(context, "_python_includes", None):
        return
    program = shutil.which(context.pythonExec)
    if program is not None and os.path.abspath(program) == os.path.abspath(sys.executable):  # noqa: PTH100 - links count
        return
    wrong = "is missing" if program is None else _without(program)
    if wrong:
        msg = (
            f"Spark's workers would run {context.pythonExec} (PYSPARK_PYTHON), which {wrong}; set "
            f"PYSPARK_PYTHON={sys.executable}, or unset it, before the Spark session is made"
        )
        raise SparkJoinError(msg)


@cache
def _without(program: str) -> str:
    """Return what is missing in a Python, in words; nothing if it has this version of slidejoin."""
    # By the environment, as the Python may not know the flag; a `json.py` in the working directory is no module.
    safe = os.environ | {"PYTHONSAFEPATH": "1"}
    answer = subprocess.run([program, "-c", ASK], capture_output=True, text=True, check=False, env=safe)  # noqa: S603 - a Python
    if answer.returncode:
        why = (answer.stderr.strip().splitlines() or [f"exit status {answer.returncode}"])[-1]
        return f"cannot import slidejoin ({why})"
    version = answer.stdout.strip()
    return "" if version == __version__ else f"has slidejoin {version} where the driver has {__version__}"


def check_workers(session: SparkSession, *, streaming: bool) -> None:
    """Check that workers can run a join: their Python, and for streams the state store and the session's settings.

    Raises
    ------
    SparkJoinError
        If they cannot; it says what to do.
    """
    check_python(session)
    if streaming:
        check_state_store(session)
        check_session(session)


@contextmanager
def workers_of(session: SparkSession, cache: str | None, *, tables: bool = False) -> Iterator[None]:
    """Let workers run what is made within the block; those on this machine find the kernels compiled.

    With `tables` these are the kernels of joins with a table.
    """
    if is_local(session):
        compile_ahead(cache, tables=tables)
    with workers_run_this_python(session):
        yield


@contextmanager
def workers_run_this_python(session: SparkSession) -> Iterator[None]:
    """Let workers on this machine run the driver's Python for functions created within the block.

    Only where none is configured. In any case they do not look for modules in the working directory, where a file such
    as ``random.py`` next to a job would be taken for the module of that name. Other functions of the session keep their
    Python and their path.
    """
    if not is_local(session) or not sys.executable:
        yield
        return
    context = session.sparkContext
    with _one_at_a_time:
        before, variables = context.pythonExec, context.environment
        if before == DEFAULT:
            context.pythonExec = sys.executable
        context.environment = {**variables, SAFE_PATH: "1"}
        try:
            yield
        finally:
            context.pythonExec, context.environment = before, variables
