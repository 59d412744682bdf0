"""Fail if two classes of the package have one name: whoever reads a name should know which thing it is."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src"


def shared_names(package: Path) -> dict[str, list[str]]:
    """Return the names that several classes of a folder have, and where these are."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(package)}:{node.lineno}")
    return {name: places for name, places in found.items() if len(places) > 1}


def main() -> int:
    """Print each shared name, and return the exit status."""
    shared = shared_names(PACKAGE)
    for name, places in shared.items():
        sys.stdout.write(f"{len(places)} classes are called {name}: {', '.join(places)}\n")
    return 1 if shared else 0


if __name__ == "__main__":
    sys.exit(main())
