"""``kill -9`` at random moments: what a query puts out is the same, row for row, as if nothing had happened."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from slidejoin.spark.job.workers import compile_ahead
from tests.spark.killing import (
    ASOF,
    CLUSTER,
    COUNT,
    FULL,
    LOCAL,
    MANY,
    PARTS,
    SCATTERED,
    SEMI,
    SPLIT,
    TABLE,
    TIME,
    TURNS,
    Cluster,
    Job,
    query,
    rows_expected,
    streams,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROUNDS = int(os.environ.get("SLIDEJOIN_KILLING_ROUNDS", "5"))
WINDOWS = [TIME, COUNT, MANY, FULL, SCATTERED, SEMI, ASOF, PARTS, SPLIT, TURNS, TABLE]
SHORT, LONG = 5, 8
"""Micro-batches of a job."""


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile the kernels before any job starts: its time is for the query, and a busy machine compiles for minutes."""
    compile_ahead(None)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Make jobs, and leave nothing of them behind."""
    made: list[Job] = []

    def make(batches: int, window: str = TIME) -> Job:
        made.append(Job.made(tmp_path, streams(batches), window))
        return made[-1]

    yield make
    for one in made:
        one.end()


def same_rows(one: Job) -> None:
    """Compare with what the law gives; nightly, one undisturbed run is compared with it too.

    If the driver is killed between the last micro-batch of rows and the one without rows that only advances the
    watermark, Spark does not make up for that one before rows come again.
    """
    got, want = one.rows(), rows_expected(streams(one.batches), one.window)
    if len(got) < len(want) and any("killed driver" in told for told in one.told):
        want = rows_expected(streams(one.batches), one.window, idle=False)
    assert len(got) == len(want), one.report()
    assert got == want, one.report()


KINDS = {LOCAL: ("worker", "driver"), CLUSTER: ("worker", "executor", "driver")}


@pytest.mark.nightly  # by day a worker is killed in test_failures, and a whole job in cli/test_killed_run
@pytest.mark.parametrize("master", [LOCAL, pytest.param(CLUSTER, marks=pytest.mark.nightly)])
def test_one_process_killed_after_the_other(job: Any, spark: SparkSession, master: str) -> None:
    """One query, on a cluster with two executors that are processes of their own; at last this session goes on."""
    draw, one = random.Random(os.getpid()), job(SHORT)
    one.start(master)
    for batch, kind in enumerate(KINDS[master], start=1):
        if not one.reached(batch):  # Spark gives up on Python workers that a busy machine starts too slowly
            one.wait()
            one.start(master)
        assert one.reached(batch), one.report()
        time.sleep(draw.random())
        assert one.until(lambda kind=kind: one.kill(kind, draw)), one.report()
    assert one.wait() != 0, one.report()
    assert one.committed() < SHORT, one.report()
    query(spark, one.folder).awaitTermination()
    same_rows(one)


@pytest.mark.nightly
@pytest.mark.parametrize("window", WINDOWS)
def test_undisturbed_run_has_these_rows(job: Any, window: str) -> None:
    one = job(LONG, window)
    one.finish(attempts=1)
    same_rows(one)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize(
    ("window", "kind"),
    [
        *((window, kind) for window in (TIME, SPLIT, TURNS, TABLE) for kind in ("worker", "executor", "driver")),
        *(
            (window, kind)
            for window in (COUNT, MANY, FULL, SCATTERED, SEMI, ASOF, PARTS)
            for kind in ("worker", "driver")
        ),
    ],
)
def test_killed_at_random_moments(job: Any, window: str, kind: str, seed: int) -> None:
    """One to three times in a run, whatever is going on then, its start and the numbering of rows included."""
    draw, one = random.Random(f"{kind} {seed}"), job(LONG, window)
    master = CLUSTER if kind == "executor" else LOCAL
    one.start(master)
    for batch in sorted(draw.sample(range(LONG - 1), draw.randint(1, 3))):
        if not one.reached(batch):
            one.wait()
            one.start(master)
            one.reached(batch)
        time.sleep(2 * draw.random())
        one.until(lambda: one.kill(kind, draw))
        if kind == "driver":
            one.wait()
            one.start(master)
    one.finish(master)
    assert any("killed" in told for told in one.told), one.report()
    same_rows(one)


@pytest.mark.nightly
def test_speculative_attempts(job: Any, tmp_path: Path) -> None:
    """One bucket of each micro-batch is joined twice at a time; the driver is killed, so that state is read back."""
    one = job(LONG)
    (one.folder / "events").mkdir()
    settings = {
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.4",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.interval": "10ms",
        "spark.speculation.minTaskRuntime": "0ms",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": f"file://{one.folder}/events",
    }
    with Cluster(tmp_path) as master:
        one.start(master, **settings)
        assert one.reached(LONG // 2 + 1), one.report()
        one.kill("driver", random.Random(1))
        one.wait()
    with Cluster(tmp_path) as master:
        one.finish(master, **settings)
    events = "".join(path.read_text(errors="replace") for path in (one.folder / "events").iterdir())
    assert events.count('"Speculative":true') > LONG // 2
    same_rows(one)
