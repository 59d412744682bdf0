from __future__ import annotations

from slidejoin.bench import machine
from slidejoin.bench.machine import MemorySpeed

MEMORY = (MemorySpeed(1, 1e8, 1e10), MemorySpeed(2, 2e8, 2e10))


def test_memory_is_measured_with_one_thread_and_with_several():
    found = machine.measure_memory(2, size=1 << 16, lines=1 << 10)
    assert [one.threads for one in found] == [1, 2]
    assert all(one.lines_per_second > 0 and one.bytes_per_second > 0 for one in found)
    report = machine.MachineReport(case="machine", memory=MEMORY)
    assert "memory    200.0 M random cache lines/s and 20.0 GB/s streamed with 2 threads" in report.text()
    assert report.to_json()["memory"][1]["threads"] == 2
