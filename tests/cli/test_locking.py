"""One run at a time uses a checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from slidejoin.cli.checkpoint import LOCK_FILE, locked
from slidejoin.cli.stopping import Stopped
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys, subprocess
from pathlib import Path
from slidejoin.cli.checkpoint import locked
with locked(Path(sys.argv[1])) as handle:
    # A Java process that outlives the command.
    child = subprocess.Popen(["sleep", sys.argv[2]], pass_fds=[handle], stdout=subprocess.DEVNULL)
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_run_at_a_time(tmp_path: Path):
    checkpoint = tmp_path / "checkpoint"
    with locked(checkpoint), pytest.raises(SlideJoinError, match=rf"another run .*\(process {os.getpid()}\); stop"):
        locked(checkpoint, patience=0.2).__enter__()
    assert not checkpoint.exists()  # nothing has begun
    checkpoint.mkdir()
    command = [sys.executable, "-c", HOLD, str(checkpoint), "3"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.kill()
        holder.wait()
        with pytest.raises(SlideJoinError, match=rf"another run .*\(process {holder.pid}\)"):
            locked(checkpoint, patience=0.2).__enter__()
        with locked(checkpoint) as handle:  # once that has ended as well
            assert handle is not None
    with locked(None) as handle:
        assert handle is None


def test_a_lock_that_was_removed_is_none(tmp_path: Path):
    """A run that did not begin removes the file of its lock: a run that has opened it before must not get that one."""
    checkpoint = tmp_path / "checkpoint"
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(locked(checkpoint))
        held: list[int | None] = []
        waiting = Thread(target=lambda: held.append(second.enter_context(locked(checkpoint))))
        waiting.start()
        waiting.join(0.3)
        assert not held
        first.close()
        waiting.join(20)
        (handle,) = held
        assert handle is not None
        assert os.path.samestat(os.fstat(handle), (checkpoint / LOCK_FILE).stat())
        with pytest.raises(SlideJoinError, match="another run"):
            locked(checkpoint, patience=0.1).__enter__()
        assert (checkpoint / LOCK_FILE).exists()


def test_only_the_holder_removes_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of two that begin at once, the one that gets no lock leaves the file of the other one."""
    checkpoint = tmp_path / "checkpoint"
    with locked(checkpoint):
        monkeypatch.setattr("pathlib.Path.exists", lambda path: path.name == LOCK_FILE)  # as before the other one began
        with pytest.raises(SlideJoinError, match="another run"):
            locked(checkpoint, patience=0.1).__enter__()
        monkeypatch.undo()
        assert (checkpoint / LOCK_FILE).exists()


def test_a_stop_ends_the_wait(tmp_path: Path):
    stop = Event()
    stop.set()
    with locked(tmp_path), pytest.raises(Stopped):
        locked(tmp_path, stop).__enter__()
