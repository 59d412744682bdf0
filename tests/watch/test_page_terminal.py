"""The same in a terminal: what is shown in a wide and in a narrow one, and what never reaches it."""

from __future__ import annotations

import io
from threading import Event, Thread

import pytest
from rich.console import Console

from slidejoin.errors import SlideJoinError
from slidejoin.watch.reading import Histogram
from slidejoin.watch.terminal import JobScreen, count, seconds, show_job, size
from slidejoin.watch.view import JobBoard
from tests.watch.page_jobs import VALUE, document, until, with_figures, with_rows


class Paper(Console):
    """A console whose output can be read."""

    def __init__(self, **options):
        self.paper = io.StringIO()
        super().__init__(file=self.paper, **options)


def shown(board, width=120, **options):
    console = Paper(width=width, **options)
    console.print(JobScreen(board))
    return console.paper.getvalue()


@pytest.fixture
def board():
    made = JobBoard(clock=lambda: 1102.0)
    made.add(document(1100.0, 1000))
    pushes = Histogram((0.001, 0.01), (90, 10, 0), 1.0)
    figures = [
        ("slidejoin_push_seconds", {}, pushes),
        ("slidejoin_watermark_seconds", {"side": "orders"}, 1095.0),
        ("slidejoin_watermark_seconds", {"side": "quotes"}, 1090.5),
        ("slidejoin_watermark_held_by", {"side": "quotes"}, 1),
        ("slidejoin_lag_seconds", {"side": "quotes"}, 10.5),
        ("slidejoin_bucket_rows", {"bucket": "0"}, 30),
        ("slidejoin_bucket_rows", {"bucket": "1"}, 10),
        ("slidejoin_bucket_skew", {}, 1.5),
        ("slidejoin_unmatched_rows_total", {"side": "orders"}, 17),
    ]
    made.add(with_figures(document(1101.0, 1250), *figures))
    return made


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_figures_are_shown_in_any_width(board, width):
    text = shown(board, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "trips  ● running" in text
    for part in (
        "orders",
        "quotes",
        "250",
        "1,250",
        "500",
        "2,500",
        "00:18:15",
        "00:18:10 ◂",
        "gap of the watermarks 4.5 s",
    ):
        assert part in text, part
    assert "rows of buckets, skew 1.50" in text
    assert "17 of orders without a match" in " ".join(text.split())
    assert "index: cells" in text
    assert "p50" in text


def test_where_there_are_no_buckets_steps_are_shown():
    board = JobBoard(clock=lambda: 1102.0)
    board.add(with_figures(document(1100.0), ("slidejoin_step_seconds_total", {"step": "probe"}, 2.0)))
    text = shown(board)
    assert "where the time goes" in text
    assert "100 %" in text


def test_values_of_rows_are_text_and_no_commands():
    board = JobBoard(clock=lambda: 1002.0)
    board.add(with_rows(1001.0))
    text = shown(board, force_terminal=True, color_system=None)
    assert f"�[2J{VALUE}" in text
    assert "\x1b[2J" not in text
    assert "<script>document.title" in text
    without = JobBoard(rows=False, clock=lambda: 1002.0)
    without.add(with_rows(1001.0))
    assert VALUE not in shown(without)


def test_a_lost_job_says_why_and_since_when():
    board = JobBoard(clock=lambda: 1200.0)
    board.add(document(1100.0), arrived=1100.0)
    assert "lost  the job does not report any more, figures 100 s old" in shown(board)


def test_without_a_terminal_it_is_printed_once_as_soon_as_there_are_figures():
    board, console = JobBoard(), Paper(width=100)
    thread = Thread(target=show_job, args=(board, console, Event()))
    thread.start()
    board.add(document(1100.0, 10))
    thread.join(10)
    assert not thread.is_alive()
    assert console.paper.getvalue().count("trips") == 1


def test_without_a_terminal_and_without_figures_it_ends_and_says_what_to_do():
    board = JobBoard()
    board.trouble("http://127.0.0.1:1 cannot be reached: Connection refused")
    expected = r"Connection refused; waited 0\.1 s\. Start the job first, or wait longer with --lost-after SECONDS"
    with pytest.raises(SlideJoinError, match=expected):
        show_job(board, Paper(), Event(), patience=0.1)


def test_on_a_terminal_it_goes_on_until_it_is_stopped(board):
    console, stop = Paper(width=100, height=40, force_terminal=True, _environ={"TERM": "xterm"}), Event()
    thread = Thread(target=show_job, args=(board, console, stop))
    thread.start()
    until(lambda: "1,250" in console.paper.getvalue())
    board.add(document(1102.0, 4321))
    until(lambda: "4,321" in console.paper.getvalue())
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def test_numbers_are_short():
    assert [count(one) for one in (0, 3, 0.25, 99_999, 100_000, 12_345_678, 2e9)] == [
        "0", "3", "0.25", "99,999", "100 k", "12.3 M", "2 G",
    ]  # fmt: skip
    assert [seconds(one) for one in (0, 0.5, 90, 150, 10_000, 400_000)] == [
        "0 s", "500 ms", "90 s", "2.5 min", "2.78 h", "4.63 days",
    ]  # fmt: skip
    assert [size(one) for one in (12, 1500, 3e9)] == ["12 bytes", "1.5 kB", "3 GB"]
