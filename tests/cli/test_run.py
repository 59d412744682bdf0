"""Whole jobs on a real local Spark."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.spark.test_odd_names import NAMES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.shell import Shell

pytestmark = pytest.mark.spark

START = datetime(2024, 5, 1, tzinfo=UTC)

JOB = """
[sources.trips]
format = "parquet"
path = "trips"
max_files_per_trigger = 1

[sources.quotes]
format = "csv"
path = "quotes"
schema = "price DOUBLE, at TIMESTAMP"
options = { header = true }
where = "price > 0"
columns = ["CAST(price * 100 AS BIGINT) AS cents", "at"]
max_files_per_trigger = 1

[join]
left = "trips"
right = "quotes"
on = "l.cents BETWEEN r.cents - 50 AND r.cents + 50"
select = ["l.id", "r.cents"]

[join.window]
length = "10 minutes"
left_on = "ts"
right_on = "at"

[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"

[spark]
master = "local[2]"
"""


def put(folder: Path, hour: int) -> None:
    """Add one file to each source: four trips and four quotes of that hour."""
    times = [START + timedelta(hours=hour, minutes=minute) for minute in (0, 1, 2, 30)]
    trips = pa.table({"id": [10 * hour + n for n in range(4)], "cents": [100, 200, None, 300], "ts": times})
    # one quote near both of the first trips, one near the second and at the end of its window, two that match none
    stamps = [f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in (times[0], times[1] + timedelta(minutes=10), times[2], times[3])]
    quotes = pa.table({"price": [1.5, 2.0, -1.0, 9.0], "at": stamps})
    for name in ("trips", "quotes"):
        (folder / name).mkdir(exist_ok=True)
    pq.write_table(trips, folder / "trips" / f"{hour:02}.parquet")
    pyarrow.csv.write_csv(quotes, folder / "quotes" / f"{hour:02}.csv")
    for file in (folder / "trips" / f"{hour:02}.parquet", folder / "quotes" / f"{hour:02}.csv"):
        modified = time.time() - 1000 + hour
        os.utime(file, (modified, modified))


def job(folder: Path, text: str = JOB) -> Path:
    file = folder / "job.toml"
    file.write_text(text)
    return file


def found(folder: Path) -> list[tuple[int, int]]:
    table = pq.read_table(folder / "out")
    return sorted(zip(table["id"].to_pylist(), table["cents_right"].to_pylist(), strict=True))


def expected(hours: int) -> list[tuple[int, int]]:
    return [pair for hour in range(hours) for pair in ((10 * hour, 150), (10 * hour + 1, 150), (10 * hour + 1, 200))]


@pytest.mark.nightly
def test_a_job_goes_on_where_it_was(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    put(tmp_path, 1)
    first = slidejoin("run", job(tmp_path), "--json")
    assert first.err == ""
    assert first.status == 0
    start, *batches, done = first.events()
    why = "the job file has a table [spark]"
    assert start == {"event": "start", "job": "job", "batches": 2, "engine": "spark", "why": why}
    # The quote that `where` refuses is read and counted.
    assert [(batch["number"], batch["rows_in"], batch["rows_out"]) for batch in batches] == [(0, 8, 3), (1, 8, 3)]
    assert batches[0]["event_time"] == "2024-05-01T00:30:00.000Z"
    assert (done["batches"], done["rows_in"], done["rows_out"], done["stopped"]) == (2, 16, 6, False)
    assert found(tmp_path) == expected(2)
    # An inner join has nothing to put out in a micro-batch without rows.
    assert sorted(path.name for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")) == ["0", "1"]

    put(tmp_path, 2)
    second = slidejoin("run", job(tmp_path))
    assert second.status == 0
    lines = second.out.splitlines()
    assert lines[0] == f"job: starting Spark: {why}"
    assert lines[1].startswith("job: batch ")
    assert "8 rows in, 3 out" in lines[1]
    assert lines[2].startswith("job: done, 8 rows in, 3 rows out, 1 micro-batch, ")
    assert found(tmp_path) == expected(3)
    assert pq.read_schema(next((tmp_path / "out").glob("*.parquet"))).field("match_time").type == pa.timestamp(
        "us", "UTC"
    )

    state = slidejoin("state", tmp_path / "checkpoint", "--json")
    assert state.err == ""
    (join,) = json.loads(state.out)["joins"]
    assert join["described"]["window"].startswith("10 minutes")
    assert join["bytes"] == sum(segment["bytes"] for bucket in join["buckets"] for segment in bucket["segments"]) > 0
    told = slidejoin("state", tmp_path / "checkpoint", "--segments").out.splitlines()
    assert told[0] == f"{tmp_path / 'checkpoint'}: state after micro-batch {json.loads(state.out)['batch']}"
    assert "  on: l.cents >= r.cents - 50 AND l.cents <= r.cents + 50" in told
    assert told[-1].endswith(f"{join['bytes']:,}")
    none = slidejoin("state", tmp_path / "trips")
    assert none.status == 1
    assert none.err.startswith(f"slidejoin: {tmp_path / 'trips'} is not the checkpoint of a streaming query")


@pytest.mark.nightly
def test_a_job_goes_on_with_other_buckets(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    assert slidejoin("run", job(tmp_path)).status == 0
    old, new = tmp_path / "checkpoint", tmp_path / "new"
    for options, message in (
        (["--to", new], "--to needs the other: --repartition N --to NEW"),
        (["--repartition", 3], "--repartition needs the other: --repartition N --to NEW"),
        (["--stores", 3], "--stores is of a new checkpoint: give --repartition N --to NEW as well"),
        (["--repartition", 3, "--to", new, "--batch", 0], "--batch shows an earlier version"),
        (["--repartition", 3, "--to", new, "--spread", 2], "--spread is of another strategy: give --strategy NAME"),
    ):
        refused = slidejoin("state", old, *options)
        assert refused.status == 2
        assert refused.err.startswith(f"slidejoin: {message}")
    made = slidejoin("state", old, "--repartition", 3, "--to", new)
    assert made.err == ""
    lines = made.out.splitlines()
    assert lines[0].startswith(f"{new}: state after micro-batch ")
    assert lines[-3] == f"Start the same query on it, with checkpointLocation {new} (job file: checkpoint), and"
    on = "l.cents >= r.cents - 50 AND l.cents <= r.cents + 50"
    assert lines[-2] == f'  partitions=3, strategy="cell" for the join on {on}'
    assert slidejoin("state", old, "--repartition", 3, "--to", new).status == 1
    put(tmp_path, 1)
    text = JOB.replace("[join]", "[join]\npartitions = 3").replace('"checkpoint"', '"new"')
    assert slidejoin("run", job(tmp_path, text)).status == 0
    assert found(tmp_path) == expected(2)


def test_a_job_file_that_init_has_written_runs(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    on = "l.cents BETWEEN r.price * 100 - 50 AND r.price * 100 + 50"
    file = tmp_path / "begun.toml"
    begun = slidejoin("init", tmp_path / "trips", tmp_path / "quotes", "--to", file, "--on", on)
    assert (begun.status, begun.err) == (0, "")
    file.write_text(file.read_text().replace("local[*]", "local[2]"))
    explained = slidejoin("explain", file)
    assert (explained.status, explained.err) == (0, "")
    assert "indexed: " in explained.out
    assert "warning: " not in explained.out
    ran = slidejoin("run", file)
    assert (ran.status, ran.err) == (0, "")
    table = pq.read_table(tmp_path / "pairs")
    assert sorted(zip(table["id"].to_pylist(), table["price"].to_pylist(), strict=True)) == [
        (0, 1.5),
        (1, 1.5),
        (1, 2.0),
    ]


@pytest.mark.nightly  # by day a folder of each form is begun in test_init_folders
def test_single_files_of_any_form_run_as_init_begins_them(slidejoin: Shell, tmp_path: Path):
    """CSV without a header, with times of several forms, against a JSON document with odd names."""
    (tmp_path / "in[1].csv").write_text(
        "7,2024-05-01T00:00:00.5Z\n7,2024-05-01 00:05\n8,2024-05-01T02:00:00+02:00\n7,2024-05-01T09:00\n"
    )
    rows = [{"event `time`": "2024-05-01T00:06:00.25+00:00", "größe.\n": 7}, {"event `time`": None, "größe.\n": 8}]
    (tmp_path / "rows.json").write_text(json.dumps(rows, ensure_ascii=False, indent=1))
    file, on = tmp_path / "begun.toml", 'l._c0 = r."größe.\n"'
    begun = slidejoin("init", tmp_path / "in[1].csv", tmp_path / "rows.json", "--to", file, "--on", on)
    assert (begun.status, begun.err) == (0, "")
    text = file.read_text().replace("local[*]", "local[2]").replace('format = "parquet"', 'format = "json"')
    file.write_text(text)
    ran = slidejoin("run", file)
    assert ran.status == 0, ran.err
    found = [json.loads(line) for out in (tmp_path / "pairs").glob("*.json") for line in out.read_text().splitlines()]
    assert sorted(row["_c1"] for row in found) == ["2024-05-01T00:00:00.500Z", "2024-05-01T00:05:00.000Z"]
    assert {row["größe.\n"] for row in found} == {7}


@pytest.mark.nightly  # by day odd names are in spark/test_odd_names
@pytest.mark.parametrize("names", [NAMES[::8], pytest.param(NAMES, marks=pytest.mark.nightly)], ids=["few", "all"])
def test_odd_names_in_all_places_of_a_job_file(slidejoin: Shell, tmp_path: Path, names: tuple[str, ...]):
    """As init writes them in `columns` and the window; and in `on`, `select` and `order_by`."""
    (tmp_path / "in").mkdir()
    naive = START.replace(tzinfo=None)
    numbers = {name: [1, 2] for name in names[1:]}
    pq.write_table(
        pa.table({names[0]: [naive, naive + timedelta(minutes=1)], **numbers}), tmp_path / "in" / "0.parquet"
    )

    def sql(alias: str, name: str) -> str:
        return f"{alias}.`{name.replace('`', '``')}`" if "`" not in name else f'{alias}."{name}"'

    file, on = tmp_path / "begun.toml", " AND ".join(f"{sql('l', name)} < {sql('r', name)}" for name in names[1:])
    begun = slidejoin("init", tmp_path / "in", "--to", file, "--on", on)
    assert (begun.status, begun.err) == (0, "")
    select = json.dumps([f"{alias}.{name}" for alias in "lr" for name in names], ensure_ascii=False)
    text = file.read_text().replace("local[*]", "local[2]")
    head, _, sink = text.partition("[sink]")
    text = f"{head}[sink]{sink.replace('parquet', 'json', 1)}"
    file.write_text(text.replace("# select = ", f"select = {select} # "))
    ran = slidejoin("run", file)
    assert ran.status == 0, ran.err
    (found,) = [
        json.loads(line) for out in (tmp_path / "pairs").glob("*.json") for line in out.read_text().splitlines()
    ]
    assert {name: found[name] for name in names[1:]} == dict.fromkeys(names[1:], 1)
    assert {found[f"{name}_right"] for name in names[1:]} == {2}
    counted = f'kind = "count"\nrows = 5\norder_by = {json.dumps(names[0])}\n'
    window = text.index("[join.window]")
    text = text[:window] + f"[join.window]\n{counted}\n" + text[text.index("[sink]") :].replace('"pairs', '"counted')
    file.write_text(text)
    ran = slidejoin("run", file)
    assert ran.status == 0, ran.err
    assert "".join(out.read_text() for out in (tmp_path / "counted").glob("*.json")).count("\n") == 1


def test_a_static_job_writes_once(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    (tmp_path / "more").mkdir()
    rows = [{"cents": 90, "at": "2024-05-01T00:00:00Z"}, {"cents": 400, "at": "2024-05-01T00:00:00Z"}]
    rows += [{"cents": 400}, {"cents": "none", "at": "2024-05-01T00:00:00Z"}]
    (tmp_path / "more" / "a.json").write_text("\n".join(json.dumps(row) for row in rows))
    text = """
        engine = "spark"
        sources.trips = { format = "parquet", path = "trips", table = true }
        sources.more = { format = "json", path = "more", table = true, schema = "cents BIGINT, at TIMESTAMP -- time" }
        join.left = "trips"
        join.right = "more"
        join.on = "abs(t.cents - m.cents) <= 10"
        join.aliases = ["t", "m"]
        join.window = { length = "0 seconds", left_on = "ts", right_on = "at" }
        sink = { format = "json", path = "out" }
    """
    result = slidejoin("run", job(tmp_path, text), "--json")
    assert result.err == ""
    assert result.status == 0
    done = result.events()[-1]
    assert (done["batches"], done["rows_in"], done["rows_out"]) == (1, 8, 1)
    assert (done["late_rows"], done["null_time_rows"], done["bad_rows"]) == (0, 1, 1)
    notes = [event["message"] for event in result.events() if event["event"] == "note"]
    assert notes[0].startswith("warning: 1 row without event time (ts or at is NULL), which match nothing.")
    assert notes[1].startswith("warning: 1 row of source more not as sources.more.schema says; what cannot")
    assert len(notes) == 2
    written = [json.loads(line) for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    assert [(row["id"], row["cents"], row["cents_right"]) for row in written] == [(0, 100, 90)]

    never = text.replace('path = "more"', 'path = "more", where = "1 = 0"').replace('"out"', '"none"')
    result = slidejoin("run", job(tmp_path, never), "--json")
    assert (result.status, result.err) == (0, "")
    done = result.events()[-1]
    assert (done["rows_out"], done["null_time_rows"]) == (0, 0)
    # What a pattern fits is not looked at before Spark starts.
    wrong = text.replace('path = "more"', 'path = "mor*"').replace('"at"', '"att"').replace('"out"', '"none"')
    result = slidejoin("run", job(tmp_path, wrong))
    assert result.status == 2
    assert result.err.startswith("slidejoin: join: the right side has no event-time column 'att'; its columns are")

    again = slidejoin("run", job(tmp_path, text))
    assert again.status == 1
    assert again.err.startswith("slidejoin: the job failed: [PATH_ALREADY_EXISTS]")
    assert "Spark's log: " in again.err


RATES = """
[sources.trips]
format = "parquet"
path = "trips"
max_files_per_trigger = 1

[sources.rates]
format = "csv"
path = "rates"
table = true
schema = "low BIGINT, high BIGINT, rate INT"

[join]
left = "trips"
right = "rates"
on = "l.cents BETWEEN r.low AND r.high"
how = "left"
select = ["l.id", "r.rate"]

[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"

[spark]
master = "local[2]"
"""


def rated(folder: Path) -> list[tuple[int, int | None]]:
    table = pq.read_table(folder / "out")
    return sorted(zip(table["id"].to_pylist(), table["rate"].to_pylist(), strict=True))


def test_a_stream_with_a_table(slidejoin: Shell, tmp_path: Path):
    for hour in (0, 1):
        put(tmp_path, hour)
    (tmp_path / "rates").mkdir()
    (tmp_path / "rates" / "a.csv").write_text("0,150,1\n151,250,2\nnone,none,none\n")
    ran = slidejoin("run", job(tmp_path, RATES), "--json")
    assert (ran.status, ran.err) == (0, "")
    *_, done = ran.events()
    assert (done["batches"], done["rows_in"], done["rows_out"]) == (2, 8, 8)
    notes = [event["message"] for event in ran.events() if event["event"] == "note"]
    assert [note.partition(" as sources")[0] for note in notes] == ["warning: 1 row of source rates not"]
    assert rated(tmp_path) == [(0, 1), (1, 2), (2, None), (3, None), (10, 1), (11, 2), (12, None), (13, None)]


@pytest.mark.nightly
def test_a_stream_with_a_table_again(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    (tmp_path / "rates").mkdir()
    (tmp_path / "rates" / "a.csv").write_text("0,150,1\n151,250,2\n")
    explained = slidejoin("explain", job(tmp_path, RATES))
    assert (explained.status, explained.err) == (0, "")
    assert "a join with a table, the right side: every left row meets all of its rows" in explained.out
    assert "result: id bigint, rate int" in explained.out
    assert slidejoin("run", job(tmp_path, RATES)).status == 0
    put(tmp_path, 1)
    (tmp_path / "rates" / "b.csv").write_text("251,999,3\n")
    # Without a state another predicate is no other join.
    ran = slidejoin("run", job(tmp_path, RATES.replace("r.high", "r.high + 0")))
    assert (ran.status, ran.err) == (0, "")
    assert rated(tmp_path) == [(0, 1), (1, 2), (2, None), (3, None), (10, 1), (11, 2), (12, None), (13, 3)]
    windowed = RATES.replace("table = true", "").replace('"rates"', '"rates"\n', 1)
    windowed = windowed.replace("[sink]", '[join.window]\nkind = "count"\nrows = 5\norder_by = "id"\n[sink]')
    windowed = windowed.replace("low BIGINT", "id BIGINT, low BIGINT")
    ran = slidejoin("run", job(tmp_path, windowed))
    assert ran.status != 0
    assert "a stream with a table" in ran.err
    here = slidejoin("run", job(tmp_path, RATES.replace('[spark]\nmaster = "local[2]"', "")), "--engine", "embedded")
    assert (here.status, "is a checkpoint of Spark, which a job in one process cannot" in here.err) == (2, True)


@pytest.mark.nightly
def test_a_static_job_of_nearest_matches(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    text = JOB.replace("max_files_per_trigger = 1", "table = true").replace('checkpoint = "checkpoint"', "")
    text = text.replace(
        "[join]", '[join]\nhow = "left"\nkeep = { left = "l.cents", right = "r.cents", direction = "forward" }'
    )
    explained = slidejoin("explain", job(tmp_path, text))
    assert "output: the nearest pair of each left row by abs(l.cents - r.cents), forward" in explained.out
    ran = slidejoin("run", job(tmp_path, text))
    assert (ran.status, ran.err) == (0, "")
    table = pq.read_table(tmp_path / "out")
    assert sorted(zip(table["id"].to_pylist(), table["cents_right"].to_pylist(), strict=True)) == [
        (0, 150),
        (1, 200),
        (2, None),
        (3, None),
    ]


@pytest.mark.nightly  # late rows on Spark are in tests/spark/test_late_output
def test_late_rows_have_folders_of_their_own(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    text = JOB.replace("max_files_per_trigger = 1", "table = true").replace('checkpoint = "checkpoint"', "")
    text = text.replace("[join]", '[join]\nlate = "emit"').replace(
        'path = "out"', 'path = "out"\npartition_by = ["late_side"]'
    )
    text = text.replace('path = "trips"', 'path = "trips"\ncolumns = ["id", "cents", "IF(id = 3, NULL, ts) AS ts"]')
    ran = slidejoin("run", job(tmp_path, text))
    assert (ran.status, ran.err) == (0, "")
    late = pq.read_table(tmp_path / "out" / "late_side=left", partitioning=None)
    assert late.select(["id", "cents_right", "match_time"]).to_pylist() == [
        {"id": 3, "cents_right": None, "match_time": None}
    ]
    pairs = pq.read_table(tmp_path / "out" / "late_side=__HIVE_DEFAULT_PARTITION__", partitioning=None)
    assert pairs.sort_by("id")["id"].to_pylist() == [0, 1, 1]


@pytest.mark.nightly  # by day a job is stopped in test_stops
def test_a_running_job_is_stopped_in_good_order(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    slidejoin.start("run", job(tmp_path, JOB.replace("[spark]", 'trigger = "200 ms"\n[spark]')), "--json")
    deadline = time.monotonic() + 300
    while not list((tmp_path / "checkpoint").glob("commits/0")) and time.monotonic() < deadline:
        time.sleep(0.1)
    slidejoin.interrupt()
    result = slidejoin.wait()
    assert result.err == ""
    assert result.status == 0
    assert result.events()[-1]["stopped"] is True
    assert found(tmp_path) == expected(1)


def test_explain(slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    result = slidejoin("explain", job(tmp_path))
    assert result.err == ""
    assert result.status == 0
    lines = result.out.splitlines()
    assert lines[0] == f"source trips: streaming parquet files, {tmp_path}/trips"
    assert lines[1] == f"source quotes: streaming csv files, {tmp_path}/quotes"
    assert lines[2] == "on Spark: local[2]"
    assert lines[3].startswith("strategy: cell of width ")
    assert any(line.strip().startswith("inner join on ") for line in lines), result.out
    assert lines[-2] == "result: id bigint, cents_right bigint, match_time timestamp"
    assert lines[-1] == f"sink: parquet, {tmp_path}/out; once, over all that is there"
    as_json = slidejoin("explain", job(tmp_path), "--json")
    assert json.loads(as_json.out) == {"job": "job", "plan": result.out.rstrip("\n")}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('path = "trips"', 'path = "nowhere"', "sources.trips.path: nothing at {folder}/nowhere; expected a folder"),
        ("price > 0", "pric > 0", "sources.quotes.where: Spark cannot use 'pric > 0': [UNRESOLVED_COLUMN"),
        ("price * 100 AS", "price * AS", "sources.quotes.columns: Spark cannot use them: "),
        (
            "price DOUBLE",
            "price DOUBEL",
            "sources.quotes.schema: Spark has no type 'DOUBEL', which column price has. Did you mean 'double'?",
        ),
        (
            "l.cents BETWEEN",
            "l.cent BETWEEN",
            "join.on: the left source 'trips' has no column 'cent'; it has id, cents, ts.",
        ),
        (
            'left_on = "ts"',
            'left_on = "tss"',
            "join.window: the left source 'trips' has no column 'tss'; it has id, cents, ts. Did you mean 'ts'?",
        ),
        (
            'select = ["l.id", "r.cents"]',
            'select = ["l.id", "r.cents"]\nstrategy = "hash"',
            "join: strategy 'hash' needs an equality between the sides, such as l.key = r.key; the predicate has band ",
        ),
    ],
)
def test_what_spark_or_the_join_refuses_is_named(old: str, new: str, message: str, slidejoin: Shell, tmp_path: Path):
    put(tmp_path, 0)
    assert JOB.count(old) == 1
    result = slidejoin("run", job(tmp_path, JOB.replace(old, new)))
    assert result.status == 2
    assert result.err.startswith(f"slidejoin: {message.format(folder=tmp_path)}")
    assert "Traceback" not in result.err
    assert "Spark's log" not in result.err
    assert not (tmp_path / "out").exists()
