"""Snapshots and checkpoints of every release are read, and continue with exactly what must come."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

import slidejoin as sj
from slidejoin.api import snapshot_format
from slidejoin.errors import StateError
from slidejoin.spark.state.records import FORMAT, from_record, to_record
from tests.upgrades import archives, write_fixtures
from tests.upgrades.jobs import run_job, show_later
from tests.upgrades.joins import late_rows, pushed, rows_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

JOINS: dict[str, Any] = {"StreamJoin": sj.StreamJoin, "MultiJoin": sj.MultiJoin}
MOST_BYTES = 1_500_000


def continued(archive: Path, kind: str) -> tuple[dict[str, Any], Any]:
    """What a join gives when it goes on from a snapshot, and the join."""
    state, pushes = archives.snapshot_of(archive)
    join = JOINS[kind].restore(state)
    given = {"pushes": [pushed(join, push) for push in pushes], "late": late_rows(join)}
    return given | {"end": rows_of(join.finish())}, join


@pytest.mark.parametrize(("release", "name"), archives.all_of(*JOINS))
def test_joins_go_on_from_the_snapshots_of_every_release(release: str, name: str) -> None:
    one = archives.fixture(release, name)
    given, _ = continued(archives.archive_of(release, name), one["kind"])
    assert sum(map(len, given["pushes"])) > 20
    assert given == one["expected"]


@pytest.mark.parametrize(("release", "name"), archives.all_of(*JOINS))
def test_a_snapshot_of_today_of_what_was_restored_is_the_same_join(release: str, name: str) -> None:
    """An upgrade in two steps: read what a release wrote, write it as this version does, and go on from that."""
    one = archives.fixture(release, name)
    state, pushes = archives.snapshot_of(archives.archive_of(release, name))
    kind = JOINS[one["kind"]]
    join = kind.restore(kind.restore(state).snapshot())
    given = {"pushes": [pushed(join, push) for push in pushes], "late": late_rows(join)}
    assert given | {"end": rows_of(join.finish())} == one["expected"]


@pytest.mark.parametrize(("release", "name"), archives.all_of("job"))
def test_jobs_go_on_from_the_checkpoints_of_every_release(tmp_path: Path, release: str, name: str) -> None:
    archives.unpack(archives.archive_of(release, name), tmp_path)
    expected = archives.fixture(release, name)["expected"]
    before = run_job(tmp_path)  # there is nothing new yet
    assert 0 < len(before) < len(expected)
    show_later(tmp_path)
    assert run_job(tmp_path) == expected


def test_what_is_written_today_goes_on_too(tmp_path: Path) -> None:
    """The program that writes the fixtures of a release works, and what it writes names the version."""
    write_fixtures.write(tmp_path, None, ("time-window", "many-streams-counted"))
    manifest = json.loads((tmp_path / archives.MANIFEST).read_text("utf-8"))
    assert manifest["written_by"] == sj.__version__
    written = {name: one for name, one in manifest["fixtures"].items() if one["kind"] in JOINS}
    assert {one["kind"] for one in written.values()} == set(JOINS)
    for name, one in written.items():
        archive = tmp_path / f"{name}.tar.gz"
        header, _ = snapshot_format.read_snapshot(archives.snapshot_of(archive)[0])
        assert header["slidejoin"] == sj.__version__
        given, _ = continued(archive, one["kind"])
        assert given == one["expected"]


def test_every_release_has_all_kinds_of_fixtures_and_they_are_small() -> None:
    for release, manifest in archives.manifests().items():
        kinds = {one["kind"] for one in manifest["fixtures"].values()}
        assert kinds == {*JOINS, "job", "query"}, release
        files = {path.name.removesuffix(".tar.gz") for path in (archives.FOLDER / release).glob("*.tar.gz")}
        assert files == set(manifest["fixtures"])
    assert sum(path.stat().st_size for path in archives.FOLDER.rglob("*") if path.is_file()) < MOST_BYTES


# -- formats from the future -------------------------------------------------------------------------------------------


def of_format(state: bytes, number: int) -> bytes:
    """A whole snapshot that says another format."""
    at = len(snapshot_format.MAGIC)
    _, count = snapshot_format.HEAD.unpack_from(state, at)
    head = snapshot_format.HEAD.pack(number, count)
    body = state[:at] + head + state[at + len(head) : -snapshot_format.DIGEST]
    return body + hashlib.sha256(body).digest()


def test_a_snapshot_of_a_later_format_says_which_version_wrote_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = rf"slidejoin {sj.__version__} reads formats 1, 2 and 3\. Use"
    with monkeypatch.context() as patch:
        patch.setattr(snapshot_format, "__version__", "7.3.0")
        later = of_format(sj.StreamJoin(on="l.a = r.a", window=sj.CountWindow(5)).snapshot(), 9)
    text = (
        rf"the snapshot has format 9, which slidejoin 7\.3\.0 wrote; {reads} slidejoin 7\.3\.0 or newer: docs/upgrades"
    )
    for join in JOINS.values():
        with pytest.raises(StateError, match=text):
            join.restore(later)


@pytest.mark.parametrize(("release", "name"), archives.all_of(*JOINS)[:1])
def test_a_snapshot_that_does_not_say_who_wrote_it(release: str, name: str) -> None:
    state, _ = archives.snapshot_of(archives.archive_of(release, name))
    text = rf"the snapshot has format 4; slidejoin {sj.__version__} reads formats 1, 2 and 3\. Use a newer slidejoin"
    with pytest.raises(StateError, match=text):
        sj.StreamJoin.restore(of_format(state, 4))


@pytest.mark.parametrize(("release", "name"), archives.all_of("job"))
def test_a_checkpoint_of_a_later_format_says_which_version_reads_it(tmp_path: Path, release: str, name: str) -> None:
    archives.unpack(archives.archive_of(release, name), tmp_path)
    about = tmp_path / "checkpoint" / "embedded.json"
    written = json.loads(about.read_text("utf-8"))
    reads = rf"slidejoin {sj.__version__} reads format 1\. Use"
    for said, text in (
        (
            {},
            rf"embedded\.json: this checkpoint has format 2; {reads} the version that wrote it or a newer one: docs/up",
        ),
        (
            {"slidejoin": "7.3.0"},
            rf"has format 2, which slidejoin 7\.3\.0 wrote; {reads} slidejoin 7\.3\.0 or a newer one",
        ),
    ):
        about.write_text(json.dumps(written | said | {"format": 2}), "utf-8")
        with pytest.raises(StateError, match=text):
            run_job(tmp_path)
    about.write_text(json.dumps(written), "utf-8")
    newest = max((tmp_path / "checkpoint" / "snapshots").iterdir(), key=lambda path: int(path.name))
    newest.write_bytes(b"SLJP\x02" + newest.read_bytes()[5:])
    with pytest.raises(
        StateError, match=rf"snapshots/\d+: this snapshot has format 2; {reads} the version that wrote it"
    ):
        run_job(tmp_path)


def test_state_on_spark_of_a_later_format_says_which_version_reads_it() -> None:
    later = to_record({"since": 3}).replace(b'"format":%d' % FORMAT, b'"format":%d' % (FORMAT + 1))
    text = (
        rf"the record has format 4, slidejoin {sj.__version__} reads formats 2 and 3\. Use the version of slidejoin "
        r"that wrote it, or a newer one: docs/upgrades\.md says which version reads which format"
    )
    with pytest.raises(StateError, match=text):
        from_record(later, "the record")
