"""The examples of the README print what it shows, each as a file of its own outside of the checkout."""

from __future__ import annotations

import pytest

from tests.packaging.examples import ROOT, examples_of, lines, run

EMBEDDED, MANY, ON_SPARK = examples_of("README.md")


@pytest.mark.nojit
@pytest.mark.parametrize("example", [EMBEDDED, MANY])
def test_the_embedded_examples_print_what_the_readme_shows(example, tmp_path):
    assert example.shown is not None
    assert lines(run(example.code, tmp_path)) == lines(example.shown)


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
