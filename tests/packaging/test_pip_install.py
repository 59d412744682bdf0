"""What `make` says while it installs."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "pip_install.py"

PIP = """\
import sys, time
for line in {lines!r}:
    print(line, flush=True)
print("WARNING: about the machine's settings", file=sys.stderr)
sys.exit({status})
"""
LINES = [
    "Collecting numpy==2.4.6 (from -r requirements/dev.lock (line 1026))",
    "  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl.metadata (6.6 kB)",
    "Collecting pyspark==4.3.0 (from -r requirements/dev.lock (line 1200))",
    "  Downloading https://host/pyspark-4.3.0.tar.gz (455.3 MB)",
    "Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl (16.8 MB)",
    "  Preparing metadata (pyproject.toml): started",
    "Processing /opt/files/pyspark-client-1.0.tar.gz (from -r requirements/dev.lock (line 3))",
    "Downloading six-1.17.0-py2.py3-none-any.whl (11 kB)",
    "  Building wheel for pyspark (pyproject.toml): started",
    "  Building wheel for pyspark (pyproject.toml): finished with status 'done'",
    "Installing collected packages: six, numpy, pyspark",
]


def run(tmp_path: Path, status: int) -> subprocess.CompletedProcess[str]:
    """Install with a pip that says these lines and ends with this status."""
    (tmp_path / "pip.py").write_text(PIP.format(lines=LINES, status=status))
    (tmp_path / "pip_install.py").symlink_to(SCRIPT)
    command = [sys.executable, "pip_install.py", "all of it", "-r", "dev.lock"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_steps_and_large_downloads_have_a_line_each(tmp_path: Path):
    done = run(tmp_path, 0)
    said = [line.rpartition(", ")[0] if line.endswith(" s") else line for line in done.stdout.splitlines()]
    assert said == [
        "installing all of it",
        "  package 2, downloading pyspark-4.3.0.tar.gz (455.3 MB)",
        "  package 2, downloading numpy-2.4.6 (16.8 MB)",
        "  building pyspark",
        "  unpacking 3 packages",
        "  done",
    ]
    assert (done.returncode, done.stderr) == (0, "")


def test_what_takes_long_is_named_at_every_moment():
    spec = spec_from_file_location("pip_install", SCRIPT)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    steps = module.Steps()
    seen = [steps.now]
    for line in LINES:
        steps.read(line)
        seen.append(steps.now)
    assert [text for text, before in zip(seen[1:], seen, strict=False) if text != before] == [
        "package 1, numpy==2.4.6",
        "package 2, pyspark==4.3.0",
        "package 2, downloading pyspark-4.3.0.tar.gz (455.3 MB)",
        "package 2, downloading numpy-2.4.6 (16.8 MB)",
        "package 2, preparing metadata (pyproject.toml)",
        "package 3, pyspark-client-1.0.tar.gz",
        "package 3, downloading six-1.17.0 (11 kB)",
        "building pyspark",
        "unpacking 3 packages",
    ]


@pytest.mark.parametrize("status", [1, 2])
def test_all_is_said_if_pip_fails(status: int, tmp_path: Path):
    done = run(tmp_path, status)
    assert done.returncode == status
    assert set(LINES) | {"WARNING: about the machine's settings"} < set(done.stderr.splitlines())
    assert done.stderr.splitlines()[-1].startswith(f"pip failed with status {status} after ")
