from __future__ import annotations

import json
import re
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from slidejoin.bench import CASES, case, machine, pipeline, spark, tasks
from slidejoin.bench.machine import MemorySpeed
from slidejoin.cli import main
from tests.brokers import Broker

if TYPE_CHECKING:
    from pathlib import Path


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["bench", *arguments])
    assert left.value.code is None or isinstance(left.value.code, int)
    return left.value.code or 0


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The options that a case would be measured with."""
    seen: dict[str, Any] = {}
    monkeypatch.setattr(
        import_module("slidejoin.cli.app"), "_measure", lambda run, **options: seen.update(options, run=run)
    )
    monkeypatch.setattr(case, "compile_kernels", lambda: seen.update(compiled=True))
    return seen


def test_json_is_one_document(capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "measure_memory", lambda threads: (MemorySpeed(threads, 1e8, 1e10),))
    assert call("machine", "--threads", "3", "--json") == 0
    values = json.loads(capsys.readouterr().out)
    assert values["case"] == "machine"
    assert values["memory"] == [{"threads": 3, "lines_per_second": 1e8, "bytes_per_second": 1e10}]
    assert values["environment"]["python"]


def test_text_is_for_people(capsys):
    assert call("tasks", "--only", "offers", "--seconds", "0.001", "--scale", "0.02", "--threads", "1") == 0
    assert "case tasks: 1 threads, seed 1, 0.02 of the rows" in capsys.readouterr().out


def test_a_pipeline_is_measured_from_the_command_to_its_end(capsys):
    assert call("pipeline", "--rows", "2^11", "--threads", "1", "--json") == 0
    speed, polars = json.loads(capsys.readouterr().out)["speeds"]
    assert (polars["engine"], polars["pairs"]) == ("polars", speed["pairs"])
    assert (speed["engine"], speed["rows"]) == ("embedded", 4096)
    assert speed["pairs"] > 0
    assert 0 < speed["rows"] / speed["rows_per_second"] < speed["seconds"]


@pytest.mark.nightly  # by day jobs over topics are tested in test_kafka and test_topics
@pytest.mark.spark  # a broker needs Java
def test_a_pipeline_over_topics(tmp_path: Path, capsys):
    with Broker(tmp_path) as broker:
        assert call("pipeline", "--kafka", "--brokers", broker.address, "--rows", "2^10") == 0
        shown = capsys.readouterr().out
        client = AdminClient({"bootstrap.servers": broker.address})
        assert [name for name in client.list_topics(timeout=30).topics if name.startswith("slidejoin")] == []
    assert "1,024 rows a side of four columns in JSON, two topics of Kafka, an equality and a band, to Parquet" in shown
    line = r"^embedded +[\d.,]+ (?:M )?rows/s, [\d,]+ pairs, [\d.]+ s from the command to its end$"
    assert re.search(line, shown, re.MULTILINE)
    quix = r"^quix +(left out: quixstreams is not installed|[\d.,]+ .*rows/s, [\d,]+ pairs of 1,024 rows a side, .*)$"
    assert re.search(quix, shown, re.MULTILINE)


def test_numbers_may_be_powers(given: dict[str, Any]):
    assert call("spark", "--window", "2^9", "--push", "2^7", "--buckets", "3") == 0
    assert (given["window"], given["push"], given["buckets"]) == (512, 128, 3)


def test_a_strategy_and_an_index_of_buckets_may_be_named(given: dict[str, Any]):
    assert call("spark", "--strategy", "sub_windows", "--algorithm", "po_join", "--output", "left") == 0
    assert (given["strategy"], given["algorithm"], given["output"]) == ("sub_windows", "po_join", "left")


def test_names_are_parted_by_commas(given: dict[str, Any]):
    assert call("tasks", "--only", "offers, trades") == 0
    assert given["only"] == ("offers", "trades")


@pytest.mark.parametrize("module", [tasks, spark, pipeline, machine], ids=lambda module: module.__name__)
def test_what_is_not_given_is_as_in_the_case(module: Any, given: dict[str, Any]):
    assert call(module.__name__.rpartition(".")[2]) == 0
    assert given.pop("run") is module.run
    assert given.pop("json") is False
    # Memory is measured without a join, and the pipeline in other processes.
    assert given.pop("compiled", False) == (module not in {machine, pipeline})
    defaults = {name: one.default for name, one in signature(module.run).parameters.items()}
    given = {name: value for name, value in given.items() if not (module is machine and defaults[name] is None)}
    assert given == {name: defaults[name] for name in given}


def test_help_lists_the_cases(capsys):
    assert call("--help") == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in CASES)


@pytest.mark.parametrize("case", CASES)
def test_a_case_has_at_most_eight_parameters(case: str, capsys):
    assert call(case, "--help") == 0
    options = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  --")]
    assert options[-3:] == ["--json", "--debug", "--help"]
    assert len(options) - 1 <= 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("taks",),
            "bench: unknown case 'taks'; the cases are tasks, spark, pipeline, machine. Did you mean 'tasks'? Others",
        ),
        (("band",), "are in a checkout of slidejoin: python -m benchmarks.cases"),
        (("machine", "--window", "5"), "No such option: --window"),
        (("tasks", "--only", "trade"), "Did you mean 'trades'?"),
        (("spark", "--output", "lefft"), "expected one of pairs, count, left, right,"),
        (("spark", "--strategy", "subwindows"), "Did you mean 'sub_windows'?"),
        (("spark", "--algorithm", "pojoin"), "Did you mean 'po_join'?"),
        (
            ("spark", "--push", "many"),
            "Invalid value for '--push': got 'many', expected a whole number or a power such as 2^20",
        ),
        (("machine", "--threads", "0"), "--threads"),
    ],
)
def test_wrong_usage_leaves_2_and_says_why(arguments: tuple[str, ...], message: str, capsys):
    assert call(*arguments) == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", "").split())
