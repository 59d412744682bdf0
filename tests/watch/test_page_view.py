"""What is shown of documents: rates, latencies and shares of now, and how the job is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slidejoin.watch.reading import Histogram
from slidejoin.watch.view import POINTS, JobBoard
from tests.watch.page_jobs import FACTS, VALUE, document, with_figures, with_rows


class Clock:
    def __init__(self, now=1100.0):
        self.now = now

    def __call__(self):
        return self.now


def sides(board):
    return {side["name"]: side for side in board.details()["sides"]}


def test_rates_are_those_of_the_last_ten_seconds_and_points_have_each_interval():
    board = JobBoard(clock=Clock())
    for second, rows in enumerate([0, 100, 200, *([200] * 10), 260]):
        board.add(document(1001.0 + second, rows))
    # 60 rows in the last ten seconds, 120 on the second side.
    assert sides(board)["orders"]["rate"] == pytest.approx(6.0)
    assert sides(board)["quotes"]["rate"] == pytest.approx(12.0)
    assert board.details()["pairs"] == {"total": 65.0, "rate": pytest.approx(1.5)}
    _, points = board.since(0)
    assert [point["rows"][0] for point in points] == [None, 100, 100, *([0] * 10), 60]
    assert points[-1]["window"] == [130.0, 130.0]


def test_since_returns_what_is_new_and_no_more_than_there_is():
    board = JobBoard(clock=Clock())
    assert board.since(0) == (0, [])
    for second in range(POINTS + 5):
        board.add(document(second, second))
    number, points = board.since(0)
    assert (number, len(points)) == (POINTS + 5, POINTS)
    assert [point["t"] for point in board.since(number - 2)[1]] == [POINTS + 3, POINTS + 4]
    assert board.since(number) == (number, [])


@pytest.mark.parametrize("again", ["started", "fewer rows"])
def test_a_job_that_starts_again_has_no_rate_across_the_restart(again):
    board = JobBoard(clock=Clock())
    board.add(document(1001.0, 1000))
    board.add(document(1002.0, 1100))
    second = replace(FACTS, started=1010.0) if again == "started" else FACTS
    rows = 1200 if again == "started" else 50
    board.add(document(1011.0, rows, facts=second))
    assert sides(board)["orders"]["rate"] is None
    _, points = board.since(0)
    assert [set(point) == {"t"} for point in points] == [False, False, True, False]  # a gap in the lines
    board.add(document(1012.0, rows + 10, facts=second))
    assert sides(board)["orders"]["rate"] == 10.0


def test_sides_have_the_names_of_their_sources():
    board = JobBoard(clock=Clock())
    board.add(document(1001.0, facts=replace(FACTS, sides=("left", "right"), sources=("orders", "quotes"))))
    assert [(side["side"], side["name"]) for side in board.details()["sides"]] == [
        ("left", "orders"), ("right", "quotes"),
    ]  # fmt: skip
    assert board.since(0)[1][0]["window"] == [0.0, 0.0]


def test_documents_that_are_not_newer_are_skipped():
    board = JobBoard(clock=Clock())
    board.add(document(1002.0, 10))
    board.add(document(1002.0, 10))
    board.add(document(1001.0, 99))
    assert board.since(0)[0] == 1
    assert sides(board)["orders"]["rows"] == 10


def test_quantiles_are_those_of_recent_pushes():
    board = JobBoard(clock=Clock())
    slow = Histogram((0.001, 0.01, 0.1), (0, 0, 100, 0), 5.0)
    board.add(with_figures(document(1001.0), ("slidejoin_push_seconds", {}, slow)))
    assert board.details()["latency"]["p50"] == pytest.approx(0.055)
    both = Histogram((0.001, 0.01, 0.1), (10, 0, 100, 0), 5.005)
    board.add(with_figures(document(1002.0), ("slidejoin_push_seconds", {}, both)))
    assert board.details()["latency"] == pytest.approx({"p50": 0.0005, "p95": 0.00095, "p99": 0.00099})
    board.add(with_figures(document(1062.5), ("slidejoin_push_seconds", {}, both)))
    assert board.details()["latency"] is None
    assert "p50" not in board.since(2)[1][0]


def test_a_rate_reaches_back_to_the_last_rows_if_micro_batches_are_far_apart():
    board = JobBoard(clock=Clock())
    for second in range(90):
        board.add(document(1001.0 + second, 3000.0 * (second // 30)))
        if second == 59:  # the last rows are from 29 seconds ago
            assert sides(board)["orders"]["rate"] == pytest.approx(3000 / 30)
    assert sides(board)["orders"]["rate"] == pytest.approx(3000 / 30)
    for second in range(90, 150):
        board.add(document(1001.0 + second, 6000.0))
    assert sides(board)["orders"]["rate"] == 0.0


def test_watermarks_buckets_steps_and_losses():
    board = JobBoard(clock=Clock())
    before = [("slidejoin_step_seconds_total", {"step": step}, 5.0) for step in ("probe", "store")]
    board.add(with_figures(document(1001.0), *before))
    after = [
        ("slidejoin_step_seconds_total", {"step": step}, 5.0 + more) for step, more in (("probe", 3), ("store", 1))
    ]
    figures = [
        ("slidejoin_watermark_seconds", {"side": "orders"}, 990.0),
        ("slidejoin_watermark_seconds", {"side": "quotes"}, 980.0),
        ("slidejoin_watermark_held_by", {"side": "orders"}, 0),
        ("slidejoin_watermark_held_by", {"side": "quotes"}, 1),
        *(("slidejoin_bucket_rows", {"bucket": str(number)}, 10 * number) for number in (10, 2, 1)),
        ("slidejoin_bucket_skew", {}, 2.3),
        ("slidejoin_late_rows_total", {"side": "orders"}, 3),
        ("slidejoin_late_rows_total", {"side": "quotes"}, 4),
        ("slidejoin_bad_rows_total", {}, 0),
    ]
    board.add(with_figures(document(1002.0), *after, *figures))
    details = board.details()
    assert [(side["watermark"], side["holds"]) for side in details["sides"]] == [(990.0, False), (980.0, True)]
    assert [one["name"] for one in details["buckets"]] == ["1", "2", "10"]
    assert details["skew"] == 2.3
    assert details["steps"] == [{"name": "probe", "share": 0.75}, {"name": "store", "share": 0.25}]
    assert details["lost"] == [{"name": "late", "rows": 7.0}]


def test_a_job_is_waiting_running_lost_running_again_and_ended():
    clock = Clock()
    board = JobBoard(lost_after=10.0, clock=clock)
    assert board.state() == ("waiting", "no figures yet", None)
    board.trouble("nobody is there")
    assert board.state() == ("waiting", "nobody is there", None)
    board.trouble(None)
    board.add(document(1099.0), arrived=1099.0)
    assert board.state() == ("running", "the job is running", 1.0)
    clock.now += 9.5
    assert board.state() == ("lost", "the job does not report any more", 10.5)
    board.add(document(1108.0), arrived=1108.0)
    assert board.state().name == "running"
    board.trouble("http://127.0.0.1:9464 cannot be reached")
    assert board.state()[:2] == ("lost", "http://127.0.0.1:9464 cannot be reached")
    board.add(document(1109.0, ended=True))
    assert board.state()[:2] == ("ended", "the job has ended")


def test_the_history_of_a_job_that_was_killed_long_ago_is_lost_at_once():
    board = JobBoard(clock=Clock(5000.0))
    board.add(document(1099.0), arrived=1099.0)
    assert board.state().name == "lost"


def test_without_rows_no_value_of_a_row_is_there():
    assert VALUE in str(_shown(JobBoard(clock=Clock())))
    assert VALUE not in str(_shown(JobBoard(rows=False, clock=Clock())))


def _shown(board):
    board.add(with_rows(1001.0))
    return board.details(), board.since(0), board.state()
