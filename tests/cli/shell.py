"""The command in a lasting process of its own: Java starts once for many calls, and no other test's Spark is hit."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Result:
    """What one call left: exit status, standard output and standard error."""

    status: int
    out: str
    err: str

    def events(self) -> list[dict[str, Any]]:
        """Return the output of ``--json``."""
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """Calls ``slidejoin`` with arguments, one call at a time.

    If it `lasts`, so does the session of Spark with its Python workers, which takes seconds to start: for jobs that
    have all settings of the first one.
    """

    def __init__(self, *, lasts: bool = False) -> None:
        self._arguments = ["lasts"] if lasts else []

    def __enter__(self) -> Self:
        command = [sys.executable, __file__, *self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def start(self, *arguments: object) -> None:
        """Call the command without waiting for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([str(argument) for argument in arguments]) + "\n")
        self._process.stdin.flush()

    def wait(self) -> Result:
        """Wait for the call that was started."""
        assert self._process.stdout is not None
        # Spark's console sink writes into the same pipe.
        for line in self._process.stdout:
            if line.startswith('{"status": '):
                return Result(**json.loads(line))
        raise AssertionError(self._process.wait())

    def __call__(self, *arguments: object) -> Result:
        self.start(*arguments)
        return self.wait()

    def interrupt(self) -> None:
        """Ask the running call to stop."""
        self._process.send_signal(signal.SIGTERM)


def serve() -> None:
    """Answer calls until the input ends."""
    from slidejoin.cli import main

    for line in sys.stdin:
        out, err, status = io.StringIO(), io.StringIO(), 0
        try:
            with redirect_stdout(out), redirect_stderr(err):
                main(json.loads(line))
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else 0
        sys.stdout.write(json.dumps({"status": status, "out": out.getvalue(), "err": err.getvalue()}) + "\n")
        sys.stdout.flush()


def keep_session() -> None:
    """Let what stops a session leave it to the next command."""
    from pyspark.sql import SparkSession

    SparkSession.stop = lambda _: None  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    if "lasts" in sys.argv:
        keep_session()
    serve()
