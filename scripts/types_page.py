"""Writes the table of docs/types.md: `python -m scripts.types_page`. A minute or two; the tests say when it is due."""

from __future__ import annotations

from pathlib import Path

import tests.conftest  # noqa: F401 - the tests' compiled kernels
from tests.types_page import BEGIN, END, table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "types.md"


def main() -> None:
    """Replace the table."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
