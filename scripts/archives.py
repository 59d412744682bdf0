"""Wheel and source archive of a state of the repository: built, compared with a second build, and looked through.

A build starts from a copy of the tracked files in a folder of its own, never from the checkout: what lies around there
cannot get into an archive.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
import tarfile
import zipfile
from calendar import timegm
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NAME = "slidejoin"
SOURCES = f"src/{NAME}/"
NEVER = frozenset({"tests", "benchmarks", "docs", "demo", "examples", "__pycache__", ".git", ".venv"})
"""Folders that no archive has at any depth."""

SETTINGS = (
    {"TZ": "UTC", "PYTHONHASHSEED": "0", "LC_ALL": "C"},
    {"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8"},
)
"""Of the first and of the second build: what differs between two machines, and must not show in the archives."""
UMASKS = (0o022, 0o077)

PART = re.compile(r"\*\*/|\*|[^*]+")
PARTS = {"**/": "(?:[^/]+/)*", "*": "[^/]*"}


class ReleaseError(Exception):
    """A release that would not be what it should be; the text says why."""


@dataclass(frozen=True)
class Member:
    """A file of an archive: its mode, its time in Unix seconds, and what is in it."""

    mode: int
    time: int
    content: bytes


@dataclass(frozen=True)
class Archives:
    """The two files of one build."""

    wheel: Path
    sdist: Path


def git(root: Path, *arguments: str) -> str:
    """Return what git says about the repository at `root`."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607 - git
    if done.returncode:
        raise ReleaseError(f"git {' '.join(arguments)} in {root}: {done.stderr.strip()}")
    return done.stdout.strip()


def copy_of(root: Path, commit: str, folder: Path, *, umask: int = 0o022) -> Path:
    """Write the tracked files of a commit into a folder, which is made, and return it."""
    folder.mkdir(parents=True)
    packed = subprocess.run(  # noqa: S603 - git
        ["git", "-C", str(root), "archive", "--format=tar", commit],  # noqa: S607
        capture_output=True,
        check=True,
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, umask=umask, check=True)  # noqa: S603, S607 - tar
    return folder


def build(tree: Path, out: Path, epoch: int, *, first: bool = True) -> Archives:
    """Build the wheel and the source archive of a folder of sources, dated `epoch` in Unix seconds."""
    settings = SETTINGS[0 if first else 1] | {"SOURCE_DATE_EPOCH": str(epoch)}
    done = subprocess.run(  # noqa: S603 - the backend
        [sys.executable, "-m", "hatchling", "build", "--directory", str(out)],
        cwd=tree,
        env=os.environ | settings,
        umask=UMASKS[0 if first else 1],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(f"hatchling could not build {tree}:\n{done.stdout}{done.stderr}")
    wheels, sdists = sorted(out.glob("*.whl")), sorted(out.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        names = [path.name for path in sorted(out.iterdir())]
        raise ReleaseError(f"a build makes one wheel and one source archive; {out} has {names}")
    return Archives(wheels[0], sdists[0])


def members(archive: Path) -> dict[str, Member]:
    """Return the files of a wheel or a source archive by name.

    Raises
    ------
    ReleaseError
        If something in it is no plain file, such as a link.
    """
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as packed:
            return {
                one.filename: Member(
                    stat.S_IMODE(one.external_attr >> 16), timegm((*one.date_time, 0, 0, 0)), packed.read(one)
                )
                for one in packed.infolist()
            }
    found = {}
    with tarfile.open(archive) as packed_tar:
        for entry in packed_tar:
            content = packed_tar.extractfile(entry) if entry.isfile() else None
            if content is None:
                raise ReleaseError(f"{archive.name}: {entry.name} is no plain file")
            found[entry.name] = Member(entry.mode, int(entry.mtime), content.read())
    return found


def _zipped(packed: zipfile.ZipFile, one: zipfile.ZipInfo) -> Member:
    return Member(stat.S_IMODE(one.external_attr >> 16), timegm(one.date_time), packed.read(one))


def differences(one: Path, other: Path) -> list[str]:
    """Return what differs between two archives, in words; nothing if they are the same to the byte."""
    if one.read_bytes() == other.read_bytes():
        return []
    ours, theirs = members(one), members(other)
    said = [f"{name} is in one of them only" for name in sorted(ours.keys() ^ theirs.keys())]
    for name in sorted(ours.keys() & theirs.keys()):
        here, there = ours[name], theirs[name]
        said += [
            f"{name}: another {what}"
            for what in ("mode", "time", "content")
            if getattr(here, what) != getattr(there, what)
        ]
    return said or ["the files in them are the same, but not how they are packed"]


def rules(text: str, version: str) -> list[str]:
    r"""Return the lines of a list of contents, for a version.

    Examples
    --------
    >>> rules("# text\n\na-{version}/x\n", "1.2")
    ['a-1.2/x']
    """
    lines = (line.strip() for line in text.splitlines())
    return [line.replace("{version}", version) for line in lines if line and not line.startswith("#")]


def matches(rule: str, name: str) -> bool:
    """Tell whether a line of a list of contents has a file.

    Examples
    --------
    >>> matches("a/**/*.py", "a/b/c/d.py"), matches("a/*.py", "a/b/d.py")
    (True, False)
    """
    return re.fullmatch("".join(PARTS.get(part, re.escape(part)) for part in PART.findall(rule)), name) is not None


def strange(names: Iterable[str], lines: list[str]) -> list[str]:
    """Return what is wrong with the files of an archive, given the lines of its list, in words."""
    names = sorted(names)
    wrong = [f"{name} is in no line of the list" for name in names if not any(matches(line, name) for line in lines)]
    wrong += [f"no file for the line {line}" for line in lines if not any(matches(line, name) for name in names)]
    wrong += [f"{name} is in a folder that no archive has" for name in names if NEVER & set(name.split("/"))]
    return wrong


def not_the_sources(names: Iterable[str], before: str, tracked: Iterable[str]) -> list[str]:
    """Return what differs between the package in an archive and the one in git, in words.

    Parameters
    ----------
    names : iterable of str
        Files of the archive.
    before : str
        What stands there before the path in the package, such as ``"slidejoin/"``.
    tracked : iterable of str
        Files that git has.
    """
    packed = {name.removeprefix(before) for name in names if name.startswith(before)}
    kept = {name.removeprefix(SOURCES) for name in tracked if name.startswith(SOURCES)}
    return [f"{name} is not in git" for name in sorted(packed - kept)] + [
        f"{name} is missing" for name in sorted(kept - packed)
    ]


def wrong_contents(archives: Archives, lists: Path, tracked: list[str], version: str, epoch: int) -> list[str]:
    """Return what is wrong with the files of both archives, in words; nothing if they are as they should be."""
    wrong = []
    for archive, name, before in (
        (archives.wheel, "wheel", f"{NAME}/"),
        (archives.sdist, "sdist", f"{NAME}-{version}/{SOURCES}"),
    ):
        files = members(archive)
        lines = rules((lists / f"{name}-contents.txt").read_text(encoding="utf-8"), version)
        said = strange(files, lines) + not_the_sources(files, before, tracked)
        said += [f"{file} has the mode {one.mode:o}" for file, one in files.items() if one.mode not in {0o644, 0o664}]
        # A wheel is a zip archive, which counts time in steps of two seconds.
        said += [
            f"{file} is not of the time {epoch}" for file, one in files.items() if one.time not in {epoch, epoch & ~1}
        ]
        wrong += [f"{name}: {one}" for one in said]
    return wrong


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, as ``sha256sum`` writes it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
