"""Two threads that share a push without the interpreter find what one thread finds, whoever of them is awake."""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest

import slidejoin as sj
from slidejoin.jit.vectors.fields import word, words_for
from slidejoin.operator.fused import cells
from slidejoin.operator.fused.kernels.pushing import MAILBOX
from slidejoin.operator.fused.kernels.work import WORK
from slidejoin.operator.fused.partner import AWAKE, Partner
from slidejoin.runtime.array_pool import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="plain kernels hold the interpreter's lock")

CLAIMED, FINISHED = word(MAILBOX, "claimed"), word(MAILBOX, "finished")

ROWS = 9_000
"""Of each side in a push: enough for a second thread."""


def batches(seed: int, keys: int = 100_000) -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return {
        side: {"k": rng.integers(0, keys, ROWS), "i": np.sort(rng.integers(0, 4_000, ROWS))}
        for side in ("left", "right")
    }


def join(threads: int, **options: Any) -> sj.StreamJoin:
    on = "l.k BETWEEN r.k - 4 AND r.k + 3"
    return sj.StreamJoin(on=on, window=sj.CountWindow(30_000), threads=threads, **options)


def rows_of(table: pa.Table, order: str, output: str) -> pa.Table:
    """Put what may come in any order into one; probes stay where they are unless `order` is none."""
    if output == "count":
        return table
    left, right = (table.column(name).to_numpy() for name in table.column_names)
    if order == "none":
        return table.take(np.lexsort((right, left)))
    return table


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Partner]:
    """A partner of this test alone, which is ended after it."""
    made = Partner(patience=50_000_000)
    monkeypatch.setattr(cells, "partner", lambda: made)
    yield made
    made.close()
    assert not made._thread.is_alive()


@pytest.mark.parametrize("output", ["positions", "count"])
@pytest.mark.parametrize("order", ["probe", "none"])
@pytest.mark.parametrize("order_by", [None, "i"])
def test_two_threads_find_what_one_finds(own: Partner, output: str, order: str, order_by: str | None) -> None:
    alone, together = join(1, output=output, order=order), join(2, output=output, order=order)
    pairs = before = 0
    for seed in range(12):
        if seed == 8:
            own.close()  # from here on the work of both is done by one
        push = batches(seed)
        expected, got = alone.push(**push, order_by=order_by), together.push(**push, order_by=order_by)
        assert rows_of(got, order, output).equals(rows_of(expected, order, output))
        pairs = max(pairs, together.stats.pairs - before)
        before = together.stats.pairs
    assert together.stats.pairs == alone.stats.pairs
    assert pairs > 10_000


@pytest.mark.parametrize("order", ["probe", "none"])
def test_more_pairs_than_there_is_room_for(own: Partner, order: str) -> None:
    alone, together = (join(threads, order=order, output="positions") for threads in (1, 2))
    # First the probes find more than there is room to note, then more than is put out at once.
    for seed, keys in enumerate((100_000, 100_000, 20_000, 20_000, 4_000, 1_000, 4_000, 100_000)):
        push = batches(seed, keys)
        expected, got = alone.push(**push, order_by="i"), together.push(**push, order_by="i")
        assert rows_of(got, order, "positions").equals(rows_of(expected, order, "positions"))
    assert together.stats.pairs > 1 << 20
    assert own._words[FINISHED] > 0


def test_a_push_that_fails_lets_the_partner_go(own: Partner, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = join(2), join(2), join(1)
    for one in (first, second, third):
        one.push(**batches(0), order_by="i")

    def fail(*_args: Any) -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(cells.FusedCells, "_hold", fail)
        with pytest.raises(MemoryError, match="no room"):
            first.push(**batches(1), order_by="i")
    with pytest.raises(sj.JoinClosedError, match="interrupted by MemoryError"):
        first.push(**batches(1), order_by="i")
    assert not own._lock.locked()
    before = own._words[FINISHED]
    assert second.push(**batches(1), order_by="i").equals(third.push(**batches(1), order_by="i"))
    assert own._words[FINISHED] == before + 1


def test_who_finds_the_partner_at_work_for_others_goes_alone(own: Partner) -> None:
    alone, together = join(1), join(2)
    with own._lock:
        for seed in range(4):
            push = batches(seed)
            assert together.push(**push, order_by="i").equals(alone.push(**push, order_by="i"))
        assert own._words[FINISHED] == 0
    together.push(**batches(5))
    assert own._words[FINISHED] > 0


def test_a_roused_partner_falls_asleep_and_wakes(own: Partner) -> None:
    def wait_for(awake: int) -> bool:
        # It may still be loading its kernel, for which it needs the interpreter's lock.
        end = perf_counter() + 60
        while own._words[AWAKE] != awake and perf_counter() < end:
            sleep(0.001)
        return bool(own._words[AWAKE] == awake)

    for _ in range(3):
        own.rouse()
        assert wait_for(1)
        assert wait_for(0)


def test_a_partner_that_sleeps_is_woken_by_work(own: Partner) -> None:
    """From when it is roused until there is work more time may pass than it looks, as with very large pushes."""
    work, nothing = words_for(WORK), np.empty(0, np.int64)
    own.rouse()
    end = perf_counter() + 60
    while own._words[AWAKE] and perf_counter() < end:
        sleep(0.01)
    sleep(0.5)  # ten times as long as it looks: it was perhaps roused before it slept
    assert not own._words[AWAKE]
    assert own.begin(work, address_of(work), nothing, nothing)
    end = perf_counter() + 10
    while not own._words[CLAIMED] and perf_counter() < end:
        pass
    claimed = own._words[CLAIMED]
    own.end(work)
    assert claimed == 1


FORKED = """
import os, sys
import numpy as np
import slidejoin as sj

def total(join):
    rng = np.random.default_rng(3)
    keys = rng.integers(0, 50_000, (2, 5, 9_000))
    return sum(join.push(left={"k": l}, right={"k": r}).num_rows for l, r in zip(*keys))

def join():
    return sj.StreamJoin(on="l.k BETWEEN r.k - 4 AND r.k + 3", window=sj.CountWindow(20_000), threads=2)

ours = total(join())
child = os.fork()
if child == 0:
    os._exit(0 if total(join()) == ours else 1)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) or (total(join()) != ours))
"""


def test_a_forked_process_has_a_partner_of_its_own() -> None:
    # Python warns of forking where threads are, which is what is tried here.
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
