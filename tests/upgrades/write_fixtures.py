"""Write the fixtures of a release: snapshots and checkpoints that every later version has to read.

``python -m tests.upgrades.write_fixtures 0.1`` writes those of release 0.1 into ``tests/upgrades/fixtures/0.1``. Do it
once, with the code of that release, and never again: what a fixture has to show is how that code wrote.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.upgrades import archives
from tests.upgrades.jobs import JOB, QUERIES, make_job, make_query, members_of, run_job, show_later
from tests.upgrades.joins import BEFORE, CASES, Case, late_rows, pushed, rows_of, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession


def write_snapshot(case: Case, archive: Path) -> dict[str, Any]:
    """Write the snapshot of a join and the rows behind it; return what must come.

    Raises
    ------
    ValueError
        If the join itself does not give what the law says.
    """
    pushes, law = case.pushes(), case.law(case.pushes())
    join, whole = case.make(), case.make()
    given = [pushed(join, push) for push in pushes[:BEFORE]]
    state = join.snapshot()
    uninterrupted = [*(pushed(whole, push) for push in pushes), rows_of(whole.finish())]
    if uninterrupted != law or given != law[:BEFORE]:
        msg = f"{archive.name}: the join does not give what the law says"
        raise ValueError(msg)
    later = [{name: table_of(rows) for name, rows in push.items()} for push in pushes[BEFORE:]]
    archives.pack(archive, archives.of_snapshot(state, later))
    expected = {"pushes": law[BEFORE:-1], "end": law[-1], "late": late_rows(whole)}
    return {"kind": case.kind, "what": case.what, "expected": expected}


def write_job(archive: Path) -> dict[str, Any]:
    """Write the folder of a job in one process."""
    with tempfile.TemporaryDirectory() as place:
        expected = make_job(Path(place))
        archives.pack(archive, *members_of(Path(place)))
        show_later(Path(place))
        if run_job(Path(place)) != expected:
            msg = f"{archive.name}: the job does not give what the law says"
            raise ValueError(msg)
    return {"kind": "job", "what": "a checkpoint of a job in one process", "expected": expected}


def write_query(spark: SparkSession, name: str, archive: Path) -> dict[str, Any]:
    """Write the folder of a query on Spark."""
    with tempfile.TemporaryDirectory() as place:
        rest = make_query(spark, Path(place), name)
        archives.pack(archive, *members_of(Path(place)))
    return {"kind": "query", "what": f"a checkpoint on Spark, {QUERIES[name]['strategy']}", "expected": rest}


def write(folder: Path, spark: SparkSession | None, names: Iterable[str] = tuple(CASES)) -> None:
    """Write the fixtures of these joins and the job, and the manifest; those of Spark only where there is one."""
    from slidejoin import __version__

    folder.mkdir(parents=True, exist_ok=True)
    fixtures = {name: write_snapshot(CASES[name], folder / f"{name}.tar.gz") for name in names}
    fixtures[JOB] = write_job(folder / f"{JOB}.tar.gz")
    if spark is not None:
        fixtures |= {name: write_query(spark, name, folder / f"{name}.tar.gz") for name in QUERIES}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in fixtures.items())
    text = f'{{"written_by": {json.dumps(__version__)}, "fixtures": {{\n{lines}\n}}}}\n'
    (folder / archives.MANIFEST).write_text(text, "utf-8")


def main(release: str) -> None:
    """Write the fixtures of a release with a Spark of this process."""
    from pyspark.sql import SparkSession

    from tests.spark.conftest import SETTINGS

    folder = archives.FOLDER / release
    if folder.exists():
        sys.exit(f"{folder} exists: fixtures of a release are written once")
    session = SparkSession.builder.config(map=SETTINGS).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    write(folder, session)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
