"""Memory is used again once nobody has it, and not before."""

from __future__ import annotations

from threading import Thread

import numpy as np
import pyarrow as pa

from slidejoin.rows.arrow_buffers import array_of
from slidejoin.runtime import array_pool
from slidejoin.runtime.array_pool import ArrayPool


def idle(pool: ArrayPool) -> int:
    return sum(map(len, pool._idle.values()))


def test_memory_is_given_again_once_nobody_has_it() -> None:
    pool = ArrayPool(np.int64)
    first = pool.take(5000)
    address = first.ctypes.data
    view = first[10:]
    second = pool.take(5000)
    assert second.ctypes.data != address
    del first
    third = pool.take(5000)
    assert third.ctypes.data != address
    del view
    assert pool.take(4999).ctypes.data == address


def test_a_table_keeps_its_memory_as_long_as_any_slice_of_it_lives() -> None:
    pool = ArrayPool(np.int64)
    memory = pool.take(5000)
    memory[:] = 7
    address = memory.ctypes.data
    table = pa.table({"left": array_of(memory[:4000])})
    del memory
    part = table.slice(100, 5)
    del table
    others = [pool.take(5000) for _ in range(5)]
    for other in others:
        other[:] = 1
    assert address not in {other.ctypes.data for other in others}
    assert part["left"].to_pylist() == [7] * 5
    del part
    assert pool.take(5000).ctypes.data == address


def test_arrays_come_back_and_do_not_pile_up() -> None:
    pool = ArrayPool(np.int64, most=2, small=0)
    taken = [pool.take(5000 * size) for size in (1, 1, 2, 8)]
    assert len({array.ctypes.data for array in taken}) == 4
    assert [array.size for array in taken] == [5000, 5000, 10_000, 40_000]
    taken.clear()
    assert pool.nbytes >= 12 * 5000 * 8
    for _ in range(array_pool.CHECKED):
        found = pool.take(5000)
        assert found.size == 5000
        del found
    assert pool.nbytes >= 2 * 5000 * 8
    assert idle(pool) == 3  # the one that was taken when the others were looked at came back


def test_results_that_somebody_collects_are_not_kept_as_well() -> None:
    pool = ArrayPool(np.int64)
    held = [pool.take(5000) for _ in range(200)]
    assert np.unique([each.ctypes.data for each in held]).size == 200
    assert pool.nbytes == 0


def test_no_array_is_lent_twice_at_a_time() -> None:
    pool, lent, wrong = ArrayPool(np.int64, most=2), set(), []

    def borrow(seed: int) -> None:
        sizes = np.random.default_rng(seed).integers(1 << 10, 1 << 13, 500).tolist()
        held = []
        for size in sizes:
            array = pool.take(size)
            address = array.ctypes.data
            if address in lent or array.size != size:
                wrong.append((size, array.size))
            lent.add(address)
            held.append((address, array))
            if len(held) == 3:
                lent.discard(held[0][0])
                del held[0], array
        for address, _ in held:
            lent.discard(address)

    threads = [Thread(target=borrow, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_many_small_arrays_are_kept_and_begin_with_a_line_of_the_cache() -> None:
    pool = ArrayPool(np.uint32, most=1)
    taken = [pool.take(size) for size in (3, 1000, 2000, 3000, 4000, 70_000)]
    assert [array.ctypes.data % 64 for array in taken] == [0] * 6
    taken.clear()
    found = pool.take(2000)
    assert found.size == 2000
    assert idle(pool) == 3
