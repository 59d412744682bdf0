"""Plans are those that were written down."""

from __future__ import annotations

from tests.fence.plans import FILE, explained


def test_joins_are_planned_as_before() -> None:
    assert explained() == FILE.read_text(encoding="utf-8")
