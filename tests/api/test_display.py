"""How objects show themselves at the prompt and in notebooks."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from typing import Any

import pytest

import slidejoin as sj
from slidejoin import options
from slidejoin.display import Explanation, figure, size
from slidejoin.operator.stats import Stats


class Cells(HTMLParser):
    """Reads back the cells of a table, row by row, and checks that every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the parser's interface
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] in (["td"], ["th"]):
            self.rows[-1][-1] += data


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("pairs", 0, "0"),
        ("pairs", 2_097_152, "2,097,152"),
        ("window_bytes", 999, "999 bytes"),
        ("window_bytes", 33_554_432, "33.6 MB"),
        ("window_bytes", 999_600, "1 MB"),
        ("probe", 0.0, "0"),
        ("probe", 0.000123456, "0.000123"),
        ("probe", 0.00000012, "0.000000"),
        ("probe", 1.5, "1.50"),
        ("probe", 98765.4, "98,765"),
        ("skew", float("nan"), "nan"),
        ("query_name", None, "none"),
        ("join", "1: l.a < r.b", "1: l.a < r.b"),
        ("flag", True, "True"),
    ],
)
def test_figures(name: str, value: object, text: str) -> None:
    assert figure(name, value) == text


def test_sizes_grow_without_end() -> None:
    assert [size(10**power) for power in (0, 3, 6, 9, 12, 15, 18)] == [
        *("1 byte", "1 kB", "1 MB", "1 GB", "1 TB", "1 PB"),
        "1e+03 PB",
    ]


def test_stats_are_one_figure_a_line() -> None:
    stats = Stats(rows_left=1_048_576, pairs=3, window_bytes=2_500_000, seconds={"probe": 0.123456, "expire": 12.0})
    assert repr(stats) == str(stats)
    assert str(stats).splitlines() == [
        "rows_left:       1,048,576",
        "rows_right:              0",
        "pairs:                   3",
        "late_rows:               0",
        "null_time_rows:          0",
        "window_left:             0",
        "window_right:            0",
        "window_bytes:       2.5 MB",
        "unmatched_left:          0",
        "unmatched_right:         0",
        "seconds:",
        "  probe              0.123",
        "  expire              12.0",
    ]
    rows = Cells(stats._repr_html_()).rows
    assert rows[0] == ["rows_left", "1,048,576"]
    assert rows[-1] == ["  expire", "12.0"]


def test_explanations_show_their_lines_and_stay_texts() -> None:
    join = sj.StreamJoin(on="l.a < r.b", window=sj.CountWindow(9))
    before = join.explain()
    join.push({"a": [1]}, {"b": [2]})
    for text in (before, join.explain()):
        assert isinstance(text, str)
        assert repr(text) == text
        assert "\n" in repr(text)
        assert text.startswith("inner join on l.a < r.b\nwindow: the last 9 rows of each side\n")
        assert json.loads(json.dumps(text)) == text == pickle.loads(pickle.dumps(text))
        assert text._repr_html_().startswith("<pre>inner join on l.a &lt; r.b\n")
    assert type(str(before)) is str
    assert {before: 1}[str(before)] == 1
    assert type(pickle.loads(pickle.dumps(before))) is Explanation


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"on": "l.a < r.b", "window": sj.CountWindow(5)}, "StreamJoin(on='l.a < r.b', window=CountWindow(5))"),
        (
            {"on": "x.a = y.b", "window": sj.TimeWindow(5, on="t"), "aliases": ("x", "y"), "select": ("x.a",)},
            "StreamJoin(on='x.a = y.b', window=TimeWindow(5, on='t'), select=['x.a'], aliases=['x', 'y'])",
        ),
        (
            {"on": sj.left.a < sj.right.b, "window": sj.CountWindow(5), "output": "count", "threads": 2},
            "StreamJoin(on='l.a < r.b', window=CountWindow(5), output='count', threads=2)",
        ),
        (
            {"on": "l.a = r.b", "window": sj.CountWindow(5), "algorithm": options.NestedLoop(batch=3)},
            "StreamJoin(on='l.a = r.b', window=CountWindow(5), algorithm=NestedLoop(basic_window=None, batch=3))",
        ),
        (
            {"on": "l.a = r.b", "window": sj.CountWindow(5), "algorithm": "hash"},
            "StreamJoin(on='l.a = r.b', window=CountWindow(5), algorithm='hash')",
        ),
    ],
)
def test_a_join_shows_the_call_that_makes_it(arguments: dict[str, Any], text: str) -> None:
    join = sj.StreamJoin(**arguments)
    assert repr(join) == text
    names = {"StreamJoin": sj.StreamJoin, **{n: getattr(sj, n) for n in ("CountWindow", "TimeWindow")}, **vars(options)}
    assert repr(eval(text, names)) == text  # noqa: S307 - that is what a repr is for
    html = join._repr_html_()
    assert html.startswith("<pre>StreamJoin(on=")
    assert ["rows_left", "0"] in Cells(html).rows


@pytest.mark.parametrize(
    ("window", "text", "words"),
    [
        (sj.CountWindow(500), "CountWindow(500)", "the last 500 rows of each side"),
        (sj.CountWindow(1_000_000), "CountWindow(1_000_000)", "the last 1,000,000 rows of each side"),
        (
            sj.CountWindow(left=7, right=20_000, slide=3),
            "CountWindow(left=7, right=20_000, slide=3)",
            "the last 7 left and 20,000 right rows, which leave in blocks of 3",
        ),
        (sj.TimeWindow("600 s", on="ts"), "TimeWindow('10 minutes', on='ts')", "10 minutes on ts"),
        (
            sj.TimeWindow(left="90 min", right="0 s", left_on="a", right_on="b", lateness="9 s"),
            "TimeWindow(left='1 hour 30 minutes', right='0 seconds', left_on='a', right_on='b', lateness='9 seconds')",
            "1 hour 30 minutes for left rows, 0 seconds for right rows, on a (left) and b (right), lateness 9 seconds",
        ),
        (sj.TimeWindow(5, on="ts", lateness="0 weeks"), "TimeWindow(5, on='ts', lateness='0 seconds')", "5 on ts"),
        (sj.TimeWindow("10 days", on="ts"), "TimeWindow('10 days', on='ts')", "10 days on ts"),
        (sj.TimeWindow("14 days", on="ts"), "TimeWindow('2 weeks', on='ts')", "2 weeks on ts"),
    ],
)
def test_windows(window: Any, text: str, words: str) -> None:
    assert repr(window) == text
    assert str(window) == words


@pytest.mark.parametrize("module", ["slidejoin", "slidejoin.spark"])
def test_public_names_are_listed_before_they_are_loaded(module: str) -> None:
    """What completion and help go by; private names and what a module imports are not among them."""
    code = f"""
import sys, {module}
names = [name for name in dir({module}) if not name.startswith("__")]
print(names == sorted({{*{module}.__all__, *(getattr({module}, "_MODULES", ()))}} - {{"__version__"}}))
print([name for name in ("numba", "pyarrow", "pyspark") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True", "[]"]


@pytest.mark.parametrize("module", ["slidejoin", "slidejoin.spark"])
def test_help_shows_the_public_names(module: str) -> None:
    code = f"import pydoc, {module}; print(pydoc.plain(pydoc.render_doc({module})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, contents, after = done.stdout.partition("PACKAGE CONTENTS")
    assert contents
    listed = {"slidejoin": ("StreamJoin", "join_streams", "TimeWindow", "SlideJoinError", "slidejoin.spark")}
    for name in listed.get(module, ("stream_join", "explain_join", "advised_settings", "watch", "inspect_state")):
        assert f"`{name}`" in before
    for name in set(import_module(module).__all__) - {"__version__"}:
        assert name in after
