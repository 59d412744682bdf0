"""``slidejoin state``: list the state of the joins of a checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slidejoin.cli.common import Debug, Json, document, errors_told
from slidejoin.cli.job import Session
from slidejoin.errors import ConfigError

if TYPE_CHECKING:
    from slidejoin.spark.driver.inspect import BucketInfo, CheckpointInfo, JoinInfo

__all__ = ["state"]

Checkpoint = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="The query's checkpointLocation.", show_default=False)
]
Batch = Annotated[
    int | None, typer.Option(metavar="N", help="The state after that micro-batch; the last one by default.")
]
Segments = Annotated[bool, typer.Option("--segments", help="List the segments of each bucket too.")]
Conf = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark, as for a remote file system.")
]


def state(
    checkpoint: Checkpoint,
    *,
    batch: Batch = None,
    segments: Segments = False,
    conf: Conf = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the state of the joins in a checkpoint: their buckets, segments, rows, bytes and watermarks."""
    with errors_told(debug=debug):
        session = Session("local[*]", _settings(conf or []))
        from slidejoin.cli.session import spark_session  # noqa: PLC0415 - belongs to an extra, and is slow to load

        with spark_session(session, "slidejoin state", json=json) as spark:
            from slidejoin.spark import inspect_state  # noqa: PLC0415 - the same

            info = inspect_state(spark, checkpoint, batch=batch)
        size = _size_on_disk(Path(checkpoint))
        typer.echo(document(as_document(info, size)) if json else "\n".join(_text(info, size, segments=segments)))


def _settings(conf: list[str]) -> dict[str, str]:
    found = {}
    for setting in conf:
        key, equals, value = setting.partition("=")
        if not key or not equals:
            msg = f"--conf {setting}: expected KEY=VALUE"
            raise ConfigError(msg)
        found[key] = value
    return found


def as_document(info: CheckpointInfo, size: int | None) -> dict[str, Any]:
    """Return everything as plain values, with the sums that the text shows."""
    whole: dict[str, Any] = asdict(info) | {"bytes_on_disk": size}
    for join, plain in zip(info.joins, whole["joins"], strict=True):
        plain.update(_sums(join))
        for bucket, its in zip(join.buckets, plain["buckets"], strict=True):
            its.update(_sums(bucket))
    return whole


def _sums(part: JoinInfo | BucketInfo) -> dict[str, int]:
    return {"left_rows": part.rows("left"), "right_rows": part.rows("right"), "bytes": part.bytes}


def _size_on_disk(checkpoint: Path) -> int | None:
    """Return how much the versions of the state take, if the checkpoint is on this machine."""
    folder = checkpoint / "state"
    if not folder.is_dir():
        return None
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _text(info: CheckpointInfo, size: int | None, *, segments: bool) -> list[str]:
    from slidejoin.spark.driver.inspect import aligned  # noqa: PLC0415 - belongs to an extra

    lines = info.lines()
    if size is not None:
        lines[-1] += f", {size:,} bytes on disk"
    for join in info.joins:
        lines += ["", *join.lines()]
        rows = aligned(join.table())
        if segments:
            for place, bucket in reversed(list(enumerate(join.buckets, start=1))):
                rows[place + 1 : place + 1] = [
                    f"    {one.side} {one.id}: {one.rows:,} rows, {one.bytes:,} bytes, merged {one.merged} times"
                    for one in bucket.segments
                ]
        lines += rows
    return lines
