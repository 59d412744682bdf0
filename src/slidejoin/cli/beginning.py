"""``slidejoin init``: write a commented job file for given sources, one that runs unedited where possible."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.cli.jobfile import read_job_text
from slidejoin.cli.samples import quoted, sampled, spark_type
from slidejoin.cli.source_columns import has_column
from slidejoin.cli.written import Written, printable, toml_value
from slidejoin.errors import ConfigError, PredicateError, nearest
from slidejoin.predicate import columns_of, left, right, to_sql
from slidejoin.predicate.python import as_predicate
from slidejoin.sides import SIDES
from slidejoin.spark.job.column_names import quoted as in_backticks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from slidejoin.cli.samples import Sample
    from slidejoin.predicate import Expression
    from slidejoin.sides import Side

__all__ = ["job_text", "write_job_file"]


def write_job_file(sources: Sequence[str], to: Path, *, on: str | None, kind: str | None, force: bool) -> None:
    """Write a commented job file for given sources, with their columns and a guess at the join.

    Raises
    ------
    ConfigError
        If a source cannot be read, or the file cannot be written.
    """
    if len(sources) > 2:  # noqa: PLR2004 - a join has two sides
        msg = f"got {len(sources)} sources, expected one, for a self-join, or two"
        raise ConfigError(msg)
    samples = [sampled(path, name, kind) for path, name in zip(sources, names_of(sources), strict=True)]
    printed = str(to) == "-"
    text = job_text(samples, Path() if printed else to.parent, on, "FILE.toml" if printed else shlex.quote(str(to)))
    if printed:
        sys.stdout.write(text)
        return
    if to.exists() and not force:
        msg = f"{to} already exists; give another name with --to, or --force to overwrite it"
        raise ConfigError(msg)
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"{to}: cannot be written: {error.strerror}"
        raise ConfigError(msg) from error
    file = printable(shlex.quote(str(to)))
    sys.stdout.write(f"wrote {file}; check `on` and the window in it, then run: slidejoin explain {file}\n")


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
    times = event_times(both)
    predicate = _given(on, both) if on is not None else guessed_predicate(both, times)
    file = Written()
    file.comment(
        f"A join for `slidejoin run {name}`. Every key is described in docs/run-file.md; lines that begin",
        f"with # are comments. `slidejoin explain {name}` shows how it would run, and reads no rows.",
    )
    for side, sample in zip(SIDES, samples, strict=False):
        its = {} if times is None else {times[side]} if len(samples) > 1 else set(times.values())
        _source(file, sample, folder, its)
    _join(file, samples, predicate, guessed=on is None)
    _window(file, both, times)
    _sink(file)
    text = file.text()
    read_job_text(text, folder)
    return text


def _given(on: str, both: Sequence[Sample]) -> str:
    try:
        predicate = as_predicate(on)
    except PredicateError as error:
        msg = f"--on: {error}"
        raise ConfigError(msg) from error
    for side, sample in zip(SIDES, both, strict=True):
        if sample.schema is None or "=" in str(sample.file):  # folders such as day=1 are columns
            continue
        for name in columns_of(predicate, side):
            if not has_column(sample.schema.names, name):
                names = sample.schema.names
                msg = (
                    f"--on: the {side} source has no column {name!r}; it has {', '.join(names)}.{nearest(name, names)}"
                )
                raise ConfigError(msg)
    return on


# -- the parts of the file ----------------------------------------------------------------------------------------


def _source(file: Written, sample: Sample, folder: Path, times: Collection[str]) -> None:
    file.table("sources", sample.name)
    file.key("format", sample.format)
    file.key("path", sample.location(folder))
    columns = None
    if sample.schema is not None:
        columns = ", ".join(f"{quoted(one.name)} {spark_type(one.type)}" for one in sample.schema)
    if sample.format == "parquet":
        seen = ": the file was not read" if columns is None else f" in {Path(sample.file or '').name}: {columns}"
        file.comment(f"columns{seen}")
    else:
        if columns is None:
            file.comment("the file was not read: put its columns and their types here")
        if sample.left_out:
            file.comment(f"left out, as Spark compares names without case: {', '.join(sample.left_out)}")
        file.key("schema", columns or "id BIGINT, x DOUBLE, ts TIMESTAMP")
    if sample.options:
        header = sample.options.get("header", True)
        file.key("options", dict(sample.options), "" if header else "the first line has values, as it seems")
    cast = _cast(sample, times)
    if cast is not None:
        file.key("columns", cast)
    else:
        file.comment('columns = ["*", "price * 100 AS cents"]  # what the join gets, in SQL; all columns by default')
    file.comment(
        'where = "price > 0"                         # other rows are not read',
        "max_files_per_trigger = 1                  # most files of one micro-batch; all that are there by default",
        "table = true                               # a table; joined with a stream: no [join.window]",
    )


def _cast(sample: Sample, times: Collection[str]) -> list[str] | None:
    """Return the columns of a source whose event time Spark would not read as an instant; None if it would."""
    if sample.schema is None:
        return None

    def instant(kind: pa.DataType) -> bool:
        return pa.types.is_timestamp(kind) and (kind.tz is not None or sample.format != "parquet")

    cast = {name for name in times if not instant(sample.schema.field(name).type)}
    if not cast:
        return None
    return [
        f"CAST({name} AS TIMESTAMP) AS {name}" if one.name in cast else name
        for one in sample.schema
        for name in (in_backticks(one.name),)
    ]


def _join(file: Written, samples: Sequence[Sample], predicate: str, *, guessed: bool) -> None:
    file.table("join")
    if len(samples) == 1:
        file.key("self_join", samples[0].name, "every row is both l and r")
    else:
        file.key("left", samples[0].name, "l in what follows")
        file.key("right", samples[1].name, "r")
    aim = "a guess; replace it by any condition over both rows" if guessed else "any condition over both rows"
    file.comment(f"{aim}: = and BETWEEN of fixed width are fastest")
    file.key("on", predicate)
    file.comment(
        'select = ["l.id", "r.id"]  # columns of the result; all by default',
        'how = "left"               # rows without a match too: left, right, full; or left_semi, left_anti',
        'output = "count"           # one row for each arriving row, with its number of matches',
        'output = { n = "count" }   # one row for each left row, with aggregates such as "sum(r.x)"',
        'keep = { left = "l.ts", right = "r.ts" }  # of each left row only the nearest match: an as-of join',
        'late = "emit"              # late rows too, marked in a column late_side',
        'strategy = "auto"          # how rows are routed: hash, cell, grid, broadcast, split or sub_windows',
        "partitions = 4             # buckets; fixed by the checkpoint; as many as cores by default",
    )


def _window(file: Written, both: Sequence[Sample], times: Mapping[Side, str] | None) -> None:
    """Write a window over times that are there; without any, over the last rows in an order that is there."""
    file.table("join", "window")
    order = None if times is not None else common_order(both)
    if order is not None:
        file.comment(
            "No column of times is on both sides, so the last rows of each side are joined, in the order of a column.",
            'Or make times in `columns` of a source, such as "timestamp_seconds(epoch) AS ts", and write instead:',
            'length = "10 minutes"',
            'on = "ts"',
        )
        file.key("kind", "count")
        file.key("rows", 100_000)
        file.key("order_by", order, "a column of both sides, never NULL")
        return
    file.key("length", "10 minutes", 'how far apart the event times of a pair may be; also "1 hour 30 minutes"', 26)
    if times is None:
        file.comment(
            "The sides share no timestamp column: give left_on and right_on instead of on, or make the",
            'column in `columns` of a source, such as "timestamp_seconds(epoch) AS ts".',
        )
    left_on, right_on = ("ts", "ts") if times is None else (times["left"], times["right"])
    if left_on == right_on:
        file.key("on", left_on)
    else:
        file.key("left_on", left_on)
        file.key("right_on", right_on)
    file.key("lateness", "1 minute", "how far a row may lie behind the latest one; later ones are dropped", 26)
    file.comment(
        "Instead of these, the last rows of each side, in the order of a column of both:",
        'kind = "count"',
        "rows = 100000",
        f"order_by = {toml_value(left_on)}",
    )


def _sink(file: Written) -> None:
    file.table("sink")
    file.key("format", "parquet", "or csv, json; console prints some rows; noop writes nothing", 26)
    file.key("path", "pairs")
    file.key("checkpoint", "pairs.checkpoint", "the job's progress: run again, it continues from there", 34)
    file.key("trigger", "available_now", 'read what is there and stop; "10 seconds": keep running, that often', 34)
    file.table("spark")
    file.key("master", "local[*]", "all cores of this machine", 26)
    file.comment('conf = { "spark.driver.memory" = "8g" }')


TIMES = ("ts", "event_time", "timestamp", "time", "at")
"""Names by which the event time is looked for first."""


def event_times(both: Sequence[Sample]) -> dict[Side, str] | None:
    """Return the event-time column of each side, one that both have if there is any; None if a side has none."""
    first, second = ([one.name for one in _fields(sample, _is_time)] for sample in both)
    first, second = (sorted(names, key=_as_time) for names in (first, second))
    common = [name for name in first if name in second]
    if common:
        return dict.fromkeys(SIDES, common[0])
    return {"left": first[0], "right": second[0]} if first and second else None


def common_order(both: Sequence[Sample]) -> str | None:
    """Return a column of both sides by which rows can be ordered; None if there is none."""
    for fits in (_is_integer, _is_number, _is_text):
        common = _common(both, fits)
        if common:
            return common[0]
    return None


def guessed_predicate(both: Sequence[Sample], times: dict[Side, str] | None) -> str:
    """Return a predicate over columns that are there: an equality that both sides have, or a band of numbers."""
    if any(sample.schema is None for sample in both):
        return "l.x BETWEEN r.x - 5 AND r.x + 5"
    used = {} if times is None else times
    # In a self-join all columns are of both sides, which says nothing.
    if both[0] is not both[1]:
        common = sorted(_common(both, _is_key), key=lambda name: not _is_id(name))
        if common:
            return _equality(common[0], common[0])
    for fits, made in ((_is_number, _band), (_is_text, _equality)):
        first, second = (
            [one.name for one in _fields(sample, fits) if one.name != used.get(side)]
            for side, sample in zip(SIDES, both, strict=True)
        )
        # A number that names a row says little of another row's: such columns come last.
        first, second = (sorted(names, key=_is_id) for names in (first, second))
        pairs = [(name, name) for name in first if name in second] or list(zip(first[:1], second[:1], strict=False))
        if pairs:
            return made(*pairs[0])
    if times is not None:
        return _equality(times["left"], times["right"])
    return "TRUE"


def _fields(sample: Sample, fits: Callable[[pa.DataType], bool]) -> list[pa.Field[Any]]:
    return [] if sample.schema is None else [one for one in sample.schema if fits(one.type)]


def _common(both: Sequence[Sample], fits: Callable[[pa.DataType], bool]) -> list[str]:
    """Return the columns that both sides have by name and type."""
    own, other = ({one.name: spark_type(one.type) for one in _fields(sample, fits)} for sample in both)
    return [name for name, kind in own.items() if other.get(name) == kind]


def _as_time(name: str) -> int:
    return TIMES.index(name.lower()) if name.lower() in TIMES else len(TIMES)


def _is_id(name: str) -> bool:
    return re.search(r"(^|_)(id|key|no|nr)$", name.lower()) is not None


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _is_integer(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind)


def _is_number(kind: pa.DataType) -> bool:
    return any((pa.types.is_integer(kind), pa.types.is_floating(kind), pa.types.is_decimal(kind)))


def _is_text(kind: pa.DataType) -> bool:
    return any((pa.types.is_string(kind), pa.types.is_large_string(kind), pa.types.is_dictionary(kind)))


def _is_key(kind: pa.DataType) -> bool:
    return _is_integer(kind) or _is_text(kind)


def _band(one: str, other: str) -> str:
    first, second = _column(left[one]), _column(right[other])
    return f"{first} BETWEEN {second} - 5 AND {second} + 5"


def _equality(one: str, other: str) -> str:
    return f"{_column(left[one])} = {_column(right[other])}"


def _column(expression: Expression) -> str:
    return to_sql(expression.node)
