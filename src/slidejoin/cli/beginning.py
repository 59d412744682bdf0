"""``slidejoin init``: write a commented job file for given sources, one that runs unedited where possible."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from slidejoin.cli.common import Debug, errors_told
from slidejoin.cli.jobfile import read_job_text
from slidejoin.cli.samples import quoted, sampled, spark_type
from slidejoin.errors import ConfigError, PredicateError, nearest
from slidejoin.predicate import columns_of, left, right, to_sql
from slidejoin.predicate.python import as_predicate
from slidejoin.sides import SIDES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slidejoin.cli.samples import Sample
    from slidejoin.predicate import Expression

__all__ = ["init", "job_text"]

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE",
        help="One folder, file or pattern of parquet, csv or json files for a self-join, two for a join.",
        show_default=False,
    ),
]
To = Annotated[
    Path,
    typer.Option(
        "--to", metavar="FILE.toml", help="The file to write; - prints it. job.toml by default.", show_default=False
    ),
]
On = Annotated[
    str | None, typer.Option("--on", metavar="SQL", help="The join condition, such as 'l.a = r.a'. Guessed by default.")
]
Kind = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="parquet, csv or json, if file names do not show it.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


TIMES = ("ts", "event_time", "timestamp", "time", "at")
"""Names by which the event time is looked for first."""


HEAD = """\
# A join for `slidejoin run {name}`. Every key is described in docs/run-file.md; lines that begin
# with # are comments. `slidejoin explain {name}` shows how it would run, and reads no rows.
"""

WINDOW = """\
[join.window]
length = "10 minutes"    # how far apart the event times of a pair may be; also "1 hour 30 minutes"
{missing}on = {time}
lateness = "1 minute"    # how far a row may lie behind the latest one; later ones are dropped
# Instead of these three, the last rows of each side, in the order of a column:
# kind = "count"
# rows = 100000
# order_by = {time}
"""

MISSING = """\
# The sides share no timestamp column: give left_on and right_on instead of on, or make the
# column in `columns` of a source, such as "timestamp_seconds(epoch) AS ts".
"""

SINK = """\
[sink]
format = "parquet"       # or csv, json; console prints some rows; noop writes nothing
path = "pairs"
checkpoint = "pairs.checkpoint"  # the job's progress: run again, it continues from there
trigger = "available_now"        # read what is there and stop; "10 seconds": keep running, that often

[spark]
master = "local[*]"      # all cores of this machine
# conf = { "spark.driver.memory" = "8g" }
"""


def init(
    sources: Sources,
    *,
    to: To = Path("job.toml"),
    on: On = None,
    kind: Kind = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Write a commented job file for given sources, with their columns and a guess at the join."""
    with errors_told(debug=debug):
        if len(sources) > 2:  # noqa: PLR2004 - a join has two sides
            msg = f"got {len(sources)} sources, expected one, for a self-join, or two"
            raise ConfigError(msg)
        samples = [sampled(path, name, kind) for path, name in zip(sources, names_of(sources), strict=True)]
        printed = str(to) == "-"
        text = job_text(samples, Path() if printed else to.parent, on, "FILE.toml" if printed else str(to))
        if printed:
            typer.echo(text, nl=False)
            return
        if to.exists() and not force:
            msg = f"{to} already exists; give another name with --to, or --force to overwrite it"
            raise ConfigError(msg)
        try:
            to.write_text(text, encoding="utf-8")
        except OSError as error:
            msg = f"{to}: cannot be written: {error.strerror}"
            raise ConfigError(msg) from error
        typer.echo(f"wrote {to}; check `on` and the window in it, then run: slidejoin explain {to}")


def names_of(paths: Sequence[str]) -> list[str]:
    """Return a name for each source, after its folder or file.

    Examples
    --------
    >>> names_of(["data/trips", "quotes-2024.csv.gz"]), names_of(["a/in", "b/in"]), names_of(["in/*.csv"])
    (['trips', 'quotes-2024'], ['in', 'in_2'], ['in'])
    """
    names: list[str] = []
    for path in paths:
        parts = [part for part in path.rstrip("/").split("/") if part and not re.search(r"[*?\[{]", part)]
        stem = (parts[-1] if parts else "source").split(".")[0]
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", stem).strip("_") or "source"
        names.append(name if name not in names else f"{name}_{len(names) + 1}")
    return names


def job_text(samples: Sequence[Sample], folder: Path, on: str | None = None, name: str = "job.toml") -> str:
    """Return the text of a job file.

    Parameters
    ----------
    samples : sequence of Sample
        One source, or two.
    folder : Path
        Where the file is to lie: paths below it are written as they are seen from there.
    on : str, optional
        The predicate.
    name : str
        The file, for the commands in its comments.

    Raises
    ------
    ConfigError
        For a predicate that cannot be used.
    """
    both = [*samples, samples[0]][:2]
    time, fitted = _event_time(both)
    predicate = _given(on, both) if on is not None else _guessed(both, time)
    parts = [
        HEAD.format(name=name),
        *(_source(sample, folder, time if fitted else None) for sample in samples),
        _join(samples, predicate, guessed=on is None),
        _window(time, fitted=fitted),
        SINK,
    ]
    text = "\n".join(parts)
    read_job_text(text, folder)
    return text


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


# -- guesses ------------------------------------------------------------------------------------------------------


def _event_time(both: Sequence[Sample]) -> tuple[str, bool]:
    """Return the event-time column, and whether both sides are known to have it."""

    def times(sample: Sample) -> list[str]:
        fields = [] if sample.schema is None else list(sample.schema)
        return [one.name for one in fields if pa.types.is_timestamp(one.type) or pa.types.is_date(one.type)]

    common = [name for name in times(both[0]) if name in times(both[1])]
    best = sorted(common, key=lambda name: TIMES.index(name.lower()) if name.lower() in TIMES else len(TIMES))
    return (best[0], True) if best else ("ts", False)


def _given(on: str, both: Sequence[Sample]) -> str:
    try:
        predicate = as_predicate(on)
    except PredicateError as error:
        msg = f"--on: {error}"
        raise ConfigError(msg) from error
    for side, sample in zip(SIDES, both, strict=True):
        for name in columns_of(predicate, side):
            if sample.schema is not None and name not in sample.schema.names:
                names = sample.schema.names
                msg = (
                    f"--on: the {side} source has no column {name!r}; it has {', '.join(names)}.{nearest(name, names)}"
                )
                raise ConfigError(msg)
    return on


def _guessed(both: Sequence[Sample], time: str) -> str:
    """Return a predicate over columns that are there: a band of numbers, or else an equality."""
    schemas = [sample.schema for sample in both if sample.schema is not None]
    if len(schemas) < len(both):
        return "l.x BETWEEN r.x - 5 AND r.x + 5"
    for fits, made in ((_is_number, _band), (_is_key, _equality)):
        first, second = ([one.name for one in schema if fits(one.type) and one.name != time] for schema in schemas)
        # A number that names a row says little of another row's: such columns come last.
        first, second = (sorted(names, key=_is_id) for names in (first, second))
        pairs = [(name, name) for name in first if name in second] or list(zip(first[:1], second[:1], strict=False))
        if pairs:
            return made(*pairs[0])
    return _equality(time, time)


def _is_id(name: str) -> bool:
    return re.search(r"(^|_)(id|key|no|nr)$", name.lower()) is not None


def _is_number(kind: pa.DataType) -> bool:
    return any((pa.types.is_integer(kind), pa.types.is_floating(kind), pa.types.is_decimal(kind)))


def _is_key(kind: pa.DataType) -> bool:
    return any((pa.types.is_string(kind), pa.types.is_large_string(kind), pa.types.is_dictionary(kind)))


def _band(one: str, other: str) -> str:
    first, second = _column(left[one]), _column(right[other])
    return f"{first} BETWEEN {second} - 5 AND {second} + 5"


def _equality(one: str, other: str) -> str:
    return f"{_column(left[one])} = {_column(right[other])}"


def _column(expression: Expression) -> str:
    return to_sql(expression.node)


# -- the parts of the file ----------------------------------------------------------------------------------------


def _located(sample: Sample, folder: Path) -> str:
    if sample.remote:
        return sample.path
    path = Path(sample.path).expanduser()
    return os.path.relpath(path, folder) if not path.is_absolute() else str(path)


def _source(sample: Sample, folder: Path, time: str | None) -> str:
    lines = [f"[sources.{sample.name}]", f'format = "{sample.format}"', f"path = {_text(_located(sample, folder))}"]
    columns = None
    if sample.schema is not None:
        columns = ", ".join(f"{quoted(one.name)} {spark_type(one.type)}" for one in sample.schema)
    if sample.format == "parquet":
        seen = "the file was not read" if columns is None else f"in {Path(sample.file or '').name}: {columns}"
        lines.append(f"# columns {seen}" if columns is not None else f"# columns: {seen}")
    else:
        if columns is None:
            lines.append("# the file was not read: put its columns and their types here")
        lines.append(f"schema = {_text(columns or 'id BIGINT, x DOUBLE, ts TIMESTAMP')}")
    if sample.format == "csv":
        separator = "" if sample.separator == "," else f", sep = {_text(sample.separator)}"
        lines.append(f"options = {{ header = true{separator} }}")
    cast = _cast(sample, time)
    if cast is not None:
        lines.append(f"columns = {cast}")
    else:
        lines.append('# columns = ["*", "price * 100 AS cents"]  # what the join gets, in SQL; all columns by default')
    lines += [
        '# where = "price > 0"                         # other rows are not read',
        "# max_files_per_trigger = 1                  # most files of one micro-batch; all that are there by default",
        "# stream = false                             # a static table: no checkpoint, no trigger",
        "",
    ]
    return "\n".join(lines)


def _cast(sample: Sample, time: str | None) -> str | None:
    """Return the columns of a Parquet source whose event time Spark would not read as an instant; None if it would."""
    if sample.schema is None or time is None:
        return None
    kind = sample.schema.field(time).type
    if pa.types.is_timestamp(kind) and (kind.tz is not None or sample.format != "parquet"):
        return None
    columns = [
        f"CAST({quoted(name)} AS TIMESTAMP) AS {quoted(name)}" if name == time else quoted(name)
        for name in sample.schema.names
    ]
    return f"[{', '.join(map(_text, columns))}]"


def _join(samples: Sequence[Sample], predicate: str, *, guessed: bool) -> str:
    if len(samples) == 1:
        sides = [f'self_join = "{samples[0].name}"  # every row is both l and r']
    else:
        sides = [f'left = "{samples[0].name}"   # l in what follows', f'right = "{samples[1].name}"  # r']
    aim = "a guess; replace it by any condition over both rows" if guessed else "any condition over both rows"
    return "\n".join(
        [
            "[join]",
            *sides,
            f"# {aim}: = and BETWEEN of fixed width are fastest",
            f"on = {_text(predicate)}",
            '# select = ["l.id", "r.id"]  # columns of the result; all by default',
            '# how = "left"               # rows without a match too: left, right, full; or left_semi, left_anti',
            '# output = "count"           # one row for each arriving row, with its number of matches',
            '# output = { n = "count" }   # one row for each left row, with aggregates such as "sum(r.x)"',
            '# keep = { left = "l.ts", right = "r.ts" }  # of each left row only the nearest match: an as-of join',
            '# late = "emit"              # late rows too, marked in a column late_side',
            '# strategy = "auto"          # how rows are routed: hash, cell, grid or broadcast',
            "# partitions = 4             # buckets; fixed by the checkpoint; as many as cores by default",
            "",
        ]
    )


def _window(time: str, *, fitted: bool) -> str:
    return WINDOW.format(time=_text(time), missing="" if fitted else MISSING)
