"""A simulated topology loses no row, is never faster than its stations, and agrees with the closed formulas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.cases.simulation import simulate
from benchmarks.cases.topology_models import (
    MODELS,
    StageTimes,
    cell_join,
    depth,
    handshake,
    handshake_low_latency,
    handshake_processing_latency,
    handshake_visiting_latency,
    rows_waited,
    split_join,
    split_join_processing_latency,
    split_join_visiting_latency,
)
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = st.integers(0, 9).map(float)
TIMES = st.builds(
    StageTimes, enter=SECONDS, pass_on=SECONDS, monitor=SECONDS, core=SECONDS, merge=SECONDS, leave=SECONDS
)
PARCELS = st.lists(st.integers(1, 5), min_size=1, max_size=12)
NAMES = st.sampled_from(sorted(MODELS))
CORES = st.integers(1, 9)


@settings(max_examples=70)
@given(
    NAMES, CORES, TIMES, PARCELS, st.one_of(st.none(), st.integers(1, 4)), st.one_of(st.none(), st.integers(1, 3)),
    st.data(),
)  # fmt: skip
def test_rows_and_time_are_conserved(
    name: str,
    cores: int,
    times: StageTimes,
    rows: list[int],
    processors: int | None,
    in_flight: int | None,
    data: st.DataObject,
) -> None:
    stations = MODELS[name](cores, times)
    given_times = data.draw(st.none() | st.lists(SECONDS, min_size=len(rows), max_size=len(rows)).map(sorted))
    found = simulate(stations, rows, times=given_times, processors=processors, in_flight=in_flight)

    # Every row leaves once, after each station served it once.
    assert found.rows == sum(rows)
    assert len(found.latencies) == len(rows)
    assert set(found.served.values()) == {sum(rows)}
    # A parcel takes at least as long as the longest station; all together at least as long as the busiest thread.
    slowest = max(station.service(min(rows)) for station in stations)
    assert min(found.latencies) >= slowest
    assert all(0 <= met <= whole for met, whole in zip(found.visiting, found.latencies, strict=True))
    threads: dict[object, float] = {}
    for number, station in enumerate(stations):
        owner = ("own", number) if station.thread is None else station.thread
        threads[owner] = threads.get(owner, 0.0) + found.busy[station.name]
    assert found.seconds >= max(threads.values())
    if processors is not None:
        assert found.seconds * processors >= sum(found.busy.values()) - 1e-9
        assert processors > 1 or given_times is not None or found.seconds == sum(found.busy.values())
    assert found == simulate(stations, rows, times=given_times, processors=processors, in_flight=in_flight)


@settings(max_examples=70)
@given(CORES, TIMES, st.integers(2, 5), st.integers(2, 5))
def test_one_parcel_takes_what_the_formulas_say(cores: int, times: StageTimes, fan_out: int, fan_in: int) -> None:
    found = simulate(split_join(cores, times, fan_out=fan_out, fan_in=fan_in), [1])
    expected = split_join_processing_latency(cores, times, fan_out=fan_out, fan_in=fan_in)
    assert found.latencies == (times.enter + expected,)
    assert found.visiting == (times.enter + split_join_visiting_latency(cores, times, fan_out=fan_out),)

    chain = simulate(handshake_low_latency(cores, times), [1])
    assert chain.latencies == (times.enter + handshake_processing_latency(cores, times),)
    assert math.isclose(chain.visiting[0], times.enter + handshake_visiting_latency(cores, times))


@given(CORES, TIMES)
def test_both_streams_pass_the_chain_twice(cores: int, times: StageTimes) -> None:
    found = simulate(handshake(cores, times), [1])
    # With one core the streams take turns, and with more they pass each other.
    turns = 2 if cores == 1 else 1
    least = cores * (2 * times.pass_on + times.core / 2) * turns
    most = 2 * cores * (2 * times.pass_on + times.core / 2)
    around = times.enter + cores * times.merge + times.leave
    assert least - 1e-9 <= found.latencies[0] - around <= most + 1e-9
    assert found.visiting[0] >= times.enter + cores * times.pass_on * turns / 2


def push(chain: list[list[int]], row: int, segment: int) -> None:
    """Let a row into a chain, in whose segments the newest stand last, and the oldest of full ones move on."""
    for rows in chain:
        rows.append(row)
        if len(rows) <= segment:
            return
        row = rows.pop(0)


def meet(left: list[list[int]], right: list[list[int]], stored: int) -> bool:
    """Tell whether a left row is in the core in which right row 0 is."""
    return any(stored in one and 0 in two for one, two in zip(left, reversed(right), strict=True))


@pytest.mark.parametrize(("segment", "cores"), [(1, 1), (3, 1), (1, 4), (2, 3), (3, 2), (2, 6)])
def test_rows_of_a_chain_wait_until_others_push_them(segment: int, cores: int) -> None:
    window = segment * cores
    for age in range(window):
        left: list[list[int]] = [[] for _ in range(cores)]
        right: list[list[int]] = [[] for _ in range(cores)]
        for row in range(window):
            push(left, row, segment)
        push(right, 0, segment)
        stored, came = window - 1 - age, 0

        while not meet(left, right, stored):
            came += 1
            push(left, window - 1 + came, segment)
            if meet(left, right, stored):
                break
            push(right, came, segment)
        assert rows_waited(window, cores)[age] == came


@settings(max_examples=70)
@given(NAMES, CORES, TIMES, st.integers(1, 12))
def test_throughput_is_that_of_the_slowest_thread_in_the_long_run(
    name: str, cores: int, times: StageTimes, parcels: int
) -> None:
    stations = MODELS[name](cores, times)
    one, several = (simulate(stations, [1] * count) for count in (1, parcels))
    threads: dict[object, float] = {}
    for number, station in enumerate(stations):
        owner = ("own", number) if station.thread is None else station.thread
        threads[owner] = threads.get(owner, 0.0) + station.service(1)
    bottleneck = max(threads.values())
    assert several.seconds >= bottleneck * parcels
    # A pipeline of whole parcels: one fills it, and each further one adds at most what its threads take.
    assert several.seconds <= one.seconds + (parcels - 1) * sum(threads.values())
    if all(station.thread is None for station in stations):
        assert several.seconds == one.seconds + (parcels - 1) * bottleneck


@given(CORES, st.integers(1, 6), st.integers(1, 40), st.floats(0, 3))
def test_batches_grow_with_the_queue(workers: int, most: int, parcels: int, apart: float) -> None:
    times = StageTimes(pass_on=1.0, core=0.5)
    stations = cell_join(workers, times, most=most, rows=1)
    together = simulate(stations, [1] * parcels, times=[apart * number for number in range(parcels)])
    assert together.rows == parcels
    alone = simulate(
        cell_join(workers, times, rows=1), [1] * parcels, times=[apart * number for number in range(parcels)]
    )
    assert together.seconds <= alone.seconds + 1e-9


def test_one_processor_does_everything_in_turn() -> None:
    times = StageTimes(enter=1.0, pass_on=1.0, core=4.0, merge=1.0, leave=1.0)
    stations = split_join(4, times, fan_out=2, fan_in=2)
    assert simulate(stations, [1], processors=1).seconds == sum(station.service(1) for station in stations)
    assert simulate(stations, [1], processors=2).seconds < simulate(stations, [1], processors=1).seconds


def test_trees_have_as_many_nodes_as_they_need() -> None:
    stations = split_join(9, StageTimes(), fan_out=3, fan_in=3)
    names = [station.name.split()[0] for station in stations]
    assert names.count("distributor") == 1 + 3
    assert names.count("core") == 9
    assert names.count("merger") == 3 + 1
    assert depth(9, 3) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate([], [1], processors=0), "processors: got 0, expected at least 1"),
        (lambda: simulate([], [1], in_flight=0), "in_flight: got 0, expected at least 1"),
        (lambda: simulate([], [1], times=[]), "times: got 0 for 1 parcels"),
        (lambda: split_join(0, StageTimes()), "cores: got 0, expected at least 1"),
        (lambda: split_join(2, StageTimes(), fan_out=1), "fan_out and fan_in: got 1, expected at least 2"),
        (lambda: rows_waited(0, 2), "window: got 0, expected at least 1"),
        (lambda: rows_waited(2, 0), "cores: got 0, expected at least 1"),
        (lambda: StageTimes(core=-1.0), "core: got -1.0, expected seconds, at least 0"),
    ],
)  # fmt: skip
def test_impossible_numbers(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()
