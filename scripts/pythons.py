"""The Pythons of this machine that slidejoin supports, and a trial of a wheel on one of them.

A trial is what a user does: an empty environment, ``pip install`` of the wheel alone, a join of two batches, then the
extra `cli` and its command.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parent.parent
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
MAKES_ENVIRONMENTS = "import ensurepip, platform, venv; print(platform.python_version())"
SETTINGS_OF_PYTHON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True)
class Interpreter:
    """A Python of this machine: its program, and its whole version."""

    path: Path
    version: str


@dataclass(frozen=True)
class Trial:
    """What became of the wheel on one Python: seconds of each step that was done, and what went wrong, if anything."""

    seconds: dict[str, float]
    problem: str = ""


def supported(pyproject: Path = ROOT / "pyproject.toml") -> list[str]:
    """Return the versions of Python that the classifiers name, such as ``"3.11"``."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    named = (CLASSIFIER.fullmatch(text) for text in project["classifiers"])
    return [found[1] for found in named if found]


def interpreter(version: str) -> Interpreter | None:
    """Return the Python of a version, such as ``"3.12"``, or None where this machine has none that works.

    It is looked for on the path, among those of pyenv, and among those that uv knows. A shim of pyenv that leads to
    nothing is passed over.
    """
    on_path = shutil.which(f"python{version}")
    if on_path and (found := _working(Path(on_path), version)):
        return found
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"), reverse=True):
        if found := _working(path, version):
            return found
    uv = [sys.executable, "-m", "uv", "python", "find", "--no-python-downloads", "--no-project", "--system", version]
    said = subprocess.run(uv, capture_output=True, text=True, check=False)  # noqa: S603 - uv
    return _working(Path(said.stdout.strip()), version) if said.returncode == 0 else None


def _working(path: Path, version: str) -> Interpreter | None:
    """Return the Python at a path if it is of that version and makes virtual environments."""
    command = [str(path), "-I", "-c", MAKES_ENVIRONMENTS]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a Python
    except OSError:
        return None
    whole = said.stdout.strip()
    return Interpreter(path, whole) if said.returncode == 0 and whole.startswith(f"{version}.") else None


def versions_file(lock: Path, into: Path) -> Path:
    """Write the locked versions without their hashes, since a wheel that was just built has none, and return where."""
    lines = (line for line in lock.read_text(encoding="utf-8").splitlines() if "--hash=" not in line)
    into.write_text("".join(line.removesuffix("\\").rstrip() + "\n" for line in lines), encoding="utf-8")
    return into


def try_wheel(wheel: Path, python: Interpreter, versions: Path, folder: Path) -> Trial:
    """Install a wheel alone in an empty environment, join two batches, and call the command.

    Parameters
    ----------
    wheel : Path
        What is tried.
    python : Interpreter
        On what.
    versions : Path
        Locked versions, as constraints for pip.
    folder : Path
        Where the environment goes; it is made. Programs run in it, away from the sources.

    Returns
    -------
    Trial
        It ends at the first step that fails.
    """
    folder.mkdir(parents=True)
    own = folder / "venv" / "bin"
    pip = [str(own / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    pip += ["--constraint", str(versions)]
    version = wheel.name.split("-")[1]
    with_command = f"slidejoin[cli] @ {wheel.as_uri()}"
    steps = {
        "install": ([[str(python.path), "-m", "venv", str(folder / "venv")], [*pip, str(wheel)]], ""),
        "join": ([[str(own / "python"), "-I", str(ROOT / "scripts" / "wheel_join.py")]], f"slidejoin {version} "),
        "command": ([[*pip, with_command], [str(own / "slidejoin"), "--version"]], f"slidejoin {version}\n"),
    }
    settings = {name: value for name, value in os.environ.items() if name not in SETTINGS_OF_PYTHON}
    # All kernels of the join are compiled before it: no process stays behind that writes into the folder.
    settings |= {"SLIDEJOIN_COMPILE": "now", "NUMBA_CACHE_DIR": str(folder / "numba")}
    seconds: dict[str, float] = {}
    for name, (commands, expected) in steps.items():
        start, said = monotonic(), ""
        for command in commands:
            done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode:
                return Trial(seconds, f"{name}: {' '.join(command)}\n{done.stdout}{done.stderr}")
            said = done.stdout
        if not said.startswith(expected):
            return Trial(seconds, f"{name}: printed {said!r}, expected {expected!r} in front")
        seconds[name] = monotonic() - start
    return Trial(seconds)
