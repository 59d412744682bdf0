"""Merge an immutable tree and the B+-trees next to it into the next immutable tree (PIM-Tree, sections 3.2 and 4.2).

Their layouts: `slidejoin.papers.pim_tree.kernels.css_tree` and `slidejoin.papers.pim_tree.kernels.subindexes`.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from slidejoin.jit.compiling import I64, OUT_I64, U64, kernel
from slidejoin.jit.vectors.memory import place_of
from slidejoin.jit.vectors.words import POINTER, VECTOR, compressed, count_of, first_lanes, load_words, splat
from slidejoin.papers.pim_tree.kernels.css_tree import LANES, count_below, css_in
from slidejoin.papers.pim_tree.kernels.subindexes import NOTHING, pool_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["LEAF", "MERGE", "OUT", "PLACE", "SLOT", "keep_rows", "merge_some"]

PLACE, LEAF, SLOT, OUT, MERGE = range(5)
"""How far a merge is, (MERGE,) int64: place in the immutable tree; leaf and slot in the others, NOTHING at their end;
rows written."""


def _make_keep_rows() -> Callable[..., Any]:
    if numba.config.DISABLE_JIT:

        def keep(keys: int, values: int, lanes: int, floor: int, to_keys: int, to_values: int) -> int:
            read, write = ((ctypes.c_int64 * LANES).from_address(int(at)) for at in (values, to_values))
            live = [lane for lane in range(int(lanes)) if read[lane] >= floor]
            own, to = ((ctypes.c_int64 * LANES).from_address(int(at)) for at in (keys, to_keys))
            for at, lane in enumerate(live):
                to[at], write[at] = own[lane], read[lane]
            return len(live)

        return keep

    @intrinsic
    def keep_rows(
        _typing: Any,  # noqa: ANN401
        keys: Any,  # noqa: ANN401, ARG001 - Numba looks at the names
        values: Any,  # noqa: ANN401, ARG001
        lanes: Any,  # noqa: ANN401, ARG001
        floor: Any,  # noqa: ANN401, ARG001
        to_keys: Any,  # noqa: ANN401, ARG001
        to_values: Any,  # noqa: ANN401, ARG001
    ) -> Any:  # noqa: ANN401
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:  # noqa: ANN401
            keys, values = load_words(builder, args[0]), load_words(builder, args[1])
            stays = builder.icmp_signed(">=", values, splat(builder, args[3]))
            stays = builder.and_(stays, first_lanes(builder, args[2]))
            for column, to in ((keys, args[4]), (values, args[5])):
                into = builder.inttoptr(to, POINTER)
                builder.store(compressed(builder, column, stays, VECTOR), into, align=8)
            return count_of(builder, stays)

        return types.int64(*[types.int64] * 6), generate

    compiled: Callable[..., Any] = keep_rows
    return compiled


keep_rows = _make_keep_rows()
"""``keep_rows(keys, values, lanes, floor, to_keys, to_values)``: of the first `lanes` (0 to 8) rows whose keys and
values lie at two addresses, write those with a value >= floor side by side at two others; returns how many. Eight are
read, and written, the others with any values."""


@kernel(I64, I64, types.int64, types.int64, OUT_I64, OUT_I64, OUT_I64)
def merge_some(
    stable: NDArray[np.int64],
    frozen: NDArray[np.int64],
    floor: int,
    steps: int,
    to_keys: NDArray[np.int64],
    to_values: NDArray[np.int64],
    state: NDArray[np.int64],
) -> None:
    """Write rows of both, with ordinals from `floor` on, by ascending key behind those that are written already.

    `stable` and `frozen` are their words. At most so many, and it is done when the place is the tree's size and the
    leaf NOTHING. The immutable tree's arrays, and those that are written to, have `LANES` places more than rows.
    O(steps).
    """
    tree, pool = css_in(stable), pool_in(frozen)
    keys, values, size, width = pool.keys, pool.values, tree.size, pool.width
    place, leaf, slot, out = state[PLACE], state[LEAF], state[SLOT], state[OUT]
    keys_at, values_at = np.int64(place_of(tree.keys)), np.int64(place_of(tree.values))
    to_keys_at, to_values_at = np.int64(place_of(to_keys)), np.int64(place_of(to_values))
    until: Any = place + steps
    while leaf != NOTHING:
        begin, filled = leaf * width, pool.sizes[U64(leaf)]
        while slot < filled:
            key, ordinal, stop = keys[U64(begin + slot)], values[U64(begin + slot)], min(size, until)
            lanes = np.int64(LANES)
            while lanes == LANES and place < stop:
                lanes = min(np.int64(count_below(keys_at + place * 8, key)), stop - place)
                out += keep_rows(
                    keys_at + place * 8,
                    values_at + place * 8,
                    lanes,
                    floor,
                    to_keys_at + out * 8,
                    to_values_at + out * 8,
                )
                place += lanes
            if place >= until:
                break
            to_keys[U64(out)], to_values[U64(out)] = key, ordinal
            out += ordinal >= floor
            slot += 1
            until -= 1
        if slot < filled:
            break
        leaf, slot = pool.following[U64(leaf)], np.int64(0)
    if leaf == NOTHING:
        stop = min(size, until)
        while place < stop:
            lanes = min(np.int64(LANES), stop - place)
            out += keep_rows(
                keys_at + place * 8, values_at + place * 8, lanes, floor, to_keys_at + out * 8, to_values_at + out * 8
            )
            place += lanes
    state[PLACE], state[LEAF], state[SLOT], state[OUT] = place, leaf, slot, out
