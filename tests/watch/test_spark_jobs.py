"""A job on Spark serves and writes the same figures as one in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slidejoin.watch.history import newest_document, read_history
from tests.pipeline.jobs import JOB, expected, pairs, put_all

if TYPE_CHECKING:
    from pathlib import Path

    from slidejoin.watch.document import Document
    from tests.cli.shell import Shell

pytestmark = pytest.mark.spark

SAME = (
    *("slidejoin_pairs_total", "slidejoin_null_time_rows_total", "slidejoin_micro_batches_total"),
    *("slidejoin_result_rows_total", "slidejoin_bad_rows_total"),
)
OF_SIDES = (
    *("slidejoin_rows_total", "slidejoin_window_rows", "slidejoin_event_time_seconds", "slidejoin_watermark_seconds"),
    "slidejoin_watermark_held_by",
)


def ended(slidejoin: Shell, folder: Path, engine: str) -> Document:
    """Run the job on an engine, and return its last document."""
    folder.mkdir()
    put_all(folder, 3)
    (folder / "job.toml").write_text(JOB)
    options = ("--master", "local[2]") if engine == "spark" else ("--engine", engine)
    ran = slidejoin("run", folder / "job.toml", "--metrics", "0", *options)
    assert (ran.status, ran.err) == (0, "")
    assert "job: figures are served at http://127.0.0.1:" in ran.out
    assert pairs(folder) == expected(3)
    newest = newest_document(folder / "checkpoint")
    assert newest is not None
    return newest


def test_both_engines_have_the_same_figures(slidejoin: Shell, tmp_path: Path):
    here, spark = (ended(slidejoin, tmp_path / engine, engine) for engine in ("embedded", "spark"))
    assert (here.ended, spark.ended) == (True, True)
    assert {name: here.reading.value(name) for name in SAME} == {name: spark.reading.value(name) for name in SAME}
    assert spark.reading.value("slidejoin_pairs_total") == len(expected(3))
    assert {name: here.reading.of(name) for name in OF_SIDES} == {name: spark.reading.of(name) for name in OF_SIDES}
    assert spark.reading.value("slidejoin_push_seconds") == 3
    assert sum(spark.reading.of("slidejoin_bucket_rows").values()) == sum(
        spark.reading.of("slidejoin_window_rows").values()
    )
    assert (spark.job.engine, spark.job.name, spark.job.on) == ("spark", "job", "l.k = r.k")
    assert spark.job.plan.startswith("strategy: hash")
    assert spark.log[0].text.startswith("job: started on Spark")
    assert spark.pairs == ((), ())
    # The checkpoint is still one that Spark reads.
    put_all(tmp_path / "spark", 4)
    again = slidejoin("run", tmp_path / "spark" / "job.toml", "--master", "local[2]")
    assert (again.status, again.err) == (0, "")
    assert pairs(tmp_path / "spark") == expected(4)
    whole = list(read_history(tmp_path / "spark" / "checkpoint"))
    assert [one.ended for one in whole].count(True) == 2
