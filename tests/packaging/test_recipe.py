"""The recipe for conda-forge has what pyproject.toml has."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement

import slidejoin
from scripts.archives import ReleaseError
from scripts.release_state import released_recipe
from tests.packaging.examples import ROOT

FILE = ROOT / "packaging" / "conda" / "recipe.yaml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VARIABLE = re.compile(r"\$\{\{ (\w+) \}\}")


def recipe(text=None):
    """The recipe with its variables replaced."""
    read = yaml.safe_load(text if text is not None else FILE.read_text(encoding="utf-8"))
    context = read["context"]

    def filled(value):
        match value:
            case str():
                return VARIABLE.sub(lambda found: str(context.get(found[1], found[0])), value)
            case dict():
                return {name: filled(one) for name, one in value.items()}
            case list():
                return [filled(one) for one in value]
        return value

    return filled(read)


def needs(lines):
    return {(one.name, str(one.specifier)) for one in map(Requirement, lines)}


def test_it_is_of_format_1_and_of_this_version():
    read = recipe()
    assert read["schema_version"] == 1
    assert read["package"] == {"name": "slidejoin", "version": slidejoin.__version__}
    assert read["build"]["noarch"] == "python"
    assert read["source"] == {"path": "../.."}
    assert (FILE.parent / read["source"]["path"] / "pyproject.toml").is_file()


def test_it_needs_what_the_core_needs():
    project, run = PROJECT["project"], recipe()["requirements"]["run"]
    python = [line for line in run if line.startswith("python ")]
    assert python == [f"python {project['requires-python']}"]
    assert needs(line for line in run if line not in python) == needs(project["dependencies"])
    host = recipe()["requirements"]["host"]
    assert needs(PROJECT["build-system"]["requires"]) <= needs(line for line in host if not line.startswith("python "))


def test_other_packages_are_held_to_the_versions_of_the_extras():
    extras = PROJECT["project"]["optional-dependencies"]
    assert needs(recipe()["requirements"]["run_constraints"]) == needs([*extras["cli"], *extras["spark"]])


def test_it_has_the_command_and_says_what_the_project_says():
    project, read = PROJECT["project"], recipe()
    assert read["build"]["python"]["entry_points"] == [f"{name} = {path}" for name, path in project["scripts"].items()]
    about = read["about"]
    assert (about["summary"], about["license"]) == (project["description"], project["license"])
    assert about["repository"] == project["urls"]["Repository"]
    assert about["homepage"] == about["documentation"] == project["urls"]["Documentation"]
    assert (ROOT / about["license_file"]).is_file()
    imported = [name for test in read["tests"] for name in test.get("python", {}).get("imports", [])]
    assert "slidejoin" in imported


def test_a_release_has_the_archive_for_its_source():
    text = released_recipe(FILE.read_text(encoding="utf-8"), "https://x/v${{ version }}/a.tar.gz", "0" * 64)
    read = recipe(text)
    assert text.startswith("schema_version: 1\n")
    assert read["source"] == {"url": f"https://x/v{slidejoin.__version__}/a.tar.gz", "sha256": "0" * 64}
    assert {name: one for name, one in read.items() if name != "source"} == {
        name: one for name, one in recipe().items() if name != "source"
    }
    with pytest.raises(ReleaseError, match=r"has to have the source `path: ../..` once"):
        released_recipe(text, "https://x", "1" * 64)
