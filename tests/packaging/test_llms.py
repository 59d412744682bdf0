"""The site's pages as text for language models."""

from __future__ import annotations

import pytest
import yaml

from scripts.llms import SitePage, full, index, loaded, written_out
from tests.packaging.examples import ROOT

FIRST = """\
# slidejoin

[![tests][t]][u]

<picture>
</picture>

<div class="head" markdown>
It joins *two* [streams](x.md), by A. Author. More.
</div>

[Start](x.md){ .md-button .md-button--primary }
"""
PAGES = [
    SitePage("slidejoin", "index.md", FIRST),
    SitePage("API", "api.md", "# API\n\nGenerated.\n\n::: slidejoin.lit\n"),
    SitePage("For engineers: Plan", "engineering/rooms/plan.md", "# Plan\n\n- a list\n\nWhat is decided,\nand when.\n"),
]


@pytest.fixture(scope="module")
def package():
    return loaded(ROOT / "src")


def test_the_list_has_a_sentence_and_a_link_for_each_page():
    assert (
        index("slidejoin", "Joins.", "https://site/", PAGES)
        == """\
# slidejoin

> Joins.

All pages for users in one file: [llms-full.txt](https://site/llms-full.txt).

## Docs

- [slidejoin](https://site/index.md): It joins *two* streams, by A. Author.
- [API](https://site/api.md): Generated.

## Optional

- [For engineers: Plan](https://site/engineering/rooms/plan.md): What is decided, and when.
"""
    )


def test_the_whole_has_the_pages_for_users_with_their_docstrings(package):
    text = full(PAGES, package)
    assert "\nIt joins *two* [streams](x.md), by A. Author. More.\n\n[Start](x.md)\n" in text
    assert "What is decided" not in text
    assert "### slidejoin.lit\n\n```python\nlit(value: object) -> Expression\n```\n" in text


def test_every_object_of_the_api_reference_is_written_out(package):
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    text = written_out(page, package)
    assert ":::" not in text
    assert "\n    options:" not in text
    for part in ("StreamJoin(on: ", "#### StreamJoin.push\n", "### PIMTree\n", "#### PredicateError\n", "stream_join("):
        assert part in text
    # Members that the page leaves out are left out here.
    assert "CountWindow.to_json" not in text
    assert "CountWindow.capacity" in text


def test_the_site_has_a_place_and_the_hook_that_writes_them():
    # Tags of its own are left out; what is looked at has none.
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("markdown_extensions")[0]
    read = yaml.safe_load(text)
    assert read["site_url"].endswith("/")
    assert "scripts/site_pages.py" in read["hooks"]
