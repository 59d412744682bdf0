"""``slidejoin init``: job files that are read as they are, with what is known of the sources."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slidejoin.cli.beginning import job_text
from slidejoin.cli.jobfile import read_job, read_job_text
from slidejoin.cli.samples import sampled, spark_type
from slidejoin.errors import ConfigError
from slidejoin.spec.window import CountWindow, TimeWindow
from tests.cli.test_command import call

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def parquet(folder: Path, name: str, **columns: Any) -> str:
    (folder / name).mkdir(parents=True)
    (folder / name / "_metadata").write_bytes(b"no rows")
    pq.write_table(pa.table(columns), folder / name / "part-0.parquet")
    return str(folder / name)


def made(folder: Path, *sources: str, on: str | None = None) -> str:
    return job_text([sampled(path, f"s{number}") for number, path in enumerate(sources)], folder, on)


def test_two_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    parquet(tmp_path, "in/trips", trip_id=[1], price=[1.5], ts=[NOON])
    (tmp_path / "in" / "quotes").mkdir()
    (tmp_path / "in" / "quotes" / "a.csv").write_text("quote_id;price;ts\n1;2.5;2026-01-01T00:00:00Z\n")
    monkeypatch.chdir(tmp_path)
    assert call("init", "in/trips", "in/quotes") == 0
    assert capsys.readouterr().out.startswith("wrote job.toml; check `on` and the window in it, then run: slidejoin")
    job = read_job(tmp_path / "job.toml")
    trips, quotes = job.sources["trips"], job.sources["quotes"]
    assert (trips.format, trips.path, trips.schema, trips.columns) == (
        "parquet",
        str(tmp_path / "in/trips"),
        None,
        None,
    )
    assert (quotes.format, quotes.schema) == ("csv", "quote_id BIGINT, price DOUBLE, ts TIMESTAMP")
    assert quotes.options == {"header": "true", "sep": ";"}
    assert (job.join.left, job.join.right) == ("trips", "quotes")
    assert job.join.on == "l.price BETWEEN r.price - 5 AND r.price + 5"
    assert job.join.window == TimeWindow("10 minutes", on="ts", lateness="1 minute")
    assert (job.sink.path, job.sink.checkpoint) == (str(tmp_path / "pairs"), str(tmp_path / "pairs.checkpoint"))
    assert (
        "# columns in part-0.parquet: trip_id BIGINT, price DOUBLE, ts TIMESTAMP\n"
        in (tmp_path / "job.toml").read_text()
    )
    assert call("init", "in/trips", "--to", "job.toml") == 2
    assert "job.toml already exists; give another name with --to, or --force to overwrite it" in capsys.readouterr().err
    assert call("init", "in/trips", "--force") == 0
    assert read_job(tmp_path / "job.toml").join.self_join
    capsys.readouterr()
    assert call("init", "in/trips", "--to", "-", "--on", "l.trip_id < r.trip_id") == 0
    assert read_job_text(capsys.readouterr().out, tmp_path).join.on == "l.trip_id < r.trip_id"


def test_what_is_commented_out_may_be_put_in_force(tmp_path: Path) -> None:
    """Every line that looks like a key is one; not all at once, since some exclude each other."""
    text = made(tmp_path, parquet(tmp_path, "a", x=[1], ts=[NOON]))
    lines = text.splitlines()
    keys = [at for at, line in enumerate(lines) if re.match(r"# \w+ = ", line)]
    assert len(keys) > 8
    count = {at for at in keys if lines[at].startswith(("# kind", "# rows", "# order_by"))}
    for at in set(keys) - count:
        if lines[at].startswith("# table"):
            continue  # then there is no checkpoint
        read_job_text("\n".join([*lines[:at], lines[at][2:], *lines[at + 1 :]]), tmp_path)
    window = lines.index("[join.window]")
    dropped = {window + 1, window + 2, window + 3}
    rows = [line[2:] if at in count else line for at, line in enumerate(lines) if at not in dropped]
    assert read_job_text("\n".join(rows), tmp_path).join.order_by == "ts"


def test_every_line_fits(tmp_path: Path) -> None:
    text = made(tmp_path, parquet(tmp_path, "a", x=[1], t=[1]), parquet(tmp_path, "b", x=[1], t=[1]))
    assert max(len(line) for line in text.splitlines()) <= 120


def test_times_that_spark_would_not_read_as_instants(tmp_path: Path) -> None:
    naive = parquet(tmp_path, "naive", **{"a b": [1], "day": [date(2026, 1, 1)], "ts": [NOON.replace(tzinfo=None)]})
    job = read_job_text(made(tmp_path, naive), tmp_path)
    assert job.sources["s0"].columns == ("`a b`", "`day`", "CAST(`ts` AS TIMESTAMP) AS `ts`")
    assert job.join.on == 'l."a b" BETWEEN r."a b" - 5 AND r."a b" + 5'


@pytest.mark.parametrize(
    ("first", "second", "on", "time"),
    [
        ({"id": [1], "x": [2], "ts": [NOON]}, {"id": [1], "x": [2], "ts": [NOON]}, "l.id = r.id", "ts"),
        ({"price": [1.5], "at": [NOON]}, {"bid": [1], "at": [NOON]}, "l.price BETWEEN r.bid - 5 AND r.bid + 5", "at"),
        ({"who": ["a"], "day": [NOON]}, {"who": ["b"], "day": [NOON]}, "l.who = r.who", "day"),
        ({"seen": [NOON], "ts": [NOON]}, {"seen": [NOON], "ts": [NOON]}, "l.ts = r.ts", "ts"),
    ],
)  # fmt: skip
def test_guesses(tmp_path: Path, first: dict[str, Any], second: dict[str, Any], on: str, time: str) -> None:
    job = read_job_text(made(tmp_path, parquet(tmp_path, "a", **first), parquet(tmp_path, "b", **second)), tmp_path)
    assert job.join.on == on
    assert isinstance(job.join.window, TimeWindow)
    assert (job.join.window.left_on, job.join.window.right_on) == (time, time)


def test_without_a_common_time_rows_are_counted(tmp_path: Path) -> None:
    text = made(tmp_path, parquet(tmp_path, "a", x=[1], ts=[NOON]), parquet(tmp_path, "b", x=[1], seen=[5]))
    assert "# No column of times is on both sides, so the last rows of each side are joined" in text
    join = read_job_text(text, tmp_path).join
    assert (join.on, join.window, join.order_by) == ("l.x = r.x", CountWindow(100_000), "x")


def test_files_that_cannot_be_read_from_here(tmp_path: Path) -> None:
    text = made(tmp_path, "s3a://bucket/trips/*.csv.gz")
    assert "# the file was not read: put its columns and their types here\n" in text
    job = read_job_text(text, tmp_path)
    assert job.sources["s0"].path == "s3a://bucket/trips/*.csv.gz"
    assert job.sources["s0"].schema == "id BIGINT, x DOUBLE, ts TIMESTAMP"
    assert "# columns: the file was not read" in made(tmp_path, "hdfs://node/rows.parquet")


def test_json_lines_and_packed_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"k": "a", "at": "2026-01-01T00:00:00Z", "n": {"x": [1]}}\n')
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write("k,at\na,2026-01-01 00:00:00\n")
    job = read_job_text(made(tmp_path, str(tmp_path / "a.jsonl"), str(tmp_path / "b.csv.gz")), tmp_path)
    assert job.sources["s0"].schema == "k STRING, at TIMESTAMP, n STRUCT<x: ARRAY<BIGINT>>"
    assert (job.sources["s1"].format, job.sources["s1"].schema) == ("csv", "k STRING, at TIMESTAMP")
    assert job.join.on == "l.k = r.k"
    assert sampled(f"{tmp_path}/*.jsonl", "x").schema == sampled(str(tmp_path / "a.jsonl"), "x").schema


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "nothing at nowhere; give a folder, a file or a pattern of parquet, csv or json files"),
        (("notes.txt",), "notes.txt: unknown format, the first file is notes.txt; give --format parquet"),
        (("empty",), "empty: unknown format, there is no file in it; give --format parquet, csv or json"),
        (("s3a://bucket/rows",), "s3a://bucket/rows: the name does not show the format; give --format parquet"),
        (("notes.txt", "--format", "parquet"), "notes.txt: cannot be read as parquet: Parquet magic bytes not found"),
        (("notes.txt", "--format", "orc"), "--format: got 'orc', expected one of parquet, csv, json"),
        (("rows", "rows", "rows"), "got 3 sources, expected one, for a self-join, or two"),
        (("rows", "--on", "l.y = r.x"), "--on: the left source has no column 'y'; it has x, ts."),
        (("rows", "--on", "l.x ="), "--on: "),
        (("rows", "--to", "no/where.toml"), "no/where.toml: cannot be written: No such file or directory"),
    ],
)
def test_what_cannot_be_begun(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    parquet(tmp_path, "rows", x=[1], ts=[NOON])
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("nothing that is a table")
    assert call("init", *arguments) == 2
    assert f"slidejoin: {message}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.uint64(), "DECIMAL(20, 0)"),
        (pa.decimal128(12, 2), "DECIMAL(12, 2)"),
        (pa.large_string(), "STRING"),
        (pa.dictionary(pa.int8(), pa.float32()), "FLOAT"),
        (pa.timestamp("ns", "UTC"), "TIMESTAMP"),
        (pa.date32(), "DATE"),
        (pa.time64("us"), "STRING"),
        (pa.map_(pa.string(), pa.int16()), "MAP<STRING, SMALLINT>"),
        (pa.list_(pa.struct([("a b", pa.binary())])), "ARRAY<STRUCT<`a b`: BINARY>>"),
        (pa.scalar(Decimal("1.5")).type, "DECIMAL(2, 1)"),
    ],
)
def test_types_of_spark(kind: pa.DataType, text: str) -> None:
    assert spark_type(kind) == text


def test_errors_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match=r"a\.parquet: cannot be read as parquet: .* Another format is g"):
        sampled(str(tmp_path / "a.parquet"), "a")
