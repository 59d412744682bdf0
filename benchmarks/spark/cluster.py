"""A standalone Spark cluster on this machine: a master, and workers of one executor on one processor each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EXECUTOR_MEMORY", "cluster", "processors"]

HOST = "127.0.0.1"
EXECUTOR_MEMORY = "2g"
PATIENCE = 60.0
"""Seconds for a master or worker to start."""

PINNED = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.execv(sys.argv[2], sys.argv[2:])
"""
"""What a process of Spark's starts from on a processor of its own: everything below it inherits that."""

MASTER_STARTED = r"service 'sparkMaster' on port (\d+)"
WORKER_STARTED = r"(Successfully registered) with master"


def processors(executors: int) -> list[int]:
    """Return a processor for each executor.

    Raises
    ------
    ConfigError
        If there are fewer, or the system cannot pin processes.
    """
    if not hasattr(os, "sched_getaffinity"):
        msg = f"executors: got {executors}, but {sys.platform} cannot pin processes to processors; leave it out"
        raise ConfigError(msg)
    here = sorted(os.sched_getaffinity(0))
    if len(here) < executors:
        msg = f"executors: got {executors}, expected at most {len(here)}: each is pinned to a processor of its own"
        raise ConfigError(msg)
    return here[:executors]


@contextmanager
def cluster(executors: int, logs: Path) -> Iterator[str]:
    """Start a master and so many workers; yield the master's address, and end them with the block.

    Parameters
    ----------
    executors : int
        Workers, each of one core; the Java machine of its executor and the Python workers share one processor.
    logs : pathlib.Path
        A folder for what they write.

    Raises
    ------
    SlideJoinError
        If one of them does not start.
    """
    pins = processors(executors)
    logs.mkdir(parents=True)
    with ExitStack() as running:
        port = _started(running, "master", "Master", ["--port", "0"], None, logs, MASTER_STARTED)
        address = f"spark://{HOST}:{port}"
        for number, pin in enumerate(pins):
            given = ["--cores", "1", "--memory", EXECUTOR_MEMORY, "--work-dir", str(logs / f"work-{number}"), address]
            _started(running, f"worker {number}", "Worker", given, pin, logs, WORKER_STARTED)
        yield address


def _started(running: ExitStack, name: str, kind: str, given: list[str], pin: int | None, logs: Path, sign: str) -> str:
    """Start a process of Spark's, wait for the sign in its log, and return what that says."""
    import pyspark  # noqa: PLC0415 - an extra

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
    command += ["--host", HOST, "--webui-port", "0", *given]
    if pin is not None:
        command = [sys.executable, "-c", PINNED, str(pin), *command]
    file = logs / f"{name}.log"
    log = running.enter_context(file.open("wb"))
    process = subprocess.Popen(  # noqa: S603 - Spark's own script
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | {"SPARK_LOCAL_IP": HOST}
    )
    running.callback(process.wait)
    running.callback(process.terminate)
    end = time.monotonic() + PATIENCE
    while True:
        told = file.read_text(encoding="utf-8", errors="replace")
        if found := re.search(sign, told):
            return found[1]
        if process.poll() is not None or time.monotonic() > end:
            msg = f"Spark's {name} did not start: {' / '.join(told.strip().splitlines()[-3:])}"
            raise SlideJoinError(msg)
        time.sleep(0.1)
