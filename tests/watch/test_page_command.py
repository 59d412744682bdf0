"""``slidejoin watch`` and ``run --watch`` as commands: what they print, refuse and need."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from inspect import signature

import pytest

from slidejoin.cli import app
from slidejoin.cli.jobfile import read_job_text
from slidejoin.cli.run_file import with_monitoring
from slidejoin.errors import ConfigError
from slidejoin.watch.view import LOST_AFTER
from tests.watch.page_jobs import VALUE, Process, document, with_rows, write_history

JOB = """
sources.a = { format = "parquet", path = "a" }
join = { self_join = "a", on = "l.x = r.x", window = { length = "1 hour", on = "ts" } }
sink = { format = "noop" }
"""


def command(folder, *arguments, before=""):
    """Run the command to its end."""
    program = [sys.executable, "-c", f"{before}\nfrom slidejoin.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def checkpoint(tmp_path):
    now = time.time()
    write_history(tmp_path / "checkpoint", [document(now - 2.0, 100.0), with_rows(now - 1.0)])
    return tmp_path / "checkpoint"


@pytest.mark.parametrize("rows", [True, False])
def test_without_a_terminal_the_figures_are_printed_once(checkpoint, rows):
    options = [] if rows else ["--no-rows"]
    status, out, errors = command(checkpoint.parent, "watch", "checkpoint", "--terminal", *options)
    assert (status, errors) == (0, "")
    assert "trips" in out
    assert "orders" in out
    assert (VALUE in out) == rows


def test_a_page_is_served_until_a_signal_ends_it(checkpoint):
    watch = Process(checkpoint.parent, "watch", "checkpoint", "--port", 0)
    line = watch.until_said("http://")
    assert line.startswith("checkpoint is shown at http://localhost:")
    assert watch.stop() == 0


def test_the_default_of_the_command_is_that_of_the_board():
    assert signature(app.watch).parameters["lost_after"].default == LOST_AFTER


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--terminal", "--port", "9000"], "--terminal: serves no page, so --port means nothing; leave it out"),
        (["--terminal", "--host", "::1"], "--terminal: serves no page, so --host means nothing"),
        (["--lost-after", "0"], "--lost-after 0: expected a number of seconds above 0"),
        (["--host", "nowhere.invalid"], "the page cannot be served on nowhere.invalid, port 9465"),
    ],
)
def test_options_that_mean_nothing_are_refused(checkpoint, options, text):
    status, out, errors = command(checkpoint.parent, "watch", "checkpoint", *options)
    assert (status, out) == (2, "")
    assert text in errors


def test_a_missing_checkpoint_and_a_port_in_use(tmp_path):
    status, _, errors = command(tmp_path, "watch", "nothing")
    assert status == 2
    assert "nothing: there is no such folder; expected the checkpoint of a job, or the address" in errors
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        status, _, errors = command(tmp_path, "watch", ".", "--port", taken.getsockname()[1])
    assert status == 2
    assert "Address already in use; give another one: --port and --host" in errors


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "plotly"])
def test_a_package_that_is_missing_is_named(checkpoint, package):
    before = f"import sys; sys.modules[{package!r}] = None"
    status, _, errors = command(checkpoint.parent, "watch", "checkpoint", "--port", 0, before=before)
    assert status == 1
    assert f'the live page needs the package {package}. Install it: pip install "slidejoin[watch]"' in errors
    # The terminal needs none of them.
    assert command(checkpoint.parent, "watch", "checkpoint", "--terminal", before=before)[0] == 0


@pytest.mark.parametrize(
    ("given", "written", "page"),
    [(None, "", None), (None, "page = 9000", 9000), ("9001", "page = 9000", 9001), (0, "", 0)],
)
def test_the_port_of_the_command_line_goes_before_that_of_the_file(tmp_path, given, written, page):
    job = read_job_text(f"{JOB}\n[watch]\n{written}\n", tmp_path)
    assert with_monitoring(job, None, no_rows=False, otel=False, watch=given).monitoring.page == page


@pytest.mark.parametrize("given", ["x", "-1", "65536", "1.5"])
def test_what_is_no_port_is_refused(tmp_path, given):
    job = read_job_text(JOB, tmp_path)
    with pytest.raises(ConfigError, match=rf"--watch {given}: expected a port from 0 to 65535, or nothing"):
        with_monitoring(job, None, no_rows=False, otel=False, watch=given)


@pytest.mark.parametrize("written", ["-1", "65536", "true", '"9000"'])
def test_what_is_no_port_is_refused_in_a_file(tmp_path, written):
    with pytest.raises(ConfigError, match=r"watch\.page: .*expected a port from 0 to 65535, such as 9465"):
        read_job_text(f"{JOB}\n[watch]\npage = {written}\n", tmp_path)
