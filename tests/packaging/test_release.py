"""`make release`: what it says is missing, the Pythons it looks for, the bill of materials, and all of it at night."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import slidejoin
from scripts import release, sbom
from scripts.archives import ReleaseError
from scripts.pythons import Interpreter, Trial, interpreter, supported, try_wheel, versions_file
from scripts.release_state import REPEATED, Source, not_ready, notes, version_of
from tests.packaging.examples import ROOT

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
CHANGELOG = """\
# Changelog

## [Unreleased]

## [0.3.0] - {date}

### Added

- Something.

## [0.2.0] - 2026-01-02

- Older.
"""
RECIPE = "packaging/conda/recipe.yaml"
LINES = {
    "CITATION.cff": "version: {}\n",
    RECIPE: '  version: "{}"\n',
    "deploy/Dockerfile": "ARG VERSION={}\n",
    "deploy/spark/Dockerfile": "ARG VERSION={}\n",
    "deploy/kubernetes/embedded.yaml": "          image: slidejoin:{}\n",
    "deploy/kubernetes/spark.yaml": "  image: slidejoin-spark:{}\n",
}


def source(folder, files, tracked=()):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return Source(folder, "0" * 40, "0.3.0", 1_700_000_000, list(tracked))


def ready(folder, version="0.3.0"):
    files = {name: line.format(version) for name, line in LINES.items()}
    files |= {"CHANGELOG.md": CHANGELOG.format(date="2026-02-03")}
    files["CITATION.cff"] += "date-released: 2026-02-03\n"
    return source(folder, files, ["tests/upgrades/fixtures/0.3/manifest.json"])


def test_a_commit_whose_files_agree_is_ready(tmp_path):
    assert not_ready(ready(tmp_path), "v0.3.0", []) == []


def test_what_is_missing_is_said_with_what_to_write(tmp_path):
    ready(tmp_path, version="0.2.0")
    one = source(tmp_path, {"CHANGELOG.md": "## [0.3.0] - unreleased\n\n", RECIPE: "\n"})
    said = not_ready(one, "v0.2.0", ["README.md"])
    assert said == [
        "README.md has changes that are not committed; they are not in the archives",
        "the tag is v0.2.0, and the version is 0.3.0: expected v0.3.0",
        said[2],
        "CHANGELOG.md says nothing about 0.3.0",
        *(f"{name} has the version {None if name == RECIPE else '0.2.0'}: write 0.3.0" for name in LINES),
        "tests/upgrades/fixtures/0.3 is not there: run python -m tests.upgrades.write_fixtures 0.3",
    ]
    assert said[2].startswith("CHANGELOG.md has no date for 0.3.0: write ## [0.3.0] - 20")


def test_all_files_that_repeat_the_version_have_it():
    assert REPEATED.keys() == LINES.keys()
    for name, line in REPEATED.items():
        found = set(re.findall(line, (ROOT / name).read_text("utf-8"), re.MULTILINE))
        assert found == {slidejoin.__version__}, name


def test_no_other_file_of_an_image_names_the_version():
    files = [path for path in (ROOT / "deploy").rglob("*") if path.suffix in {".yaml", ".toml", ""} and path.is_file()]
    named = {path.relative_to(ROOT).as_posix() for path in files if slidejoin.__version__ in path.read_text("utf-8")}
    assert named <= REPEATED.keys()


def test_the_day_of_the_citation_is_that_of_the_changelog(tmp_path):
    one = ready(tmp_path)
    (tmp_path / "CITATION.cff").write_text("version: 0.3.0\ndate-released: 2026-02-04\n", encoding="utf-8")
    assert not_ready(one, None, []) == ["CITATION.cff has the date 2026-02-04: write date-released: 2026-02-03"]


def test_notes_are_the_section_of_the_version_alone():
    assert notes(CHANGELOG.format(date="2026-02-03"), "0.3.0") == ("2026-02-03", "### Added\n\n- Something.")
    assert notes(CHANGELOG.format(date="unreleased"), "0.3.0")[0] is None
    assert notes(CHANGELOG.format(date="x"), "0.2.0") == ("2026-01-02", "- Older.")
    with pytest.raises(ReleaseError, match=r"no section ## \[1\.0\.0\]; write one"):
        notes(CHANGELOG, "1.0.0")
    with pytest.raises(ReleaseError, match="has no line __version__"):
        version_of("version = 1")


def test_the_notes_of_this_version_can_be_printed(capsys):
    assert release.main(["--notes"]) == 0
    assert capsys.readouterr().out.strip()


def test_a_python_that_is_not_supported_is_refused(capsys):
    with pytest.raises(SystemExit):
        release.main(["--pythons", "3.9"])
    assert f"got --pythons 3.9; pyproject.toml has {', '.join(supported())}" in capsys.readouterr().err


def program(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_python_is_looked_for_on_the_path_first(tmp_path, monkeypatch):
    link = program(tmp_path / f"python{OWN}", f'exec {sys.executable} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert interpreter(OWN) == Interpreter(link, ".".join(map(str, sys.version_info[:3])))


def test_a_shim_that_leads_to_nothing_is_passed_over(tmp_path, monkeypatch):
    shim = program(tmp_path / "shims" / f"python{OWN}", "echo 'command not found' >&2; exit 127")
    real = program(tmp_path / "root" / "versions" / f"{OWN}.99" / "bin" / f"python{OWN}", f'exec {sys.executable} "$@"')
    monkeypatch.setenv("PATH", str(shim.parent))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "root"))
    found = interpreter(OWN)
    assert found is not None
    assert found.path == real


def test_a_python_of_another_version_does_not_count(tmp_path, monkeypatch):
    program(tmp_path / "python3.99", "echo 3.98.0")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert interpreter("3.99") is None


def test_locked_versions_are_constraints_without_hashes(tmp_path):
    text = versions_file(ROOT / "requirements" / "dev.lock", tmp_path / "versions.txt").read_text(encoding="utf-8")
    assert "\nnumba==" in text
    assert "hash" not in text
    assert "\\" not in text


def bill(*names):
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "metadata": {"component": {"bom-ref": "root", "name": "slidejoin", "type": "library"}},
        "components": [{"bom-ref": f"{name}==1", "name": name, "version": "1", "type": "library"} for name in names],
        # What the tool says: with all extras of every package.
        "dependencies": [{"ref": "numba==1", "dependsOn": [f"{name}==1" for name in names if name != "numba"]}],
    }


NEEDS = {
    "numba": ["numpy>=1", "polars; extra == 'frames'", "tbb; python_version < '3'"],
    "Typer": ["click[color]"],
    "click": ["colors; extra == 'color'"],
    "polars": ["numpy"],
}
PROJECT = {
    "dependencies": ["numba>=1"],
    "optional-dependencies": {
        "cli": ["Typer>=1"],
        "demo": ["slidejoin[cli]", "polars"],
        "all": ["slidejoin[cli,demo]"],
    },
}


def test_the_bill_says_what_each_package_is_needed_for(tmp_path):
    wheel = tmp_path / "slidejoin-9.8.7-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    names = ("numba", "numpy", "typer", "click", "colors", "polars")
    done = sbom.described(bill(*names), wheel, PROJECT, NEEDS)
    core = [one["name"] for one in done["components"] if one["scope"] == "required"]
    assert core == ["numba", "numpy"]
    extras = {one["name"]: one["properties"][0]["value"] for one in done["components"] if "properties" in one}
    both = "cli,demo"
    assert extras == {"typer": both, "click": both, "colors": both, "polars": "demo", "numpy": "demo"}
    graph = {one["ref"]: one["dependsOn"] for one in done["dependencies"]}
    assert graph == {
        "root": ["numba==1", "polars==1", "typer==1"],
        "numba==1": ["numpy==1"],
        "numpy==1": [],
        "typer==1": ["click==1"],
        "click==1": ["colors==1"],
        "colors==1": [],
        "polars==1": ["numpy==1"],
    }
    root = done["metadata"]["component"]
    assert (root["version"], root["purl"]) == ("9.8.7", "pkg:pypi/slidejoin@9.8.7")
    assert root["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"wheel").hexdigest()}]


def test_a_bill_that_lacks_a_package_or_is_not_valid_is_refused(tmp_path):
    wheel = tmp_path / "slidejoin-9.8.7-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    with pytest.raises(ReleaseError, match=r"lacks \['click', 'colors', 'polars', 'typer'\], which the wheel needs"):
        sbom.described(bill("numba", "numpy"), wheel, PROJECT, NEEDS)
    wrong = bill("numba", "numpy", "typer", "click", "colors", "polars") | {"version": "one"}
    with pytest.raises(ReleaseError, match=r"is no valid CycloneDX 1\.6"):
        sbom.described(wrong, wheel, PROJECT, NEEDS)


def test_the_table_has_a_line_for_a_python_that_is_not_there():
    passed = Trial({"install": 1.4, "join": 2.6, "command": 3.0})
    failed = Trial({"install": 1.4}, "join: …")
    tried = {"3.11": (Interpreter(Path("a"), "3.11.7"), passed), "3.12": (Interpreter(Path("b"), "3.12.1"), failed)}
    assert release.of_trials(tried | {"3.14": None}).splitlines() == [
        "Python  install  join  command      the wheel alone",
        "3.11.7      1 s   3 s      3 s               passed",
        "3.12.1      1 s     -        -               failed",
        "3.14          -     -        -  not on this machine",
    ]


@pytest.mark.nightly
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a release is made of a commit")
def test_a_release_of_the_last_commit(tmp_path):
    """Everything once, with this Python alone: built twice, installed in empty environments, listed, summed up."""
    command = [sys.executable, "-m", "scripts.release", "--pythons", OWN, "--out", str(tmp_path / "dist")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was published" in done.stdout
    out = tmp_path / "dist"
    (wheel,) = out.glob("*.whl")
    version = wheel.name.split("-")[1]
    names = {f"slidejoin-{version}.tar.gz", f"slidejoin-{version}.cdx.json", "recipe.yaml", "SHA256SUMS", wheel.name}
    assert {path.name for path in out.iterdir()} == names
    sums = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text("utf-8").splitlines())
    assert sums == {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in names - {"SHA256SUMS"}}
    listed = json.loads((out / f"slidejoin-{version}.cdx.json").read_text("utf-8"))
    core = {one["name"] for one in listed["components"] if one["scope"] == "required"}
    assert core == {"llvmlite", "numba", "numpy", "pyarrow", "sqlglot"}
    assert "file://" not in json.dumps(listed)
    assert sums[f"slidejoin-{version}.tar.gz"] in (out / "recipe.yaml").read_text("utf-8")


@pytest.mark.nightly
def test_a_wheel_that_cannot_join_is_no_release(tmp_path):
    """The trial finds a module that is missing; otherwise it would prove nothing."""
    python = interpreter(OWN)
    assert python is not None
    package = tmp_path / "package"
    shutil.copytree(ROOT / "src" / "slidejoin", package / "src" / "slidejoin")
    (package / "src" / "slidejoin" / "operator" / "join_operator.py").unlink()
    (package / "scripts").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "scripts/readme_hook.py"):
        shutil.copy(ROOT / name, package / name)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=package, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    versions = versions_file(ROOT / "requirements" / "dev.lock", tmp_path / "versions.txt")
    trial = try_wheel(wheel, python, versions, tmp_path / "trial")
    assert set(trial.seconds) == {"install"}
    assert "join_operator" in trial.problem
