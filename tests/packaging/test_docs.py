"""The examples in the pages for users run, and print what the pages show."""

from __future__ import annotations

import re

import pytest

from scripts.site_pages import site_links
from slidejoin import options
from tests.packaging.examples import ROOT, examples_of, lines, printed, printed_by_pages

FOLDERS = ("docs", "docs/coming-from", "docs/ideas")
PAGES = sorted(path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).glob("*.md"))
WITH_EXAMPLES = [page for page in PAGES if examples_of(page)]
ON_SPARK = [page for page in WITH_EXAMPLES if any("pyspark" in example.code for example in examples_of(page))]
EMBEDDED = [page for page in WITH_EXAMPLES if page not in ON_SPARK]


def check(page, outputs):
    examples = examples_of(page)
    assert len(outputs) == len(examples)
    for example, output in zip(examples, outputs, strict=True):
        if example.shown is not None:
            assert lines(output) == lines(example.shown), example.code


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """What the examples print, all in one process: to start one takes longer than most pages."""
    return printed_by_pages({page: examples_of(page) for page in EMBEDDED}, tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("page", EMBEDDED)
def test_embedded_examples_print_what_the_page_shows(page, embedded):
    check(page, embedded[page])


@pytest.mark.nightly  # README's example on Spark runs each time
@pytest.mark.spark
@pytest.mark.parametrize("page", ON_SPARK)
def test_examples_on_spark_print_what_the_page_shows(page, tmp_path):
    check(page, printed(examples_of(page), tmp_path))


def test_most_pages_have_examples():
    assert {"docs/getting-started.md", "docs/recipes.md", "docs/predicates.md", "docs/windows.md"} <= set(EMBEDDED)
    others = {f"docs/coming-from/{tool}.md" for tool in ("pandas", "polars", "duckdb", "flink", "kdb")}
    assert others <= set(EMBEDDED)
    assert {"docs/spark.md", "docs/coming-from/spark.md"} <= set(ON_SPARK)


def test_pages_for_users_have_no_table_of_targets():
    words = ("| must |", "| goal |", "| reached |")
    assert [
        page for page in (*PAGES, "README.md") if any(word in (ROOT / page).read_text("utf-8") for word in words)
    ] == []


def test_the_api_reference_has_all_options_of_structures_and_topologies():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    members = re.findall(r"[A-Z]\w+", " ".join(re.findall(r"members:\s*\[(.*?)\]", text, re.DOTALL)))
    bases = {"STRUCTURES", "TOPOLOGIES", "Options", "Topology", "Shared"}
    assert sorted(members) == sorted(set(options.__all__) - bases)


def test_every_page_is_in_the_navigation_of_the_site():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    assert [page for page in pages if f": {page}\n" not in navigation] == []


@pytest.mark.parametrize(
    ("page", "link", "on_the_site"),
    [
        ("index.md", "spark.md#settings", "spark.md#settings"),
        ("changelog.md", "docs/spark.md#settings", "spark.md#settings"),
        ("contributing.md", "docs/engineering/architecture.md", "engineering/architecture.md"),
        ("engineering/scaling.md", "../../benchmarks/README.md", "scoreboard.md"),
        ("engineering/scaling.md", "../spark.md", "../spark.md"),
        ("spark.md", "#settings", "#settings"),
        ("spark.md", "https://spark.apache.org/docs/x.md", "https://spark.apache.org/docs/x.md"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(page, link, on_the_site):
    assert site_links(f"[x]({link})", page) == f"[x]({on_the_site})"
