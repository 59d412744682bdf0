"""``slidejoin init`` over small folders of many kinds: what it writes is read as meant, and names what is there."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slidejoin.cli.beginning import job_text, names_of
from slidejoin.cli.jobfile import read_job_text
from slidejoin.cli.samples import sampled
from slidejoin.cli.written import Written
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.predicate import columns_of
from slidejoin.predicate.python import as_predicate
from slidejoin.sides import SIDES
from slidejoin.spec.window import CountWindow
from tests.cli.test_command import call

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = date(2026, 1, 1)
BAND = "l.x BETWEEN r.x - 5 AND r.x + 5"
HEADER = {"header": "true"}
NONE = {"header": "false"}
TS = "k BIGINT, ts TIMESTAMP"


def begun(folder: Path, *files: str) -> tuple[dict[str, Any], Any]:
    """Return what init writes for files, as TOML and as a job; all columns that it names are there."""
    samples = [sampled(file, name) for file, name in zip(files, names_of(files), strict=True)]
    text = job_text(samples, folder)
    values, job = tomllib.loads(text), read_job_text(text, folder)
    assert values.keys() == {"sources", "join", "sink", "spark"}
    assert values["spark"] == {"master": "local[*]"}
    both = [*samples, samples[0]][:2]
    predicate = as_predicate(job.join.on)
    for side, sample in zip(SIDES, both, strict=True):
        assert sample.schema is not None
        named = set(columns_of(predicate, side))
        named.add(job.join.order_by if isinstance(job.join.window, CountWindow) else job.join.window.on(side))
        assert named <= set(sample.schema.names)
    return values, job


@pytest.mark.parametrize(
    ("name", "text", "schema", "options"),
    [
        ("a.csv", "k,ts\n1,2026-01-01T10:00:00.125Z\n", TS, HEADER),
        ("a.csv", "k,ts\n1,2026-01-01 10:00:00+02:00\n2,\n", TS, HEADER),
        ("a.csv", "k,ts\n1,2026-01-01 10:00\n2,2026-01-01T10:00:01\n", TS, HEADER),
        ("a.csv", "k,ts\n1,2026-01-01T10:00:00Z\n2,soon\n", "k BIGINT, ts STRING", HEADER),
        ("a.csv", "anna,2026-01-01T10:00:00Z\nbert,2026-01-01T10:00:00Z\n", "_c0 STRING, _c1 TIMESTAMP", NONE),
        ("a.csv", "1,-2.5\n3,4\n", "_c0 BIGINT, _c1 DOUBLE", NONE),
        ("a.tsv", "1\t2026-01-01\n", "_c0 BIGINT, _c1 DATE", NONE | {"sep": "\t"}),
        ("a.csv", "k,K,,k\n1,2,3,4\n", "k BIGINT, K_2 BIGINT, _c2 BIGINT, k_3 BIGINT", HEADER),
        ("a.csv", 'k,"a\nb"\n1,2\n', "k BIGINT, `a\nb` BIGINT", HEADER | {"multiLine": "true"}),
        ("a.csv", 'k,t\n1,"say ""a"""\n', "k BIGINT, t STRING", HEADER | {"escape": '"'}),
        ("a.csv", "k,x\n1,NA\n2,3\n", "k BIGINT, x STRING", HEADER),
        ("a.csv", "\ufeffk,x\n1,2\n", "k BIGINT, x BIGINT", HEADER),
        ("a.json", '{"k": 1, "ts": "2026-01-01T10:00:00.5+01:00"}\n{"k": 2, "ts": null}\n', TS, {}),
        ("a.json", '[{"k": 1},\n {"k": 2, "ts": "2026-01-01T10:00:00Z"}]', TS, {"multiLine": "true"}),
        ("a.json", '{\n "k": 1,\n "ts": "2026-01-01T10:00:00Z"\n}', TS, {"multiLine": "true"}),
        ("a.json", '{"k": 1, "ts": "10:00"}\n', "k BIGINT, ts STRING", {}),
        ("a.json", '{"k": 1, "m": {}, "l": [{"a": {}}]}\n', "k BIGINT, m STRING, l ARRAY<STRUCT<a: STRING>>", {}),
        ("a.json", '{"k": 1, "s": {"x": 1, "X": 2}, "K": "a"}\n', "k BIGINT, s STRUCT<x: BIGINT>", {}),
    ],
)  # fmt: skip
def test_texts(tmp_path: Path, name: str, text: str, schema: str, options: dict[str, str]) -> None:
    (tmp_path / name).write_text(text)
    _, job = begun(tmp_path, str(tmp_path / name))
    source = job.sources["a"]
    assert (source.schema, source.options) == (schema, options)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_text(text)
    _, whole = begun(tmp_path, str(tmp_path / "in"))
    assert (whole.sources["in"].schema, whole.sources["in"].options, whole.join.on) == (schema, options, job.join.on)


@pytest.mark.parametrize(
    ("first", "second", "on", "window"),
    [
        ({"id": [1], "x": [2], "ts": [NOON]}, {"x": [2.5], "id": [1], "ts": [NOON]}, "l.id = r.id", {"on": "ts"}),
        ({"x": [2], "who": ["a"], "at": [NOON]}, {"who": ["a"], "at": [NOON]}, "l.who = r.who", {"on": "at"}),
        ({"x": [1.5], "sent": [NOON]}, {"x": [1.5], "seen": [NOON]}, BAND, {"left_on": "sent", "right_on": "seen"}),
        ({"x": [1.5], "d": [DAY]}, {"x": [1.5], "ts": [NOON]}, BAND, {"left_on": "d", "right_on": "ts"}),
        ({"n": [1], "x": [1.5]}, {"n": [1], "ts": [NOON]}, "l.n = r.n", {"kind": "count", "order_by": "n"}),
        ({"x": [1.5]}, {"x": [1.5]}, BAND, {"kind": "count", "order_by": "x"}),
    ],
)  # fmt: skip
def test_joins_of_two(tmp_path: Path, first: Any, second: Any, on: str, window: dict[str, str]) -> None:
    for name, columns in (("a", first), ("b", second)):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    values, job = begun(tmp_path, str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet"))
    assert job.join.on == on
    assert {key: value for key, value in values["join"]["window"].items() if key in window} == window


ODD = (
    *("Event Time", "event-time", "@timestamp", "größe", "when r", 'a "b"', "a `b`", "it's", "a.b", "select", "order"),
    *('x\n[spark.conf]\n"spark.jars" = "evil.jar"', "tab\there", "🦆", "#", "= 1", "\\", "{n}", "a\u2028b", "a\x7fb"),
)


@pytest.mark.parametrize("name", ODD)
def test_odd_names_add_nothing(tmp_path: Path, name: str) -> None:
    """Names of columns and of files come from others: they stay names."""
    table = pa.table({name: ["k"], f"{name} 2": [NOON.replace(tzinfo=None)]})
    folder = tmp_path / name.replace("/", " ")
    folder.mkdir()
    pq.write_table(table, folder / f"{name}.parquet")
    pq.write_table(table, tmp_path / "plain.parquet")
    values, job = begun(tmp_path, str(folder), str(tmp_path / "plain.parquet"))
    source, _ = job.sources.values()
    assert re.sub(r"\\(.)", r"\1", source.path) == str(folder)
    assert list(columns_of(as_predicate(job.join.on), "left")) == [name]
    assert values["join"]["window"]["on"] == f"{name} 2"
    quoted = "`" + f"{name} 2".replace("`", "``") + "`"
    assert source.columns[-1] == f"CAST({quoted} AS TIMESTAMP) AS {quoted}"


def test_what_is_written_is_read_back() -> None:
    file = Written()
    file.table("sources", "a")
    file.key("path", "x")
    file.comment("one\nmore = 1")
    assert file.text() == '[sources.a]\npath = "x"\n# one\\nmore = 1\n'
    file._lines.append("more = 1")
    with pytest.raises(SlideJoinError, match="would be read as something else than was meant, and is not written"):
        file.text()


def test_a_name_that_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a\udcff.json").write_text(json.dumps({"k": 1}))
    assert call("init", "a\udcff.json") == 2
    assert "is not valid Unicode, and a job file cannot name it; rename it" in capsys.readouterr().err
    assert not Path("job.toml").exists()


def test_nothing_to_join_on(tmp_path: Path) -> None:
    """Without a time or a column in common it says what to do."""
    for name, column in (("a", "x"), ("b", "y")):
        pq.write_table(pa.table({column: [True]}), tmp_path / f"{name}.parquet")
    text = job_text([sampled(f"{tmp_path}/{name}.parquet", name) for name in "ab"], tmp_path)
    assert "# The sides share no timestamp column: give left_on and right_on instead of on, or make the\n" in text
    assert read_job_text(text, tmp_path).join.on == "TRUE"


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "in[1].csv").write_text("k\n1\n")
    _, job = begun(tmp_path, str(tmp_path / "in[1].csv"))
    (source,) = job.sources.values()
    assert source.path == f"{tmp_path}/in\\[1\\].csv"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[1, 2]")
    with pytest.raises(ConfigError, match=r"a\.json: cannot be read as json"):
        sampled(str(tmp_path / "a.json"), "a")


def test_a_job_file_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are relative only below the job's folder: Spark would go up by letters."""
    for name in ("deep/er", "data"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("deep/er")
    (tmp_path / "data" / "a.csv").write_text("k\n1\n")
    (tmp_path / "link" / "b.csv").write_text("k\n1\n")
    monkeypatch.chdir(tmp_path)
    assert call("init", "data", "link/b.csv", "--to", "link/job.toml") == 0
    text = Path("link/job.toml").read_text()
    assert f'path = "{tmp_path}/data"' in text
    assert 'path = "b.csv"' in text
    assert [source.path for source in read_job_text(text, Path("link")).sources.values()] == [
        f"{tmp_path}/data",
        f"{tmp_path}/link/b.csv",
    ]


def test_folders_behind_links_and_below_patterns(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.csv").write_text("k\n1\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "day").symlink_to(tmp_path / "outside")
    for path in (tmp_path / "in", tmp_path / "i*", tmp_path / "in" / "*"):
        assert sampled(str(path), "a").file == f"{tmp_path}/in/day/a.csv"


def test_the_predicate_may_name_folders_and_other_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p" / "day=1").mkdir(parents=True)
    pq.write_table(pa.table({"k": [1], "ts": [NOON]}), tmp_path / "p" / "day=1" / "a.parquet")
    pq.write_table(pa.table({"K": [1], "ts": [NOON]}), tmp_path / "b.parquet")
    p, b, file = str(tmp_path / "p"), str(tmp_path / "b.parquet"), str(tmp_path / "job.toml")
    assert call("init", p, "--to", file, "--on", "l.day = r.day AND l.k < r.k") == 0
    assert call("init", b, "--to", file, "--force", "--on", "l.k < r.k") == 0
    assert call("init", p, b, "--to", file, "--force", "--on", "l.k < r.key") == 2
    assert "--on: the right source has no column 'key'; it has K, ts." in capsys.readouterr().err


def test_names_that_begin_like_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("~$lock.csv").write_text("k\n1\n")
    _, job = begun(Path(), "~$lock.csv")
    (source,) = job.sources.values()
    assert source.path == f"{tmp_path}/~$lock.csv"


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "ID": 2, "x": 1, "X": 2}\n')
    text = job_text([sampled(str(tmp_path / "a.json"), "a")], tmp_path)
    assert "# left out, as Spark compares names without case: ID, X\n" in text
