"""The tutorial with a broker runs as it is written: its programs, job files and commands, on a real broker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slidejoin.bench.broker import BROKER
from tests.brokers import CACHE, Broker, jars
from tests.packaging.examples import BLOCK, ROOT, lines

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.spark  # a broker needs Java

PAGE, LIVE = ROOT / "docs" / "tutorial-kafka.md", "## 6. Live"
ADDRESS = "localhost:9092"
FILE = re.compile(r"`(\w+\.(?:py|toml))`")
ELSEWHERE = ("pip ", "docker ")
"""Commands for what the environment of the tests has already."""
PATIENCE = 60.0


@dataclass(frozen=True)
class Step:
    """Files that the page shows, the commands behind them, and what these print together, if the page shows it."""

    files: dict[str, str]
    commands: tuple[str, ...]
    shown: str | None


def steps_of(text: str) -> Iterator[Step]:
    """Yield the steps of a page; the paragraph in front of a file names it first."""
    blocks = [(block["language"].strip(), block["body"], block.start(), block.end()) for block in BLOCK.finditer(text)]
    files: dict[str, str] = {}
    for place, (language, body, start, end) in enumerate(blocks):
        if language in {"py", "toml"}:
            named = FILE.search(text[:start].rstrip().rpartition("\n\n")[2])
            assert named is not None, f"nothing names this file: {body[:60]}"
            files[named[1]] = body
        elif language == "console":
            behind = blocks[place + 1] if place + 1 < len(blocks) else None
            adjacent = behind is not None and behind[0] == "text" and not text[end : behind[2]].strip()
            commands = tuple(line.removeprefix("$ ") for line in body.splitlines())
            yield Step(files, commands, behind[1] if behind is not None and adjacent else None)
            files = {}


class Folder:
    """The folder of somebody who follows the page, with a broker at another address."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self._folder, self._broker = folder, broker
        programs = str(Path(sys.executable).parent)
        self._environment = os.environ | {"PATH": os.pathsep.join((programs, os.environ["PATH"]))}

    def write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text.replace(ADDRESS, self._broker.address), encoding="utf-8")

    def read(self, name: str) -> str:
        return (self._folder / name).read_text(encoding="utf-8")

    def start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["/bin/bash", "-c", f"exec {command}"],
            cwd=self._folder, env=self._environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["/bin/bash", "-o", "pipefail", "-c", command],
            cwd=self._folder, env=self._environment, text=True, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, f"{command}\n{done.stderr}"
        return done.stdout

    def follow(self, step: Step) -> None:
        for name, text in step.files.items():
            self.write(name, text)
        printed = {command: self.run(command) for command in step.commands if not command.startswith(ELSEWHERE)}
        if step.shown is not None:
            # What the job itself says has times in it: the page shows what the other programs print.
            own = "".join(said for command, said in printed.items() if not command.startswith("slidejoin "))
            assert lines(own) == lines(step.shown), step.commands


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def test_the_tutorial_gives_the_pairs_that_it_shows(broker: Broker, tmp_path: Path):
    before, _, live = PAGE.read_text(encoding="utf-8").partition(LIVE)
    folder, steps = Folder(tmp_path, broker), list(steps_of(before))
    assert len(steps) == 8
    assert sum(step.shown is not None for step in steps) == 5
    for step in steps:
        folder.follow(step)

    (started,), (write, count) = (step.commands for step in steps_of(live))
    pairs = int(folder.run(count))
    job = folder.read("topics.toml")
    schemas = [line for line in lines(job) if line.startswith("schema = ")]
    assert schemas == [line for line in lines(folder.read("job.toml")) if line.startswith("schema = ")]
    assert 'trigger = "available_now"' in job
    folder.write("topics.toml", job.replace('trigger = "available_now"', 'every = "1 second"'))
    running = folder.start(started)
    try:
        folder.run(write)
        deadline = time.monotonic() + PATIENCE
        while int(folder.run(count)) == pairs:
            assert running.poll() is None, running.communicate()
            assert time.monotonic() < deadline, "no pair of the records that were written while the job runs"
        running.send_signal(signal.SIGINT)
        said, wrong = running.communicate(timeout=PATIENCE)
        assert running.returncode == 0, (said, wrong)
    finally:
        running.kill()
        running.wait(PATIENCE)
    checks = steps[-2:]
    assert [step.shown for step in checks] == [None, "True\n"]
    for step in checks:
        folder.follow(step)


def test_the_broker_without_docker_starts_and_ends_at_ctrl_c(tmp_path: Path):
    jars("broker", BROKER)  # skips or fails where Maven is missing
    (tmp_path / "slidejoin").mkdir()
    (tmp_path / "slidejoin" / "kafka").symlink_to(CACHE)
    (step, *_) = (step for step in steps_of(PAGE.read_text(encoding="utf-8")) if "broker.py" in step.files)
    (tmp_path / "broker.py").write_text(step.files["broker.py"], encoding="utf-8")
    running = subprocess.Popen(
        [sys.executable, "broker.py"],
        cwd=tmp_path, env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)}, text=True,
        stdout=subprocess.PIPE, process_group=0,
    )  # fmt: skip
    try:
        assert running.stdout is not None
        assert re.fullmatch(r"127\.0\.0\.1:\d+\n", running.stdout.readline())
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE) == 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)  # its broker too
        running.communicate()
