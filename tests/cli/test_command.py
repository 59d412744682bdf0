from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

import slidejoin
from slidejoin.cli import main

if TYPE_CHECKING:
    from pathlib import Path

BAD = '[sources.a]\nformat = "parquet"\npath = "a"\n[join]\nself_join = "a"\n'


def call(*arguments: str) -> int:
    """Run the command in this process and return its exit status."""
    with pytest.raises(SystemExit) as left:
        main(arguments)
    code = left.value.code
    return code if isinstance(code, int) else 0


def test_version(capsys):
    assert call("--version") == 0
    assert capsys.readouterr().out == f"slidejoin {slidejoin.__version__}\n"


def test_version_loads_nothing_slow():
    code = """
import sys
from slidejoin.cli import main
try:
    main(["--version"])
except SystemExit as left:
    assert left.code == 0
print(sorted({"typer", "rich", "numba", "numpy", "pyarrow", "pyspark", "sqlglot"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"slidejoin {slidejoin.__version__}", "[]"]


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_a_missing_extra_is_named(package: str, monkeypatch: pytest.MonkeyPatch, capsys):
    for name in [name for name in sys.modules if name.startswith("slidejoin.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.progress", None)
    monkeypatch.setitem(sys.modules, f"{package}.console", None)
    assert call("run", "job.toml") == 1
    assert f'{package} is not installed.\nInstall them: pip install "slidejoin[cli]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rum",), "No such command 'rum'"),
        (("run",), "Missing argument"),
        (("run", "job.toml", "--jsn"), "No such option: --jsn"),
        (("bench", "spark", "--push", "1"), "push: got 1, expected at least 2"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], message: str, capsys):
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_help_lists_the_commands(capsys):
    assert call("--help") == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in ("run", "explain", "init", "state", "bench", "--version"))


@pytest.mark.parametrize(
    "command", ["", "run", "explain", "init", "state", "bench", "bench tasks", "bench spark", "compile"]
)
@pytest.mark.parametrize("columns", [80, 110])
def test_help_is_not_cut(command: str, columns: int, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert call(*command.split(), "--help") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) <= columns
    assert not any(line.endswith("...") for line in lines[1:])


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_wrong_job_file_is_bad_usage(command: str, tmp_path: Path, capsys):
    file = tmp_path / "job.toml"
    file.write_text(BAD)
    assert call(command, str(file)) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"slidejoin: {file}: join.on: missing; expected an SQL condition")
    assert "Traceback" not in captured.err


def test_debug_shows_the_traceback(tmp_path: Path, capsys):
    file = tmp_path / "job.toml"
    file.write_text(BAD)
    assert call("run", str(file), "--debug") == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_machines_hear_of_a_failure_too(tmp_path: Path, capsys):
    assert call("run", str(tmp_path / "nothing.toml"), "--json") == 2
    captured = capsys.readouterr()
    event = json.loads(captured.out)
    assert event["event"] == "failed"
    assert "nothing.toml: cannot be read: No such file or directory" in event["error"]
    assert event["error"] in captured.err


def test_an_unexpected_error_is_told_without_traceback(monkeypatch: pytest.MonkeyPatch, capsys):
    def broken(*_: Any) -> None:
        message = "wires crossed"
        raise RuntimeError(message)

    monkeypatch.setattr(import_module("slidejoin.cli.run_file"), "read_job", broken)
    assert call("run", "job.toml") == 1
    captured = capsys.readouterr()
    assert captured.err == "slidejoin: unexpected RuntimeError: wires crossed (--debug shows where)\n"


@pytest.mark.parametrize(("sink", "kind"), [("console", "PlainReporter"), ("noop", "TerminalReporter")])
def test_rows_on_the_console_leave_no_room_for_a_bar(
    sink: str, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
):
    told: list[Any] = []
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(import_module("slidejoin.cli.running"), "run_job", lambda _, __, to, **___: told.append(to))
    file = tmp_path / "job.toml"
    window = 'window = { length = "1 s", on = "ts" }'
    file.write_text(f'engine = "spark"\n{BAD}on = "l.a < r.a"\n{window}\n[sink]\nformat = "{sink}"\n')
    assert call("run", str(file)) == 0
    assert [type(listener.inner).__name__ for listener in told] == [kind]
    assert capsys.readouterr().err == ""
