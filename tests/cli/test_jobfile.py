from __future__ import annotations

import dataclasses
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest

from slidejoin import Aggregate, CountWindow, Nearest, TimeWindow
from slidejoin.cli.job import Job, Session, Sink, Source
from slidejoin.cli.jobfile import read_job, read_job_text
from slidejoin.errors import ConfigError
from slidejoin.options import BiSort, POJoin
from slidejoin.spec.window import TableWindow

BASE = Path("/data")

GOOD = """
[sources.trips]
format = "parquet"
path = "trips"

[sources.quotes]
format = "csv"
path = "s3a://bucket/quotes"
schema = "price DOUBLE, ts TIMESTAMP"
options = { header = true, sep = ";", maxColumns = 20 }
columns = ["*", "price * 100 AS cents"]
where = "price > 0"
max_files_per_trigger = 2

[join]
left = "trips"
right = "quotes"
on = "l.fare BETWEEN r.price - 5 AND r.price + 5"
window = { left = "10 minutes", right = "1 hour", left_on = "start", right_on = "ts", lateness = "30 seconds" }

[sink]
format = "parquet"
path = "out"
checkpoint = "/elsewhere/checkpoint"
trigger = "10 seconds"

[spark]
master = "local[4]"
conf = { "spark.driver.memory" = "4g" }
"""


def read(text: str = GOOD) -> Job:
    return read_job_text(text, BASE)


def replaced(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


TIMED = GOOD[GOOD.index("window = {") : GOOD.index("[sink]")]


@pytest.mark.parametrize(
    ("written", "window"),
    [
        ('kind = "count", rows = 9, order_by = "ts"', CountWindow(9)),
        ('kind = "count", left = 5, right = 7, slide = 2, order_by = "ts"', CountWindow(left=5, right=7, slide=2)),
    ],
)
def test_windows_of_rows(written: str, window: CountWindow):
    join = read(replaced(TIMED, f"window = {{ {written} }}\n")).join
    assert (join.window, join.order_by) == (window, "ts")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("rows = 9", "join.window.order_by: missing; expected the column of both sides by which"),
        ('order_by = "ts"', "join.window.rows: missing; expected a whole number of rows"),
        ('left = 5, order_by = "ts"', "join.window.right: missing; expected a whole number of rows"),
        ('rows = 5, left = 5, right = 5, order_by = "ts"', "join.window.rows: join.window has left or right too"),
        ('rows = 5, slide = 6, order_by = "ts"', "join.window.slide: got 6 .*, expected no more rows than the window"),
    ],
)
def test_windows_of_rows_that_cannot_be(written: str, message: str):
    with pytest.raises(ConfigError, match=message):
        read(replaced(TIMED, f'window = {{ kind = "count", {written} }}\n'))


def test_everything_in_a_file_is_read():
    job = read()
    assert job.sources["trips"] == Source("trips", "parquet", "/data/trips")
    assert job.sources["quotes"] == Source(
        name="quotes",
        format="csv",
        path="s3a://bucket/quotes",
        schema="price DOUBLE, ts TIMESTAMP",
        columns=("*", "price * 100 AS cents"),
        where="price > 0",
        options={"header": "true", "sep": ";", "maxColumns": "20"},
        max_files_per_trigger=2,
    )
    assert job.join.window == TimeWindow(
        left="10 minutes", right="1 hour", left_on="start", right_on="ts", lateness="30 seconds"
    )
    assert (job.join.left, job.join.right, job.join.self_join) == ("trips", "quotes", False)
    assert job.sink == Sink("parquet", "/data/out", "/elsewhere/checkpoint", job.sink.interval, {})
    assert str(job.sink.interval) == "10 seconds"
    assert job.session == Session("local[4]", {"spark.driver.memory": "4g"}, formats=("parquet", "csv"))
    assert job.stream


@pytest.mark.parametrize(
    ("written", "keep", "output"),
    [
        ('keep = { left = "l.start", right = "r.ts" }', Nearest("l.start", "r.ts"), "pairs"),
        (
            'keep = { left = "l.fare", right = "r.price", direction = "nearest", k = 3 }',
            Nearest("l.fare", "r.price", "nearest", 3),
            "pairs",
        ),
        ('output = { n = "count", high = "max(r.price)" }', None, Aggregate(n="count", high="max(r.price)")),
    ],
)
def test_nearest_matches_and_aggregates(written: str, keep: Nearest | None, output: object):
    join = read(replaced('right = "quotes"', f'right = "quotes"\n{written}')).join
    assert (join.keep, join.output) == (keep, output)


def test_late_rows_may_be_put_out_in_folders_of_their_own():
    text = replaced('right = "quotes"', 'right = "quotes"\nlate = "emit"')
    job = read(text.replace('path = "out"', 'path = "out"\npartition_by = ["late_side"]'))
    assert (job.join.late, job.sink.partition_by) == ("emit", ("late_side",))


@pytest.mark.parametrize(
    ("text", "algorithm"),
    [
        ('"wib_tree"', "wib_tree"),
        ('{ name = "po_join", slide_interval = 1000, blocking = true }', POJoin(slide_interval=1000, blocking=True)),
        ('{ name = "bi_sort", buffer_size = 64 }', BiSort(buffer_size=64)),
    ],
)
def test_the_index_of_buckets_has_a_name_or_options(text: str, algorithm: object):
    assert read(replaced('right = "quotes"', f'right = "quotes"\nalgorithm = {text}')).join.algorithm == algorithm


def test_what_is_not_said_has_a_default():
    job = read("""
        sources.a = { format = "parquet", path = "~/a" }
        join = { self_join = "a", on = "l.x < r.x", window = { length = "1 minute", on = "ts" } }
        sink = { format = "console" }
    """)
    join = job.join
    assert (join.how, join.output, join.select, join.suffix) == ("inner", "pairs", None, "_right")
    assert (join.keep, join.late) == (None, "drop")
    assert (join.aliases, join.strategy, join.partitions) == (("l", "r"), "auto", None)
    assert join.algorithm == "auto"
    assert join.self_join
    assert join.window == TimeWindow(timedelta(minutes=1), on="ts", lateness="0 seconds")
    assert job.sink == Sink("console")
    assert job.session == Session("local[*]", {}, formats=("parquet", "console"))
    assert job.sources["a"].path == str(Path.home() / "a")


def test_a_job_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        read().join.how = "left"  # type: ignore[misc]


def test_triggers_and_restarts():
    once = read(replaced('trigger = "10 seconds"', 'trigger = "once"\nstop_after = "1 hour"')).sink
    assert (once.once, once.interval, str(once.stop_after)) == (True, None, "1 hour")
    assert read(replaced('trigger = "10 seconds"', 'every = "10 seconds"')) == read()
    session = read(
        replaced(
            'master = "local[4]"',
            'packages = "auto"\njars = "jars"\nretries = 3\nbackoff = "2 seconds"',
        )
    ).session
    assert (session.auto_packages, session.packages, session.jars) == (True, (), ("/data/jars",))
    assert (session.retries, str(session.backoff)) == (3, "2 seconds")
    listed = read(replaced('master = "local[4]"', 'packages = ["a:b:1"]\njars = ["x", "/y.jar"]')).session
    assert (listed.packages, listed.jars) == (("a:b:1",), ("/data/x", "/y.jar"))
    with pytest.raises(
        ConfigError, match=r"spark.retries: a query is started again on its checkpoint, and there is none"
    ):
        read(
            """
            sources.a = { format = "rate" }
            join = { self_join = "a", on = "l.x < r.x", window = { length = "1 s", on = "timestamp" } }
            sink = { format = "console" }
            spark = { retries = 3 }
            """
        )


READ = (
    "one of parquet, csv, json, orc, avro, text, xml, arrow, kafka, delta, iceberg, rate, rate-micro-batch, socket, "
    "jdbc"
)

# what is replaced in the good file, by what, and the whole message
WRONG = [
    (
        "[sink]",
        "[sinks]",
        (
            "sinks: unknown key; the keys here are engine, sources, join, sink, spark, embedded, watch. "
            "Did you mean 'sink'?"
        ),
    ),
    (
        'format = "csv"\n',
        "",
        f"sources.quotes.format: missing; expected {READ}, or the name of another that Spark has.",
    ),
    (
        'format = "csv"',
        'format = "cvs"',
        f"sources.quotes.format: got 'cvs', expected {READ}, or the name of another that Spark has. Did you mean",
    ),
    (
        'schema = "price DOUBLE, ts TIMESTAMP"\n',
        "",
        (
            'sources.quotes.schema: missing; expected a schema in SQL such as "id BIGINT, ts TIMESTAMP", '
            "which a stream of csv needs."
        ),
    ),
    ('path = "trips"', "path = 3", "sources.trips.path: got 3 (a whole number), expected a folder or file."),
    ('path = "trips"', 'path = " "', "sources.trips.path: got ' ', expected a folder or file."),
    ('path = "trips"', "", "sources.trips.path: missing; expected a folder or file."),
    (
        "where =",
        "wher =",
        (
            "sources.quotes.wher: unknown key; the keys here are format, path, table, refresh, schema, schema_file, "
            "columns, where, options, max_files_per_trigger, max_rows, max_wait, bad_rows. Did you mean 'where'?"
        ),
    ),
    (
        'columns = ["*", "price * 100 AS cents"]',
        'columns = "price"',
        (
            "sources.quotes.columns: got 'price', expected a list of SQL expressions such as "
            '["*", "price * 100 AS cents"].'
        ),
    ),
    (
        "max_files_per_trigger = 2",
        "max_files_per_trigger = 0",
        "sources.quotes.max_files_per_trigger: got 0 (a whole number), expected a whole number of at least 1.",
    ),
    (
        "max_files_per_trigger = 2",
        "max_files_per_trigger = true",
        "sources.quotes.max_files_per_trigger: got true (true or false), expected a whole number of at least 1.",
    ),
    (
        "max_files_per_trigger = 2",
        "max_files_per_trigger = 2\ntable = true",
        "sources.quotes.max_files_per_trigger: only a stream has triggers, and sources.quotes.table is true.",
    ),
    (
        "max_files_per_trigger = 2",
        'table = "yes"',
        "sources.quotes.table: got 'yes', expected true or false.",
    ),
    (
        "max_files_per_trigger = 2",
        "stream = false",
        "sources.quotes.stream: unknown key; the keys here are format, path, table, refresh, schema, schema_file, ",
    ),
    (
        "max_files_per_trigger = 2",
        'refresh = "10 minutes"',
        "sources.quotes.refresh: only a table is read again; write sources.quotes.table = true, or remove the key.",
    ),
    (
        "max_files_per_trigger = 2",
        "table = true",
        (
            "join.window: is for joins in a window, and the source quotes is a table (table = true), all of whose "
            "rows are met; remove the key, or make the source a stream."
        ),
    ),
    (
        'sep = ";"',
        "sep.a = 1",
        (
            "sources.quotes.options.sep: got a table, expected text, a number, true or false. "
            "A dot in a key makes a table: write it in quotes."
        ),
    ),
    ('right = "quotes"\n', "", "join.right: missing; expected the name of a source: trips, quotes."),
    (
        'right = "quotes"',
        'right = "quote"',
        "join.right: got 'quote', expected the name of a source: trips, quotes. Did you mean 'quotes'?",
    ),
    (
        'right = "quotes"',
        'right = "trips"',
        "join.right: 'trips' is the left source too; write self_join = \"trips\" instead of both.",
    ),
    (
        'right = "quotes"',
        'self_join = "trips"',
        "join.left: join.self_join is there too; give left and right, or self_join alone.",
    ),
    (
        'left = "trips"\nright = "quotes"',
        'self_join = "trips"',
        "sources.quotes: not used by the join, which names trips; remove it or name it there.",
    ),
    (
        'on = "l.fare BETWEEN r.price - 5 AND r.price + 5"\n',
        "",
        'join.on: missing; expected an SQL condition such as "l.a < r.b".',
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nhow = "outer"',
        "join.how: got 'outer', expected one of inner, left, right, full, left_semi, left_anti.",
    ),
    (
        'right = "quotes"',
        'right = "quotes"\noutput = "counts"',
        "join.output: got 'counts', expected one of pairs, count. Did you mean 'count'?",
    ),
    (
        'right = "quotes"',
        'right = "quotes"\noutput = { n = 1 }',
        (
            'join.output: got a table, expected "pairs", "count", or a table of functions such as '
            '{ n = "count", total = "sum(r.x)" }.'
        ),
    ),
    (
        'right = "quotes"',
        'right = "quotes"\noutput = { n = "median(r.price)" }',
        (
            "join.output: Aggregate n='median(r.price)' is none of count, sum, min, max, mean; write 'count' or "
            "'sum(r.qty)'."
        ),
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nkeep = "l.ts"',
        'join.keep: got \'l.ts\', expected a table such as { left = "l.ts", right = "r.ts" }.',
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nkeep = { left = "l.start" }',
        'join.keep.right: missing; expected a right column such as "r.ts".',
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nkeep = { left = "start", right = "r.ts" }',
        "join.keep: Nearest left_column must be a left column, written l.name; got 'start'",
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nkeep = { left = "l.start", right = "r.ts", direction = "back" }',
        "join.keep.direction: got 'back', expected one of backward, forward, nearest.",
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nkeep = { left = "l.start", right = "r.ts", n = 2 }',
        "join.keep.n: unknown key; the keys here are left, right, direction, k.",
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nlate = "keep"',
        "join.late: got 'keep', expected one of drop, emit.",
    ),
    (
        'right = "quotes"',
        'right = "quotes"\naliases = ["t"]',
        'join.aliases: got [\'t\'] (a list), expected two names such as ["l", "r"].',
    ),
    (
        'right = "quotes"',
        'right = "quotes"\naliases = ["t", "q"]\nselect = []',
        'join.select: got [] (a list), expected a list of columns such as ["t.id", "q.id"].',
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nstrategy = "hashed"',
        (
            "join.strategy: got 'hashed', expected one of auto, hash, cell, grid, broadcast, split, sub_windows. "
            "Did you mean 'hash'?"
        ),
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nalgorithm = "po_jion"',
        "join.algorithm: got 'po_jion', expected one of auto,",
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nalgorithm = { slide = 3 }',
        "join.algorithm.name: got none, expected the name of one of ",
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nalgorithm = { name = "band_cells", fan_out = 3 }',
        "join.algorithm.name: got 'band_cells', expected the name of one of ",
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nalgorithm = { name = "po_join", slide = 3 }',
        "join.algorithm.slide: unknown key; the keys here are name, slide_interval,",
    ),
    (
        'right = "quotes"',
        'right = "quotes"\nalgorithm = { name = "po_join", slide_interval = 0 }',
        "join.algorithm: slide_interval",
    ),
    ('left = "10 minutes"', 'kind = "cuont"', "join.window.kind: got 'cuont', expected one of time, count. Did you"),
    (
        'left = "10 minutes"',
        "slide = 2",
        "join.window.slide: is not for windows of kind 'time'; remove the key, or change",
    ),
    (
        'left = "10 minutes"',
        'kind = "count"',
        "join.window.left_on: is not for windows of kind 'count'; remove the key",
    ),
    (
        'left = "10 minutes", ',
        "",
        'join.window.left: missing; expected a length of time such as "10 minutes", since the other side has one.',
    ),
    (
        'left = "10 minutes"',
        'lenght = "10 minutes"',
        (
            "join.window.lenght: unknown key; the keys here are kind, left, right, length, on, left_on, right_on, "
            "lateness, rows, slide, order_by. Did you mean 'length'?"
        ),
    ),
    (
        'left = "10 minutes"',
        'left = "10 minuets"',
        (
            "join.window.left: unknown unit 'minuets' in '10 minuets'; the units are nanosecond, microsecond, "
            "millisecond, second, minute, hour, day, week, "
            "as in '10 minutes' or '1 hour 30 minutes'. Did you mean 'minute'?"
        ),
    ),
    (
        'left = "10 minutes"',
        "left = 600",
        'join.window.left: got 600 (a whole number), expected a length of time such as "10 minutes".',
    ),
    (
        'left = "10 minutes"',
        'length = "1 s", left = "10 minutes"',
        "join.window.length: join.window.left is there too; give length, or left and right.",
    ),
    (
        'left = "10 minutes", right = "1 hour", ',
        "",
        'join.window.length: missing; expected a length of time such as "10 minutes".',
    ),
    (
        'left_on = "start", ',
        "",
        "join.window.left_on: missing; expected the name of the event-time column, since the other side has one.",
    ),
    (
        'left_on = "start", ',
        'left_on = "start", on = "ts", ',
        "join.window.on: join.window.left_on is there too; give on, or left_on and right_on.",
    ),
    (
        'left_on = "start", right_on = "ts", ',
        "",
        "join.window.on: missing; expected the name of the event-time column.",
    ),
    ('lateness = "30 seconds"', 'lateness = ""', "join.window.lateness: got '', expected a length of time"),
    ('path = "out"\n', "", "sink.path: missing; expected a folder for the results."),
    (
        'checkpoint = "/elsewhere/checkpoint"\n',
        "",
        "sink.checkpoint: missing; expected a folder for the progress of the job, for restarts.",
    ),
    (
        'trigger = "10 seconds"',
        'trigger = "availablenow"',
        (
            'sink.trigger: got \'availablenow\', expected "available_now", "once" or a length of time such as '
            '"10 minutes"'
            ". Did you mean 'available_now'?"
        ),
    ),
    (
        'trigger = "10 seconds"',
        'trigger = "continuous"',
        "sink.trigger: Spark's continuous processing has no joins, nor anything else that keeps state; use a short",
    ),
    (
        'trigger = "10 seconds"',
        'trigger = "once"\nevery = "1 second"',
        "sink.every: sink.trigger is there too; give one of them.",
    ),
    (
        'master = "local[4]"',
        'packages = ["kafka"]',
        "spark.packages: got 'kafka', expected GROUP:ARTEFACT:VERSION.",
    ),
    (
        'format = "parquet"\npath = "out"',
        'format = "noop"\npath = "out"',
        "sink.path: the format noop writes no files; remove the key.",
    ),
    (
        'format = "parquet"\npath = "out"',
        'format = "noop"\npartition_by = ["late_side"]',
        "sink.partition_by: the format noop writes no files; remove the key.",
    ),
    (
        'path = "out"\n',
        'path = "out"\npartition_by = "late_side"\n',
        "sink.partition_by: got 'late_side', expected a list of columns of the result such as [\"late_side\"].",
    ),
    (
        'format = "parquet"\npath = "out"',
        'format = "kafka"\npath = "out"',
        "sink.path: unknown key; the keys here are format, options, checkpoint, trigger, every, stop_after, brokers,",
    ),
    (
        'conf = { "spark.driver.memory" = "4g" }',
        'conf = { "driver.memory" = "4g" }',
        "spark.conf.driver.memory: unknown key; the settings of Spark start with 'spark.'.",
    ),
    ('conf = { "spark.driver.memory" = "4g" }', "conf = 3", "spark.conf: got 3 (a whole number), expected a table"),
    ("[spark]", "spark = 3\n[sparks]", "sparks: unknown key"),
    ('master = "local[4]"', "master = []", "spark.master: got [] (a list), expected a Spark master"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[case[2].split(":")[0] for case in WRONG])
def test_a_wrong_key_is_named(old: str, new: str, message: str):
    if GOOD.count(old) != 1:
        pytest.fail(f"{old!r} is {GOOD.count(old)} times in the good file")
    with pytest.raises(ConfigError) as caught:
        read(GOOD.replace(old, new))
    assert str(caught.value).startswith(message)


def test_missing_tables_are_named():
    with pytest.raises(ConfigError, match=r"^sources: missing; expected one table \[sources.NAME\] for each source\.$"):
        read("")
    tables = tomllib.loads(GOOD)
    assert set(tables) == {"sources", "join", "sink", "spark"}
    with pytest.raises(ConfigError, match=r"^join: missing; expected the table \[join\]\.$"):
        read('sources.a = { format = "parquet", path = "a" }')


def test_a_checkpoint_or_trigger_needs_a_stream():
    text = GOOD.replace("max_files_per_trigger = 2", "table = true").replace(
        'path = "trips"', 'path = "t"\ntable = true'
    )
    with pytest.raises(
        ConfigError, match=r"^sink\.checkpoint: only a stream has one, and the sources have table = true"
    ):
        read(text)


def test_a_file_that_is_no_toml(tmp_path: Path):
    file = tmp_path / "job.toml"
    file.write_text("[join\n")
    with pytest.raises(ConfigError, match=r"job\.toml: not valid TOML: .*line 1"):
        read_job(file)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"nothing\.toml: cannot be read: No such file or directory\. Give the path"):
        read_job(tmp_path / "nothing.toml")


def test_relative_paths_start_at_the_file_or_at_the_base(tmp_path: Path):
    file = tmp_path / "job.toml"
    file.write_text(GOOD)
    assert read_job(file).sink.path == str(tmp_path / "out")
    assert read_job(file, Path("/other")).sources["trips"].path == "/other/trips"
    assert read_job(file, Path("/other")).sources["quotes"].path == "s3a://bucket/quotes"


def test_an_error_names_the_file(tmp_path: Path):
    file = tmp_path / "job.toml"
    file.write_text(replaced('path = "trips"', ""))
    with pytest.raises(ConfigError, match=r"job\.toml: sources\.trips\.path: missing"):
        read_job(file)


def test_joins_with_tables_have_no_window() -> None:
    text = GOOD.replace("max_files_per_trigger = 2", "table = true").replace(TIMED, "")
    made = read(text)
    assert made.stream
    assert isinstance(made.join.window, TableWindow)
    for line in ('strategy = "hash"', "partitions = 3", "spread = 2", 'late = "emit"'):
        key = line.partition(" ")[0]
        with pytest.raises(
            ConfigError, match=rf"^join\.{key}: is for joins in a window, and the source quotes is a table"
        ):
            read(text.replace("[join]", f"[join]\n{line}"))
    both = text.replace('path = "trips"', 'path = "t"\ntable = true').replace(
        'checkpoint = "/elsewhere/checkpoint"\ntrigger = "10 seconds"', ""
    )
    with pytest.raises(ConfigError, match=r"^sources\.trips\.refresh: no source is a stream, and each table"):
        read(both.replace("table = true", 'table = true\nrefresh = "1 minute"'))
    mirrored = text.replace('left = "trips"\nright = "quotes"', 'left = "quotes"\nright = "trips"')
    assert mirrored != text
    assert read(mirrored).sink.checkpoint == "/elsewhere/checkpoint"
    made = read(both)
    assert (made.stream, isinstance(made.join.window, TableWindow)) == (False, True)
    with pytest.raises(ConfigError, match=r"^join\.window: missing"):
        read(GOOD.replace(TIMED, ""))
