"""The scoreboard: every mark of the project with its measurement, by the commands of each row, losses included.

Each command runs in a process of its own, so that memory is that of one case and no tool's threads are in
another's way. A command that several rows need runs once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.scoreboard.embedded import TARGETS
from benchmarks.scoreboard.spark import SPARK_TARGETS
from benchmarks.scoreboard.terms import TERM_TARGETS
from benchmarks.scoreboard.topologies import TOPOLOGY_TARGETS
from slidejoin.bench.report import Report, millions
from slidejoin.errors import ConfigError, SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.scoreboard.target import Target

__all__ = ["Row", "ScoreboardReport", "arguments", "run"]

ROOT = Path(__file__).parents[2]
PROGRAM = "from slidejoin.cli import main; main()"
SIZED = ("band", "equi", "less", "latency", "benchmarks.paired", "benchmarks.arrow_take", "benchmarks.spark")
"""Cases with a window."""

RUNS = ("band", "equi", "less", "latency", "scaling", "startup")
"""Cases that repeat their runs."""

STANDARD = 1 << 20
"""Rows of a window in the published tables."""

UNTHREADED = ("startup", "topologies", "benchmarks.second_thread")
"""Cases that say themselves how many threads each join has."""

ORDER = ("missed", "must", "goal")
MACHINE = ("slidejoin", "bench", "machine", "--threads", "2")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Attributes
    ----------
    measured : tuple of str
        The numbers, with their units.
    reached : str
        ``goal``, ``must`` or ``missed`` by the worst of them; empty for a row without marks.
    commands : tuple of str
        The commands that measure it.
    """

    what: str
    must: str
    goal: str
    measured: tuple[str, ...]
    reached: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreboardReport(Report):
    """All rows, and slidejoin beside the other tools.

    Attributes
    ----------
    subject : str
        The workload on which slidejoin and the others are compared.
    window : int
        Rows kept of each side; 2^20 in the published table.
    others : tuple of (name, rows a second, slidejoin's speed in multiples of it)
        Of the first row's command.
    reports : dict of str to report
        The JSON document of each command; the name of its second run ends in ``(2)``.
    memory : tuple of (lines a second, lines a second)
        Random cache lines that one thread and two could read before the first command and after the last: a machine
        that is shared is seldom the same twice.
    """

    subject: str
    window: int
    threads: int
    others: tuple[tuple[str, float | None, float | None], ...]
    rows: tuple[Row, ...]
    reports: dict[str, dict[str, Any]]
    memory: tuple[tuple[float, float], ...] = ()

    def lines(self) -> Iterator[str]:
        """Return both tables as lines of Markdown."""
        yield f"| {self.subject} | rows a second | |"
        yield "| --- | --- | --- |"
        for name, speed, ratio in self.others:
            times = "" if ratio is None else f"slidejoin is {ratio:,.1f} times as fast"
            yield f"| {name} | {'not installed' if speed is None else millions(speed)} | {times} |"
        yield ""
        yield "| what | must | goal | measured | reached |"
        yield "| --- | --- | --- | --- | --- |"
        for row in self.rows:
            yield f"| {' | '.join((row.what, row.must, row.goal, ', '.join(row.measured), row.reached))} |"
        if self.memory:
            told = " before and ".join(f"{one / 1e6:.0f} and {two / 1e6:.0f} M" for one, two in self.memory)
            yield ""
            yield f"Random cache lines a second that one thread and two could read: {told} after."
        yield ""
        yield "Commands:"
        yield ""
        for row in self.rows:
            yield f"- {row.what}: {', '.join(f'`{command}`' for command in row.commands)}"
        yield ""


def run(
    *,
    window: int = 1 << 20,
    threads: int = 2,
    rows: int | None = None,
    runs: int | None = None,
    large: bool = True,
    spark: bool = False,
    terms: bool = False,
    topologies: bool = False,
    targets: tuple[Target, ...] | None = None,
    measure: Callable[[tuple[str, ...]], dict[str, Any]] | None = None,
) -> ScoreboardReport:
    """Measure the whole table.

    Parameters
    ----------
    window : int
        Rows kept of each side, where the row of the table names no other; those are scaled along.
    threads : int
        Of all commands that do not say otherwise.
    rows : int, optional
        Of all commands that take them and do not say otherwise; their own defaults if left out.
    runs : int, optional
        Of each command. On Spark all commands run so often, one after the other, and medians are shown; those of a row
        that asks for more turns run as often as that.
    large : bool
        Whether the rows are measured that need minutes and up to 16 GiB; they are listed as not measured otherwise.
    spark : bool
        Whether it is the table of the join on Spark.
    terms : bool
        Whether it is the table of predicates with several terms.
    topologies : bool
        Whether it is the table of topologies.
    targets : tuple of Target, optional
        Other rows.
    measure : callable, optional
        Runs a command and returns its JSON document; in a fresh process by default.

    Raises
    ------
    SlideJoinError
        If a command fails.
    ConfigError
        If a table is given an option that its commands do not take.
    """
    for name, given in (("terms", terms), ("topologies", topologies)):
        if given and (spark or rows is not None or runs is not None or (terms and topologies)):
            msg = f"{name}: its table takes neither another table nor rows nor runs; leave them out"
            raise ConfigError(msg)
    if spark and rows is not None:
        msg = f"rows: got {rows}, but Spark's table counts micro-batches; leave it out"
        raise ConfigError(msg)
    answer, turns = measure or _in_a_process, (runs or 1) if spark else 1
    options = {"window": window, "threads": threads, "rows": rows, "runs": None if spark else runs}
    table = SPARK_TARGETS if spark else TERM_TARGETS if terms else TOPOLOGY_TARGETS if topologies else TARGETS
    wanted = targets or table
    often = [0 if target.large and not large else max(turns, target.turns) for target in wanted]
    reports: dict[str, dict[str, Any]] = {}
    before = _memory(answer)
    for turn in range(max(often, default=0)):
        due = [target for target, count in zip(wanted, often, strict=True) if turn < count]
        for words in {arguments(one, options): None for target in due for one in target.commands}:
            reports[_name(words, turn)] = answer(words)
    return ScoreboardReport(
        case="scoreboard",
        subject="several terms"
        if terms
        else "topologies"
        if topologies
        else f"uniform keys, {'1 M rows a micro-batch' if spark else '32 Ki rows a push'}",
        window=window,
        threads=threads,
        others=_others(reports),
        rows=tuple(_row(target, options, reports, count) for target, count in zip(wanted, often, strict=True)),
        reports=reports,
        memory=(before, _memory(answer)),
    )


def _memory(answer: Callable[[tuple[str, ...]], dict[str, Any]]) -> tuple[float, float]:
    one, two = (speed["lines_per_second"] for speed in answer(MACHINE)["memory"])
    return one, two


def _row(target: Target, options: Mapping[str, Any], reports: Mapping[str, dict[str, Any]], turns: int) -> Row:
    """Return a row of the table from so many reports of each of its commands."""
    words = [arguments(command, options) for command in target.commands]
    commands = tuple(" ".join(one) for one in words)
    if not turns:
        return Row(target.what, target.must, target.goal, ("not measured",), "", commands)
    found = [[reports[_name(one, turn)] for one in words] for turn in range(turns)]
    values = [(mark, median(mark.read(one) for one in found)) for mark in target.marks]
    levels = [level for level in (mark.reached(value) for mark, value in values) if level]
    measured = tuple(mark.shown.format(value) for mark, value in values)
    reached = min(levels, key=ORDER.index, default="")
    return Row(target.what, target.must, target.goal, measured, reached, commands)


def _name(words: tuple[str, ...], turn: int) -> str:
    return " ".join(words) + (f" ({turn + 1})" if turn else "")


def arguments(command: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words of a command: of a case in `benchmarks.cases`, or of another experiment.

    Examples
    --------
    >>> arguments({"case": "equi", "window": 128, "baselines": False}, {"window": 1 << 20, "threads": 2})
    ('python', '-m', 'benchmarks.cases', 'equi', '--no-baselines', '--threads', '2', '--window', '134217728')
    >>> arguments({"case": "benchmarks.paired", "other": "threads=1"}, {"window": 64, "threads": 2})
    ('python', '-m', 'benchmarks.paired', '--other', 'threads=1', '--threads', '2', '--window', '64')
    """
    given = dict(command)
    case, window = str(given.pop("case")), options["window"]
    if case in SIZED:
        given["window"] = given.get("window", 1) * window
    elif case == "terms":
        given["scale"] = None if window == STANDARD else window / STANDARD
    elif case == "scaling":
        given["windows"] = ",".join(str(max(2, window >> 6 << bits)) for bits in range(0, 13, 2))
    if case not in UNTHREADED and "executors" not in given:
        given.setdefault("threads", options["threads"])
    if case not in {"startup", "terms", "benchmarks.spark"}:
        given.setdefault("rows", options.get("rows"))
    if case in RUNS:
        given.setdefault("runs", options.get("runs"))
    words = ["python", "-m", *([case] if case.startswith("benchmarks.") else ["benchmarks.cases", case])]
    for name, value in sorted(given.items()):
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif value is not None:
            words += [f"--{option}", f"{value:g}" if isinstance(value, float) else str(value)]
    return tuple(words)


def _others(reports: Mapping[str, Mapping[str, Any]]) -> tuple[tuple[str, float | None, float | None], ...]:
    """Return slidejoin and the other tools, from the first report that has them."""
    for report in reports.values():
        if report.get("baselines"):
            ours = ("slidejoin", report["rows_per_second"]["median"], None)
            return (ours, *((one["name"], one["rows_per_second"], one["ratio"]) for one in report["baselines"]))
        if own := report.get("own_rows_per_second"):
            speed = report["rows_per_second"]["median"]
            spark = (f"Spark's own by buckets, {report['own_rows']:,} rows", own, speed / own)
            return ("slidejoin", speed, None), spark
    return ()


def _in_a_process(words: tuple[str, ...]) -> dict[str, Any]:
    """Run a command in a fresh interpreter and return the report that it prints."""
    shown = " ".join(words)
    sys.stderr.write(f"{shown}\n")
    program = ["-c", PROGRAM, *words[1:]] if words[0] == "slidejoin" else words[1:]
    done = subprocess.run(  # noqa: S603 - our own command, in our own interpreter
        [sys.executable, *program, "--json"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode:
        msg = f"{shown} left status {done.returncode}: {done.stderr.strip()[-500:]}"
        raise SlideJoinError(msg)
    report: dict[str, Any] = json.loads(done.stdout)
    return report
