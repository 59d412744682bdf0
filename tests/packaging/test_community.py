"""What people look for before they use, cite or report something: it is there, it is valid, and it agrees."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml

import slidejoin
from tests.packaging.examples import ROOT

URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
TEMPLATES = ROOT / ".github" / "ISSUE_TEMPLATE"
ADDRESS = re.compile(r"https://(?:github\.com/|[\w-]+\.github\.io/)[\w./#?=-]*")
FOREIGN = ("https://github.com/duckdb", "https://github.com/apache")
WITH_ADDRESSES = [
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "mkdocs.yml",
    "packaging/conda/recipe.yaml",
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / ".github").rglob("*.*")) if path.is_file()),
]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_citation_has_this_version_and_the_five_papers():
    cited = yaml.safe_load(read("CITATION.cff"))
    assert cited["cff-version"] == "1.2.0"
    assert cited["version"] == slidejoin.__version__
    assert (cited["repository-code"], cited["url"]) == (URLS["Repository"], URLS["Documentation"])
    papers = {one["title"]: one for one in cited["references"]}
    years = {"Index-based": 2020, "SplitJoin": 2016, "Cell Processor": 2007, "SPO-Join": 2025, "PanJoin": 2018}
    for word, year in years.items():
        (paper,) = (one for title, one in papers.items() if word in title)
        assert paper["year"] == year
        assert all({"given-names", "family-names"} == set(author) for author in paper["authors"])
    assert len(papers) == 5


@pytest.mark.parametrize("name", ["README.md", "SECURITY.md", "docs/reliability.md"])
def test_where_a_reader_looks_it_says_that_nothing_is_sent(name):
    assert "slidejoin sends no telemetry." in read(name)


@pytest.mark.parametrize("name", WITH_ADDRESSES)
def test_addresses_of_the_project_are_those_of_pyproject(name):
    places = (URLS["Repository"], URLS["Documentation"])
    found = [address for address in ADDRESS.findall(read(name)) if not address.startswith(FOREIGN)]
    assert [address for address in found if not address.startswith(places)] == []


@pytest.mark.parametrize("name", ["bug.yml", "feature.yml"])
def test_a_form_needs_what_an_answer_needs(name):
    form = yaml.safe_load((TEMPLATES / name).read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= form.keys()
    fields = [one for one in form["body"] if one["type"] != "markdown"]
    ids = [one["id"] for one in fields]
    assert len(set(ids)) == len(ids)
    assert all(one["attributes"]["label"] for one in fields)
    assert any(one.get("validations", {}).get("required") for one in fields)


def test_what_a_form_names_exists():
    body = (TEMPLATES / "bug.yml").read_text(encoding="utf-8")
    assert "slidejoin --version" in body
    assert hasattr(slidejoin.StreamJoin, "explain")
    from slidejoin.spark import explain_join

    assert explain_join.__name__ in body


def test_links_to_the_site_are_pages_of_it():
    links = yaml.safe_load((TEMPLATES / "config.yml").read_text(encoding="utf-8"))["contact_links"]
    for address in (one["url"] for one in links if one["url"].startswith(URLS["Documentation"])):
        page = address.removeprefix(URLS["Documentation"]).replace(".html", ".md")
        assert (ROOT / "docs" / page).is_file()


def test_a_pull_request_is_asked_for_what_contributing_says():
    text = read(".github/PULL_REQUEST_TEMPLATE.md")
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", text)) <= targets
    assert "tests/oracle.py" in text
    assert (ROOT / "tests" / "oracle.py").is_file()
