"""Every type of column in every use: it works, or one sentence says which column of which type, and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.types_page import BEGIN, END, line_of
from tests.types_table import Kind, rows_of_page
from tests.types_uses import USES, Outcome, outcome_of

PAGE = (Path(__file__).parents[2] / "docs" / "types.md").read_text(encoding="utf-8")
ROWS = rows_of_page()
REMEDY = re.compile(
    r"cast|convert|compare|use |give |write|leave|drop|order by|needs|takes|in the stream|arithmetic is for",
    re.IGNORECASE,
)
WORDS = re.compile(
    r"integer|float|decimal|timestamp|date|time of day|duration|string|binary|boolean|list|null|struct<|interval"
)


def unexplained(kind: Kind, outcome: Outcome) -> str | None:
    """What an error leaves out."""
    message = outcome.message
    if not re.search(r"'v'|[lr]\.v\b", message) and (kind.literal is None or kind.literal not in message):
        return "the column"
    if str(kind.type) not in message and not WORDS.search(message):
        return "the type"
    return None if REMEDY.search(message) else "what to do"


BY_DAY = 1
"""Kinds of columns of each line that are tried by day; all are tried at night, and found to behave alike."""


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("kinds", [BY_DAY, pytest.param(None, marks=pytest.mark.nightly)], ids=["some", "all"])
def test_every_use_of_a_type_works_or_says_why_not(row: str, kinds: int | None):
    tried = ROWS[row][:kinds]
    failed: list[str] = []
    silent: list[str] = []
    mixed: list[str] = []
    for kind in tried:
        for use in USES:
            outcome = outcome_of(use, kind)
            if outcome.error == "failure":
                failed.append(f"{kind}, {use.name}: {outcome.message}")
            elif not outcome.works and (missing := unexplained(kind, outcome)):
                silent.append(f"{kind}, {use.name}: {missing} is missing in {outcome.message}")
    for use in USES:
        working = [str(kind) for kind in tried if outcome_of(use, kind).works]
        if 0 < len(working) < len(tried):
            mixed += [f"{use.name}: it works of {working} alone"]
    assert failed == []
    assert mixed == []
    assert silent == []
    assert line_of(row, tried) in PAGE, "docs/types.md is out of date: run python -m scripts.types_page"


def test_the_page_has_no_lines_but_these():
    lines = [line for line in PAGE.split(BEGIN)[1].split(END)[0].splitlines() if line.startswith("| ")]
    assert len(lines) == len(ROWS) + 2
    for name, line in zip(ROWS, lines[2:], strict=True):
        assert line.startswith(f"| {name}")
