from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from slidejoin.bench import CASES, throughput
from slidejoin.bench.machine import MemorySpeed
from slidejoin.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ("--window", "512", "--push", "128", "--rows", "1024", "--threads", "1")


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "measure_memory", lambda _threads: (MemorySpeed(1, 1e8, 1e10),))


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["bench", *arguments])
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
    assert "--match-rate" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bnad",), "Did you mean 'band'?"),
        (("startup", "--window", "5"), "bench startup: takes no window"),
        (("band", "--distribution", "gausian"), "Did you mean 'gaussian'?"),
        (("band", "--window", "many"), "expected a whole number or a power such as 2^20"),
        (("machine", "--plot", "a.png"), "plot: the case machine has no picture"),
        (("band", "--plot", "a.txt"), "expected a file that ends in .png, .svg or .pdf"),
        (("band", "--plot", "no/such/folder/a.png"), "does not exist; make it first"),
    ],
)
def test_wrong_usage_leaves_2_and_says_why(arguments: tuple[str, ...], message: str, capsys):
    pytest.importorskip("matplotlib")
    assert call(*arguments) == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", "").split())


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
