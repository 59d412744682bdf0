"""Groups of arguments: Python and kernels pass named tuples, whose arrays may be read-only where nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from numba import types

from slidejoin.jit.compiling import I64, OUT_I64, U64, group, kernel, load

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.nojit


class Column(NamedTuple):
    """Values and how many of them count."""

    values: NDArray[np.int64]
    size: int


class Pair(NamedTuple):
    """Two arrays, of one type where both may be written."""

    read: NDArray[np.int64]
    written: NDArray[np.int64]


class Late(NamedTuple):
    """As `Column`, of a kernel that nothing else calls."""

    values: NDArray[np.int64]
    size: int


COLUMN, PAIR = group(Column, I64, types.int64), group(Pair, I64, OUT_I64)


@kernel(COLUMN, OUT_I64)
def add_to(column: Column, sums: NDArray[np.int64]) -> None:
    """Add the values that count to the first sum."""
    for at in range(column.size):
        sums[U64(0)] += column.values[U64(at)]


@kernel(PAIR, types.int64)
def add_both(pair: Pair, size: int) -> None:
    """Add the first values of both: groups made here convert as well, and what may be written is read."""
    add_to(Column(pair.read, size), pair.written)
    add_to(Column(pair.written[:1], 1), pair.written)


@pytest.mark.parametrize("writable", [True, False])
def test_arrays_of_a_group_may_be_read_only(*, writable: bool) -> None:
    values = np.arange(10)
    values.flags.writeable = writable
    sums = np.zeros(1, np.int64)
    add_to(Column(values, 4), sums)
    assert sums[0] == 6
    add_both(Pair(values, sums), 3)
    assert sums[0] == 18


@pytest.mark.skipif(not hasattr(add_to, "nopython_signatures"), reason="plain Python converts nothing")
def test_another_thread_may_have_made_the_first_call_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has installed the conversions between two looks of this one, to which none is new then."""

    @kernel(group(Late, I64, types.int64), OUT_I64)
    def add_late(column: Late, sums: NDArray[np.int64]) -> None:
        sums[U64(0)] += column.values[U64(0)] + column.size

    load(add_late)
    install = add_late.typingctx.install_possible_conversions  # type: ignore[attr-defined]  # Numba's

    def installed_meanwhile(actual: Any, formal: Any) -> Any:
        install(actual, formal)
        return install(actual, formal)

    monkeypatch.setattr(add_late.typingctx, "install_possible_conversions", installed_meanwhile)  # type: ignore[attr-defined]
    sums = np.zeros(1, np.int64)
    add_late(Late(np.arange(5, 9), 2), sums)
    assert sums[0] == 7


@pytest.mark.skipif(not hasattr(add_to, "nopython_signatures"), reason="plain Python converts nothing")
def test_what_is_written_cannot_be_read_only() -> None:
    values = np.arange(10)
    values.flags.writeable = False
    with pytest.raises(TypeError, match="No matching definition"):
        add_both(Pair(values, values), 3)
