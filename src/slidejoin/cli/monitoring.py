"""How a job is monitored while it runs, on both engines: its history, an endpoint for Prometheus, OpenTelemetry."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slidejoin.cli.secrets import SECRETS
from slidejoin.sides import SIDES
from slidejoin.watch.document import JobFacts
from slidejoin.watch.history import History
from slidejoin.watch.monitor import JobMonitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from slidejoin.cli.job import Job
    from slidejoin.cli.reporting import BatchProgress, Reporter, RunTotals
    from slidejoin.pipeline.job_join import JobJoin

__all__ = ["JobMonitoring", "SparkMonitoring", "monitored"]


class JobMonitoring:
    """Hears how a job runs, and gives it to its monitor.

    Parameters
    ----------
    job : Job
    name : str
    engine : {"embedded", "spark"}
    reporter : Reporter
        Of the command.

    Attributes
    ----------
    monitor : JobMonitor
    reporter : LoggedReporter
        Gives what it hears to that of the command, and to the log that is shown.
    """

    def __init__(self, job: Job, name: str, engine: str, reporter: Reporter) -> None:
        sides = SIDES[:1] if job.join.self_join else SIDES
        names = (job.join.left,) if job.join.right is None else (job.join.left, job.join.right)
        facts = JobFacts(
            name, engine, time.time(), SECRETS.out_of(job.join.on), str(job.join.window), "", tuple(sides), names
        )
        self._facts, self._sides = facts, sides
        self.monitor = JobMonitor(facts, rows=job.monitoring.rows)
        self.reporter = LoggedReporter(reporter, self.monitor)

    @contextmanager
    def running(self, plan: str | Callable[[], str], checkpoint: Path | None = None) -> Iterator[None]:
        """Write the history while the block runs; its last document says that the job has ended.

        Parameters
        ----------
        plan : str or callable
            The plan in words.
        checkpoint : Path, optional
            Of the job, which holds its lock; None if it has none on this machine.
        """
        with self.monitor.guarded("the plan cannot be shown"):
            self._show(plan if isinstance(plan, str) else plan())
        if checkpoint is not None:
            self.monitor.write_to(History(checkpoint))
        try:
            yield
        except BaseException as error:
            self.monitor.lines.add(SECRETS.out_of(str(error) or type(error).__name__), "ERROR")
            raise
        finally:
            self.monitor.end()

    def _show(self, plan: str) -> None:
        self.monitor.planned(replace(self._facts, plan=SECRETS.out_of(plan)))

    def rows(self, table: pa.Table) -> None:
        """Take rows of the result."""
        self.monitor.rows(table)

    def waiting(self, join: JobJoin) -> None:
        """Look at the figures of a join, if it has done more since the last look."""
        if self.monitor.is_stale:
            self.joined(join)

    def joined(self, join: JobJoin, *, now: bool = False) -> None:
        """Look at the figures of a join, if the last look is not recent, or `now`."""
        from slidejoin.watch.collect import metrics, passed_terms  # noqa: PLC0415 - the join is loaded by now

        def terms() -> list[tuple[str, float]]:
            self._show(join.explain())  # the index may be another one by now
            return [(SECRETS.out_of(term), share) for term, share in passed_terms(join.join)]

        self.monitor.joined(lambda: metrics(join.join), terms, now=now)

    def batch(self, rows_out: int, bad: Mapping[str, int]) -> None:
        """Count a micro-batch that is committed."""
        self.monitor.batch(rows_out, sum(bad.values()))

    def of_spark(self) -> SparkMonitoring:
        """Return what hears of a query on Spark."""
        return SparkMonitoring(self.monitor, self._sides)


class SparkMonitoring:
    """Hears how the query of a job runs on Spark.

    Parameters
    ----------
    monitor : JobMonitor
    sides : tuple of {"left", "right"}
    """

    def __init__(self, monitor: JobMonitor, sides: Any) -> None:  # noqa: ANN401 - a tuple of sides
        from slidejoin.watch.spark_totals import QueryTotals  # noqa: PLC0415 - loads Spark

        self._monitor, self._totals = monitor, QueryTotals(sides)
        monitor.joined(self._totals.reading)

    def progress(self, progress: Any) -> None:  # noqa: ANN401 - a StreamingQueryProgress
        """Take a micro-batch, if it is a new one."""
        with self._monitor.guarded("the figures of the join cannot be read"):
            self._totals.take(progress)
        self._monitor.joined(self._totals.reading, now=True)

    def batch(self, rows_out: int, bad: int) -> None:
        """Count a micro-batch that was reported."""
        self._monitor.batch(rows_out, bad)


class LoggedReporter:
    """Gives what it hears to another reporter, and notes to the log that is shown.

    Parameters
    ----------
    inner : Reporter
    monitor : JobMonitor

    Attributes
    ----------
    inner : Reporter
    url, page : str or None
        Where figures and the live page are served, which is said as the job starts.
    """

    url: str | None = None
    page: str | None = None

    def __init__(self, inner: Reporter, monitor: JobMonitor) -> None:
        self.inner, self._monitor = inner, monitor
        self.idle_seconds = inner.idle_seconds

    def starting(self, name: str, batches: int | None, engine: str = "spark", why: str = "") -> None:
        where = "on Spark" if engine == "spark" else "in one process"
        self._log(f"{name}: started {where}" + (f": {why}" if why else ""))
        self.inner.starting(name, batches, engine, why)
        if self.url is not None:
            self.note(f"figures are served at {self.url}")
        if self.page is not None:
            self.note(f"the live page is at {self.page}")

    def note(self, message: str) -> None:
        level, colon, text = message.partition(": ")
        if colon and level == "warning":
            self._log(text, "WARNING")
        else:
            self._log(message)
        self.inner.note(message)

    def compiling(self, done: int, total: int) -> None:
        self.inner.compiling(done, total)

    def idle(self, seconds: float) -> None:
        self.inner.idle(seconds)

    def batch(self, batch: BatchProgress) -> None:
        self.inner.batch(batch)

    def done(self, totals: RunTotals) -> None:
        self.inner.done(totals)

    def failed(self, message: str) -> None:
        self.inner.failed(message)

    def _log(self, text: str, level: str = "INFO") -> None:
        self._monitor.lines.add(SECRETS.out_of(text), level)


@contextmanager
def monitored(job: Job, name: str, engine: str, reporter: Reporter) -> Iterator[JobMonitoring]:
    """Monitor a job as it says: figures are served before it starts, and until the block ends.

    Raises
    ------
    MissingPackageError
        If a package for that is not installed.
    SlideJoinError
        If the port is in use.
    """
    monitoring, wanted = JobMonitoring(job, name, engine, reporter), job.monitoring
    monitor = monitoring.monitor
    with ExitStack() as open_:
        if wanted.metrics is not None:
            from slidejoin.watch.endpoint import Endpoint, address_of  # noqa: PLC0415 - few jobs have one

            endpoint = open_.enter_context(Endpoint(address_of(wanted.metrics), monitor.reading, monitor.document))
            monitoring.reporter.url = endpoint.url
        if wanted.page is not None:
            from slidejoin.cli.watch_page import page_of_run  # noqa: PLC0415 - the same

            page = page_of_run(wanted.page, monitor.document, rows=wanted.rows)
            monitoring.reporter.page = open_.enter_context(page)
        if wanted.otel:
            from slidejoin.watch.exporters import instrument  # noqa: PLC0415 - the same

            instrument(monitor.reading)
        yield monitoring
