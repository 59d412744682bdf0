"""Rebuilding a join from its description in the state: as far as it takes to read its rows and to route them again.

A checkpoint does not have the program, but everything that must be the same for a state to be reused, see
`SparkJoinSpec.described`. What is rebuilt has to describe itself in the same words.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.errors import SlideJoinError, StateError
from slidejoin.predicate.expression.expr import And
from slidejoin.sides import SIDES
from slidejoin.spark.job.buckets import bucket_ids
from slidejoin.spark.job.join_spec import MATCHED, SparkJoinSpec, plan_of, window_from_state
from slidejoin.spark.job.strategies import Strategy, choose_strategy, lengths_of
from slidejoin.spec.aggregate import Aggregate
from slidejoin.spec.join_spec import make_join_spec
from slidejoin.spec.nearest import Nearest
from slidejoin.stored import StoredValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slidejoin.predicate import Expr
    from slidejoin.spec.join_spec import JoinSpec

__all__ = ["spec_from_state", "with_buckets"]

MOST_BUCKETS = 1 << 20
"""Of a state that somebody else may have written."""

APART = "__slidejoin_right"
"""Suffix of right columns: both sides may have hidden columns of one name."""

SPREAD = re.compile(r", spread (\d+)$")
"""In the text of a strategy."""

SIMPLE = {
    str(kind): kind
    for kind in (
        *(pa.bool_(), pa.null(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.month_day_nano_interval()),
        *(made(unit) for made in (pa.timestamp, pa.duration) for unit in ("s", "ms", "us", "ns")),
        *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    )
}
ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=(.+)\]")
DECIMAL = re.compile(r"decimal(128|256)\((\d+), (-?\d+)\)")
NESTED = re.compile(r"(list|large_list|struct|map)<(.*)>")
"""Types by their names in Arrow."""

REQUIRED = " not null"


def spec_from_state(described: Mapping[str, Any]) -> SparkJoinSpec:
    """Rebuild a join of two streams that has this description.

    What is not in the state is left at its default: result columns, memory limit, what becomes of late rows.

    Raises
    ------
    StateError
        If it is a join of many streams, or cannot be rebuilt in the same words.
    """
    if "streams" in described:
        msg = (
            f"the join of many streams {described['streams']} keeps its buckets: its rows cannot be routed again. "
            "Start it with a new checkpoint to have others"
        )
        raise StateError(msg)
    try:
        rebuilt = _rebuilt(described)
    except (
        *(SlideJoinError, KeyError, TypeError, ValueError, AttributeError, SyntaxError),
        *(RecursionError, MemoryError, OverflowError, pa.ArrowException),
    ) as error:
        msg = f"the join cannot be rebuilt from its description in the state, {dict(described)}: {error}"
        raise StateError(msg) from error
    other = {name: value for name, value in rebuilt.described().items() if value != described.get(name)}
    if other or described.keys() - rebuilt.described().keys():
        differs = "; ".join(
            f"{name} is {described.get(name)!r} and would be {value!r}" for name, value in other.items()
        )
        msg = (
            f"the join cannot be rebuilt from its description in the state: {differs or 'it says more than is known'}. "
            "Use the version of slidejoin that wrote it"
        )
        raise StateError(msg)
    return rebuilt


def _rebuilt(described: Mapping[str, Any]) -> SparkJoinSpec:
    keep = None if described.get("keep") is None else _called(described["keep"], Nearest)
    output = described["output"]
    config = make_join_spec(
        on=described["on"], window=window_from_state(described["window"]), how="inner", order="none", suffix=APART,
        output=output if output in {"pairs", "count"} else _called(output, Aggregate),
        self_join=described["self_join"], keep=keep, threads=1,
    )  # fmt: skip
    config = replace(config, on=_with_condition_apart(config))
    left, right = (_schema(described[f"{side} columns"]) for side in ("left", "right"))
    text, count = described["strategy"], StoredValue(described, "the description")["partitions"].whole(1, MOST_BUCKETS)
    spread = SPREAD.search(text)
    name = re.split(r"[ ,]", text, maxsplit=1)[0]
    strategy = Strategy(name, spread=int(spread[1]) if spread else 1)
    spec = SparkJoinSpec(
        config=config, left=left, right=right, strategy=strategy, buckets=(), names=(), places=(), times=(), helpers=(),
        streaming=True, cache=None, order_by=described["order_by"], how=described["how"],
    )  # fmt: skip
    return with_buckets(spec, count)


def _with_condition_apart(config: JoinSpec) -> Expr:
    """Return the predicate as it was made: what the user wrote as one part, before what nearest matches require."""
    on, appended = config.on, 1 + len(SIDES) * config.self_join
    if config.keep is None or not isinstance(on, And) or len(on.parts) < appended + 2:
        return on
    return And((And(on.parts[:-appended]), *on.parts[-appended:]))


def with_buckets(spec: SparkJoinSpec, count: int, strategy: str | None = None, spread: int = 1) -> SparkJoinSpec:
    """Return the same join with another number of buckets, and perhaps another strategy.

    Parameters
    ----------
    strategy : str, optional
        The name of one; None leaves it, and its spread, as it is.

    Raises
    ------
    SparkJoinError
        For a strategy or a spread that the join, or so many buckets, do not allow.
    """
    name, spread = (spec.strategy.name, spec.strategy.spread) if strategy is None else (strategy, spread)
    config, sides = spec.config, () if spec.deferred else MATCHED[spec.how]
    lengths = lengths_of(config.window)
    chosen = choose_strategy(name, plan_of(spec).bound, count, spread, lengths)
    chosen = chosen.for_sides(sides, self_join=config.self_join)
    several = config.output == "count" and (config.self_join or chosen.copies)
    if several:
        chosen = chosen.for_counts(self_join=config.self_join)
    # That there are such columns is what counts here, not where.
    made = replace(spec, strategy=chosen, buckets=bucket_ids(count), helpers=(0,) if several else ())
    return replace(made, scattered=_scattered(made))


def _scattered(spec: SparkJoinSpec) -> bool:
    """Return whether a row may match in several buckets, as `slidejoin.spark.driver.binding` does."""
    sides = ("left",) if spec.deferred else spec.matched
    return not all(spec.strategy.whole(side, len(spec.buckets)) for side in sides)


def _called(text: str, kind: type[Any]) -> Any:  # noqa: ANN401 - an object of that class
    """Read the text of a call of a class, with values by their names.

    Examples
    --------
    >>> _called("Nearest(left_column='l.a', right_column='r.b', direction='forward', k=2)", Nearest).k
    2
    """
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != kind.__name__:
        msg = f"{text!r} is no {kind.__name__}"
        raise ValueError(msg)
    return kind(**{one.arg or "": ast.literal_eval(one.value) for one in call.keywords})


def _schema(text: str) -> pa.Schema:
    """Read a list of columns.

    Examples
    --------
    >>> _schema("id int64, the price decimal128(10, 2), tags list<element: string>")
    id: int64
    the price: decimal128(10, 2)
    tags: list<element: string>
      child 0, element: string
    """
    return pa.schema([_field(one, " ") for one in _parts(text)])


def _field(text: str, between: str) -> pa.Field[Any]:
    """Read a name and a type; a name may have blanks."""
    required = text.endswith(REQUIRED)
    text = text.removesuffix(REQUIRED)
    stop = 0
    while (stop := text.find(between, stop + 1)) > 0:
        kind = _kind(text[stop + len(between) :])
        if kind is not None:
            return pa.field(text[:stop], kind, nullable=not required)
    msg = f"{text!r} is no column of a type that is known"
    raise ValueError(msg)


def _kind(text: str) -> pa.DataType | None:
    """Read a type as Arrow writes it; None if it is none that is known.

    Examples
    --------
    >>> [str(_kind(one)) for one in ("timestamp[us, tz=UTC]", "struct<a: int64, b: map<string, int8>>", "colour")]
    ['timestamp[us, tz=UTC]', 'struct<a: int64, b: map<string, int8>>', 'None']
    """
    if match := ZONED.fullmatch(text):
        return pa.timestamp(match[1], match[2])  # type: ignore[type-var]  # the pattern has its units
    if match := DECIMAL.fullmatch(text):
        return (pa.decimal128 if match[1] == "128" else pa.decimal256)(int(match[2]), int(match[3]))
    if match := NESTED.fullmatch(text):
        return _nested(match[1], _parts(match[2]))
    return SIMPLE.get(text)


def _nested(name: str, parts: list[str]) -> pa.DataType | None:
    if name == "map":
        key, item = (_kind(part) for part in parts) if len(parts) == 2 else (None, None)  # noqa: PLR2004 - of a map
        return None if key is None or item is None else pa.map_(key, item)
    try:
        fields = [_field(part, ": ") for part in parts]
    except ValueError:
        return None
    if not fields:
        return None
    if name == "struct":
        return pa.struct(fields)
    return (pa.list_ if name == "list" else pa.large_list)(fields[0])


def _parts(text: str) -> list[str]:
    """Divide the types of a nested type at its own commas; nothing if brackets do not close.

    Examples
    --------
    >>> _parts("a: decimal128(5, 2), b: int8")
    ['a: decimal128(5, 2)', 'b: int8']
    """
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "<[(") - (sign in ">])")
        if depth < 0:
            return []
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()] if not depth else []
