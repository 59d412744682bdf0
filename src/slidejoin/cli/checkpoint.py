"""Two files that a job adds to its checkpoint: a lock, and the join whose state the checkpoint has.

One run of a job holds the lock at a time, and its Java process holds it too. The join is written down so that a job
with another join is refused at once. The state has the join too, and is what decides, but
only a micro-batch with rows reads it.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, suppress
from threading import Event
from typing import TYPE_CHECKING, Any

from slidejoin.cli.paths import local_path
from slidejoin.cli.stopping import Stopped
from slidejoin.cli.written import printable
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.pipeline.checkpoint import is_embedded
from slidejoin.predicate import to_sql
from slidejoin.runtime.processes import try_lock, unlock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from slidejoin.cli.job import Job
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["check_earlier_join", "keep_join", "locked"]

LOCK_FILE = ".slidejoin.lock"
JOIN_FILE = ".slidejoin.json"

FORMAT = 1
MOST_BYTES = 1 << 20
"""Of the file with the join."""

PATIENCE = 20.0
"""Seconds to wait for the Java process of a run that was killed, which ends on its own in a second or two."""

LOOK = 0.1
"""Seconds between two tries."""


@contextmanager
def locked(folder: Path | None, stop: Event | None = None, patience: float = PATIENCE) -> Iterator[int | None]:
    """Hold the lock of a checkpoint, and yield its descriptor for the Java process; None where there can be no lock.

    Parameters
    ----------
    folder : Path or None
        The checkpoint; None if it is not on this machine.
    stop : threading.Event, optional
        Set, by a signal, when the command is to stop.

    Raises
    ------
    SlideJoinError
        If another process holds it.
    Stopped
        If a stop is requested while it waits for the lock.
    """
    handle, new = None, folder is not None and not folder.exists()
    if folder is not None:
        with suppress(OSError):  # which Spark will say
            folder.mkdir(parents=True, exist_ok=True)
            handle = _lock(folder, stop or Event(), patience)
    if handle is None or folder is None:
        yield None
        return
    try:
        yield handle
    finally:
        if new and not (folder / "metadata").exists() and not is_embedded(folder):  # the job did not begin
            with suppress(OSError):
                (folder / LOCK_FILE).unlink()  # while it is locked: who waits for it sees that it is gone
                folder.rmdir()
        # For the Java process too, which may serve another job.
        unlock(handle)
        os.close(handle)


def _lock(folder: Path, stop: Event, patience: float) -> int:
    """Return a descriptor that holds the lock on the checkpoint's file."""
    deadline = time.monotonic() + patience
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another run has just removed the folder
            handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            if _locks(handle, folder):
                return handle
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
            os.close(handle)
            if time.monotonic() > deadline:
                msg = (
                    f"sink.checkpoint: {folder} is in use by another run of this job"
                    f"{f' (process {holder})' if holder.isdecimal() else ''}; stop that one first."
                )
                raise SlideJoinError(msg)
        if stop.wait(LOOK):
            raise Stopped


def _locks(handle: int, folder: Path) -> bool:
    """Lock a file, and tell whether that is the checkpoint's lock: its file may have been removed meanwhile."""
    taken = try_lock(handle)
    if not taken:
        return taken is None  # there are no locks here
    try:
        same = os.path.samestat(os.fstat(handle), (folder / LOCK_FILE).stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
    if same:
        os.truncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return same


def check_earlier_join(job: Job, spec: JoinSpec) -> None:
    """Refuse a job whose checkpoint has the state of another join.

    Raises
    ------
    ConfigError
        If that is so; it names the keys that differ.
    """
    folder = _folder(job)
    if folder is None or not _has_state(folder):
        return
    was, now = _kept(folder), _described(job, spec)
    if was is None:
        return
    differing = [key for key, value in now.items() if key in was and _folded(was[key]) != _folded(value)]
    if differing:
        said = "; ".join(f"{key} was {_shown(was[key])} and is now {_shown(now[key])}" for key in differing)
        msg = (
            f"sink.checkpoint: {folder} has the state of another join: {said}. Write in the job file what it was, or "
            "give another checkpoint and another path for the results."
        )
        raise ConfigError(msg)


def keep_join(job: Job, spec: JoinSpec, *, new: bool) -> None:
    """Write the join to the checkpoint: to a `new` one, or to one whose state the join has just used."""
    folder = _folder(job)
    if folder is None or (new and _has_state(folder)) or (not new and _kept(folder) is not None):
        return
    with suppress(OSError):  # without it Spark still compares
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": FORMAT, "join": _described(job, spec)})
        made = folder / f"{JOIN_FILE}.new"
        made.write_text(text, encoding="utf-8")
        made.replace(folder / JOIN_FILE)


def _folder(job: Job) -> Path | None:
    return local_path(job.sink.checkpoint, job.session) if job.stream and job.sink.checkpoint else None


def _has_state(folder: Path) -> bool:
    """Tell whether a micro-batch has ended."""
    commits = folder / "commits"
    return commits.is_dir() and any(file.name.isdecimal() for file in commits.iterdir())


def _kept(folder: Path) -> dict[str, Any] | None:
    try:
        with (folder / JOIN_FILE).open("rb") as file:
            written = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(written, dict) or written.get("format") != FORMAT or not isinstance(written.get("join"), dict):
        return None
    return dict(written["join"])


def _described(job: Job, spec: JoinSpec) -> dict[str, Any]:
    """Return what must be the same, by the keys of the job file; the state compares more."""
    join = job.join
    if not join.window.expires:
        return {"join.window": "none: a stream with a table"}  # which has no state
    made: dict[str, Any] = {
        "join.on": to_sql(spec.on, ("l", "r")),
        "join.window": repr(join.window),
        "join.window.order_by": join.order_by,
        "join.how": join.how,
        "join.self_join": join.self_join,
    }
    if isinstance(join.output, str):
        made["join.output"] = join.output
    if join.partitions is not None:
        made["join.partitions"] = join.partitions
    if join.pair_id is not None:
        made["join.pair_id"] = "ids of pairs"  # under whatever name
    return made


def _folded(value: object) -> object:
    """Return a value for comparison: Spark compares names without case."""
    return value.casefold() if isinstance(value, str) else value


def _shown(value: object) -> str:
    return printable(str(value)) if isinstance(value, str) else str(value).lower()
