"""The README as an index shows it: with links and pictures of the repository at this version. A hook of hatchling.

An index shows the README outside of the repository, where `docs/spark.md` leads nowhere. pyproject.toml names this file
under ``tool.hatch.metadata.hooks``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")
"""A link to a file of the repository: one without a scheme."""
PICTURE = re.compile(r'(?P<before><img [^>]*?src=")(?P<target>[^":]+)"')
VARIANT = re.compile(r"^ *<source [^>]*>\n", re.MULTILINE)
"""A picture for dark pages, which an index does not have."""


def absolute(text: str, repository: str, version: str) -> str:
    r"""Return a README whose links and pictures are those of the repository at the tag of a version.

    Parameters
    ----------
    text : str
        The README.
    repository, version : str
        The repository's address without a slash at its end, and the version.

    Examples
    --------
    >>> absolute("[Types](docs/types.md#a), [up](#x)", "https://host/a", "1.0")
    '[Types](https://host/a/blob/v1.0/docs/types.md#a), [up](#x)'
    >>> absolute('<source srcset="b.svg">\n<img alt="B" src="b.svg">', "https://host/a", "1.0")
    '<img alt="B" src="https://host/a/raw/v1.0/b.svg">'
    """
    files, pictures = f"{repository}/blob/v{version}", f"{repository}/raw/v{version}"
    text = LINK.sub(lambda link: f"]({files}/{link['target']}{link['anchor'] or ''})", VARIANT.sub("", text))
    return PICTURE.sub(lambda picture: f'{picture["before"]}{pictures}/{picture["target"]}"', text)


class ReadmeHook(MetadataHookInterface):
    """Hands the README to hatchling, which has the rest from pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme`, which is listed under `dynamic`."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        written = absolute(text, metadata["urls"]["Repository"], metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": written}
