"""Count what makes the house hard to read, and fail where a figure has grown: each may only fall.

``python scripts/house.py`` prints every figure beside what it may be at most and what it should become. When a figure
has fallen, lower `MOST`, so that it stays there.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grimp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "slidejoin"
GUESTS = ("papers",)
"""Rooms that are no part of the core."""

SHORT, LONG = 60, 600
"""Lines of a module that is a fragment, and of one that is too long to be read at once."""
MOST_PARAMETERS, MOST_POSITIONAL = 12, 8
"""Parameters of a kernel, and positional arguments of a call."""
WIDEST = 140
"""Characters of a line of the docs."""

WORDS = ("asked", "asking", "told", "found", "kept", "beside", "anew", "put out", "halves")
"""Words that say many things, or what a term of the field says better."""
INDEXES = frozenset({"band_cells", "bi_sort", "planar"})
"""Names that `slidejoin.index.protocol` has for everybody else."""
INDEX_ROOMS = ("index", "papers", "spec")
GERUNDS = re.compile(r"^(weav|tally|piec|plac|rang|pair|reach|clos|ask|spread|stream|locat)ing$")
"""Names of modules that do not say what these make."""


@dataclass(frozen=True)
class Figure:
    """How much of something there may be, and how much there should be."""

    most: int
    goal: int


MOST = {
    "lines of the core": Figure(96_200, 66_000),
    "modules": Figure(551, 470),
    "rooms": Figure(16, 16),
    "arrows between rooms": Figure(121, 60),
    "modules with a single importer": Figure(73, 60),
    "modules under 60 lines": Figure(5, 0),
    "modules over 600 lines": Figure(0, 0),
    "strings that name modules": Figure(0, 0),
    "names of indexes outside of their room": Figure(0, 0),
    "constants that tests set": Figure(23, 0),
    "kernels with more than 12 parameters": Figure(0, 0),
    "calls with more than 8 positional arguments": Figure(0, 0),
    "nameless places of word arrays": Figure(0, 0),
    "questions for the kind of window": Figure(2, 0),
    "lines of the docs over 140 characters": Figure(0, 0),
    "modules named by a gerund": Figure(0, 0),
    "words that say many things": Figure(46, 300),
}


def trees(folder: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    """Yield each module of a folder, its text and its syntax tree."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield path, text, ast.parse(text)


def docstrings(tree: ast.Module) -> set[int]:
    """Return the identities of the constants that are docstrings, or texts that stand alone as one."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def is_facade(tree: ast.Module) -> bool:
    """Tell whether a module only gives names of others: it has no function, class or value but ``__all__``."""
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.If, ast.Expr)):
            continue
        if isinstance(node, ast.Assign) and [getattr(one, "id", "") for one in node.targets] == ["__all__"]:
            continue
        return False
    return True


def is_kernel(function: ast.FunctionDef) -> bool:
    """Tell whether Numba compiles a function."""
    names = {getattr(one.func if isinstance(one, ast.Call) else one, "id", "") for one in function.decorator_list}
    return bool(names & {"kernel", "inlined", "compiled", "parallel_kernel"})


def parameters(function: ast.FunctionDef) -> int:
    """Return how many parameters a function has."""
    return len(function.args.posonlyargs) + len(function.args.args) + len(function.args.kwonlyargs)


def of_source(known: set[str]) -> Counter[str]:
    """Count in the package; `known` are the names of its modules."""
    count: Counter[str] = Counter()
    for path, text, tree in trees(PACKAGE):
        lines = text.count("\n")
        inside = path.relative_to(PACKAGE)
        guest = inside.parts[0] in GUESTS
        count["modules"] += 1
        count["lines of the core"] += 0 if guest else lines
        count["modules under 60 lines"] += lines < SHORT and path.name != "__init__.py" and not is_facade(tree)
        count["modules over 600 lines"] += lines > LONG
        count["modules named by a gerund"] += bool(GERUNDS.match(path.stem))
        told = docstrings(tree)
        for node in ast.walk(tree):
            match node:
                case ast.Constant(value=str(value)) if id(node) not in told and path.name != "__init__.py":
                    count["strings that name modules"] += value in known and value != "slidejoin"
                    named = value in INDEXES and inside.parts[0] not in INDEX_ROOMS
                    count["names of indexes outside of their room"] += named
                case ast.FunctionDef() if is_kernel(node):
                    count["kernels with more than 12 parameters"] += parameters(node) > MOST_PARAMETERS
                case ast.Call(args=args) if len(args) > MOST_POSITIONAL:
                    count["calls with more than 8 positional arguments"] += 1
                case ast.Subscript(slice=ast.BinOp(op=ast.Add(), right=ast.Constant(value=int(place)))) if place > 1:
                    count["nameless places of word arrays"] += 1
                case ast.Subscript(
                    slice=ast.Call(args=[ast.BinOp(op=ast.Add(), right=ast.Constant(value=int(place)))])
                ) if place > 1:
                    count["nameless places of word arrays"] += 1
        count["questions for the kind of window"] += len(
            re.findall(r"isinstance\([^()]*, (?:sj\.)?(?:CountWindow|TimeWindow)\)|scope is (?:not )?None", text)
        )
    return count


def of_tests() -> Counter[str]:
    """Count what tests set in modules."""
    count: Counter[str] = Counter()
    for _, _, tree in trees(ROOT / "tests"):
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(attr="setattr"), args=[_, ast.Constant(value=str(name)), *_]):
                    count["constants that tests set"] += name.isupper()
    return count


def of_words() -> Counter[str]:
    """Count words, and lines of the docs that are too long."""
    count: Counter[str] = Counter()
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    texts = [path.read_text(encoding="utf-8") for path in (*pages, *PACKAGE.rglob("*.py"))]
    pattern = re.compile(rf"\b({'|'.join(WORDS)})\b")
    count["words that say many things"] = sum(len(pattern.findall(text)) for text in texts)
    long = (len(line) > WIDEST for path in pages for line in path.read_text(encoding="utf-8").splitlines())
    count["lines of the docs over 140 characters"] = sum(long)
    return count


def of_imports(graph: grimp.ImportGraph) -> Counter[str]:
    """Count rooms, which rooms know which, and modules that one other imports."""
    count: Counter[str] = Counter()
    arrows = set()
    for name in graph.modules:
        importers = graph.find_modules_that_directly_import(name)
        arrows |= {(room(one), room(name)) for one in importers}
        count["modules with a single importer"] += len(importers) == 1 and not is_package(name)
    count["arrows between rooms"] = len({(one, other) for one, other in arrows if one and other and one != other})
    count["rooms"] = len({room(name) for name in graph.modules if is_package(f"slidejoin.{room(name)}")})
    return count


def room(module: str) -> str:
    """Return the part of the package that a module is in."""
    return ".".join(module.split(".")[1:2])


def is_package(module: str) -> bool:
    """Tell whether a module is a folder."""
    return (PACKAGE.parent / Path(*module.split(".")) / "__init__.py").exists()


def figures() -> dict[str, int]:
    """Return all figures."""
    graph = grimp.build_graph("slidejoin")
    counts = of_imports(graph) + of_source(set(graph.modules)) + of_tests() + of_words()
    return {name: counts[name] for name in MOST}


def table(rows: Iterable[tuple[str, int, Figure]]) -> str:
    """Return the figures as text."""
    lines = [f"{'':<46}{'today':>9}{'at most':>9}{'goal':>9}"]
    lines += [f"{name:<46}{today:>9,}{figure.most:>9,}{figure.goal:>9,}" for name, today, figure in rows]
    return "\n".join(lines)


def main() -> int:
    """Print the table, and return 1 if a figure has grown."""
    rows = [(name, today, MOST[name]) for name, today in figures().items()]
    sys.stdout.write(table(rows) + "\n")
    grown = [name for name, today, figure in rows if today > figure.most]
    for name in grown:
        sys.stderr.write(f"{name}: more than before; see scripts/house.py\n")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
