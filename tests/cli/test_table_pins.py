"""Versions of tables in the checkpoint of a job on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.cli.lake_tables import TablePins

if TYPE_CHECKING:
    from pathlib import Path


def test_a_micro_batch_meets_the_version_that_was_noted_before_it(tmp_path: Path):
    pins = TablePins(tmp_path, "rates")
    assert pins.version(1000) is None
    for version, start in ((7, 1000), (8, 2000), (7, 3000)):
        pins.note(version, start)
    assert [pins.version(at) for at in (999, 1000, 1999, 2000, 5000)] == [None, 7, 7, 8, 7]
    file = tmp_path / "slidejoin_tables" / "rates.json"
    file.write_text(file.read_text()[:-5])
    assert pins.version(5000) == 8
    pins.note(9, 4000)
    assert [pins.version(at) for at in (3000, 5000)] == [8, 9]


def test_a_micro_batch_is_pending_until_it_is_done(tmp_path: Path):
    pins = TablePins(tmp_path, "rates")
    assert pins.pending() is None
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    for number in (8, 9, 10):
        lines = ["v1", f'{{"batchWatermarkMs":0,"batchTimestampMs":{1000 + number},"conf":{{}}}}', "{}"]
        (tmp_path / "offsets" / str(number)).write_text("\n".join(lines))
        assert pins.pending() == 1000 + number
        (tmp_path / "commits" / str(number)).touch()
        assert pins.pending() is None
