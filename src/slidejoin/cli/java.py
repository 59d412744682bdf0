"""The Java process that Spark runs in: out of reach of the signals that stop the command, and without secrets on view.

A signal to a process group (Ctrl-C, ``timeout``, a CI runner) or to all processes of a service (systemd) is for the
command, which stops its query and then Spark. So Java gets a session of its own and ignores both signals; it ends when
the pipe to its standard input is closed, as it is when the command ends in whatever way.
"""

from __future__ import annotations

import logging
import os
import shlex
import signal
import struct
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from slidejoin.cli.secrets import shows_secret
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["JavaProcess", "java"]

DEAF = 'trap "" INT TERM HUP; exec "$@"'
"""For a shell: whatever it runs instead of itself ignores these signals, as Java leaves ignored ones ignored."""

PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""Environment variables by which PySpark connects to a Java process that is there already."""

AT_START = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions", "spark.jars.repositories")
"""Settings that do nothing once Java runs, so they are on its command line, whatever is in them."""

GONE = "Exception while sending command."
"""What Py4J logs, by the root logger, in a thread that was amid a call when Java ended."""

LOOK = 0.05
PATIENCE = 10.0
"""Seconds that Java has to end once its standard input is closed."""


class JavaProcess:
    """The one of this process: started once, used by all sessions."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._serves = False

    def start(
        self, settings: Mapping[str, str], folder: Path, log: int, *, json: bool = False, locks: Sequence[int] = ()
    ) -> None:
        """Start it and connect to it, unless there is one.

        Parameters
        ----------
        settings : Mapping of str to str
            Of the session; secrets among them are left to the connection.
        folder : Path
            Where it writes how to connect; nobody else may look into it.
        log : int
            Descriptor of its standard error.
        json : bool
            Whether its standard output goes to standard error.
        locks : sequence of int
            Descriptors of locks that it holds as long as it runs.

        Raises
        ------
        SlideJoinError
            If it ends instead.
        """
        from pyspark import SparkContext  # noqa: PLC0415 - an extra

        if SparkContext._gateway is not None or os.name != "posix" or PORT in os.environ:  # noqa: SLF001 - the only way
            return
        connection = folder / "connection"
        connection.unlink(missing_ok=True)
        process = self._process = subprocess.Popen(  # noqa: S603 - Spark's own script
            ["/bin/sh", "-c", DEAF, "sh", *_command(settings)],
            env=os.environ | {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection)},
            stdin=subprocess.PIPE,
            stdout=2 if json else None,
            stderr=log,
            pass_fds=tuple(locks),
            start_new_session=True,
        )
        try:
            port, secret = _connection(process, connection)
        except SlideJoinError:
            self._kill()
            raise
        with _environment({PORT: port, SECRET: secret}):
            SparkContext._ensure_initialized()  # noqa: SLF001 - as above

    def serves(self) -> None:
        """Note that a session has started in it."""
        self._serves = True

    def give_up(self) -> None:
        """Kill it while its first session starts; later ones start within a second."""
        if not self._serves:
            self._kill()

    def close(self) -> None:
        """Let it end in good order, as the command ends; kill it if that takes too long."""
        process = self._process
        _expect_the_end()
        if process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
        self._kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _expect_the_end()
        if process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()


def _expect_the_end() -> None:
    """Let threads that are amid a call, as one that starts workers may be, not log that Java is gone."""
    root = logging.getLogger()
    root.removeFilter(_of_something_else)
    root.addFilter(_of_something_else)


def _of_something_else(record: logging.LogRecord) -> bool:
    return record.msg != GONE


def _command(settings: Mapping[str, str]) -> list[str]:
    """Return the command that PySpark itself would start Java with."""
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415 - as above

    shown = [f"{name}={value}" for name, value in settings.items() if name in AT_START or not shows_secret(name, value)]
    given = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    script = str(Path(_find_spark_home()) / "bin" / "spark-submit")
    return [script, *(part for setting in shown for part in ("--conf", setting)), *given]


def _connection(process: subprocess.Popen[bytes], connection: Path) -> tuple[str, str]:
    """Wait for what Java writes, the port, the length of the secret and the secret, and return port and secret."""
    while not connection.is_file():
        if process.poll() is not None:
            msg = f"Java has ended with status {process.returncode}"
            raise SlideJoinError(msg)
        time.sleep(LOOK)
    port, length = struct.unpack(">ii", (written := connection.read_bytes())[:8])
    connection.unlink()
    return str(port), written[8 : 8 + length].decode()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]


java = JavaProcess()
