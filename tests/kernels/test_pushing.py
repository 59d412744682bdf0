"""Parts of a push are taken when they are open, and not before or after."""

from __future__ import annotations

import numpy as np
import pytest

from slidejoin.jit.vectors.fields import word, words_for
from slidejoin.operator.fused.kernels.pushing import INSERTING, OVER, PROBING, WRITING, do_a_part
from slidejoin.operator.fused.kernels.work import INSERT, PARTS, PROBE, WORK, WRITE

pytestmark = pytest.mark.nojit

STAGE, CLAIMS, DONES = (word(WORK, name) for name in ("stage", "claims", "dones"))


def work_of(stage: int, done: int) -> np.ndarray:
    """A push without rows at that stage, of which the parts before `done` are claimed and done."""
    work = words_for(WORK)
    work[STAGE] = stage
    work[CLAIMS : CLAIMS + done] = work[DONES : DONES + done] = 1
    return work


@pytest.mark.parametrize(
    ("stage", "done"),
    [
        (INSERTING, PROBE),
        (PROBING, WRITE),
        (WRITING, PARTS),
        # Over without being whole: nobody may insert, look for rows, or write where there is no room.
        (OVER, INSERT),
        (OVER, PROBE),
        (OVER, WRITE),
    ],
)
def test_nothing_is_open(stage: int, done: int) -> None:
    work = work_of(stage, done)
    before = work.copy()
    assert not do_a_part(work)
    assert np.array_equal(work, before)


def test_probes_wait_for_the_rows_that_they_look_for() -> None:
    work = work_of(PROBING, PROBE)
    work[DONES] = 0  # the left probes' rows are claimed, but not inserted yet
    for part in range(PROBE + 1, WRITE, 2):
        assert do_a_part(work)
        assert work[DONES + part] == 1
    assert not do_a_part(work)
    work[DONES] = 1
    for part in range(PROBE, WRITE, 2):
        assert do_a_part(work)
        assert work[DONES + part] == 1
    assert not do_a_part(work)
