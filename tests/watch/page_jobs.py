"""Jobs for tests of the live page: documents as a job makes them, and a job in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from slidejoin.watch.document import Document, JobFacts, LogLine, PassedTerm
from slidejoin.watch.reading import Histogram, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

FACTS = JobFacts("trips", "embedded", 1000.0, "l.a = r.a", "10 minutes", "index: cells", ("orders", "quotes"))

VALUE = "value-of-a-row"

LIMIT = 60.0


def document(time: float, rows: float = 0.0, *, facts: JobFacts = FACTS, **changed: object) -> Document:
    """Return a document of a job of which each side has got so many rows, with a third of them as pairs."""
    values = [
        *(("slidejoin_rows_total", {"side": side}, rows * (place + 1)) for place, side in enumerate(facts.sides)),
        *(("slidejoin_window_rows", {"side": side}, rows / 2) for side in facts.sides),
        ("slidejoin_pairs_total", {}, rows / 4),
    ]
    return Document(facts, Reading(time).with_values(*values), **changed)


def with_figures(whole: Document, *values: tuple[str, dict[str, str], float | Histogram]) -> Document:
    """Return a document with further figures."""
    return Document(whole.job, whole.reading.with_values(*values), whole.terms, whole.pairs, whole.log, whole.ended)


def with_rows(time: float) -> Document:
    """Return a document that quotes values of rows, some of which look like HTML or like commands of a terminal."""
    return document(
        time,
        400.0,
        terms=(PassedTerm("l.a = r.a", 0.25),),
        pairs=(("id", "text <b>"), (("1", "<script>document.title = 'taken'</script>"), ("2", f"\x1b[2J{VALUE}"))),
        log=(LogLine(time - 1.0, "WARNING", f"a row has {VALUE} <img src=x>"),),
    )


def until(holds: Callable[[], bool], limit: float = LIMIT) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < deadline, "it did not become so in time"
        time.sleep(0.02)


class Process:
    """The command in a process group of its own, with what it prints in a file."""

    def __init__(self, folder: Path, *arguments: object) -> None:
        self._out = folder / f"out-{time.monotonic_ns()}"
        command = [sys.executable, "-c", "from slidejoin.cli import main; main()", *map(str, arguments)]
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, process_group=0
            )

    @property
    def said(self) -> str:
        """What it has printed."""
        return self._out.read_text(encoding="utf-8")

    def until_said(self, text: str) -> str:
        """Wait until it has printed a text, and return the line with it."""

        def said() -> bool:
            assert self.process.poll() is None, self.said
            return text in self.said and self.said.endswith("\n")

        until(said)
        return next(line for line in self.said.splitlines() if text in line)

    def kill(self) -> None:
        """Kill it, as no program can notice."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Stop it as Ctrl-C does, and return its status."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def write_history(checkpoint: Path, documents: Sequence[Document], name: str = "metrics.jsonl") -> Path:
    """Write the history of a job, a line after the other."""
    file = checkpoint / "slidejoin-metrics" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        for one in documents:
            lines.write(json.dumps(one.to_json()) + "\n")
    return file
