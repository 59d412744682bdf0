"""The live page as a server: what it answers, to whom, and what it never says."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import socket
from contextlib import contextmanager

import pytest
from plotly.offline import get_plotlyjs

from slidejoin.errors import ConfigError
from slidejoin.watch.page.app import LOOPBACK, HostGuard
from slidejoin.watch.page.server import PageServer
from slidejoin.watch.view import JobBoard
from tests.watch.page_jobs import VALUE, document, with_rows


@contextmanager
def served(board=None, **options):
    with PageServer(board or JobBoard(clock=lambda: 1002.0), "a checkpoint", port=0, **options) as server:
        yield Client(server)


class Client:
    def __init__(self, server):
        self.port = int(server.url.rstrip("/").rpartition(":")[2])

    def get(self, path, host=None, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if host != "":
                connection.putheader("Host", f"localhost:{self.port}" if host is None else host)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def events(self, number):
        """Return the first server-sent events."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/events", headers={"Host": "localhost"})
        answer = connection.getresponse()
        assert answer.getheader("content-type").startswith("text/event-stream")
        text = ""
        while text.count("\n\n") < number:
            text += answer.readline().decode()
        connection.close()
        events = [block.split("\n") for block in text.split("\n\n")[:number]]
        return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in events]


def test_the_page_and_its_files_come_from_here_and_nothing_from_elsewhere():
    with served() as page:
        status, headers, body = page.get("/")
        assert status == 200
        text = body.decode()
        links = re.findall(r'(?:src|href)="([^"#]+)"', text)
        assert {link.partition("?")[0] for link in links} >= {"plotly.js", "page.js", "style.css", "favicon.svg"}
        files = {link.partition("?")[0] for link in links} | {"dom.js", "charts.js", "flow.js", "hands.js"}
        for link in files:
            assert not link.startswith(("/", "http")), "addresses are relative, so that any forwarded port works"
            assert page.get(f"/{link}")[0] == 200, link
        # The one address in all files is the name of SVG's elements.
        for link in files - {"plotly.js"}:
            addresses = set(re.findall(r"https?://[^\s\"'`]+", page.get(f"/{link}")[2].decode()))
            assert addresses <= {"http://www.w3.org/2000/svg"}, link
        policy = headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self';" in policy
        assert not re.search(r"<script(?![^>]*src=)|\son\w+=|<style", text), "nothing inline"


def test_plotly_is_that_of_the_package_compressed_and_stored_by_browsers():
    with served() as page:
        link = re.search(r'"(plotly\.js\?[\d.]+)"', page.get("/")[2].decode())[1]
        plain = page.get(f"/{link}")
        small = page.get(f"/{link}", Accept_Encoding="gzip, br")
    assert plain[2].decode() == get_plotlyjs()
    assert gzip.decompress(small[2]) == plain[2]
    assert small[1]["content-encoding"] == "gzip"
    assert "immutable" in small[1]["cache-control"]


@pytest.mark.parametrize(
    "path", ["/nothing", "/app.py", "/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/static/page.js"]
)
def test_other_files_are_not_there(path):
    with served() as page:
        status, _, body = page.get(path)
    assert status == 404
    assert b"import" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(method):
    with served() as page:
        assert page.get("/events", method=method, Content_Length="0")[0] == 405


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9465", "localhost.evil.example", "127.0.0.1.evil.example:1", "10.0.0.7", ""]
)
@pytest.mark.parametrize("path", ["/", "/events", "/state.json", "/plotly.js"])
def test_requests_for_another_host_are_refused(host, path):
    with served() as page:
        status, headers, body = page.get(path, host=host)
    assert status in ({403} if host else {400, 403})
    if host:
        assert "is refused" not in headers
        assert b"refused" in body
        assert b"localhost" in body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:9999", "[::1]:1", "[::1]"])
def test_requests_for_this_machine_are_served_under_any_port(host):
    with served() as page:
        assert page.get("/state.json", host=host)[0] == 200


def test_a_page_for_other_machines_is_served_by_address_and_by_its_own_names_alone():
    with served(host="0.0.0.0") as page:  # noqa: S104 - this is what is tested
        assert page.get("/state.json", host="192.168.7.7:1")[0] == 200
        assert page.get("/state.json", host=socket.gethostname())[0] == 200
        assert page.get("/state.json", host="evil.example")[0] == 403
    guard = HostGuard(None, LOOPBACK, addresses=False)
    assert not guard._served("192.168.7.7")


def test_two_host_headers_are_refused():
    with served() as page:
        assert page.get("/state.json", host="localhost", Host="evil.example")[0] in {400, 403}


def test_events_begin_with_all_points_and_go_on_with_what_is_new():
    board = JobBoard(clock=lambda: 1002.0)
    board.add(document(1000.0, 10))
    board.add(document(1001.0, 20))
    with served(board) as page:
        (first, start), (second, state) = page.events(2)
        assert (first, second) == ("start", "state")
        assert [point["t"] for point in start["points"]] == [1000.0, 1001.0]
        assert start["details"]["sides"][0]["rate"] == 10.0
        assert start["source"] == "a checkpoint"
        assert state["name"] == "running"
        status, headers, body = page.get("/state.json")
        assert (status, headers["cache-control"]) == (200, "no-store")
        assert json.loads(body)["state"]["name"] == "running"


def test_a_server_ends_with_browsers_that_still_listen():
    with served() as page:
        connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
        connection.request("GET", "/events", headers={"Host": "localhost"})
        answer = connection.getresponse()
        assert answer.readline() == b"event: start\n"
    rest = answer.read()
    assert b"event: state" in rest
    connection.close()


@pytest.mark.parametrize("rows", [True, False])
def test_without_rows_no_answer_has_a_value_of_a_row(rows):
    board = JobBoard(rows=rows, clock=lambda: 1002.0)
    board.add(with_rows(1001.0))
    with served(board) as page:
        answers = json.dumps(page.events(2)) + page.get("/state.json")[2].decode() + page.get("/")[2].decode()
    assert (VALUE in answers) == rows
    assert ("<script>document" in answers) == rows
    assert "l.a = r.a" in answers


def test_a_port_that_is_in_use_says_so():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port {port}: Address already in use; give another one: --port"):
            PageServer(JobBoard(), "", port=port)
    with pytest.raises(ConfigError, match=r"cannot be served on nowhere\.invalid"):
        PageServer(JobBoard(), "", host="nowhere.invalid", port=0)
