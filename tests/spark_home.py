"""Spark's folder without its zipped Python sources, so that workers import the installed PySpark.

Every Python process that Spark starts puts ``pyspark.zip`` of its own folder first on its path. There is no bytecode in
it: the daemon of each session, and the process that prepares each stateful query, compile the same sources anew, more
than a second each. The installed package is the same and has its bytecode.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PARTS = ("bin", "jars", "sbin")
"""What Spark itself reads of its folder."""


def spark_home(folder: Path) -> Path | None:
    """Make a folder that holds links to the parts of Spark's, and return it; None where PySpark is not installed."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    installed = Path(found.origin).parent
    folder.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        link = folder / name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(installed / name)
    return folder
