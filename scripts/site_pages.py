"""Pages of the site that are not in docs/. A hook of mkdocs, see mkdocs.yml.

Links are written as they are in the repository, and turned into those of the site. The build also writes the Markdown
of each page next to it, `llms.txt` and `llms-full.txt`, see scripts/llms.py. Notebooks are run and become pages, see
scripts/notebooks.py.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

from scripts import llms, notebooks

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

NOTES = Path(__file__).resolve().parent.parent / "benchmarks" / "notes"
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "benchmarks/README.md": "engineering/scoreboard.md",
    "benchmarks/cases/README.md": "engineering/cases.md",
    **{f"benchmarks/notes/{note.name}": f"engineering/notes/{note.name}" for note in sorted(NOTES.glob("*.md"))},
}
"""Files of the repository, and the pages that they are; one that is not there is left out."""

LINK = re.compile(r"\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")

ORDER: list[Page] = []
TEXTS: dict[str, str] = {}
"""Of the build that is running: its pages in the order of the navigation, and their Markdown by name."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages."""
    root = Path(config.config_file_path).parent
    for source, page in PAGES.items():
        if (root / source).is_file():
            files.append(File.generated(config, page, content=(root / source).read_text(encoding="utf-8")))
    for name, content in notebooks.pages(notebooks.sources()).items():
        files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def on_nav(nav: Navigation, *, config: MkDocsConfig, files: Files) -> None:  # noqa: ARG001 - mkdocs' names
    """Note the order of the pages."""
    ORDER[:] = nav.pages


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - mkdocs' names
    """Turn the links of a page into those of the site."""
    text = TEXTS[page.file.src_uri] = site_links(markdown, page.file.src_uri)
    return text


def on_post_build(*, config: MkDocsConfig) -> None:
    """Write the pages as text, and what lists them."""
    site, root = Path(config.site_dir), Path(config.config_file_path).parent
    pages = [llms.SitePage(title_of(page), page.file.src_uri, TEXTS[page.file.src_uri]) for page in ORDER]
    for name, text in TEXTS.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
    listed = llms.index(config.site_name, config.site_description or "", config.site_url or "", pages)
    (site / "llms.txt").write_text(listed, encoding="utf-8")
    (site / "llms-full.txt").write_text(llms.full(pages, llms.loaded(root / "src")), encoding="utf-8")


def title_of(page: Page) -> str:
    """Return the title of a page, with the sections that it is in."""
    return ": ".join(str(one.title) for one in (*reversed(list(page.ancestors)), page))


def site_links(text: str, page: str) -> str:
    """Return the text of a page of the site with links that are right there.

    Examples
    --------
    >>> site_links("[Types](docs/types.md), [changes](CHANGELOG.md#0)", "contributing.md")
    '[Types](types.md), [changes](changelog.md#0)'
    >>> site_links("[Spark](../spark.md) and [targets](../../benchmarks/README.md)", "engineering/scaling.md")
    '[Spark](../spark.md) and [targets](scoreboard.md)'
    >>> site_links("[Trips](notebooks/taxi-trips.ipynb)", "getting-started.md")
    '[Trips](notebooks/taxi-trips.md)'
    """
    source = {one: file for file, one in PAGES.items()}.get(page, f"docs/{page}")

    def linked(link: re.Match[str]) -> str:
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), link["target"]))
        if file not in PAGES and not file.startswith("docs/"):
            return link[0]
        there = PAGES.get(file, file.removeprefix("docs/"))
        if file.startswith("docs/notebooks/"):
            there = f"{there.removesuffix('.ipynb')}.md"
        return f"]({posixpath.relpath(there, posixpath.dirname(page) or '.')}{link['anchor'] or ''})"

    return LINK.sub(linked, text)
