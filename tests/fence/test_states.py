"""Snapshots that an earlier version wrote are read, and the join goes on as if it had never ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import slidejoin as sj
from tests.api.hostile import Case, rows
from tests.fence.states import every_case, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

STATES = written()


def outputs(join: Any, sides: tuple[str, ...]) -> Iterator[pa.Table]:
    """What further rows and the end of the streams give."""
    for first, count in ((83, 5), (88, 30)):
        given = {side: rows(count, first, side) for side in sides}
        yield join.push(given) if isinstance(join, sj.MultiJoin) else join.push(**given)
    yield join.finish()


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@pytest.fixture(scope="module")
def now() -> dict[str, Case]:
    return every_case()


def test_every_case_has_a_state_of_an_earlier_version(now: dict[str, Case]) -> None:
    assert now.keys() == STATES.keys()


@pytest.mark.parametrize("name", STATES)
def test_a_join_goes_on_from_it(now: dict[str, Case], name: str) -> None:
    case = now[name]
    before, after = (outputs(case.restore(state), case.sides) for state in (STATES[name], case.state))
    for one, other in zip(before, after, strict=True):
        assert one.schema == other.schema
        assert sorted_rows(one) == sorted_rows(other)
