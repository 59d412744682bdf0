"""llms.txt and llms-full.txt of the site: its pages as text, for readers that are language models.

`llms.txt` lists the pages, each with a sentence and a link to its Markdown, which lies next to the page.
`llms-full.txt` has all pages for users in one file, with the API reference written out. The form is that of
https://llmstxt.org.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import griffe
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

DIRECTIVE = re.compile(r"^::: (?P<name>\S+)\n(?P<options>(?:[ ]{4}.*\n)*)", re.MULTILINE)
"""An object of the package on a page, as mkdocstrings reads it."""
LINK = re.compile(r"!?\[(?P<text>[^\[\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
FENCED = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$|<!--.*?-->", re.DOTALL | re.MULTILINE)
SENTENCE = re.compile(r".*?(?<![ .(][A-Z])\.(?=\s|$)", re.DOTALL)
"""Up to a full stop, but for one behind an initial."""
LAYOUT = re.compile(r"^</?div[^>]*>\n|\{ ?\.[^}\n]*\}", re.MULTILINE)
"""What a page says about its looks."""
ENGINEERS = "engineering/"
CONTRIBUTING = ("contributing.md", "changelog.md", "code-of-conduct.md")


@dataclass(frozen=True)
class SitePage:
    """A page of the site: its title, the name of its Markdown, and the text."""

    title: str
    name: str
    text: str

    @property
    def optional(self) -> bool:
        """Whether it is for those who work on slidejoin."""
        return self.name.startswith(ENGINEERS) or self.name in CONTRIBUTING

    def sentence(self) -> str:
        r"""Return the first sentence that is no heading, as plain text; empty if there is none.

        Examples
        --------
        >>> SitePage("Lake", "lake.md", "# Lake\n\nA [job file](run-file.md) reads\ntables. More.\n").sentence()
        'A job file reads tables.'
        """
        for part in re.split(r"\n\s*\n", LAYOUT.sub("", FENCED.sub("", self.text))):
            text = LINK.sub(lambda link: link["text"], part).strip()
            # Neither headings nor tables, quotes, lists, figures and badges.
            if text and text[0] not in "#|>-:<!" and not part.lstrip().startswith(("![", "[![")):
                found = SENTENCE.match(text)
                return " ".join((found[0] if found else text).split())
        return ""


def index(name: str, summary: str, site: str, pages: Sequence[SitePage]) -> str:
    """Return llms.txt.

    Parameters
    ----------
    name, summary : str
        Of the project.
    site : str
        The address of the site, with a slash at its end.
    pages : sequence of SitePage
        In the order of the navigation.
    """
    lines = [f"# {name}", "", f"> {summary}", ""]
    lines += [f"All pages for users in one file: [llms-full.txt]({site}llms-full.txt)."]
    for heading, optional in (("Docs", False), ("Optional", True)):
        lines += ["", f"## {heading}", ""]
        for page in pages:
            if page.optional is optional:
                sentence = page.sentence()
                lines.append(f"- [{page.title}]({site}{page.name})" + (f": {sentence}" if sentence else ""))
    return "\n".join(lines) + "\n"


def full(pages: Iterable[SitePage], package: griffe.Module) -> str:
    """Return llms-full.txt: the pages for users one after the other, with the docstrings that they name."""
    mine = (page for page in pages if not page.optional)
    return "\n".join(
        f"<!-- {page.name} -->\n\n{written_out(LAYOUT.sub('', page.text), package).strip()}\n" for page in mine
    )


def loaded(sources: Path) -> griffe.Module:
    """Return what the docstrings of slidejoin say, read from its sources."""
    package = griffe.load("slidejoin", search_paths=[str(sources)])
    if not isinstance(package, griffe.Module):
        msg = f"{sources} has no package slidejoin"
        raise TypeError(msg)
    return package


def written_out(text: str, package: griffe.Module) -> str:
    """Return a page with the signature and the docstring of each object that it names by ``:::``."""

    def described(found: re.Match[str]) -> str:
        given: dict[str, Any] = yaml.safe_load(found["options"] or "{}")
        options = given.get("options", {})
        path = found["name"].split(".")[1:]
        thing = package[path]
        thing = thing.final_target if isinstance(thing, griffe.Alias) else thing
        members = options.get("members")
        return "\n".join(_of_object(thing, found["name"], members, options.get("show_root_heading", True)))

    return DIRECTIVE.sub(described, text)


def _of_object(thing: griffe.Object, name: str, members: Sequence[str] | None, heading: bool) -> Iterator[str]:
    """Yield the lines about an object and about its members: those that are named, or all that are public."""
    if heading:
        yield from _of_one(thing, name, "###")
    for member in sorted(_members(thing, members), key=lambda one: one.lineno or 0):
        if thing.is_module:
            yield from _of_one(member, member.name, "###" if members is not None else "####")
        else:
            yield from _of_one(member, f"{thing.name}.{member.name}", "####")


def _members(thing: griffe.Object, members: Sequence[str] | None) -> list[griffe.Object]:
    found = []
    for name, one in thing.all_members.items():
        wanted = name in members if members is not None else not name.startswith("_") and not one.is_imported
        target = one.final_target if wanted and isinstance(one, griffe.Alias) else one
        if wanted and isinstance(target, griffe.Object) and target.docstring is not None:
            found.append(target)
    return found


def _of_one(thing: griffe.Object, name: str, heading: str) -> Iterator[str]:
    yield f"{heading} {name}\n"
    if isinstance(thing, (griffe.Class, griffe.Function)):
        yield f"```python\n{thing.signature()}\n```\n"
    if thing.docstring is not None:
        yield f"{thing.docstring.value.strip()}\n"
