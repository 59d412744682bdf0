"""Workers are added while pushes take nearly all the time, and freed when fewer would do."""

from __future__ import annotations

from slidejoin.papers.cell_join.topology import PUSHES, WorkerLoad


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def workers_after(load: WorkerLoad, clock: Clock, pushes: int, work: float, every: float) -> int:
    """The workers after pushes that take `work` seconds of one worker and come every so many seconds, at best."""
    workers = 0
    for _ in range(pushes):
        workers, due = load.began(), clock.now + every
        clock.now += work / workers
        load.ended()
        clock.now = max(clock.now, due)
    return workers


def test_workers_follow_the_load() -> None:
    clock = Clock()
    load = WorkerLoad(4, clock)
    assert workers_after(load, clock, PUSHES - 1, 0.1, 0.01) == 1
    assert workers_after(load, clock, 10 * PUSHES, 0.1, 0.01) == 4  # more rows than four can do
    assert workers_after(load, clock, 40 * PUSHES, 0.1, 0.06) == 4  # three would be busy half of the time
    assert workers_after(load, clock, 40 * PUSHES, 0.1, 0.11) == 2
    assert workers_after(load, clock, 40 * PUSHES, 0.001, 0.1) == 1
    assert workers_after(load, clock, 40 * PUSHES, 0.1, 0.08) == 2  # none comes and goes
    counts = {workers_after(load, clock, 1, 0.1, 0.08) for _ in range(10 * PUSHES)}
    assert counts == {2}


def test_few_pushes_and_short_times_decide_nothing() -> None:
    clock = Clock()
    load = WorkerLoad(4, clock)
    assert workers_after(load, clock, 100 * PUSHES, 1e-6, 1e-6) == 1
