"""Words that no reader of English would choose stay out of what users read: pages, errors, help, `explain`."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.packaging.examples import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BETTER = {
    r"anew": "again",
    r"(?:put|puts|putting) out": "emit",
    r"(?:go|goes|went|gone|going) on": "continue, resume",
    r"(?:go|goes|went) back into": "return to",
    r"told|asked": "say what is known, or requested",
    r"kept": "stored",
    r"beside": "next to, compared with",
    r"halves": "divides",
    r"seldom": "rarely",
    r"so many": "that many, or the number itself",
    r"some \d[\d,]* ": "about",
    r"whoever": "a program that, a reader who",
    r"hence|thereby|whereby|thereof": "so",
    r"nobody|somebody": "name who, or use the passive",
    r"is no matter|are no matter": "does not matter",
    r"for it to do": "left to it",
    r"in what": "in which",
}
"""Words, and what to write instead."""

WORST = re.compile(rf"\b(?:{'|'.join(BETTER)})\b", re.IGNORECASE)

PAGES = sorted(
    path
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md"))
    if "engineering" not in path.parts
)


def faults(text: str) -> list[str]:
    """Return the lines of a text that have one of the words, outside of code."""
    prose = re.sub(r"```.*?```", lambda code: "\n" * code[0].count("\n"), text, flags=re.DOTALL)
    prose = re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", prose)
    lines = enumerate(prose.splitlines(), 1)
    return [f"{number}: {match[0]}" for number, line in lines if (match := WORST.search(line))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_are_in_plain_english(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


def shown(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the texts of a module that users may see: messages, help, and what is formatted for them."""
    for node in ast.walk(tree):
        inner: list[ast.AST] = []
        if isinstance(node, ast.Assign) and any(
            getattr(one, "id", "") in {"msg", "why", "text"} for one in node.targets
        ):
            inner = [node.value]
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            inner = [*node.exc.args]
        elif isinstance(node, ast.keyword) and node.arg in {"help", "short_help", "epilog"}:
            inner = [node.value]
        elif isinstance(node, ast.JoinedStr):
            inner = [node]
        for one in inner:
            yield from (
                leaf for leaf in ast.walk(one) if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)
            )


def test_messages_are_in_plain_english() -> None:
    seen, wrong = 0, []
    for path in sorted((ROOT / "src/slidejoin").rglob("*.py")):
        for text in shown(ast.parse(path.read_text(encoding="utf-8"))):
            seen += 1
            if match := WORST.search(text.value):
                wrong.append(f"{path.relative_to(ROOT)}:{text.lineno}: {match[0]}")
    assert seen > 1000
    assert wrong == []


def test_the_list_sees_a_word_but_not_code() -> None:
    assert faults("A row is put out.\n\nIt goes on.") == ["1: put out", "3: goes on"]
    assert faults("`kept` and\n```\nasked\n```\n[a](kept.md)") == []
