"""The fixtures as files: one archive each, and a manifest that says what must come after it.

::

    tests/upgrades/fixtures/0.1/manifest.json         by name: kind, format, what must come
    tests/upgrades/fixtures/0.1/count-window.tar.gz   a snapshot, and the rows of the pushes behind it
    tests/upgrades/fixtures/0.1/job.tar.gz            a folder with a job, its files and its checkpoint
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa

FOLDER = Path(__file__).parent / "fixtures"
MANIFEST = "manifest.json"
SNAPSHOT = "snapshot"
LATER = "later"
"""The folder of an archive with the rows that its job has not read yet."""


def pack(archive: Path, members: dict[str, bytes], times: dict[str, int] | None = None) -> None:
    """Write an archive that depends on its members alone; sources read files in the order of their times."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as file:
        for name, data in sorted(members.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), (times or {}).get(name, 1_000_000_000)
            file.addfile(info, io.BytesIO(data))
    with (
        archive.open("wb") as out,
        gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=9, mtime=0) as file,
    ):
        file.write(raw.getvalue())


def unpack(archive: Path, folder: Path) -> None:
    """Write the members of an archive into a folder."""
    with tarfile.open(archive, "r:gz") as file:
        file.extractall(folder, filter="data")


def table_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def of_snapshot(state: bytes, pushes: list[dict[str, pa.Table]]) -> dict[str, bytes]:
    """The members of the archive of a snapshot."""
    rows = {f"{n}.{name}.arrow": table_bytes(table) for n, push in enumerate(pushes) for name, table in push.items()}
    return {SNAPSHOT: state, **rows}


def snapshot_of(archive: Path) -> tuple[bytes, list[dict[str, pa.Table]]]:
    """A snapshot, and the pushes that come behind it."""
    state = b""
    pushes: dict[int, dict[str, pa.Table]] = {}
    with tarfile.open(archive, "r:gz") as file:
        for member in file:
            data = file.extractfile(member).read()
            if member.name == SNAPSHOT:
                state = data
                continue
            number, name, _ = member.name.split(".")
            pushes.setdefault(int(number), {})[name] = pa.ipc.open_stream(data).read_all()
    return state, [pushes[number] for number in sorted(pushes)]


def manifests() -> dict[str, dict[str, Any]]:
    """What each release has written, by its number."""
    return {folder.name: json.loads((folder / MANIFEST).read_text("utf-8")) for folder in sorted(FOLDER.iterdir())}


def all_of(*kinds: str) -> list[tuple[str, str]]:
    """The releases and names of all fixtures of some kinds."""
    return [
        (release, name)
        for release, manifest in manifests().items()
        for name, one in manifest["fixtures"].items()
        if one["kind"] in kinds
    ]


def archive_of(release: str, name: str) -> Path:
    return FOLDER / release / f"{name}.tar.gz"


def fixture(release: str, name: str) -> dict[str, Any]:
    """What the manifest says of one."""
    return manifests()[release]["fixtures"][name]
