"""The five tasks of ``slidejoin bench tasks`` as a chart and as a table: ``python -m benchmarks.task_chart [FILE]``.

FILE is what ``slidejoin bench tasks --spark --json`` printed; by default `benchmarks/tasks.json`, the figures that the
pages show, with the day and the machine of their measurement. It writes `docs/images/tasks-light.svg` and
`tasks-dark.svg`, and prints the table of the pages. ``--to`` sets another folder.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.drawings.canvas import Drawing

__all__ = ["FIGURES", "Figures", "chart", "load", "main", "table", "times"]

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "benchmarks" / "tasks.json"
IMAGES = ROOT / "docs" / "images"

OURS = ("slidejoin", "slidejoin on Spark")
NAMES = {"slidejoin on Spark": "slidejoin", "Spark's own, format 4": "own, format 4"}
"""What a tool is called in its column of the chart."""
COLUMNS = (
    ("in one process", 24.0, ("slidejoin", "Polars", "DuckDB")),
    ("on Spark", 404.0, ("slidejoin on Spark", "Spark's own", "Spark's own, format 4")),
)
"""Heading, left edge and tools of each column."""
LONGEST = 146.0
"""Length of the longest bar of a task in a column."""


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """A task with the rows a second of each tool that was measured."""

    name: str
    question: str
    speeds: dict[str, float]


@dataclass(frozen=True, slots=True)
class Figures:
    """What a report of the tasks says."""

    tasks: tuple[TaskFigures, ...]
    versions: dict[str, str]
    machine: str
    date: str

    @staticmethod
    def read(document: Any) -> Figures:  # noqa: ANN401 - JSON
        """Return the figures of a report as JSON.

        Raises
        ------
        ValueError
            If it is no report of the tasks.

        Examples
        --------
        >>> speeds = [{"tool": "slidejoin", "version": "1", "rows_per_second": 5.0}]
        >>> document = {"environment": {"processor": "Xeon", "cores": 2}, "tasks": []}
        >>> document["tasks"].append({"name": "offers", "question": "which?", "speeds": speeds})
        >>> Figures.read(document).tasks[0].speeds
        {'slidejoin': 5.0}
        """
        try:
            tasks = tuple(
                TaskFigures(
                    str(task["name"]),
                    str(task["question"]),
                    {
                        str(speed["tool"]): float(speed["rows_per_second"])
                        for speed in task["speeds"]
                        if speed["rows_per_second"] is not None
                    },
                )
                for task in document["tasks"]
            )
            versions = {str(one["tool"]): str(one["version"]) for task in document["tasks"] for one in task["speeds"]}
            environment = document["environment"]
            machine = f"{environment['cores']} cores of an {environment['processor']}"
        except (KeyError, TypeError, ValueError) as error:
            msg = f"got a document without {error}, expected what `slidejoin bench tasks --spark --json` prints"
            raise ValueError(msg) from error
        if not tasks:
            raise ValueError("got a report without tasks, expected at least one: run `slidejoin bench tasks --json`")
        return Figures(tasks, versions, machine, str(document.get("date", "")))


def load(path: Path) -> Any:  # noqa: ANN401 - JSON
    """Return the document of a file."""
    return json.loads(path.read_text(encoding="utf-8"))


def times(fast: float, slow: float) -> str:
    """Return how many times as fast one is, in two digits.

    Examples
    --------
    >>> times(2_342_000, 536_000), times(4_000, 200)
    ('4.4', '20')
    """
    ratio = fast / slow
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"  # noqa: PLR2004 - digits


def chart(figures: Figures) -> Drawing:
    """Return the bars of all tasks, of each column's tools."""
    tall = 92
    drawing = Drawing(
        "tasks",
        102 + tall * len(figures.tasks),
        "Rows a second of five tasks",
        "; ".join(
            f"{task.question} " + ", ".join(f"{tool} {speed:,.0f}" for tool, speed in task.speeds.items())
            for task in figures.tasks
        ),
    )
    for heading, x, _ in COLUMNS:
        drawing.write_text(x, 32, f"rows a second, {heading}", size=14, bold=True)
    for place, task in enumerate(figures.tasks):
        y = 46 + tall * place
        drawing.line([(24, y), (736, y)], stroke="frame", thick=1)
        drawing.write_text(24, y + 20, task.question, size=13, fill="soft")
        for _, x, tools in COLUMNS:
            _bars(drawing, x, y + 28, {tool: task.speeds[tool] for tool in tools if tool in task.speeds})
    day = f", {figures.date}" if figures.date else ""
    text = f"The same rows and the same pairs for all tools. {figures.machine}{day}. slidejoin bench tasks --spark"
    drawing.write_text(24, 46 + tall * len(figures.tasks) + 20, text, size=12.5, fill="soft")
    drawing.write_text(
        24,
        46 + tall * len(figures.tasks) + 38,
        "Each group of bars has a scale of its own. The joins on Spark have a part of the rows.",
        size=12.5,
        fill="soft",
    )
    return drawing


def _bars(drawing: Drawing, x: float, y: float, speeds: dict[str, float]) -> None:
    """Draw the bars of a task in a column."""
    if not speeds:
        return
    longest = max(speeds.values())
    others = [speed for tool, speed in speeds.items() if tool not in OURS]
    for place, (tool, speed) in enumerate(speeds.items()):
        top = y + 20 * place
        ours = tool in OURS
        drawing.write_text(
            x + 76, top + 12, NAMES.get(tool, tool), size=12.5, fill="ink" if ours else "soft", anchor="end", bold=ours
        )
        length = max(2.0, LONGEST * speed / longest)
        drawing.rect(x + 84, top + 1, length, 14, fill="pair" if ours else "faint", stroke="", radius=2)
        text = f"{speed:,.0f}"
        if ours and others:
            text += f"  ({times(speed, max(others))} \N{MULTIPLICATION SIGN})"
        drawing.write_text(x + 84 + length + 7, top + 12, text, size=12.5, fill="pair" if ours else "soft", bold=ours)


def table(figures: Figures) -> str:
    """Return the figures as a table in Markdown."""
    tools = [tool for _, _, tools in COLUMNS for tool in tools if any(tool in task.speeds for task in figures.tasks)]
    names = [tool if tool in OURS else f"{tool} ({figures.versions.get(tool, '')})" for tool in tools]
    lines = [f"| rows a second | {' | '.join(names)} |", "| --- |" + " ---: |" * len(tools)]
    for task in figures.tasks:
        cells = [f"{task.speeds[tool]:,.0f}" if tool in task.speeds else "" for tool in tools]
        lines.append(f"| `{task.name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Write the chart and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, default=FIGURES, help="a report as JSON")
    parser.add_argument("--to", type=Path, default=IMAGES, help="folder of the images")
    options = parser.parse_args(arguments)
    try:
        figures = Figures.read(load(options.file))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{options.file}: {error}\n")
        return 2
    options.to.mkdir(parents=True, exist_ok=True)
    chart(figures).write(options.to)
    sys.stdout.write(table(figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
