"""`explain_join`: how a join would run on Spark, and why, before it does; many streams as one operator or a chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from slidejoin.arguments import shown
from slidejoin.display import Printed
from slidejoin.errors import PredicateError, nearest
from slidejoin.index.factory import part_format
from slidejoin.index.part_format import STORED_KEYS
from slidejoin.operator.ingest.batches import to_table
from slidejoin.operator.join_operator import JoinOperator
from slidejoin.operator.multiway.multi_operator import MultiOperator
from slidejoin.plan.explanation import explained_terms
from slidejoin.plan.plan import make_plan
from slidejoin.predicate import to_sql
from slidejoin.predicate.expression.expr import And, Column
from slidejoin.predicate.expression.text import wide_sql
from slidejoin.rows.widths import fixed_width, varies
from slidejoin.sides import SIDES
from slidejoin.spark.driver.multi_join import wired_streams
from slidejoin.spark.driver.pair_ids import PairIds
from slidejoin.spark.driver.stream_join import wired_join
from slidejoin.spark.driver.table_join import TableExplanation, check_of_streams, explained_table, has_table
from slidejoin.spark.driver.table_versions import check_no_refresh, table_refresh
from slidejoin.spark.job.checks import SparkJoinError
from slidejoin.spark.job.join_spec import HIDDEN
from slidejoin.spark.route.copies import copies_of
from slidejoin.spark.state.blocks import canonical
from slidejoin.spec.join_spec import make_join_spec
from slidejoin.spec.options import algorithm_in_words
from slidejoin.spec.window import TableWindow

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from slidejoin.plan.plan import Plan
    from slidejoin.predicate import Expr, Expression
    from slidejoin.sides import Side
    from slidejoin.spark.driver.chain import ChainLink
    from slidejoin.spark.driver.multi_join import WiredStreams
    from slidejoin.spark.job.join_spec import SparkJoinSpec
    from slidejoin.spec.aggregate import Aggregate
    from slidejoin.spec.join_options import JoinType, Late, Output, StrategyName
    from slidejoin.spec.nearest import Nearest
    from slidejoin.spec.options import Options
    from slidejoin.spec.window import Span, Window

__all__ = ["JoinExplanation", "StreamsExplanation", "explain_join"]

SAMPLE_ROWS = 100_000
"""Most rows of a sample that are read."""

OF_TWO: dict[str, object] = {
    "right": None,
    "how": "inner",
    "suffix": "_right",
    "self_join": False,
    "aliases": ("l", "r"),
    "strategy": "auto",
    "spread": 1,
    "late": "drop",
    "keep": None,
    "algorithm": "auto",
    "pair_id": None,
    "refresh": None,
    "sample": None,
}
"""Arguments that only a join of two has, with their defaults."""

CHOOSES = "to begin with: each bucket chooses by the rows that come, and `watch` tells what it has chosen"

UNEVEN = 1.5
"""Load of the fullest bucket, in means, from which on spreads are tried."""


@dataclass(frozen=True, slots=True, repr=False)
class JoinExplanation(Printed):
    """How a join would run on Spark; it prints as text, all of it.

    Attributes
    ----------
    strategy, why : str
        How rows are routed, and why.
    buckets : int
    copies : dict
        For each side, to how many buckets a row is sent.
    stored : dict
        For each side, how many of these store it while it is in the window.
    row_bytes : dict
        For each side, the bytes of a row as it is sent, on average; without a sample only for columns of fixed width,
        else None.
    loads : tuple of float
        For each bucket, the rows that it gets, in means of all buckets.
    sample : dict or None
        For each side, the rows from which `copies` and `loads` were counted; None if they assume even hashes.
    spreads : dict
        From the sample, what the fullest bucket would get with each other `spread`, in means.
    plan : str
        The plan of every bucket.
    known : str
        Of joins other than inner ones, where it is known which rows have a partner; of nearest matches and aggregates,
        where left rows are answered.
    """

    strategy: str
    why: str
    buckets: int
    copies: dict[Side, float]
    stored: dict[Side, float]
    row_bytes: dict[Side, float | None]
    loads: tuple[float, ...]
    sample: dict[Side, int] | None
    spreads: dict[int, float]
    plan: str
    known: str = ""

    def __str__(self) -> str:
        """Return the explanation for people."""
        lines = [f"strategy: {self.strategy}", f"because {self.why}", f"buckets: {self.buckets}"]
        if self.stored == self.copies:
            lines.append(f"rows sent, and stored while in the window: {_of_sides(self.copies)}")
        else:
            lines.append(f"rows sent: {_of_sides(self.copies)}")
            lines.append(f"stored while in the window: {_of_sides(self.stored)}")
        known = {side: size for side, size in self.row_bytes.items() if size is not None}
        if known:
            sent = {side: size * self.copies[side] for side, size in known.items()}
            stored = {side: size * self.stored[side] for side, size in known.items()}
            lines.append(f"bytes sent: {_of_sides(sent)}; stored: {_of_sides(stored)}")
        if self.sample is None:
            if max(self.loads) - min(self.loads) < 0.005:  # noqa: PLR2004 - would be printed alike
                lines.append("expected load: equal in all buckets, assuming many keys and no hot one")
            else:
                lines.append(f"expected load, assuming uniform hashes: {self._loads()}")
        else:
            rows = " and ".join(f"{count:,} {side}" for side, count in self.sample.items())
            lines.append(f"load, counted from {rows} rows: {self._loads()}")
            lines += [
                f"with spread={spread} the fullest bucket would have {largest:.2f} of the mean"
                for spread, largest in self.spreads.items()
            ]
        if self.known:
            lines.append(self.known)
        lines.append("in each bucket:")
        return "\n".join([*lines, *(f"  {line}" for line in self.plan.splitlines())])

    def _loads(self) -> str:
        each = ", ".join(f"{load:.2f}" for load in self.loads)
        return f"{each} of the mean" if len(self.loads) > 1 else "all rows in one bucket"


def _of_sides(numbers: Mapping[Side, float]) -> str:
    """Return a number for each side in words."""
    return ", ".join(f"{number:.3g} for each {side} row" for side, number in numbers.items())


@overload
def explain_join(
    left: Mapping[str, DataFrame],
    *,
    on: str | Expression,
    window: Mapping[str, Window],
    order_by: str | None = None,
    output: Output = "pairs",
    select: Iterable[str] | None = None,
    partitions: int | None = None,
) -> StreamsExplanation: ...


@overload
def explain_join(
    left: DataFrame,
    right: DataFrame | None = None,
    *,
    on: str | Expr | Expression,
    window: Window,
    order_by: str | None = None,
    how: JoinType = "inner",
    output: Output | Aggregate = "pairs",
    select: Iterable[str] | None = None,
    suffix: str = "_right",
    self_join: bool = False,
    aliases: tuple[str, str] = ("l", "r"),
    strategy: StrategyName = "auto",
    spread: int = 1,
    partitions: int | None = None,
    late: Late = "drop",
    keep: Nearest | None = None,
    algorithm: str | Options = "auto",
    pair_id: str | None = None,
    sample: object = None,
) -> JoinExplanation: ...


@overload
def explain_join(
    left: DataFrame,
    right: DataFrame,
    *,
    on: str | Expr | Expression,
    how: JoinType = "inner",
    output: Output | Aggregate = "pairs",
    select: Iterable[str] | None = None,
    suffix: str = "_right",
    aliases: tuple[str, str] = ("l", "r"),
    keep: Nearest | None = None,
    algorithm: str | Options = "auto",
    pair_id: str | None = None,
    refresh: str | timedelta | Span | None = None,
) -> TableExplanation: ...


def explain_join(
    left: DataFrame | Mapping[str, DataFrame],
    right: DataFrame | None = None,
    *,
    on: str | Expr | Expression,
    window: Window | Mapping[str, Window] | None = None,
    order_by: str | None = None,
    how: JoinType = "inner",
    output: Output | Aggregate = "pairs",
    select: Iterable[str] | None = None,
    suffix: str = "_right",
    self_join: bool = False,
    aliases: tuple[str, str] = ("l", "r"),
    strategy: StrategyName = "auto",
    spread: int = 1,
    partitions: int | None = None,
    late: Late = "drop",
    keep: Nearest | None = None,
    algorithm: str | Options = "auto",
    pair_id: str | None = None,
    refresh: str | timedelta | Span | None = None,
    sample: object = None,
) -> JoinExplanation | StreamsExplanation | TableExplanation:
    """Tell how `stream_join`, or `multi_join`, would run with these arguments, and why; nothing is started.

    Parameters
    ----------
    left, right, on, window, order_by, how, output, select, suffix, self_join, aliases, strategy, spread, partitions
        As for `stream_join`. With a dict of DataFrames as `left`, `on`, `window`, `order_by`, `output`, `select` and
        `partitions` are those of `multi_join`, and there are no others.
    late : {"drop", "emit"}
        As for `stream_join`; rows that are sent only to be judged are not among the loads.
    keep : Nearest, optional
        As for `stream_join`.
    algorithm : str or Options
        As for `stream_join`.
    pair_id : str, optional
        As for `stream_join`; two numbers of each row are sent and stored for it.
    refresh : str, timedelta or Span, optional
        As for `stream_join`.
    sample : table, or two of them, optional
        Rows like those to come, for the load of each bucket: an Arrow table, a pandas or Polars frame, a dict of arrays
        or a static DataFrame; two of them, left and right, unless it is a self-join. The first 100,000 rows of each are
        looked at. Without a sample the loads are those of even hashes.

    Returns
    -------
    JoinExplanation, StreamsExplanation or TableExplanation
        Print it.

    Raises
    ------
    PredicateError, SparkJoinError, ArgumentError
        As `stream_join`; for a sample that is none or lacks a column too.

    Examples
    --------
    >>> from slidejoin.spark import explain_join
    >>> print(explain_join(trips, quotes, on="l.price BETWEEN r.bid AND r.bid + 5", window=…))  # doctest: +SKIP
    """
    if isinstance(left, Mapping):
        given = {"right": right, "how": how, "suffix": suffix, "self_join": self_join, "aliases": aliases}
        _check_alone(
            given
            | {
                "strategy": strategy,
                "spread": spread,
                "late": late,
                "keep": keep,
                "sample": sample,
                "algorithm": algorithm,
                "pair_id": pair_id,
                "refresh": refresh,
            }
        )
        return explained_streams(
            wired_streams(
                left, on=on, window=window, order_by=order_by, output=output, select=select, partitions=partitions
            )
        )
    if isinstance(window, Mapping):
        msg = "window= is a dict, but left is one DataFrame: give a window, or a dict of DataFrames with these names"
        raise SparkJoinError(msg)
    ids = None if pair_id is None else PairIds(pair_id)
    again = table_refresh(refresh)
    if right is not None and not self_join and has_table(left, right, window):
        check_of_streams(
            order_by=order_by, strategy=strategy, spread=spread, partitions=partitions, late=late, sample=sample
        )
        config = make_join_spec(
            on=on, window=TableWindow(1), how=how, output=output, order="none", select=select, suffix=suffix,
            aliases=aliases, threads=1, keep=keep, algorithm=algorithm,
        )  # fmt: skip
        return explained_table(left, right, config, None if again is None else again.every)
    check_no_refresh(refresh)
    config = make_join_spec(
        on=on, window=window, how=how, output=output, order="none", select=select, suffix=suffix,
        self_join=self_join, aliases=aliases, threads=1, late=late, keep=keep, algorithm=algorithm,
    )  # fmt: skip
    _, plan, spec = wired_join(
        left, right, config, order_by=order_by, strategy=strategy, spread=spread, partitions=partitions
    )
    chosen, buckets = spec.strategy, len(spec.buckets)
    sides: tuple[Side, ...] = ("left",) if self_join else SIDES
    spreads: dict[int, float] = {}
    tables = None
    if sample is None:
        of_left, of_right = (np.array(loads) for loads in chosen.grid(buckets).loads(chosen.cells))
        of_left = of_right if chosen.homes else of_left
        loads = of_left + of_right
        copies = dict(zip(SIDES, (float(of_left.sum()), float(of_right.sum())), strict=True))
        if spec.probes_everywhere:
            copies, loads = dict.fromkeys(sides, float(buckets)), np.ones(buckets)
        elif self_join:  # both roles of a row may share a bucket: it goes there once
            copies = {"left": float(loads.sum()) - 1}
    else:
        tables = dict(zip(sides, _samples(sample, sides, spec), strict=True))
        counts = {side: _counted(spec, side, table) for side, table in tables.items()}
        loads = np.sum(list(counts.values()), axis=0)
        copies = {side: float(count.sum()) / max(tables[side].num_rows, 1) for side, count in counts.items()}
        if loads.max() > UNEVEN * loads.mean() and chosen.name in {"hash", "cell"}:
            for other in range(1, isqrt(buckets) + 1):
                if other != spread:
                    tried = replace(spec, strategy=replace(chosen, spread=other, homes=False))
                    its_loads = np.sum([_counted(tried, side, table) for side, table in tables.items()], axis=0)
                    spreads[other] = float(its_loads.max() / its_loads.mean())
    return JoinExplanation(
        strategy=str(chosen),
        why=chosen.why,
        buckets=buckets,
        copies=copies,
        stored=dict.fromkeys(sides, 1.0) if spec.probes_everywhere else copies,
        row_bytes={side: _row_bytes(spec, side, None if tables is None else tables[side], ids) for side in sides},
        loads=tuple((loads / (loads.mean() or 1)).tolist()),
        sample=None if tables is None else {side: table.num_rows for side, table in tables.items()},
        spreads=spreads,
        plan=_plan_text(plan, spec.how, tables),
        known=_known(spec),
    )


def _row_bytes(spec: SparkJoinSpec, side: Side, sample: pa.Table | None, ids: PairIds | None) -> float | None:
    """Return the bytes of a row as it is sent, on average; None where they are not known."""
    packed, given = spec.packed(side), spec.given(side)
    hidden = sum(fixed_width(field.type) for field in packed if field.name in HIDDEN)
    hidden += 0 if ids is None else ids.row_bytes
    if sample is not None:
        return hidden + sample.select(given.names).nbytes / max(sample.num_rows, 1)
    return None if any(varies(field.type) for field in given) else hidden + sum(fixed_width(one.type) for one in given)


def _known(spec: SparkJoinSpec) -> str:
    """Return in words where it is known which rows of a join have a partner; nothing for inner joins."""
    if spec.deferred:
        one = "in the one bucket that has all partners of a row"
        several = "when one more exchange has put together what several buckets answer"
        return f"left rows: answered as they leave, {several if spec.scattered else one}"
    if spec.once:
        return (
            "left rows with a partner: output once by a second operator, which keeps the ids of those that it has "
            "output until they leave"
        )
    if spec.how == "left_semi":
        return "left rows with a partner: known in the one bucket that has all partners of a row"
    if not spec.unmatched:
        return ""
    whose = f"{' and '.join(spec.unmatched)} rows without a partner"
    if spec.scattered:
        return f"{whose}: known when one more exchange has put together what several buckets know of a row"
    return f"{whose}: known in the one bucket that has all partners of a row"


def _check_alone(given: Mapping[str, object]) -> None:
    """Refuse arguments that many streams do not have."""
    for name, value in given.items():
        if value != OF_TWO[name]:
            msg = (
                f"{name}={shown(value)} is for a join of two; many streams, given as a dict, have on, window, "
                "order_by, output, select and partitions. Leave it out"
            )
            raise SparkJoinError(msg)


def _counted(spec: SparkJoinSpec, side: Side, table: pa.Table) -> Any:  # noqa: ANN401 - an array
    count = len(spec.buckets)
    return np.bincount(copies_of(spec, side, table)[0] % count, minlength=count)


def _samples(sample: Any, sides: tuple[Side, ...], spec: SparkJoinSpec) -> list[pa.Table]:  # noqa: ANN401 - any kind of table
    given = sample if isinstance(sample, (tuple, list)) else [sample]
    if len(given) != len(sides):
        expected = "one, since it is a self-join" if len(sides) == 1 else "two, (left rows, right rows)"
        msg = f"sample: got {len(given)} table{'s' if len(given) != 1 else ''}, expected {expected}"
        raise SparkJoinError(msg)
    return [_sampled(one, side, spec) for one, side in zip(given, sides, strict=True)]


def _sampled(sample: Any, side: Side, spec: SparkJoinSpec) -> pa.Table:  # noqa: ANN401 - any kind of table
    if hasattr(sample, "isStreaming"):
        if sample.isStreaming:
            msg = f"sample: the {side} sample is a streaming DataFrame, which cannot be read now; give a static one"
            raise SparkJoinError(msg)
        sample = sample.limit(SAMPLE_ROWS).toArrow()
    table = to_table(sample, side, None).slice(0, SAMPLE_ROWS)
    schema = pa.schema([field for field in spec.schema(side) if field.name not in HIDDEN])
    for name in schema.names:
        if name not in table.column_names:
            msg = f"sample: the {side} rows have no column {name!r}, which the join needs."
            raise PredicateError(msg + nearest(name, table.column_names))
    try:
        return canonical(table, schema)
    except pa.ArrowException as error:
        msg = f"sample: the types of the {side} rows differ from the DataFrame's: {error}"
        raise PredicateError(msg) from error


def _plan_text(plan: Plan, how: JoinType, sample: Mapping[Side, pa.Table] | None = None) -> str:
    """Return the plan of a bucket, without the hidden columns; with the index that it would choose for a sample."""
    config = plan.config
    if isinstance(config.on, And):
        parts = tuple(part for part in config.on.parts if not (isinstance(part, Column) and part.name in HIDDEN))
        config = replace(config, on=parts[0] if len(parts) == 1 else And(parts))
    names = (name for name in config.select or () if name.partition(".")[2] not in HIDDEN)
    left, right = (
        pa.schema([field for field in plan.schema(side) if field.name not in HIDDEN]) for side in ("left", "right")
    )
    shown = make_plan(replace(config, select=tuple(names)), left, right, rule=plan.rule)
    if shown.is_union:
        # Why an embedded join would take another index says nothing about sealed parts.
        lines = shown.explain(shown.sealed_terms).replace("inner join on", f"{how} join on").splitlines()
        return "\n".join([*(one for one in lines if not one.strip().startswith("because ")), *_parts_text(shown)])
    operator = JoinOperator(shown, sealed=shown.sealed_terms)
    advisor, chosen, seen = operator.pair_advisor, shown.sealed_terms, None
    if advisor.open and sample is not None:
        chosen = operator.better_terms({side: sample.get(side, sample["left"]) for side in SIDES}) or chosen
        seen = advisor.why(chosen)
    terms, warnings = explained_terms(
        config, shown.terms, chosen.places, shown.bound, shown.loose, closed_by=chosen.closed_by
    )
    return "\n".join(
        [
            f"{how} join on {to_sql(config.on, config.aliases)}",
            f"window: {config.window}",
            *([] if plan.rule is None else [f"output: {plan.rule.label}"]),
            f"index: {algorithm_in_words(chosen.algorithm)}",
            *([CHOOSES] if advisor.open else []),
            *_parts_text(shown),
            *([] if seen is None else [f"measured in the sample: {seen}"]),
            *terms,
            *warnings,
        ]
    )


def _parts_text(plan: Plan) -> list[str]:
    """Return in words what an index that the user has set stores with each segment; nothing where buckets choose."""
    config = plan.config
    if config.algorithm == "auto":
        return []
    formats = {name: part_format([name], config.options) for name in plan.sealed_as(plan.sealed_terms)}
    again = [name for name, own in formats.items() if own is STORED_KEYS]
    if again:
        return [f"each micro-batch inserts all rows of the window again: {' and '.join(again)} has no sealed parts"]
    return ["each micro-batch inserts its own rows; those of the window are mapped as they were sealed"]


@dataclass(frozen=True, slots=True, repr=False)
class StreamsExplanation(Printed):
    """How a join of many streams would run on Spark; it prints as text, all of it.

    Attributes
    ----------
    one_operator : bool
        Whether it is one operator with one exchange; otherwise it is a chain of joins of two.
    why : str
        The reason.
    key : str or None
        The key by whose hash rows are sent, such as ``a.k = b.k = c.k``; None for a chain, and where all rows go to one
        bucket.
    order : tuple of str
        The streams in the order in which a chain joins them; of one operator in that of their declaration.
    strategies : tuple of str
        Of each link of a chain: how rows are routed; empty for one operator.
    buckets : int
        Of the operator, or of each link.
    plan : str
        The plan of every bucket, or the links of the chain.
    """

    one_operator: bool
    why: str
    key: str | None
    order: tuple[str, ...]
    strategies: tuple[str, ...]
    buckets: int
    plan: str

    def __str__(self) -> str:
        """Return the explanation for people."""
        if self.one_operator:
            sent = f"by the hash of {self.key}" if self.key else "all to one bucket"
            lines = ["one operator, one exchange", f"because {self.why}"]
            lines += [f"buckets: {self.buckets}", f"rows are sent once, {sent}", "in each bucket:"]
        else:
            links = f"{len(self.strategies)} joins of two" if len(self.strategies) > 1 else "one join of two"
            lines = [f"a chain of {links}: {', then '.join(self.order)}", f"because {self.why}"]
            lines += [f"buckets of each: {self.buckets}", "links:"]
        return "\n".join([*lines, *(f"  {line}" for line in self.plan.splitlines())])


def explained_streams(wired: WiredStreams) -> StreamsExplanation:
    """Return how a join that was checked would run; nothing is started."""
    plan, one = wired.plan, wired.one
    names = plan.spec.streams
    if one is not None:
        key = " and ".join(map(str, one.classes)) or None
        text = MultiOperator(plan).explain()
        return StreamsExplanation(True, wired.why, key, names, (), len(wired.buckets), text)  # noqa: FBT003
    order = tuple(names[stream] for stream in wired.links[-1].streams)
    strategies = tuple(link.strategy.name for link in wired.links)
    text = "\n".join([f"join of {len(names)} streams on {wide_sql(plan.spec.on)}", *_links(wired)])
    return StreamsExplanation(False, wired.why, None, order, strategies, len(wired.buckets), text)  # noqa: FBT003


def _links(wired: WiredStreams) -> list[str]:
    names, lines = wired.plan.spec.streams, []
    for link in wired.links:
        bound = ", ".join(names[stream] for stream in link.bound)
        lines.append(
            f"{f'({bound})' if len(link.bound) > 1 else bound} with {names[link.stream]}: {_checked(wired, link)}"
        )
        lines.append(f"  strategy: {link.strategy}, because {link.strategy.why}")
    return lines


def _checked(wired: WiredStreams, link: ChainLink) -> str:
    text = " AND ".join(wired.plan.conjuncts[number].text for number in link.conjuncts)
    return text or "every row with every row of the window, because nothing compares them"
