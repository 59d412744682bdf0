"""The examples of the README print what it shows, each as a file of its own outside of the checkout."""

from __future__ import annotations

import pytest

from tests.packaging.examples import ROOT, examples_of, lines, run

EMBEDDED, ON_SPARK = examples_of("README.md")


@pytest.mark.nojit
def test_the_embedded_example_prints_what_the_readme_shows(tmp_path):
    assert EMBEDDED.shown is not None
    assert lines(run(EMBEDDED.code, tmp_path)) == lines(EMBEDDED.shown)


def test_the_examples_are_short():
    most = {"embedded": 8, "on Spark": 20}
    counts = {"embedded": code_lines(EMBEDDED), "on Spark": code_lines(ON_SPARK)}
    assert {name: count for name, count in counts.items() if count > most[name]} == {}


def code_lines(example):
    return sum(bool(line.strip()) for line in example.code.splitlines())


@pytest.mark.spark
def test_the_example_on_spark_prints_what_the_readme_shows(tmp_path):
    assert ON_SPARK.shown is not None
    assert lines(run(ON_SPARK.code, tmp_path)) == lines(ON_SPARK.shown)


def test_the_readme_links_to_every_page_and_the_map_to_those_of_the_rooms():
    text, where = (ROOT / "README.md").read_text(encoding="utf-8"), ROOT / "docs" / "engineering"
    rooms = sorted((where / "rooms").glob("*.md"))
    pages = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path not in rooms]
    assert [page for page in pages if f"]({page.relative_to(ROOT).as_posix()})" not in text] == []
    text = (where / "architecture.md").read_text(encoding="utf-8")
    assert [page for page in rooms if f"]({page.relative_to(where).as_posix()})" not in text] == []
