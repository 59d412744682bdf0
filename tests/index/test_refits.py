"""Indexes that may move their rows to another one say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import slidejoin as sj
from slidejoin.index.protocol import Index

if TYPE_CHECKING:
    from collections.abc import Iterator


def _kinds(kind: type[Index]) -> Iterator[type[Index]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)


def test_whoever_overrides_refitted_says_that_a_call_is_worth_it() -> None:
    sj.algorithms()  # imports the papers' structures
    kinds: list[type[Any]] = [kind for kind in _kinds(Index) if kind.__module__.startswith("slidejoin.")]  # type: ignore[type-abstract]
    assert len(kinds) > 8
    assert {kind.refits for kind in kinds if kind.refitted is not Index.refitted} == {True}
    assert not any(kind.refits for kind in kinds if kind.refitted is Index.refitted)
