"""Pages for engineers name files, folders and classes that there are."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.packaging.examples import ROOT

PACKAGE = ROOT / "src" / "slidejoin"
PAGES = ["CONTRIBUTING.md", *(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/engineering").rglob("*.md"))]
FOLDERS = ("src", "tests", "scripts", "benchmarks", "demo", "docs", "requirements", ".ci")
MADE = (".venv", ".cache", "site")
"""What is there only after a build."""

PATH = re.compile(
    r"(?P<path>(?:[a-z_.][a-z_0-9-]*/)*[a-z_][a-z_0-9-]*)(?P<end>\.(?:py|md|sh|toml|yml)|/)?(?:\.(?P<name>\w+))?"
)
"""What stands in backticks: `room/module`, `folder/`, `file.py`, or `room/module.Name`."""


@cache
def paths():
    """Every file and folder of the project, from its root on and with a slash in front."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts)
    return ["/" + path.relative_to(ROOT).as_posix() for path in (*found, *ROOT.iterdir())]


def missing(code):
    """Whether `code` names a file, a folder, or something in a file, and it is not there; False for other code."""
    match = PATH.fullmatch(code)
    if match is None or code.startswith(MADE) or ("/" not in code and match["end"] is None):
        return False
    path, end, name = match["path"], match["end"] or "", match["name"]
    if end or name is None:
        ends = (f"/{path}{end.removesuffix('/')}", *(() if end else (f"/{path}.py",)))
        return not any(one.endswith(ends) for one in paths())
    declared = re.compile(rf"^(?:class|def|    def) {name}\b|^(?:    )?{name}\b.* = |^    {name}:", re.MULTILINE)
    modules = [ROOT / one[1:] for one in paths() if one.endswith((f"/{path}.py", f"/{path}/__init__.py"))]
    return not any(declared.search(module.read_text("utf-8")) for module in modules)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    named = dict.fromkeys(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text))
    assert [code for code in named if missing(code)] == []


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("index/protocol", False),
        ("index/protocol.py", False),
        ("index/protocol.Index", False),
        ("index/", False),
        ("tests/law", False),
        ("house.py", False),
        ("l.a / r.b", False),
        ("threads", False),
        ("index/protocols", True),
        ("index/protocol.Indexes", True),
        ("driver/", False),
        (".ci/run", False),
        ("index/nothing/", True),
        ("no_such_file.py", True),
    ],
)
def test_a_name_that_is_not_there_is_seen(code, wrong):
    assert missing(code) is wrong
