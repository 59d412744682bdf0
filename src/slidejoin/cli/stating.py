"""``slidejoin state``: what the joins of a checkpoint keep."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
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

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = ("bucket", "store", "watermark", "segments", "left rows", "right rows", "bytes")


def state(
    checkpoint: Checkpoint,
    *,
    batch: Batch = None,
    segments: Segments = False,
    conf: Conf = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List what the joins of a streaming query keep: their buckets, segments, rows, bytes and watermarks."""
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
    versions = info.last_batch - info.first_batch + 1
    disk = "" if size is None else f", {size:,} bytes on disk"
    lines = [
        f"{info.checkpoint}: state after micro-batch {info.batch}",
        f"versions kept: micro-batches {info.first_batch} to {info.last_batch} ({versions}){disk}",
    ]
    for join in info.joins:
        lines += ["", f"join, operator {join.operator}, {join.stores} state stores"]
        lines += [f"  {name}: {value}" for name, value in join.described.items() if value is not None]
        if join.arrived is not None:
            seen = f"{join.arrived['left']:,} left and {join.arrived['right']:,} right rows"
            lines.append(f"  sequencer: operator {join.sequencer}, has numbered {seen}")
        rows_of = (_row(str(one.bucket), str(one.partition), _watermark(one), one) for one in join.buckets)
        table = [COLUMNS, *rows_of, _row("all", "", "", join)]
        widths = [max(len(row[place]) for row in table) for place in range(len(COLUMNS))]
        rows = ["  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        if segments:
            for place, bucket in reversed(list(enumerate(join.buckets, start=1))):
                rows[place + 1 : place + 1] = [
                    f"    {one.side} {one.id}: {one.rows:,} rows, {one.bytes:,} bytes, merged {one.merged} times"
                    for one in bucket.segments
                ]
        lines += rows
    return lines


def _row(bucket: str, store: str, watermark: str, part: JoinInfo | BucketInfo) -> tuple[str, ...]:
    count = len(part.segments)
    numbers = (count, part.rows("left"), part.rows("right"), part.bytes)
    return (bucket, store, watermark, *(f"{number:,}" for number in numbers))


def _watermark(bucket: BucketInfo) -> str:
    if not bucket.watermark_ms:
        return "none"
    return (EPOCH + timedelta(milliseconds=bucket.watermark_ms)).isoformat(timespec="milliseconds")
