"""Pages for engineers name files, folders and classes that there are, and the map has every room."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.packaging.examples import ROOT

PACKAGE = ROOT / "src" / "slidejoin"
PAGES = ["CONTRIBUTING.md", *(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/engineering").rglob("*.md"))]
FOLDERS = (
    "src",
    "tests",
    "scripts",
    "benchmarks",
    "demo",
    "examples",
    "docs",
    "requirements",
    "packaging",
    ".ci",
    ".github",
)
MADE = (".venv", ".cache", "site", "dist")
"""What is there only after a build."""

PATH = re.compile(
    r"(?P<path>(?:[a-z_.][a-z_0-9-]*/)*[a-z_][a-z_0-9-]*)(?P<end>\.(?:py|md|sh|toml|yml|yaml|txt|cff)|/)?(?:\.(?P<name>\w+))?"
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
    declared = re.compile(rf"^(?:class|def|    def) {name}\b|^(?:    |\w+, )*{name}\b.* = |^    {name}:", re.MULTILINE)
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


def test_the_tree_of_the_map_has_every_room_and_its_folders():
    text = (ROOT / "docs/engineering/architecture.md").read_text(encoding="utf-8")
    tree = re.search(r"```text\nsrc/slidejoin/\n(.*?)```", text, re.DOTALL)
    assert tree is not None
    named: set[str] = set()
    room = ""
    for line in tree[1].splitlines():
        first = re.match(r"  ([a-z_]+)/", line)
        room = room if first is None else first[1]
        named |= {room} if first else {f"{room}/{folder}" for folder in re.findall(r"([a-z_]+)/", line)}
    folders = {path.parent.relative_to(PACKAGE) for path in PACKAGE.glob("**/__init__.py")}
    inner = {"kernels", "functions", "basic_windows", "cores"}
    assert named == {path.as_posix() for path in folders if path.parts and not inner & set(path.parts)}


def test_lines_of_the_pages_for_engineers_are_short():
    rooms = ROOT / "docs/engineering/rooms"
    pages = [*rooms.glob("*.md"), *(ROOT / name for name in ("CONTRIBUTING.md", "docs/engineering/architecture.md"))]
    assert len(pages) > 10
    long = {page.name: max(map(len, page.read_text(encoding="utf-8").splitlines())) for page in pages}
    assert {name: length for name, length in long.items() if length > 120} == {}
    rows = {page.name: len(page.read_text(encoding="utf-8").splitlines()) for page in pages}
    assert {name: count for name, count in rows.items() if count > 220} == {}
