"""The wheel and the source archive of the last commit: what is in them, what they say, and that two builds are one."""

from __future__ import annotations

import io
import tarfile
import tomllib
import zipfile
from email import message_from_bytes

import pytest
from packaging.requirements import Requirement

from scripts.archives import (
    ReleaseError,
    build,
    copy_of,
    differences,
    git,
    members,
    not_the_sources,
    rules,
    strange,
    wrong_contents,
)
from scripts.release import built, source_of, twine
from tests.packaging.examples import ROOT

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="archives are made of a commit")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return source_of(ROOT, tmp_path_factory.mktemp("source") / "tree")


@pytest.fixture(scope="module")
def archives(source, tmp_path_factory):
    """The archives of the last commit, built twice in folders of their own; `built` raises if the builds differ."""
    return built(ROOT, source, tmp_path_factory.mktemp("work"))


def test_two_builds_are_the_same_and_contain_what_the_lists_say(archives, source):
    assert archives.wheel.name == f"slidejoin-{source.version}-py3-none-any.whl"
    assert archives.sdist.name == f"slidejoin-{source.version}.tar.gz"
    names = list(members(archives.wheel))
    assert "slidejoin/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"slidejoin", f"slidejoin-{source.version}.dist-info"}
    assert sum(name.endswith(".py") for name in names) == sum(
        name.startswith("src/slidejoin/") and name.endswith(".py") for name in source.tracked
    )


def test_what_an_index_shows_is_right(archives):
    twine([archives.wheel, archives.sdist])
    (name,) = (name for name in members(archives.wheel) if name.endswith("METADATA"))
    said = message_from_bytes(members(archives.wheel)[name].content)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (said["Name"], said["Requires-Python"]) == ("slidejoin", project["requires-python"])
    assert said["License-Expression"] == "Apache-2.0"
    core = {Requirement(text) for text in said.get_all("Requires-Dist", []) if "extra ==" not in text}
    assert core == {Requirement(text) for text in project["dependencies"]}
    assert set(said.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    links = dict(line.split(", ", 1) for line in said.get_all("Project-URL", []))
    assert links == project["urls"]


def test_another_commit_time_is_another_archive(source, tmp_path):
    """Otherwise the comparison of two builds would prove nothing."""
    tree = copy_of(ROOT, source.commit, tmp_path / "tree")
    first = build(tree, tmp_path / "first", source.epoch)
    later = build(tree, tmp_path / "later", source.epoch + 60)
    said = differences(first.sdist, later.sdist)
    assert f"slidejoin-{source.version}/pyproject.toml: another time" in said
    assert differences(first.sdist, first.sdist) == []
    assert wrong_contents(first, ROOT / "packaging", source.tracked, source.version, source.epoch + 60)


def test_a_file_that_git_does_not_have_is_not_released(source, tmp_path):
    tree = copy_of(ROOT, source.commit, tmp_path / "tree")
    (tree / "src" / "slidejoin" / "mine.py").write_text("secret = 1\n", encoding="utf-8")
    (tree / "src" / "slidejoin" / "rows" / "notes.txt").write_text("mine\n", encoding="utf-8")
    (tree / "src" / "slidejoin" / "sides.py").unlink()
    archives = build(tree, tmp_path / "out", source.epoch)
    said = wrong_contents(archives, ROOT / "packaging", source.tracked, source.version, source.epoch)
    assert "wheel: mine.py is not in git" in said
    assert "wheel: sides.py is missing" in said
    assert "wheel: slidejoin/rows/notes.txt is in no line of the list" in said
    assert "sdist: mine.py is not in git" in said


def test_a_list_is_compared_both_ways():
    lines = rules("# text\nslidejoin/**/*.py\nslidejoin-{version}.dist-info/WHEEL\n", "1.0")
    good = ["slidejoin/a.py", "slidejoin/b/c.py", "slidejoin-1.0.dist-info/WHEEL"]
    assert strange(good, lines) == []
    assert strange(good[:2], lines) == ["no file for the line slidejoin-1.0.dist-info/WHEEL"]
    assert strange([*good, "tests/a.py"], lines) == [
        "tests/a.py is in no line of the list",
        "tests/a.py is in a folder that no archive has",
    ]
    assert strange([*good, "slidejoin/tests/a.py"], lines) == [
        "slidejoin/tests/a.py is in a folder that no archive has"
    ]


def test_the_package_is_compared_with_git():
    tracked = ["src/slidejoin/a.py", "src/slidejoin/b.py", "tests/c.py"]
    assert not_the_sources(["x/a.py", "x/b.py", "y/d.py"], "x/", tracked) == []
    assert not_the_sources(["x/a.py", "x/e.py"], "x/", tracked) == ["e.py is not in git", "b.py is missing"]


def wheel_of(path, files):
    with zipfile.ZipFile(path, "w") as packed:
        for name, (mode, time, content) in files.items():
            entry = zipfile.ZipInfo(name, time)
            entry.external_attr = mode << 16
            packed.writestr(entry, content)
    return path


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"a.py": (0o644, (2026, 1, 1, 0, 0, 0), "1")}, []),
        ({"a.py": (0o644, (2026, 1, 1, 0, 0, 0), "2")}, ["a.py: another content"]),
        ({"a.py": (0o755, (2026, 1, 1, 0, 0, 2), "1")}, ["a.py: another mode", "a.py: another time"]),
        ({"b.py": (0o644, (2026, 1, 1, 0, 0, 0), "1")}, ["a.py is in one of them only", "b.py is in one of them only"]),
    ],
)
def test_what_differs_between_two_archives_is_named(tmp_path, other, said):
    first = wheel_of(tmp_path / "first.whl", {"a.py": (0o644, (2026, 1, 1, 0, 0, 0), "1")})
    assert differences(first, wheel_of(tmp_path / "second.whl", other)) == said


def test_files_in_another_order_are_another_archive(tmp_path):
    files = {name: (0o644, (2026, 1, 1, 0, 0, 0), name) for name in ("a", "b")}
    first = wheel_of(tmp_path / "first.whl", files)
    second = wheel_of(tmp_path / "second.whl", dict(reversed(files.items())))
    assert differences(first, second) == ["the files in them are the same, but not how they are packed"]


def test_a_link_in_an_archive_is_refused(tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as packed:
        link = tarfile.TarInfo("a/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link, io.BytesIO())
    with pytest.raises(ReleaseError, match=r"a\.tar\.gz: a/link is no plain file"):
        members(tmp_path / "a.tar.gz")


def test_sources_that_cannot_be_built_are_an_error(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires = []\n[project]\nname = "a"\n', encoding="utf-8")
    with pytest.raises(ReleaseError, match=r"hatchling could not build .*\n"):
        build(tmp_path, tmp_path / "out", 0)


def test_outside_of_a_repository_git_says_so(tmp_path):
    with pytest.raises(ReleaseError, match=r"git rev-parse HEAD in .*: fatal"):
        git(tmp_path, "rev-parse", "HEAD")
