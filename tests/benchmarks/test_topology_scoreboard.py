from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks import second_thread, topology_turns
from benchmarks.cases import topology_scans
from benchmarks.scoreboard.run import run
from benchmarks.scoreboard.topologies import TOPOLOGY_TARGETS
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.options import TOPOLOGIES


def canned(words: tuple[str, ...]) -> dict[str, Any]:
    if words[2] == "machine":
        return {"memory": [{"lines_per_second": 8e7}, {"lines_per_second": 1.5e8}]}
    if words[2] == "benchmarks.second_thread":
        return {
            "measured": [{"ratio": {"median": 1.7}, "processor": 1.9}, {"ratio": {"median": 1.65}, "processor": 2.0}]
        }
    if words[2] == "benchmarks.topology_turns":
        pairs = [("split_join against the chain, scans", 1.4, 0.4), ("outer order against none, scans", 0.99, None)]
        return {
            "pairs": [
                {"what": what, "ratio": {"median": ratio}, "visiting": met and {"median": met}}
                for what, ratio, met in pairs
            ],
            "choices": [{"ratio": 0.95}, {"ratio": 1.0}],
            "scan_of_bandwidth": 0.7, "scan_of_scalar": 20.0, "shifting": 0.00005,
        }  # fmt: skip
    rows = [
        {
            "what": what, "cores": 28, "source": "simulated",
            "values": {"rows/s": 3000.0 * (1 + number), "visiting ms": 1.0 + number},
        }
        for number, what in enumerate(("handshake_low_latency", "split_join"))
    ]  # fmt: skip
    return {"figures": [{"figure": {"number": number}, "rows": rows} for number in (16, 18)]}


def test_every_row_has_its_figures_and_what_they_reach() -> None:
    table = run(topologies=True, measure=canned)
    assert len(table.rows) == len(TOPOLOGY_TARGETS) == 6
    rows = {row.what.split()[0]: row for row in table.rows}
    assert rows["`split_join`"].measured == (
        "1.40x measured at least", "0.40x at most", "2.00x simulated, 28 cores", "2.00x",
    )  # fmt: skip
    assert rows["`split_join`"].reached == "must"
    assert rows["gathering"].reached == "goal"
    assert rows["`cell_join`'s"].reached == "missed"
    assert rows["pointer"].measured == ("0.0050%",)
    assert rows["`auto`'s"].reached == "must"
    assert rows["two-term"].measured == ("1.65x", "1.90x by processor time")
    assert list(table.reports) == [
        "python -m benchmarks.topology_turns --threads 2",
        "python -m benchmarks.cases topologies --figure split16,split18",
        "python -m benchmarks.second_thread",
    ]


def test_options_that_its_commands_do_not_take() -> None:
    with pytest.raises(ConfigError, match="topologies: its table takes neither another table nor rows nor runs"):
        run(topologies=True, spark=True, measure=canned)


def test_topologies_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_turns, "QUERIES", ("one band",))
    monkeypatch.setattr(topology_turns, "WINDOWS", (128,))
    monkeypatch.setattr(topology_turns, "PUSHES", (32,))
    monkeypatch.setattr(topology_scans, "TURNS", 1)
    report = topology_turns.run(seconds=0.001, window=256, scanned=1 << 12)
    assert {one.what.split(",")[0] for one in report.pairs} == {
        "split_join against the chain", "outer order against none",
    }  # fmt: skip
    assert all(one.ratio.median > 0 for one in report.pairs)
    (choice,) = report.choices
    assert set(choice.screened) == set(TOPOLOGIES)
    assert 0 < choice.ratio <= 1
    assert report.scan_of_bandwidth > 0
    assert report.scan_of_scalar > 0
    assert 0 <= report.shifting < 1
    assert "pointer shifting" in report.text()


def test_other_rows_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    query = replace(second_thread.queries()["a band and a remainder"].scaled(1e-3), push=64)
    found = iter(range(100))
    monkeypatch.setattr(topology_turns._Running, "push", lambda *_: next(found))
    with pytest.raises(SlideJoinError, match=r"what: \[0, 1\] rows in push 0"):
        topology_turns._in_turns(
            "what", query, topology_turns._state(query, 1), ("auto", "shared"), "auto", 1, 0.1, 1,
        )  # fmt: skip


@pytest.mark.parametrize("name", second_thread.queries())
def test_two_threads_produce_the_same_rows(name: str) -> None:
    query = second_thread.queries()[name]
    share = 256 / query.window
    found = second_thread.measured(replace(query.scaled(share), push=64), 0.001, 1)
    assert found.ratio.median > 0
    assert found.processor > 0
    assert found.seconds
