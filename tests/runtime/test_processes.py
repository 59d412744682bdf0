"""Processes that slidejoin starts take no modules from the working directory, and have the flags of this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import slidejoin
from slidejoin.runtime.processes import python_command

if TYPE_CHECKING:
    import pytest

WITHIN = """
import sys
sys.path.append("")  # as at Python's prompt, where it comes first
from slidejoin.runtime.processes import python_command
import subprocess
program = "import json, random, slidejoin; print(json.__file__, random.__file__, slidejoin.__file__)"
print(subprocess.run(python_command(program), capture_output=True, text=True, check=True).stdout)
"""


def test_modules_of_the_working_directory_are_not_imported(tmp_path: Path) -> None:
    for name in ("json.py", "random.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the working directory')")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-P", "-c", WITHIN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in done.stdout
    assert str(slidejoin.__file__) in done.stdout


def test_arguments_and_flags_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import json; print(json.dumps([arguments, sys.flags.safe_path, sys.flags.optimize]))"
    monkeypatch.setattr(subprocess, "_args_from_interpreter_flags", lambda: ["-O"])
    done = subprocess.run(
        python_command(program, "a b", None, ["c", 1]), capture_output=True, text=True, check=True, env=os.environ
    )
    assert json.loads(done.stdout) == [["a b", None, ["c", 1]], True, 1]


def test_relative_folders_are_no_folders_of_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "here", *sys.path])
    folders = json.loads(python_command("")[-2])
    assert all(Path(folder).is_absolute() for folder in folders)
