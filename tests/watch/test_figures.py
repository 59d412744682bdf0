"""Readings, documents and the history of a job: what they hold, and what comes back from a file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow as pa
import pytest

from slidejoin.errors import ArgumentError, StateError
from slidejoin.watch.document import Document, JobFacts, LogLine, NewestLines, NewestPairs, PassedTerm
from slidejoin.watch.figures import FIGURES, figure_table, figures_by_name
from slidejoin.watch.history import FILE, OLDER, History, history_folder, newest_document, read_history
from slidejoin.watch.reading import Histogram, Reading, event_times

ROOT = Path(__file__).resolve().parents[2]
FACTS = JobFacts("job", "embedded", 1.0, "l.a = r.a", "10 rows", "cells", ("left", "right"))


def reading(time: float = 5.0) -> Reading:
    return Reading(time).with_values(
        ("slidejoin_rows_total", {"side": "left"}, 12),
        ("slidejoin_rows_total", {"side": "right"}, 7),
        ("slidejoin_pairs_total", {}, 3),
        ("slidejoin_push_seconds", {}, Histogram((0.1, 1.0), (2, 1, 1), 6.3)),
        *event_times({"left": 3.0, "right": 4.0}, {"left": 1.0, "right": 1.0}, "left"),
    )


def document(time: float, ended: bool = False) -> Document:
    pairs = ("a", "b"), (("1", "2"), ("3", ""))
    log = (LogLine(1.5, "WARNING", "a side is idle"),)
    return Document(FACTS, reading(time), (PassedTerm("l.a = r.a", 0.25),), pairs, log, ended)


def test_the_table_of_the_documentation_is_that_of_the_figures():
    page = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
    assert figure_table() in page


def test_names_are_as_prometheus_has_them():
    assert len(figures_by_name()) == len(FIGURES)
    for figure in FIGURES:
        assert figure.name.startswith("slidejoin_")
        assert figure.name.endswith("_total") == (figure.kind == "counter")
        assert figure.help.endswith(".")
        if figure.unit in {"seconds", "bytes"}:
            assert figure.unit in figure.name


def test_a_reading_has_values_by_name_and_label():
    taken = reading()
    assert taken.value("slidejoin_rows_total", side="right") == 7.0
    assert taken.of("slidejoin_rows_total") == {"left": 12.0, "right": 7.0}
    assert taken.value("slidejoin_feed_rows") is None
    assert taken.value("slidejoin_push_seconds") == 4.0
    assert taken.of("slidejoin_watermark_held_by") == {"left": 1.0, "right": 0.0}
    histogram = taken.histogram("slidejoin_push_seconds")
    assert histogram is not None
    assert histogram.cumulative() == [(0.1, 2), (1.0, 3), (math.inf, 4)]
    assert taken.at(10.0).of("slidejoin_lag_seconds") == {"left": 7.0, "right": 6.0}
    assert "rows_total (left):" in str(taken)


def test_what_a_reading_does_not_have_is_refused():
    taken = reading()
    with pytest.raises(ArgumentError, match=r"no figure 'slidejoin_pair_total'.*Did you mean 'slidejoin_pairs_total'"):
        taken.value("slidejoin_pair_total")
    with pytest.raises(ArgumentError, match="slidejoin_rows_total has the labels side; got none"):
        taken.value("slidejoin_rows_total")
    with pytest.raises(ArgumentError, match="slidejoin_pairs_total has no labels; got side"):
        taken.value("slidejoin_pairs_total", side="left")
    with pytest.raises(ArgumentError, match="is a counter, not a histogram"):
        taken.histogram("slidejoin_pairs_total")


def test_quantiles_are_between_the_bounds_of_their_bucket():
    whole = Histogram((1.0, 2.0, 4.0), (0, 10, 10, 0), 45.0)
    assert whole.quantile(0.25) == pytest.approx(1.5)
    assert whole.quantile(0.75) == pytest.approx(3.0)
    assert Histogram((1.0,), (0, 5), 50.0).quantile(0.5) == 1.0
    assert math.isnan(Histogram.empty((1.0,)).quantile(0.5))
    assert Histogram.empty((1.0, 2.0)).with_value(1.0).with_value(9.0) == Histogram((1.0, 2.0), (1, 0, 1), 10.0)


def test_a_document_is_as_it_was_written():
    whole = document(5.0)
    plain = json.loads(json.dumps(whole.to_json()))
    assert Document.from_json(plain) == whole
    assert plain["version"] == 1
    buckets = next(one for one in plain["figures"] if one["name"] == "slidejoin_push_seconds")
    assert buckets == {
        "name": "slidejoin_push_seconds", "labels": {}, "buckets": [[0.1, 2], [1.0, 3], ["+Inf", 4]], "sum": 6.3,
        "count": 4,
    }  # fmt: skip
    hidden = Document(FACTS, reading())
    assert Document.from_json(hidden.to_json()).pairs is None


def test_figures_of_a_later_version_are_left_out():
    plain = document(5.0).to_json()
    plain["figures"].append({"name": "slidejoin_new_total", "labels": {}, "value": 1})
    assert Document.from_json(plain) == document(5.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version 1 was expected, got 2"),
        ({"figures": [{"name": "slidejoin_pairs_total"}]}, "figures should be"),
        ({"figures": 3}, "figures should be"),
        ({"terms": [{"term": "x", "passed": "much"}]}, "is damaged"),
        ({"terms": [{"term": "x", "passed": "nan"}]}, "is damaged"),
        ({"job": None}, "is damaged"),
        ({"log": [3]}, "is damaged"),
    ],
)
def test_other_documents_are_refused(change, message):
    with pytest.raises(StateError, match=message):
        Document.from_json(document(5.0).to_json() | change)
    with pytest.raises(StateError, match="got 'list'"):
        Document.from_json([])


def test_the_newest_rows_are_shown_as_text():
    newest = NewestPairs(3)
    assert newest.shown() == ((), ())
    newest.take(pa.table({"a": [1, 2], "b": ["x", None]}))
    newest.take(pa.table({"a": [3, 4], "b": ["y" * 300, "z"]}))
    columns, rows = newest.shown()
    assert columns == ("a", "b")
    assert [row[0] for row in rows] == ["2", "3", "4"]
    assert rows[0][1] == ""
    assert rows[1][1] == "y" * 199 + "…"
    newest.take(pa.table({"a": range(100), "b": ["w"] * 100}))
    assert [row[0] for row in newest.shown()[1]] == ["97", "98", "99"]


def test_rows_of_any_type_are_shown():
    newest = NewestPairs()
    nanoseconds = pa.timestamp("ns", "UTC")
    lists = pa.array([[1, 2]], pa.list_(nanoseconds))
    table = pa.table({"at": pa.array([1], nanoseconds), "blob": [b"\x00"], "lists": lists})
    newest.take(table.append_column("at", pa.array([2], pa.time64("ns"))))
    columns, ((at, blob, in_list, other),) = newest.shown()
    assert columns == ("at", "blob", "lists", "at")
    assert (at, other) == ("1970-01-01 00:00:00.000000001Z", "00:00:00.000000002")
    assert blob == repr(b"\x00")
    assert in_list


def test_rows_too_wide_for_people_are_not_held():
    newest = NewestPairs()
    newest.take(pa.table({"a": ["x" * (1 << 20)] * 3}))
    assert newest.shown() == ((), ())


def test_the_newest_lines_of_the_log_are_shown():
    lines = NewestLines()
    for number in range(60):
        lines.add(f"line {number}", at=float(number))
    shown = lines.shown()
    assert (len(shown), shown[0], shown[-1].text) == (50, LogLine(10.0, "INFO", "line 10"), "line 59")


# -- the history -------------------------------------------------------------------------------------------------------


def test_documents_come_back_in_their_order(tmp_path: Path):
    assert list(read_history(tmp_path)) == []
    assert newest_document(tmp_path) is None
    history = History(tmp_path)
    for time in range(5):
        history.append(document(float(time), time == 4))
    assert [one.time for one in read_history(tmp_path)] == [0.0, 1.0, 2.0, 3.0, 4.0]
    newest = newest_document(tmp_path)
    assert newest == document(4.0, True)


def test_a_history_is_bounded(tmp_path: Path):
    line = len(json.dumps(document(10.0).to_json(), separators=(",", ":"))) + 1
    history = History(tmp_path, most_bytes=4 * line)
    for time in range(10, 21):
        history.append(document(float(time)))
    folder = history_folder(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == sorted([FILE, OLDER])
    assert all(path.stat().st_size <= 4 * line for path in folder.iterdir())
    times = [one.time for one in read_history(tmp_path)]
    assert times == [float(time) for time in range(21 - len(times), 21)]
    assert 5 <= len(times) <= 8


def test_a_torn_line_is_skipped(tmp_path: Path):
    history = History(tmp_path)
    history.append(document(1.0))
    file = history_folder(tmp_path) / FILE
    whole = file.read_bytes()
    with file.open("ab") as end:
        end.write(whole[: len(whole) // 2])
    assert [one.time for one in read_history(tmp_path)] == [1.0]
    newest = newest_document(tmp_path)
    assert newest is not None
    assert newest.time == 1.0
    history.append(document(2.0))  # which begins a line
    assert [one.time for one in read_history(tmp_path)] == [1.0, 2.0]


def test_the_newest_document_may_be_in_the_older_file(tmp_path: Path):
    history = History(tmp_path)
    history.append(document(1.0))
    folder = history_folder(tmp_path)
    (folder / FILE).replace(folder / OLDER)
    newest = newest_document(tmp_path)
    assert newest is not None
    assert newest.time == 1.0
    (folder / FILE).write_bytes(b"no JSON\n[1]\n")
    assert newest_document(tmp_path) == newest
    assert [one.time for one in read_history(tmp_path)] == [1.0]


def test_a_history_that_cannot_be_written_is_an_error_of_the_system(tmp_path: Path):
    (tmp_path / "slidejoin-metrics").write_text("a file")
    with pytest.raises(OSError, match="slidejoin-metrics"):
        History(tmp_path).append(document(1.0))
    assert (tmp_path / "slidejoin-metrics").read_text() == "a file"
