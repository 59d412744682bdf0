"""The join that a job's checkpoint belongs to, in a file beside Spark's own, so that another one is noticed at once.

The state of a join has this too, and is what decides; but only a micro-batch with rows reads it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from slidejoin.cli.paths import local_path
from slidejoin.cli.written import printable
from slidejoin.errors import ConfigError
from slidejoin.predicate import to_sql

if TYPE_CHECKING:
    from pathlib import Path

    from slidejoin.cli.job import Job
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["check_earlier_join", "keep_join"]

FILE = ".slidejoin.json"
FORMAT = 1
MOST_BYTES = 1 << 20


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
    """Note the join beside a checkpoint: a `new` one, or one whose state has just been used by it."""
    folder = _folder(job)
    if folder is None or (new and _has_state(folder)) or (not new and _kept(folder) is not None):
        return
    with suppress(OSError):  # without it Spark still compares
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": FORMAT, "join": _described(job, spec)})
        made = folder / f"{FILE}.new"
        made.write_text(text, encoding="utf-8")
        made.replace(folder / FILE)


def _folder(job: Job) -> Path | None:
    return local_path(job.sink.checkpoint, job.session) if job.stream and job.sink.checkpoint else None


def _has_state(folder: Path) -> bool:
    """Tell whether a micro-batch has ended."""
    commits = folder / "commits"
    return commits.is_dir() and any(file.name.isdecimal() for file in commits.iterdir())


def _kept(folder: Path) -> dict[str, Any] | None:
    try:
        with (folder / FILE).open("rb") as file:
            found = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("join"), dict):
        return None
    return dict(found["join"])


def _described(job: Job, spec: JoinSpec) -> dict[str, Any]:
    """Return what must be the same, by the keys of the job file; the state compares more."""
    join = job.join
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
    return made


def _folded(value: object) -> object:
    """Return a value for comparison: Spark compares names without case."""
    return value.casefold() if isinstance(value, str) else value


def _shown(value: object) -> str:
    return printable(str(value)) if isinstance(value, str) else str(value).lower()
