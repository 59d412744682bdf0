from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from slidejoin.cli.run_folder import LOCK, remove_abandoned


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the machine's own, for this test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def dead() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def left_by(place: Path, pid: int, name: str = "x1") -> Path:
    folder = place / f"slidejoin-run-{pid}-{name}"
    folder.mkdir(mode=0o700)
    (folder / LOCK).touch()
    (folder / "local").mkdir()
    (folder / "local" / "rows").write_bytes(b"rows")
    return folder


KILLED = """
import os, signal
from slidejoin.cli.run_folder import run_folder
folder = run_folder()
folder.folder("local")
print(folder.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

FAILED = """
from slidejoin.cli.run_folder import run_folder
folder = run_folder()
folder.folder("local")
folder.keep(folder.new_log()[1])
folder.new_log()
print(folder.path)
"""


def outcome(code: str) -> Path:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return Path(done.stdout.strip())


def test_the_folder_of_a_killed_process_is_removed_by_the_next_one(place: Path):
    killed = outcome(KILLED)
    assert killed.parent == place
    assert killed.exists()
    assert killed.stat().st_mode & 0o777 == 0o700
    other = outcome(KILLED)
    assert not killed.exists()
    assert remove_abandoned() == 1
    assert not other.exists()


def test_a_failed_process_leaves_its_log_alone_until_the_next_one(place: Path):
    failed = outcome(FAILED)
    assert sorted(entry.suffix for entry in failed.iterdir()) == ["", ".log"]
    assert remove_abandoned() == 1
    assert list(place.iterdir()) == []


def test_a_process_that_ends_well_leaves_nothing(place: Path):
    folder = outcome(FAILED.replace("folder.keep(folder.new_log()[1])", ""))
    assert folder.parent == place
    assert list(place.iterdir()) == []


def test_what_is_not_ours_or_still_in_use_is_left_alone(place: Path):
    pid = dead()
    left_by(place, os.getpid())
    left_by(place, pid, "a-b")
    (place / f"slidejoin-run-{pid}").mkdir()
    (place / f"my-slidejoin-run-{pid}-x").mkdir()
    left_by(place, pid, "open").chmod(0o755)
    elsewhere = left_by(place, os.getpid(), "elsewhere")
    (place / f"slidejoin-run-{pid}-link").symlink_to(elsewhere)
    linked = left_by(place, pid, "linked")
    (linked / LOCK).unlink()
    (linked / LOCK).symlink_to(elsewhere / LOCK)
    (left_by(place, pid, "young") / LOCK).unlink()
    held = left_by(place, pid, "held")
    if os.getuid() == 0:
        os.chown(left_by(place, pid, "foreign"), 65534, 65534)
    before = sorted(place.rglob("*"))
    with (held / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert remove_abandoned() == 0
    assert sorted(place.rglob("*")) == before
    assert remove_abandoned() == 1
    assert not held.exists()


def test_a_link_within_is_not_followed(place: Path, tmp_path_factory: pytest.TempPathFactory):
    kept = tmp_path_factory.mktemp("kept")
    (kept / "rows").touch()
    folder = left_by(place, dead())
    (folder / "local" / "link").symlink_to(kept)
    assert remove_abandoned() == 1
    assert (kept / "rows").exists()


def test_a_folder_without_a_lock_is_removed_once_it_is_old(place: Path):
    folder = left_by(place, dead())
    (folder / LOCK).unlink()
    os.utime(folder, (time.time() - 100,) * 2)
    assert remove_abandoned() == 1
