"""What `make` installs with: uv, from where pip would take packages, and pip where uv fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "install.py"

TOOL = """\
import json, os, sys
if sys.argv[-2:] == ["config", "list"]:
    print({listed!r})
    sys.exit()
seen = {{"tool": {tool!r}, "arguments": sys.argv[1:], "environment": dict(os.environ)}}
with open("seen.jsonl", "a") as file:
    file.write(json.dumps(seen) + "\\n")
print("what {tool} says of itself", file=sys.stderr)
sys.exit({status})
"""


def run(
    folder: Path, uv: int, pip: int = 0, listed: str = "", **settings: str
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Install with a uv and a pip that end with these statuses; return what was said, and the calls of both."""
    for tool, status in (("uv", uv), ("pip", pip)):
        (folder / f"{tool}.py").write_text(TOOL.format(tool=tool, status=status, listed=listed))
    (folder / "install.py").symlink_to(SCRIPT)
    command = [sys.executable, "install.py", "all of it", "-r", "dev.lock"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_", "SSL_"))}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=clean | settings)
    return done, [json.loads(line) for line in (folder / "seen.jsonl").read_text().splitlines()]


def test_uv_takes_packages_from_where_pip_would(tmp_path: Path) -> None:
    listed = "global.index-url='https://a/simple'\nglobal.extra-index-url='\\nhttps://b/simple\\nhttps://c/simple'"
    done, (call,) = run(tmp_path, 0, listed=listed)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "installing all of it"
    assert call["tool"] == "uv"
    assert call["arguments"][-2:] == ["-r", "dev.lock"]
    assert call["environment"]["UV_DEFAULT_INDEX"] == "https://a/simple"
    assert call["environment"]["UV_INDEX"] == "https://b/simple https://c/simple"
    assert call["environment"]["UV_INDEX_STRATEGY"] == "unsafe-best-match"


def test_settings_of_uv_itself_go_before(tmp_path: Path) -> None:
    listed = "global.index-url='https://a/simple'"
    _, (call,) = run(tmp_path, 0, listed=listed, UV_DEFAULT_INDEX="https://mine/simple")
    assert call["environment"]["UV_DEFAULT_INDEX"] == "https://mine/simple"


@pytest.mark.parametrize("status", [0, 1])
def test_pip_installs_where_uv_fails(status: int, tmp_path: Path) -> None:
    done, calls = run(tmp_path, 2, status)
    assert [call["tool"] for call in calls] == ["uv", "pip"]
    assert calls[1]["arguments"][-2:] == ["-r", "dev.lock"]
    assert done.returncode == status
    assert "uv failed; pip tries the same" in done.stdout
    assert "what uv says of itself" in done.stderr
    assert done.stdout.splitlines()[-1].startswith("  failed, " if status else "  done, ")


@pytest.mark.parametrize(
    ("listed", "of_uv"),
    [
        ("", {}),
        ("global.pre='true'\nfreeze.index-url='https://a/simple'", {}),
        (
            "install.index-url='https://b/simple'\nglobal.index-url='https://a/simple'",
            {"UV_DEFAULT_INDEX": "https://b/simple"},
        ),
        (
            "global.cert='/a.pem'\n:env:.cert='/b.pem'\nglobal.find-links='/x /y'\nglobal.proxy='http://p:1'",
            {"SSL_CERT_FILE": "/b.pem", "UV_FIND_LINKS": "/x,/y", "ALL_PROXY": "http://p:1"},
        ),
    ],
)
def test_settings_of_pip_are_translated(listed: str, of_uv: dict[str, str]) -> None:
    spec = spec_from_file_location("install", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.translated(listed) == of_uv
