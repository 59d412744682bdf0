from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.cases import throughput
from benchmarks.cases.run import CASES, command
from slidejoin.bench.machine import MemorySpeed

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ("--window", "512", "--push", "128", "--rows", "1024", "--threads", "1")


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "measure_memory", lambda _threads: (MemorySpeed(1, 1e8, 1e10),))


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        sys.exit(command(arguments))
    assert left.value.code is None or isinstance(left.value.code, int)
    return left.value.code or 0


def test_json_is_one_document(capsys):
    assert call("band", *SMALL, "--no-baselines", "--json") == 0
    values = json.loads(capsys.readouterr().out)
    assert values["case"] == "band"
    assert values["options"]["window"] == 512
    assert values["rows_per_second"]["median"] > 0
    assert values["rows_per_second"]["count"] == 3
    assert values["environment"]["python"]


def test_numbers_may_be_powers(capsys):
    assert call("equi", "--window", "2^9", "--push", "2^7", "--rows", "2^10", "--no-baselines", "--runs", "1") == 0
    assert "windows of 512 rows a side, 128 rows a push" in capsys.readouterr().out


def test_help_lists_the_cases(capsys):
    assert call("--help") == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in CASES)
    assert call() == 2
    assert capsys.readouterr().err == shown


@pytest.mark.parametrize("case", CASES)
def test_every_case_has_help(case: str, capsys):
    assert call(case, "--help") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: python -m benchmarks.cases {case} ")
    assert "--operation" not in shown
    assert "--json" in shown
    assert ("--match-rate" in shown) == (case not in {"terms", "multi", "inequality", "topologies", "startup"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bnad",), "Did you mean 'band'?"),
        (("machine",), "slidejoin bench machine"),
        (("startup", "--window", "5"), "unrecognized arguments: --window 5"),
        (("band", "--windows", "5,6"), "unrecognized arguments: --windows 5,6"),
        (("terms", "--push", "5"), "unrecognized arguments: --push 5"),
        (("band", "--distribution", "gausian"), "Did you mean 'gaussian'?"),
        (("band", "--window", "many"), "expected a whole number or a power such as 2^20"),
        (("startup", "--plot", "a.png"), "plot: the case startup has no picture"),
        (("band", "--plot", "a.txt"), "expected a file that ends in .png, .svg or .pdf"),
        (("band", "--plot", "no/such/folder/a.png"), "does not exist; make it first"),
    ],
)
def test_wrong_usage_leaves_2_and_says_why(arguments: tuple[str, ...], message: str, capsys):
    pytest.importorskip("matplotlib")
    assert call(*arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("band", *SMALL, "--runs", "1"),
        ("latency", "--window", "512", "--push", "16", "--rows", "2048", "--threads", "1"),
        ("scaling", "--windows", "256,2^9", "--push", "128", "--rows", "1024"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_pictures_are_drawn(arguments: tuple[str, ...], tmp_path: Path, capsys):
    pytest.importorskip("matplotlib")
    file = tmp_path / "picture.png"
    assert call(*arguments, "--plot", str(file)) == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    assert f"case {arguments[0]}" in capsys.readouterr().out
