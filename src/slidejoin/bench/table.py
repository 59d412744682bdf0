"""The case ``table``: the table of the README, every row by the commands that show it, losses included.

Each command runs in a process of its own, so that memory is that of one case and no tool's threads are in
another's way. A command that several rows need runs once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from slidejoin.bench.figures import environment, million
from slidejoin.bench.targets import TARGETS, Target
from slidejoin.errors import SlideJoinError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Row", "TableReport", "arguments", "run"]

PROGRAM = "from slidejoin.cli import main; main()"
SIZED = ("band", "equi", "less", "latency")
ORDER = ("missed", "must", "goal")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Attributes
    ----------
    measured : tuple of str
        The figures, with their units.
    reached : str
        ``goal``, ``must`` or ``missed``: what the worst of them reaches; empty where nothing is asked.
    commands : tuple of str
        That show it.
    """

    what: str
    must: str
    goal: str
    measured: tuple[str, ...]
    reached: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """All rows, and slidejoin beside the other tools.

    Attributes
    ----------
    window : int
        Rows kept of each side; 2^20 in the published table.
    others : tuple of (name, rows a second, how many times as fast slidejoin is)
        Of the first row's command.
    reports : dict of str to report
        What each command has printed with ``--json``.
    """

    window: int
    threads: int
    others: tuple[tuple[str, float | None, float | None], ...]
    rows: tuple[Row, ...]
    reports: dict[str, dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {"case": "table"} | asdict(self) | {"environment": environment()}

    def text(self) -> str:
        """Return both tables as Markdown."""
        lines = ["| uniform keys, 32 Ki rows a push | rows a second | |", "| --- | --- | --- |"]
        for name, speed, ratio in self.others:
            times = "" if ratio is None else f"slidejoin is {ratio:,.1f} times as fast"
            lines.append(f"| {name} | {'not installed' if speed is None else million(speed)} | {times} |")
        lines += ["", "| what | must | goal | measured | reached |", "| --- | --- | --- | --- | --- |"]
        for row in self.rows:
            cells = (row.what, row.must, row.goal, ", ".join(row.measured), row.reached)
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", "Shown by:", ""]
        lines += [f"- {row.what}: {', '.join(f'`{command}`' for command in row.commands)}" for row in self.rows]
        return "\n".join(lines)


def run(
    *,
    window: int = 1 << 20,
    threads: int = 2,
    rows: int | None = None,
    runs: int | None = None,
    large: bool = True,
    targets: tuple[Target, ...] = TARGETS,
    measure: Callable[[tuple[str, ...]], dict[str, Any]] | None = None,
) -> TableReport:
    """Measure the whole table.

    Parameters
    ----------
    window : int
        Rows kept of each side, where the row of the table names no other; those are scaled along.
    threads : int
        Of all commands that do not say otherwise.
    rows, runs : int, optional
        Of all commands that take them and do not say otherwise; their own defaults if left out.
    large : bool
        Whether the rows are measured that need minutes and up to 16 GiB; they are named as not measured otherwise.
    targets : tuple of Target
        The rows.
    measure : callable, optional
        Runs the arguments of ``slidejoin bench`` and returns the JSON document; in a fresh process by default.

    Raises
    ------
    SlideJoinError
        If a command fails.
    """
    answer = measure or _in_a_process
    options = {"window": window, "threads": threads, "rows": rows, "runs": runs}
    reports: dict[str, dict[str, Any]] = {}
    done = []
    for target in targets:
        if target.large and not large:
            done.append(Row(target.what, target.must, target.goal, ("not measured",), "", _commands(target, options)))
            continue
        found = []
        for command in target.commands:
            words = arguments(command, options)
            name = " ".join(words)
            if name not in reports:
                reports[name] = answer(words)
            found.append(reports[name])
        values = [(mark, mark.read(found)) for mark in target.marks]
        reached = [level for level in (mark.reached(value) for mark, value in values) if level]
        done.append(
            Row(
                target.what,
                target.must,
                target.goal,
                tuple(mark.shown.format(value) for mark, value in values),
                min(reached, key=ORDER.index, default=""),
                _commands(target, options),
            )
        )
    return TableReport(window=window, threads=threads, others=_others(reports), rows=tuple(done), reports=reports)


def arguments(command: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words that follow ``slidejoin bench``.

    Examples
    --------
    >>> arguments({"case": "equi", "window": 128, "baselines": False}, {"window": 1 << 20, "threads": 2})
    ('equi', '--no-baselines', '--threads', '2', '--window', '134217728')
    """
    given = dict(command)
    case, window = str(given.pop("case")), options["window"]
    if case in SIZED:
        given["window"] = given.get("window", 1) * window
    elif case == "scaling":
        given["windows"] = ",".join(str(max(2, window >> 6 << bits)) for bits in range(0, 13, 2))
    if case != "startup":
        given.setdefault("threads", options["threads"])
        given.setdefault("rows", options.get("rows"))
    given.setdefault("runs", options.get("runs"))
    words = [case]
    for name, value in sorted(given.items()):
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif value is not None:
            words += [f"--{option}", f"{value:g}" if isinstance(value, float) else str(value)]
    return tuple(words)


def _commands(target: Target, options: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"slidejoin bench {' '.join(arguments(command, options))}" for command in target.commands)


def _others(reports: Mapping[str, Mapping[str, Any]]) -> tuple[tuple[str, float | None, float | None], ...]:
    """Return slidejoin and the other tools, from the report that has them."""
    for report in reports.values():
        if report.get("baselines"):
            ours = ("slidejoin", report["rows_per_second"]["median"], None)
            return (ours, *((one["name"], one["rows_per_second"], one["ratio"]) for one in report["baselines"]))
    return ()


def _in_a_process(words: tuple[str, ...]) -> dict[str, Any]:
    """Run ``slidejoin bench`` with these words in a fresh interpreter and return what it prints."""
    sys.stderr.write(f"slidejoin bench {' '.join(words)}\n")
    done = subprocess.run(  # noqa: S603 - our own command, in our own interpreter
        [sys.executable, "-c", PROGRAM, "bench", *words, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        msg = f"slidejoin bench {' '.join(words)} left status {done.returncode}: {done.stderr.strip()[-500:]}"
        raise SlideJoinError(msg)
    report: dict[str, Any] = json.loads(done.stdout)
    return report
