"""Pictures of the site: a hook of mkdocs, see mkdocs.yml.

Pages show a drawing with ``<picture>``, whose source for dark pages the browser takes by the system's setting. The site
has a switch of its own. So here each picture becomes two images, of which the theme hides one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

__all__ = ["PICTURE", "on_page_markdown", "two_images"]

PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*'
    r'<img src="(?P<light>[^"]+)" alt="(?P<alt>[^"]*)">\s*</picture>'
)


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - mkdocs' names
    """Turn the pictures of a page into images of the theme."""
    return two_images(markdown)


def two_images(text: str) -> str:
    """Return the text of a page with two images for each picture.

    Examples
    --------
    >>> dark = '<source media="(prefers-color-scheme: dark)" srcset="images/a-dark.svg">'
    >>> print(two_images(f'<picture>{dark}<img src="images/a-light.svg" alt="A drawing."></picture>'))
    ![A drawing.](images/a-light.svg#only-light)
    ![](images/a-dark.svg#only-dark)
    """
    return PICTURE.sub(r"![\g<alt>](\g<light>#only-light)\n![](\g<dark>#only-dark)", text)
