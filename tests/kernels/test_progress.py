"""What is said about compiling: an estimate by the load, and by the speed of the first kernels."""

from __future__ import annotations

import pytest

from slidejoin.jit import progress
from slidejoin.jit.progress import EACH, QUIET, Progress, expected


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setenv(QUIET, "0")
    monkeypatch.setattr(progress, "perf_counter", lambda: now[0])
    monkeypatch.setattr(progress, "cores", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (1.0, 0.0, 0.0))
    return now


@pytest.mark.parametrize(("load", "seconds"), [(0.0, 10), (2.0, 10), (6.0, 30), (900.0, 80)])
def test_other_work_makes_it_longer(load: float, seconds: int, clock: list[float], monkeypatch: pytest.MonkeyPatch):
    assert len(clock) == 1
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    assert expected(10) == seconds


def test_a_slow_machine_is_told_once_it_is_known(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    shown: list[str] = []
    monkeypatch.setattr(Progress, "_show", lambda _, text: shown.append(text))
    told = Progress()
    first = round(EACH * 100 / 2)
    with told.many(100, 2):
        for kernels, seconds in ((2, 4.0), (10, 10.0), (50, 50.0), (100, 100.0)):
            clock[0] = 100 + seconds
            told.done(kernels)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"slidejoin: compiling 100 kernels, once per installation, about {first} s",
        "slidejoin: compiling is slower here: 10 of 100 kernels after 10 s, about 90 s more",
    ]
    assert [line.partition("] ")[2] for line in shown] == [
        "0 of 100, 0 s",
        "2 of 100, 4 s",
        "10 of 100, 10 s, about 90 s more",
        "50 of 100, 50 s, about 50 s more",
        "100 of 100, 100 s",
    ]


def test_a_machine_as_expected_is_not(clock: list[float], capsys: pytest.CaptureFixture[str]):
    told = Progress()
    with told.many(100, 2):
        clock[0] += 2
        told.done(10)
    assert "slower" not in capsys.readouterr().err
