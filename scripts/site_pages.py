"""Pages of the site that stand beside docs/: the README is its first page. A hook of mkdocs, see mkdocs.yml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages, with links as they are inside of docs/."""
    root = Path(config.config_file_path).parent
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=inside((root / source).read_text(encoding="utf-8"))))
    return files


def inside(text: str) -> str:
    """Return the text of a page at the root of the repository with its links as they are inside of docs/.

    Examples
    --------
    >>> inside("[Types](docs/types.md), [changes](CHANGELOG.md)")
    '[Types](types.md), [changes](changelog.md)'
    """
    text = text.replace("](docs/", "](")
    for source, page in PAGES.items():
        text = text.replace(f"]({source}", f"]({page}")
    return text
