from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from slidejoin.runtime import processes
from slidejoin.runtime.processes import lock, try_lock, unlock

if TYPE_CHECKING:
    from pathlib import Path


def test_locks_of_two_open_files(tmp_path: Path) -> None:
    with ExitStack() as closing:
        one, other = (closing.enter_context((tmp_path / "lock").open("w")).fileno() for _ in range(2))
        lock(one)
        assert try_lock(one)
        assert try_lock(other) is False
        assert try_lock(other, shared=True) is False
        unlock(one)
        assert try_lock(one, shared=True)
        assert try_lock(other, shared=True)
        assert try_lock(other) is False
        unlock(os.dup(one))  # the same open file
        assert try_lock(other)


def test_where_there_are_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "file").open("w") as file:
        handle = file.fileno()
    assert try_lock(handle) is None  # the system refuses
    unlock(handle)
    with pytest.raises(OSError, match="Bad file descriptor"):
        lock(handle)
    monkeypatch.setattr(processes, "fcntl", None)
    assert try_lock(handle) is None
    lock(handle)
    unlock(handle)
