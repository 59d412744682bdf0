"""The systems of the comparison: what each is, how it says the queries, and the environment that it runs in."""

from __future__ import annotations

import ast
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

from slidejoin.bench.case import choice, say

__all__ = ["ROOT", "SYSTEMS", "NotInstalledError", "System", "lines_of", "python_of", "system_named"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = ROOT / ".cache" / "compare"

SHOWN = 300
"""Signs of an error that a report shows."""


class NotInstalledError(Exception):
    """The packages of a system cannot be installed here."""


@dataclass(frozen=True)
class System:
    """A tool that joins.

    Attributes
    ----------
    name, title : str
        For options, and for people.
    reads : str
        What it joins: ``streams``, or ``tables`` at rest.
    program : str
        The module of `benchmarks.compare.programs`.
    needs_broker : bool
        Whether it reads topics of Kafka.
    says : dict of str to str
        How it says each query, if it is not the whole of it in one condition.
    """

    name: str
    title: str
    reads: str
    program: str
    needs_broker: bool = False
    says: dict[str, str] = field(default_factory=dict)

    @property
    def requirements(self) -> Path:
        """The file of its packages; that of slidejoin does not exist, which runs in the environment of this process."""
        return HERE / f"requirements-{self.name}.txt"


SYSTEMS = (
    System("slidejoin", "slidejoin", "streams", "slidejoin_stream"),
    System(
        "flink",
        "Flink SQL",
        "streams",
        "flink_sql",
        says={
            "band": "in one task; each row is compared with the whole window",
            "equality_band": "each row is compared with all of its key",
            "inequalities": "in one task; each row is compared with the whole window",
            "asof": "a temporal join with a view of versions",
        },
    ),
    System(
        "pathway",
        "Pathway",
        "streams",
        "pathway_tables",
        says={
            "band": "an interval join of prices, the window as a filter",
            "equality_band": "an interval join in time, the band as a filter",
            "inequalities": "an interval join in time, the inequalities as a filter",
            "asof": "an as-of join that keeps all left rows, a filter",
        },
    ),
    System(
        "quix",
        "Quix Streams",
        "streams",
        "quix_topics",
        needs_broker=True,
        says={
            "band": "an interval join with one key for all rows, the band as a filter",
            "equality_band": "an interval join, the band as a filter",
            "inequalities": "an interval join with one key for all rows, the inequalities as a filter",
            "asof": "an as-of join, the window as a filter",
        },
    ),
    System(
        "duckdb",
        "DuckDB",
        "tables",
        "duckdb_sql",
        says={
            "band": "the window in a second query, which is faster",
            "equality_band": "with stretches of time as a second equality, which is faster",
            "inequalities": "the window in a second query, which is faster",
            "asof": "an as-of join, the window as a filter",
        },
    ),
    System(
        "polars",
        "Polars",
        "tables",
        "polars_frames",
        says={
            "band": "`join_where`, the window as a filter, which is faster",
            "equality_band": "with stretches of time as a second equality, which is faster",
            "inequalities": "`join_where`, the window as a filter, which is faster",
            "asof": "`join_asof` with a tolerance",
        },
    ),
    System(
        "clickhouse",
        "ClickHouse",
        "tables",
        "clickhouse_sql",
        says={
            "band": "the window as a filter",
            "equality_band": "with stretches of time as a second equality, which is faster",
            "inequalities": "the window as a filter",
            "asof": "an as-of join, the window as a filter",
        },
    ),
)


def system_named(name: str) -> System:
    """Return the system of that name.

    Raises
    ------
    ConfigError
        If there is none.
    """
    choice("systems", name, [system.name for system in SYSTEMS])
    return next(system for system in SYSTEMS if system.name == name)


def lines_of(system: System, query: str) -> int:
    """Return the lines of a query in a system's program: of the function of that name, but for docstring and imports.

    What all queries of the program have in common does not count.

    Examples
    --------
    >>> lines_of(system_named("duckdb"), "asof")
    5
    """
    text = (HERE / "programs" / f"{system.program}.py").read_text(encoding="utf-8")
    function = next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == query)
    statements = (node for node in function.body[1:] if not isinstance(node, ast.ImportFrom | ast.Import))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in statements)


def python_of(system: System) -> Path:
    """Return the Python of a system's environment, which is made first where it is missing or out of date.

    Raises
    ------
    NotInstalledError
        If its packages cannot be installed.
    """
    if not system.requirements.exists():
        return Path(sys.executable)
    wanted = system.requirements.read_text(encoding="utf-8")
    folder = CACHE / system.name
    python, note = folder / "bin" / "python", folder / "installed.txt"
    if note.exists() and note.read_text(encoding="utf-8") == wanted and python.exists():
        return python
    say(f"{system.title}: installing {', '.join(wanted.split())} into {folder.relative_to(ROOT)}")
    venv.create(folder, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    done = subprocess.run(  # noqa: S603 - pip, with a file of this folder
        [*command, "-r", str(system.requirements)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotInstalledError(f"pip: {last_line(done.stderr)}")
    note.write_text(wanted, encoding="utf-8")
    return python


def last_line(text: str) -> str:
    """Return the last line with an error, or else the last one, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "exception" in line.lower()]
    return ((errors or lines or ["no message"])[-1])[:SHOWN]
