"""``slidejoin state``: list the state of the joins of a checkpoint, or make a checkpoint with other buckets of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slidejoin.cli.job import Session
from slidejoin.cli.reporting import Debug, Json, document, errors_reported
from slidejoin.cli.secrets import HIDDEN, SECRETS, is_secret
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
Repartition = Annotated[
    int | None,
    typer.Option(metavar="N", help="Make a new checkpoint with N buckets; the query must be stopped. Needs --to."),
]
To = Annotated[str | None, typer.Option(metavar="NEW", help="The new checkpoint, a folder that does not exist.")]
Stores = Annotated[
    int | None, typer.Option(metavar="S", help="State stores of the new checkpoint; as many as buckets by default.")
]
Strategy = Annotated[
    str | None, typer.Option(metavar="NAME", help="Another strategy of the new checkpoint; as it was by default.")
]
Spread = Annotated[int | None, typer.Option(metavar="G", help="Its spread, with --strategy; 1 by default.")]


def state(
    checkpoint: Checkpoint,
    *,
    batch: Batch = None,
    segments: Segments = False,
    repartition: Repartition = None,
    to: To = None,
    stores: Stores = None,
    strategy: Strategy = None,
    spread: Spread = None,
    conf: Conf = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the state of the joins in a checkpoint: their buckets, segments, rows, bytes and watermarks.

    With --repartition N --to NEW, make a checkpoint with N buckets of it, with which the same query goes on.
    """
    with errors_reported(debug=debug):
        _check_options(repartition, to, {"stores": stores, "strategy": strategy, "spread": spread}, batch)
        session = Session("local[*]", _settings(conf or []))
        from slidejoin.cli.session import spark_session  # noqa: PLC0415 - belongs to an extra, and is slow to load

        with spark_session(session, "slidejoin state", json=json) as spark:
            from slidejoin.spark import inspect_state, repartition_state  # noqa: PLC0415 - the same

            if repartition is None or to is None:
                info = inspect_state(spark, checkpoint, batch=batch)
            else:
                info = repartition_state(
                    spark, checkpoint, repartition, to, stores=stores, strategy=strategy, spread=spread or 1,
                )  # fmt: skip
        size = _size_on_disk(Path(info.checkpoint))
        if json:
            typer.echo(SECRETS.out_of(document(as_document(info, size))))
            return
        lines = _text(info, size, segments=segments)
        text = "\n".join(lines if repartition is None else [*lines, "", *_what_next(info)])
        typer.echo(SECRETS.out_of(text))


def _check_options(
    repartition: int | None, to: str | None, options: dict[str, int | str | None], batch: int | None
) -> None:
    """Refuse options that do not go together."""
    given = [f"--{name}" for name, value in options.items() if value is not None]
    if (repartition is None) != (to is None):
        msg = f"{'--to' if repartition is None else '--repartition'} needs the other: --repartition N --to NEW"
        raise ConfigError(msg)
    if repartition is None and given:
        msg = f"{given[0]} is of a new checkpoint: give --repartition N --to NEW as well"
        raise ConfigError(msg)
    if repartition is not None and batch is not None:
        msg = "--batch shows an earlier version; a new checkpoint is made of the last one. Leave --batch out"
        raise ConfigError(msg)
    if options["spread"] is not None and options["strategy"] is None:
        msg = "--spread is of another strategy: give --strategy NAME as well"
        raise ConfigError(msg)


def _what_next(info: CheckpointInfo) -> list[str]:
    """Return what to do with a new checkpoint."""
    lines = [f"Start the same query on it, with checkpointLocation {info.checkpoint} (job file: checkpoint), and"]
    for join in info.joins:
        name, _, spread = join.described["strategy"].partition(", spread ")
        strategy = name.partition(" ")[0].partition(",")[0]
        spread = f", spread={spread}" if spread else ""
        lines.append(
            f'  partitions={join.described["partitions"]}, strategy="{strategy}"{spread} for the join on '
            f"{join.described['on']}"
        )
    lines.append("It goes on with the next micro-batch. The former checkpoint is as it was: do not start it again.")
    return lines


def _settings(conf: list[str]) -> dict[str, str]:
    values = {}
    for setting in conf:
        key, equals, value = setting.partition("=")
        if not key or not equals:
            # What is written in some other way may have a secret too.
            shown = HIDDEN if not key or is_secret(setting) else setting
            msg = f"--conf {shown}: expected KEY=VALUE"
            raise ConfigError(msg)
        values[key] = value
    SECRETS.add(values)
    return values


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
