"""Whether a commit can be released: its version, what the changelog says about it, and the files that repeat it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scripts.archives import NAME, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
SECTION = re.compile(
    r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>[^\n]*))?\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL
)
DATE = re.compile(r"\d{4}-\d\d-\d\d")
LOCAL_SOURCE = re.compile(r"^source:\n  path: \.\./\.\.\n", re.MULTILINE)
_IMAGE = r"^ +image: slidejoin[\w-]*:(\S+)$"
REPEATED = {
    "CITATION.cff": r"^version: (\S+)$",
    "packaging/conda/recipe.yaml": r'^  version: "([^"]+)"$',
    "deploy/Dockerfile": r"^ARG VERSION=(\S+)$",
    "deploy/spark/Dockerfile": r"^ARG VERSION=(\S+)$",
    "deploy/kubernetes/embedded.yaml": _IMAGE,
    "deploy/kubernetes/spark.yaml": _IMAGE,
}
"""Files that repeat the version, and the lines in which they do."""
FIXTURES = "tests/upgrades/fixtures"
CITED_DATE = re.compile(r"^date-released: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """The commit that is released: a copy of its files, its version, and its time in Unix seconds."""

    tree: Path
    commit: str
    version: str
    epoch: int
    tracked: list[str]

    def text(self, name: str) -> str:
        """Return a file of the commit."""
        return (self.tree / name).read_text(encoding="utf-8")


def version_of(text: str) -> str:
    """Return the version that ``slidejoin/__init__.py`` says."""
    found = VERSION.search(text)
    if found is None:
        raise ReleaseError(f'src/{NAME}/__init__.py has no line __version__ = "…"')
    return found[1]


def notes(changelog: str, version: str) -> tuple[str | None, str]:
    r"""Return the date of a version in the changelog, None if it has none yet, and what is said about it.

    Examples
    --------
    >>> notes("# Changes\n\n## [0.2.0] - 2026-01-02\n\nText.\n\n## [0.1.0] - unreleased\n", "0.2.0")
    ('2026-01-02', 'Text.')
    """
    for found in SECTION.finditer(changelog):
        if found["version"] == version:
            date = found["date"] or ""
            return date if DATE.fullmatch(date) else None, found["text"].strip()
    raise ReleaseError(f"CHANGELOG.md has no section ## [{version}]; write one")


def not_ready(source: Source, tag: str | None, uncommitted: Iterable[str]) -> list[str]:
    """Return what is still to be done before this commit is a release, in words."""
    said = [f"{path} has changes that are not committed; they are not in the archives" for path in uncommitted]
    if tag is not None and tag != f"v{source.version}":
        said.append(f"the tag is {tag}, and the version is {source.version}: expected v{source.version}")
    date, text = notes(source.text("CHANGELOG.md"), source.version)
    if date is None:
        said.append(f"CHANGELOG.md has no date for {source.version}: write ## [{source.version}] - {_today()}")
    if not text:
        said.append(f"CHANGELOG.md says nothing about {source.version}")
    for file, line in REPEATED.items():
        said += [
            f"{file} has the version {named}: write {source.version}"
            for named in dict.fromkeys(re.findall(line, source.text(file), re.MULTILINE) or [None])
            if named != source.version
        ]
    minor = ".".join(source.version.split(".")[:2])
    if f"{FIXTURES}/{minor}/manifest.json" not in source.tracked:
        said.append(f"{FIXTURES}/{minor} is not there: run python -m tests.upgrades.write_fixtures {minor}")
    citation = source.text("CITATION.cff")
    cited = CITED_DATE.search(citation)
    if date is not None and (cited is None or cited[1] != date):
        said.append(f"CITATION.cff has the date {cited[1] if cited else None}: write date-released: {date}")
    return said


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def released_recipe(recipe: str, url: str, checksum: str) -> str:
    """Return a recipe whose source is an archive in place of the checkout."""
    written, count = LOCAL_SOURCE.subn(f'source:\n  url: {url}\n  sha256: "{checksum}"\n', recipe)
    if count != 1:
        raise ReleaseError("packaging/conda/recipe.yaml has to have the source `path: ../..` once")
    return written.partition("schema_version")[1] + written.partition("schema_version")[2]
