"""The measurement of what counting a push takes: pushes with and without the count do the same."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import push_times
from benchmarks.command import main
from slidejoin.api.stream_join import StreamJoin
from slidejoin.errors import ConfigError
from slidejoin.spec.window import CountWindow


def test_it_prints_both_and_their_ratio(capsys):
    assert main(push_times.run, ["--pushes", "40", "--window", "256", "--push", "16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "case push_times: pushes of 16 rows, windows of 256, in turns, 20 stretches"
    assert [line.partition("  ")[0] for line in lines[1:5]] == [
        "with the count", "without", "ratio", "the count alone",
    ]  # fmt: skip
    assert main(push_times.run, ["--pushes", "40", "--window", "256", "--push", "16", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ratio"]["count"] == 20
    assert 0 < report["alone"]["median"] < report["plain"]["median"]


def test_a_push_without_the_count_is_the_same_push():
    random = np.random.default_rng(1)
    one, two = (StreamJoin(on="l.a = r.b", window=CountWindow(50)) for _ in range(2))
    for _ in range(5):
        tables = push_times._tables(random, 40)
        assert push_times._plain(one, *tables).equals(two.push(*tables))
    assert sum(one._push_times.counted()[0]) == 0
    assert sum(two._push_times.counted()[0]) == 5


@pytest.mark.parametrize("options", [{"push": 1}, {"pushes": 3}, {"window": 0}])
def test_impossible_options_are_refused(options: dict[str, int]):
    with pytest.raises(ConfigError, match="expected push of at least 2"):
        push_times.run(**options)
