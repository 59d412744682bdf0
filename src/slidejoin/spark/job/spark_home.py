"""Spark's folder without its zipped Python sources: workers of a local session start a second sooner, queries too.

Every Python process that Spark starts has ``python/lib/pyspark.zip`` of Spark's folder first on its path. There is no
bytecode in it: the daemon that workers are forked from, and the process that prepares each stateful query, compile the
same sources each time, more than a second of processor time. The driver's own installation holds them with their
bytecode, and a folder that lacks the zip lets them import that.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["link_spark_home", "use_unzipped_home"]

VARIABLE = "SPARK_HOME"
OTHER_PYTHON = {"spark.pyspark.python", "spark.pyspark.driver.python"}
"""Settings that name the Python of workers."""

PARTS = ("bin", "jars", "sbin")
"""What Spark reads of its folder besides."""


def use_unzipped_home(master: str, conf: Mapping[str, object], folder: Path | None = None) -> None:
    """Let the Spark that this process starts next have such a folder.

    Nothing is changed if workers are no children of the driver or run another Python, where ``SPARK_HOME`` names
    a folder, or where PySpark brings no Spark of its own.

    Parameters
    ----------
    master : str
        The session's.
    conf : mapping of str
        Its settings.
    folder : Path, optional
        The folder; by default a temporary one, which is removed as the process ends.
    """
    local = master == "local" or master.startswith("local[")
    other = os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable or OTHER_PYTHON & conf.keys()
    if not local or other or VARIABLE in os.environ:
        return
    with suppress(OSError):  # no room or no links: then Spark starts as it always does
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="slidejoin-spark-home-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        if link_spark_home(folder):
            os.environ[VARIABLE] = str(folder)


def link_spark_home(folder: Path) -> bool:
    """Fill a folder with links to the parts of the installed Spark, and tell whether there is one.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return False
    installed = Path(spec.origin).parent
    if not all((installed / name).is_dir() for name in ("bin", "jars")):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        link = folder / name
        if link.resolve() != (installed / name).resolve():
            link.unlink(missing_ok=True)
            link.symlink_to(installed / name)
    return True
