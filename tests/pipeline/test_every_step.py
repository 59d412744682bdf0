"""A job ends at any step that writes to the disk, one after the other, and the next run loses and repeats nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slidejoin.pipeline.file_sink import FileSink
from tests.pipeline.jobs import JOB, expected, pairs, put_all, run

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = 4
SNAPSHOTS = '\nembedded = { snapshot_every = "0 seconds" }'


class Killed(BaseException):
    """Stands for the end of the process."""


class Steps:
    """Lets so many steps happen, and none after them."""

    def __init__(self, most: int) -> None:
        self.done, self.most = 0, most

    def of(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            if str(arguments[0]).endswith(".lock"):
                return step(*arguments, **options)
            if self.done >= self.most:
                raise Killed
            self.done += 1
            return step(*arguments, **options)

        return counted


def closed(sink: FileSink) -> None:
    """Close files, as the end of a process does; it removes nothing."""
    for part in sink._parts.values():
        if part._writer is not None:
            part._writer.close()
        part._file.close()


def ended_after(steps: Steps, monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> bool:
    """Run a job until its steps are used up; tell whether it came to its end before."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", steps.of(os.fsync))
        patch.setattr(Path, "replace", steps.of(Path.replace))
        patch.setattr(Path, "unlink", steps.of(Path.unlink))
        patch.setattr(FileSink, "close", closed)
        try:
            run(folder, text)
        except Killed:
            return False
    return True


@pytest.mark.parametrize("snapshots", ["", SNAPSHOTS])
def test_a_job_that_ends_at_any_step_loses_and_repeats_nothing(
    snapshots: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    text, step, done = JOB + snapshots, 0, False
    put_all(tmp_path, FILES)
    while not done:
        folder = tmp_path / str(step)
        folder.mkdir()
        for name in ("a", "b"):
            (folder / name).symlink_to(tmp_path / name)
        done = ended_after(Steps(step), monkeypatch, folder, text)
        seen = pairs(folder)
        assert len(seen) == len(set(seen)), step
        assert set(seen) <= set(expected(FILES)), step
        run(folder, text)
        assert pairs(folder) == expected(FILES), step
        assert not list(folder.rglob(".slidejoin-*")), step
        step += 1 if step < 30 else 3
    assert step > 30


def test_a_job_that_ends_again_and_again_comes_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Each run does a few steps more than what a run needs to begin."""
    put_all(tmp_path, FILES)
    runs = 1
    while not ended_after(Steps(13), monkeypatch, tmp_path, JOB + SNAPSHOTS):
        runs += 1
        seen = pairs(tmp_path)
        assert len(seen) == len(set(seen))
        assert runs < 100
    assert runs > 2
    assert pairs(tmp_path) == expected(FILES)
