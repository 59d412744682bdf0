"""Paths that a job names: which of them a disk of this machine has, and the files below them that Spark reads."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.cli.job import Session

__all__ = ["STANDARD", "absolute", "expanded", "files_below", "has_scheme", "local_path", "located"]

SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
DEFAULTS = ("spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name")
"""Settings that say where paths without a scheme are; the second one is Hadoop's former name of the first."""

STANDARD = "-"
"""The path of standard input and of standard output."""

HADOOP = "HADOOP_CONF_DIR"
"""The environment variable that names a folder of such settings."""


def has_scheme(path: str) -> bool:
    """Tell whether a path says which file system it is of.

    Examples
    --------
    >>> has_scheme("s3a://bucket/in"), has_scheme("file:/in"), has_scheme("a:b/in")
    (True, True, False)
    """
    return SCHEME.match(path) is not None


def local_path(path: str, session: Session) -> Path | None:
    """Return a path on a disk of this machine; None for one that may be elsewhere.

    Without a scheme Spark takes a path for one of its default file system, which is this machine's disk unless Spark
    runs on a cluster or settings say otherwise.

    Examples
    --------
    >>> from slidejoin.cli.job import Session
    >>> str(local_path("file:///data/out", Session("yarn"))), local_path("/data/out", Session("yarn"))
    ('/data/out', None)
    """
    plain = re.sub(r"^file:/+", "/", path)
    if plain == path and (has_scheme(path) or not _has_local_default(session)):
        return None
    return Path(plain)


def _has_local_default(session: Session) -> bool:
    set_ones = [session.conf[name] for name in DEFAULTS if name in session.conf]
    if not session.master.startswith("local") or (HADOOP in os.environ and not set_ones):
        return False
    return all(value.startswith("file:") for value in set_ones)


def expanded(path: str) -> str:
    """Return a path with the home folder for ``~``, as in ``~/data``; other names that begin so stay names.

    Raises
    ------
    ConfigError
        If there is no home folder.
    """
    if path != "~" and not path.startswith("~/"):
        return path
    made = os.path.expanduser(path)  # noqa: PTH111 - which raises no error where Path's own does
    if made == path:
        msg = f"{path!r}: the home folder of this user is not known; give the whole path."
        raise ConfigError(msg)
    return made


def located(path: str, base: Path) -> str:
    """Return an absolute path without ``..``, as Spark takes it; one with a scheme (``s3a://…``) is left to Spark."""
    return path if path == STANDARD or has_scheme(path) else os.path.normpath(base / expanded(path))


def absolute(path: Path) -> Path:
    """Return an absolute path without ``..`` that is the same folder for Python and for Spark.

    Spark takes ``..`` out of a path by its letters, where the system goes up from the folder that a link leads to.
    """
    plain = Path(os.path.normpath(path.absolute()))
    return plain if plain.resolve() == path.resolve() else path.resolve()


def files_below(path: Path) -> Iterator[Path]:
    """Yield a file, or the files of a folder and its folders in order of their names: those that Spark may read.

    Links are followed, but not to a folder that they lie in.
    """
    if path.is_file():
        yield path
    elif path.is_dir():
        yield from _below(path, ())


def _below(folder: Path, above: tuple[str, ...]) -> Iterator[Path]:
    real = os.path.realpath(folder)
    if real in above:
        return
    names: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(folder) as entries:  # which Spark says
        names = sorted(entries, key=lambda entry: entry.name)
    for entry in names:
        if entry.name.startswith(".") or (entry.name.startswith("_") and "=" not in entry.name):
            continue
        if entry.is_dir():
            yield from _below(Path(entry.path), (*above, real))
        elif entry.is_file():
            yield Path(entry.path)
