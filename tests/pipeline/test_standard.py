"""Micro-batches of standard input: full, or as long as they wait for more rows."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa

from slidejoin.cli.jobfile import read_job_text
from slidejoin.pipeline.columns import Shape
from slidejoin.pipeline.source import Limits
from slidejoin.pipeline.standard import InputSource, json_input
from slidejoin.spec.window import Span

JOB = """
sources.a = { format = "json", path = "-", schema = "id BIGINT", max_rows = 5, max_wait = "2 seconds" }
join = { self_join = "a", on = "l.id = r.id", window = { kind = "count", rows = 5, order_by = "id" } }
sink = { format = "json", path = "-" }
"""


class OneByOne(io.BytesIO):
    """Standard input that gives a line at a time."""

    def read1(self, _size: int | None = -1, /) -> bytes:
        return self.readline()


def source(rows: int | None, wait: float) -> InputSource:
    schema, chunks = json_input(OneByOne(b'{"id": 1}\n{"id": 2}\n{"id": 3}\n'), pa.schema([("id", pa.int64())]), {})
    made = InputSource("a", chunks, Shape(schema, None, None, "a"), Limits(rows=rows), wait)
    made.look()
    return made


def test_a_micro_batch_waits_for_more_rows_until_it_is_full():
    waiting = source(None, 60.0)
    assert waiting.read(waiting.plan()).table["id"].to_pylist() == [1, 2, 3]
    assert (waiting.plan(), waiting.ended) == (None, True)
    full = source(2, 60.0)
    assert [full.read(full.plan()).table["id"].to_pylist() for _ in range(2)] == [[1, 2], [3]]


def test_the_job_file_says_how_long():
    assert read_job_text(JOB, Path()).sources["a"].max_wait == Span(2_000_000_000)
