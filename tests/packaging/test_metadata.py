"""What the package declares: what it needs, what it brings, and the versions that are locked for working on it."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata, resources
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import slidejoin

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKED_LINE = re.compile(r"(?P<name>[a-z0-9.-]+)==(?P<version>[\w.+]+)(?: ; [^\\]+)?(?: \\)?")
HASH_LINE = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def requirements(*tables):
    """Requirements of those lists of pyproject.toml, without the groups and extras that they include."""
    entries = [entry for table in tables for entry in table if isinstance(entry, str)]
    return [requirement for requirement in map(Requirement, entries) if requirement.name != "slidejoin"]


def locked(name):
    """Versions by package name; more than one where they differ by Python version."""
    versions: dict[str, set[str]] = {}
    for line in (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8").splitlines():
        if found := LOCKED_LINE.fullmatch(line):
            versions.setdefault(found["name"], set()).add(found["version"])
    return versions


def test_core_needs_four_packages():
    core = {requirement.name for requirement in requirements(PROJECT["project"]["dependencies"])}
    assert core == {"numba", "numpy", "pyarrow", "sqlglot"}
    declared = [Requirement(text) for text in metadata.requires("slidejoin") or []]
    assert {requirement.name for requirement in declared if requirement.marker is None} == core


def test_version_is_that_of_the_code_and_has_a_section_in_the_changelog():
    assert metadata.version("slidejoin") == slidejoin.__version__
    assert f"## [{slidejoin.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_each_version_of_the_changelog_says_in_few_lines_what_was_added_changed_and_fixed():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for version in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        assert set(re.findall(r"^### (.*)$", version, re.MULTILINE)) <= {"Added", "Changed", "Fixed", "State formats"}
        assert len(version.splitlines()) <= 80


def test_types_and_command_are_shipped():
    assert resources.files("slidejoin").joinpath("py.typed").is_file()
    (command,) = metadata.entry_points(group="console_scripts", name="slidejoin")
    assert command.value == "slidejoin.cli:main"


@pytest.mark.parametrize("name", ["bootstrap", "dev"])
def test_lock_holds_versions_and_hashes_and_names_no_place(name):
    lines = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 10
    strange = [line for line in lines if not LOCKED_LINE.fullmatch(line) and not HASH_LINE.fullmatch(line)]
    assert strange == []


def test_every_requirement_is_locked_at_a_version_that_it_allows():
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    tables = [project["dependencies"], *project["optional-dependencies"].values(), *groups.values()]
    versions = locked("dev")
    wrong = [
        str(requirement)
        for requirement in requirements(*tables)
        if not (found := versions.get(canonicalize_name(requirement.name)))
        or not all(requirement.specifier.contains(version) for version in found)
    ]
    assert wrong == []


def test_bootstrap_locks_the_same_versions():
    dev, bootstrap = locked("dev"), locked("bootstrap")
    assert {canonicalize_name(r.name) for r in requirements(PROJECT["build-system"]["requires"])} <= set(bootstrap)
    assert bootstrap == {name: dev[name] for name in bootstrap}
