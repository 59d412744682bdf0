"""Where the live page gets documents from: a history that grows and changes its file, and an endpoint."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from slidejoin.errors import ConfigError, StateError
from slidejoin.watch.endpoint import Address, Endpoint
from slidejoin.watch.follow import EndpointPoll, Following, HistoryTail, origin_of
from slidejoin.watch.history import History
from slidejoin.watch.view import JobBoard
from tests.watch.page_jobs import document, until, write_history


@pytest.fixture
def tail(tmp_path):
    with closing(HistoryTail(tmp_path)) as made:
        yield made


def times(documents):
    return [one.time for one in documents]


def test_a_history_is_followed_from_before_its_beginning(tail, tmp_path):
    assert tail.poll() == []
    history = History(tmp_path)
    history.append(document(1.0))
    assert times(tail.poll()) == [1.0]
    assert tail.poll() == []
    history.append(document(2.0))
    history.append(document(3.0))
    assert times(tail.poll()) == [2.0, 3.0]


def test_a_history_is_followed_through_the_change_of_its_file(tail, tmp_path):
    size = len(json.dumps(document(1.0).to_json(), separators=(",", ":"))) + 1
    history, seen = History(tmp_path, most_bytes=3 * size + size // 2), []
    for number in range(1, 12):
        history.append(document(float(number)))
        if number % 2:
            seen += times(tail.poll())
    assert seen == [float(number) for number in range(1, 12)]
    # And who comes later reads both files.
    tail.close()
    assert times(tail.poll()) == [7.0, 8.0, 9.0, 10.0, 11.0]


def test_a_line_is_read_once_it_is_whole_and_a_torn_one_is_skipped(tail, tmp_path):
    file = write_history(tmp_path, [document(1.0)])
    assert times(tail.poll()) == [1.0]
    line = json.dumps(document(2.0).to_json()).encode() + b"\n"
    with file.open("ab", buffering=0) as lines:
        lines.write(line[:50])
        assert tail.poll() == []
        lines.write(line[50:])
        assert times(tail.poll()) == [2.0]
        lines.write(b'{"version": 1, "time"\n' + b'{"version": 99}\n' + line)
    assert times(tail.poll()) == [2.0]


def test_a_checkpoint_that_is_removed_and_made_again(tail, tmp_path):
    file = write_history(tmp_path, [document(1.0)])
    assert times(tail.poll()) == [1.0]
    file.unlink()
    assert tail.poll() == []
    write_history(tmp_path, [document(2.0)])
    assert times(tail.poll()) == [2.0]


def test_an_endpoint_gives_its_newest_document():
    newest = document(7.0, 100)
    with Endpoint(Address("127.0.0.1", 0), lambda: newest.reading, lambda: newest) as endpoint:
        poll = EndpointPoll(f"http://localhost:{endpoint.address.port}")
        assert poll.poll() == [newest]
    with pytest.raises(StateError, match=r"http://localhost:\d+ cannot be reached: Connection refused"):
        poll.poll()


class _Other(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self):
        body = b"<html>" if self.status == 200 else b""
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(
    ("status", "text"),
    [(200, "answered something else than a document"), (404, "answered 404 Not Found; is it the endpoint of a job")],
)
def test_something_else_answers(status, text):
    server = HTTPServer(("127.0.0.1", 0), type("Other", (_Other,), {"status": status}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        with pytest.raises(StateError, match=text):
            EndpointPoll(f"http://127.0.0.1:{server.server_port}/metrics").poll()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("text", ["ftp://127.0.0.1", "http://", "nothing/here"])
def test_what_is_neither_a_checkpoint_nor_an_address_is_refused(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"such as http://127\.0\.0\.1:9464"):
        origin_of(text)


def test_a_login_in_an_address_is_not_shown():
    assert origin_of("http://me:hidden@localhost:9464/").what == "http://localhost:9464"


def test_a_board_hears_of_documents_and_of_trouble(tmp_path):
    board = JobBoard(clock=lambda: 2.5)
    with Following(HistoryTail(tmp_path), board):
        until(lambda: "a job writes them as it runs" in board.state().text)
        History(tmp_path).append(document(2.0))
        until(lambda: board.state().name == "running")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with Following(EndpointPoll(f"http://127.0.0.1:{unused.getsockname()[1]}"), board):
            until(lambda: board.state().name == "lost")
    assert "cannot be reached" in board.state().text
