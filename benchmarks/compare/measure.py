"""Run the queries in all systems, compare what each finds, and report rows a second."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from benchmarks.compare.rows import EVERY, QUERIES, WINDOW, query_named
from benchmarks.compare.systems import (
    ROOT,
    SYSTEMS,
    NotInstalledError,
    last_line,
    lines_of,
    python_of,
    system_named,
)
from slidejoin.bench.broker import Broker, NoMavenError
from slidejoin.bench.case import at_least, choice, say
from slidejoin.bench.report import Report
from slidejoin.errors import SlideJoinError
from slidejoin.runtime.threads import cores

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.compare.rows import Query
    from benchmarks.compare.systems import System

__all__ = ["CompareReport", "Speed", "run"]

SHARES = (50, 10, 1)
"""Each program joins a fiftieth of the rows, a tenth, and all: the first ones warm it up, and count if it is slow."""

FEWEST = 2_000
"""Rows of a side; a fiftieth of them is still more than a push of some rows."""

IDS = ("pairs", "left_ids", "right_ids")


@dataclass(frozen=True, slots=True)
class Speed:
    """A system on a query.

    Attributes
    ----------
    rows : int
        Of both sides, which it joined within the limit; 0 if it did not finish even the smallest share.
    rows_per_second : float or None
        None if there is no result.
    pairs : int
    lines : int
        Of the query in the program of that system.
    fault : str
        Why there is no result, or none of all rows; empty otherwise.
    """

    system: str
    query: str
    rows: int
    rows_per_second: float | None
    pairs: int
    lines: int
    fault: str = ""

    def of_all(self, rows: int) -> float:
        """Return rows a second if it joined so many rows of a side, and otherwise 0."""
        return self.rows_per_second or 0.0 if self.rows == 2 * rows else 0.0

    def cell(self, rows: int, best: float) -> str:
        """Return what a table shows; the fastest one is bold."""
        if self.rows_per_second is None:
            return "no result"
        text = f"{self.rows_per_second:,.0f}"
        if self.rows < 2 * rows:
            return f"{text} ({self.rows // 2:,} rows a side)"
        return f"**{text}**" if self.rows_per_second == best else text


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareReport(Report):
    """All systems on all queries."""

    rows: int
    limit: float
    seed: int
    threads: int
    versions: dict[str, str]
    speeds: tuple[Speed, ...]

    def lines(self) -> Iterator[str]:
        """Return the measurements as tables."""
        queries = list(dict.fromkeys(speed.query for speed in self.speeds))
        systems = [system for system in SYSTEMS if any(speed.system == system.name for speed in self.speeds)]
        by_both = {(speed.system, speed.query): speed for speed in self.speeds}
        yield (
            f"{self.rows:,} rows a side, one every {EVERY} ms, a window of {WINDOW // 1000} s, {self.threads} threads, "
            f"{self.limit:g} s for each query, seed {self.seed}; all results are the same pairs"
        )
        yield ""
        yield f"| rows a second | joins | {' | '.join(queries)} |"
        yield "| --- | --- |" + " ---: |" * len(queries)
        best = {query: max(by_both[one.name, query].of_all(self.rows) for one in systems) for query in queries}
        for system in systems:
            cells = (by_both[system.name, query].cell(self.rows, best[query]) for query in queries)
            title = f"{system.title} {self.versions.get(system.name, '')}".strip()
            yield f"| {title} | {system.reads} | {' | '.join(cells)} |"
        yield ""
        yield f"| lines of the query | {' | '.join(queries)} |"
        yield "| --- |" + " ---: |" * len(queries)
        for system in systems:
            yield f"| {system.title} | {' | '.join(str(by_both[system.name, query].lines) for query in queries)} |"
        yield ""
        for speed in self.speeds:
            if speed.fault:
                yield f"{system_named(speed.system).title}, {speed.query}: {speed.fault}"
        yield ""


def run(
    *,
    systems: tuple[str, ...] | None = None,
    queries: tuple[str, ...] | None = None,
    rows: int = 200_000,
    limit: float = 90.0,
    seed: int = 1,
) -> CompareReport:
    """Run four queries in slidejoin and in other systems, which are installed first where they are not.

    Parameters
    ----------
    systems, queries : tuple of str, optional
        Names of some; all by default. slidejoin always runs: the others have to find its pairs.
    rows : int
        Of each side.
    limit : float
        Seconds for each query in each system; a share of the rows counts if all take longer.
    seed : int
        Of the rows.

    Raises
    ------
    SlideJoinError
        If a system finds other pairs than slidejoin.
    ConfigError
        For impossible options.
    """
    at_least("rows", rows, FEWEST)
    at_least("limit", int(limit), 1)
    chosen = [system_named(name) for name in dict.fromkeys(("slidejoin", *systems))] if systems else list(SYSTEMS)
    for name in queries or ():
        choice("queries", name, [query.name for query in QUERIES])
    speeds: list[Speed] = []
    versions: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="slidejoin-compare-") as name, ExitStack() as open_things:
        pythons = {system.name: _prepared(system, Path(name), open_things) for system in chosen}
        for query in map(query_named, queries) if queries else QUERIES:
            folders = _write(query, rows, seed, Path(name) / query.name)
            expected: Mapping[int, Mapping[str, Any]] = {}
            for system in chosen:
                say(f"{query.name}: {system.title}")
                done, fault = _results(system, query, folders, limit, pythons[system.name])
                expected = expected or done
                _check(system, query, done, expected)
                speeds.append(_speed(system, query, done, fault))
                for one in done.values():
                    versions[system.name] = one["version"]
    return CompareReport(
        case="compare", rows=rows, limit=limit, seed=seed, threads=cores(), versions=versions, speeds=tuple(speeds)
    )  # fmt: skip


Prepared = tuple[Path, dict[str, str]] | str
"""A system's Python with variables of its environment, or why there is none."""


def _prepared(system: System, folder: Path, open_things: ExitStack) -> Prepared:
    try:
        python = python_of(system)
        if not system.needs_broker:
            return python, {}
        place = folder / "broker"
        place.mkdir()
        return python, {"BROKERS": open_things.enter_context(Broker(place, ROOT / ".cache" / "kafka")).address}
    except (NotInstalledError, NoMavenError) as error:
        return str(error)


def _write(query: Query, rows: int, seed: int, folder: Path) -> dict[int, Path]:
    """Write both sides, a share of them for each folder, and return the folders by their rows of a side."""
    folders = {}
    whole = query.tables(rows, seed)
    for share in SHARES:
        size = rows // share
        folders[size] = folder / str(size)
        folders[size].mkdir(parents=True)
        for name, table in zip("lr", whole, strict=True):
            pq.write_table(table.slice(0, size), folders[size] / f"{name}.parquet")
    return folders


def _results(
    system: System, query: Query, folders: Mapping[int, Path], limit: float, prepared: Prepared
) -> tuple[dict[int, dict[str, Any]], str]:
    """Return what a program has printed by rows of a side, and why not more."""
    if isinstance(prepared, str):
        return {}, prepared
    python, settings = prepared
    threads = str(cores())
    own = dict.fromkeys(("THREADS", "PATHWAY_THREADS", "POLARS_MAX_THREADS"), threads)
    command = [
        str(python),
        "-m",
        f"benchmarks.compare.programs.{system.program}",
        query.name,
        *map(str, folders.values()),
    ]
    lines, errors, fault = _printed(command, os.environ | own | settings, limit)
    done = dict(zip(folders, map(json.loads, lines), strict=False))
    whole = len(done) == len(folders)  # a program that has to be stopped after that has its result
    return done, "" if whole else fault or last_line(errors)


def _printed(command: Sequence[str], environment: Mapping[str, str], limit: float) -> tuple[list[str], str, str]:
    """Run a program with all that it starts, and return its lines of JSON, its errors, and whether it took too long."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(  # noqa: S603 - programs of this folder
            command, cwd=ROOT, env=dict(environment), stdout=out, stderr=errors, start_new_session=True
        )
        fault = ""
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            fault = f"stopped after {limit:g} s"
        finally:
            _end(process)
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read())
    return [line for line in texts[0].splitlines() if line.startswith('{"version"')], texts[1], fault


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program, and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def _check(
    system: System, query: Query, done: Mapping[int, Mapping[str, Any]], expected: Mapping[int, Mapping[str, Any]]
) -> None:
    """Compare the pairs of a system with those of slidejoin."""
    for size, one in done.items():
        theirs, ours = ([result[name] for name in IDS] for result in (one, expected[size]))
        if theirs != ours:
            msg = (
                f"{system.title} finds {theirs[0]:,} pairs in {query.name} of {size:,} rows a side, slidejoin "
                f"{ours[0]:,}; sums of their ids {theirs[1:]} and {ours[1:]}"
            )
            raise SlideJoinError(msg)


def _speed(system: System, query: Query, done: Mapping[int, Mapping[str, Any]], fault: str) -> Speed:
    size = max(done, default=0)
    if not size and system.name == "slidejoin":
        msg = f"slidejoin has no result of {query.name}: {fault}"
        raise SlideJoinError(msg)
    return Speed(
        system=system.name,
        query=query.name,
        rows=2 * size,
        rows_per_second=2 * size / done[size]["seconds"] if size else None,
        pairs=done[size]["pairs"] if size else 0,
        lines=lines_of(system, query.name),
        fault=fault,
    )
