"""What users meet when a call is wrong: always a `SlideJoinError`, with what was got, what was expected, what to do."""

from __future__ import annotations

import datetime as dt
import decimal
import pickle
import queue
from dataclasses import fields
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin import errors, options
from slidejoin.arguments import shown

if TYPE_CHECKING:
    from collections.abc import Callable

Call: TypeAlias = "Callable[[Any], object]"

GOOD: dict[str, Any] = {"on": "l.a < r.b", "window": sj.CountWindow(5)}
SCHEMAS = (pa.schema([("a", pa.int64())]), pa.schema([("b", pa.int64())]))


def join(**changes: Any) -> sj.StreamJoin:
    return sj.StreamJoin(**GOOD | changes)


def pushed(*batches: Any, **arguments: Any) -> pa.Table:
    return join(schemas=SCHEMAS).push(*batches, **arguments)


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError


class Stream:
    def __arrow_c_stream__(self, schema: object = None) -> object:
        message = "the disk is gone"
        raise RuntimeError(message)


@pytest.mark.parametrize(
    ("call", "kind", "got", "expected"),
    [
        # windows
        (lambda: sj.CountWindow(0), sj.ArgumentError, "got 0", "size must be a whole number of rows, at least 1"),
        (lambda: sj.CountWindow("5"), sj.ArgumentTypeError, "got '5'", "size must be a whole number of rows"),
        (lambda: sj.CountWindow(2.0), sj.ArgumentTypeError, "got 2.0", "a whole number of rows"),
        (lambda: sj.CountWindow(left=5, right=-1), sj.ArgumentError, "got -1", "right must be a whole number"),
        (lambda: sj.CountWindow(5, slide=6), sj.ArgumentError, "got slide 6 for 5 and 5", "give 1 for an exact window"),
        (lambda: sj.CountWindow(2**62), sj.ArgumentError, f"got {2**62}", "at most 4,611,686,018,427,387,903"),
        (sj.CountWindow, sj.ArgumentError, "got size=None", "give CountWindow(size) or"),
        (lambda: sj.TimeWindow(-1, on="ts"), sj.ArgumentError, "got -1", "text such as '10 minutes'"),
        (lambda: sj.TimeWindow(1.5, on="ts"), sj.ArgumentTypeError, "got 1.5", "text such as '10 minutes'"),
        (lambda: sj.TimeWindow("ten", on="ts"), sj.ArgumentError, "got 'ten'", "'10 minutes' or '1 hour 30 minutes'"),
        (lambda: sj.TimeWindow("5 parsec", on="ts"), sj.ArgumentError, "'parsec' in '5 parsec'", "'10 minutes' or '1"),
        (lambda: sj.TimeWindow("5 m", on="ts"), sj.ArgumentError, "unknown unit 'm'", "Did you mean 'min', for"),
        (lambda: sj.TimeWindow("1 month", on="ts"), sj.ArgumentError, "unit 'month'", "no fixed length: write weeks"),
        (lambda: sj.TimeWindow("5 s"), sj.ArgumentError, "got on=None", "name the event-time column: on=…"),
        (lambda: sj.TimeWindow("5 s", on=5), sj.ArgumentTypeError, "got 5", "on must be the name of a column"),
        (lambda: sj.TimeWindow("5 s", on="\ud800"), sj.ArgumentError, r"got '\ud800'", "on must be the name of a"),
        # the join
        (lambda: join(window=5), sj.ArgumentTypeError, "got 5", "write sj.CountWindow(1000) or"),
        (lambda: join(how="anti"), sj.ArgumentError, "got 'anti'", "how must be one of 'inner', 'left', 'right'"),
        (lambda: join(how=3), sj.ArgumentTypeError, "got 3", "how must be one of 'inner', 'left', 'right'"),
        (lambda: join(how="left", output="count"), sj.ArgumentError, "how='left' does not change", "use how='inner'"),
        (
            lambda: join(how="left", topology=sj.options.SplitJoin(punctuation=True)),
            sj.ArgumentError,
            "got how='left'",
            "use punctuation=False",
        ),
        (lambda: join(output="pair"), sj.ArgumentError, "got 'pair'", "Did you mean 'pairs'?"),
        (lambda: join(output=np.arange(3)), sj.ArgumentTypeError, "got array([0, 1, 2])", "must be one of 'pairs'"),
        (lambda: join(order=None), sj.ArgumentTypeError, "got None", "'probe', 'strict', 'none'"),
        (lambda: join(select=5), sj.ArgumentTypeError, "got 5", "a list of columns such as ['l.id', 'r.id']"),
        (lambda: join(select=[5]), sj.ArgumentTypeError, "got 5", "text such as 'l.id', 'r.id'"),
        (lambda: join(suffix=None), sj.ArgumentTypeError, "got None", "text such as '_right'"),
        (lambda: join(suffix="\udfff"), sj.ArgumentError, r"got '\udfff'", "Unicode text such as '_right'"),
        (lambda: join(self_join="yes"), sj.ArgumentTypeError, "got 'yes'", "True or False"),
        (lambda: join(aliases="lr"), sj.PredicateError, "got 'lr'", "two different names"),
        (lambda: join(algorithm="tree"), sj.ArgumentError, "got 'tree'", "Did you mean 'im_tree'?"),
        (lambda: join(threads=0), sj.ArgumentError, "got 0", "a whole number, at least 1, or None"),
        (lambda: join(memory_limit="1 GB"), sj.ArgumentTypeError, "got '1 GB'", "a whole number, at least 1, or None"),
        (lambda: join(schemas=5), sj.ArgumentTypeError, "got 5", "a pair of pyarrow schemas, (left, right)"),
        (lambda: join(self_join=True, schemas=SCHEMAS), sj.ArgumentError, "got two that differ", "same schema twice"),
        (lambda: join(on=5), sj.PredicateError, "got 5", "Write 'l.a < r.b'"),
        (lambda: join(on="l.a < '\ud800'"), sj.PredicateError, r"\ud800", "not valid Unicode"),
        (lambda: options.BPlusTree(fan_out="x"), sj.ArgumentTypeError, "got 'x'", "a whole number from"),
        (lambda: options.RapTable(sigma=0), sj.ArgumentError, "got 0", "a number above 1 and up to 16"),
        # pushes
        (lambda: pushed({"a": [1]}, order_by=5), sj.ArgumentTypeError, "got 5", "order_by must be the name of"),
        (lambda: pushed({"a": [1]}, order_by=["a"]), sj.ArgumentTypeError, "got ['a']", "the name of a column"),
        (lambda: pushed({"a": [1]}, order_by="x"), sj.SchemaError, "order_by='x'", "it has a"),
        (lambda: pushed(5), sj.SchemaError, "is a int", "give a pyarrow Table or RecordBatch"),
        (lambda: pushed({"a": pd.NA}), sj.SchemaError, "column 'a'", "cannot be read as columns"),
        (lambda: pushed(Stream()), sj.SchemaError, "the disk is gone", "cannot be read as columns"),
        (lambda: list(sj.join_streams(5, [], **GOOD)), sj.SchemaError, "got 5", "an iterable of left batches"),
        (lambda: sj.StreamJoin.restore("x"), sj.StateError, "got str", "give what snapshot() returned"),
        (lambda: sj.StreamJoin.restore(join().snapshot(), threads=-1), sj.ArgumentError, "got -1", "at least 1"),
        # expressions
        (lambda: sj.lit([1]), sj.PredicateError, "list", "Use .is_in"),
        (lambda: sj.left[5], sj.PredicateError, "got 5", "write left['name']"),
        (lambda: sj.left["\ud800"], sj.PredicateError, r"\ud800", "decode it again"),
        (lambda: bool(sj.left.a < sj.right.b), sj.PredicateError, "l.a < r.b", "Use & | ~"),
    ],
)  # fmt: skip
def test_what_an_error_says(call: Callable[[], object], kind: type[Exception], got: str, expected: str) -> None:
    with pytest.raises(sj.SlideJoinError) as raised:
        call()
    assert type(raised.value) is kind
    assert got in str(raised.value)
    assert expected in str(raised.value)


def test_kinds_of_errors_that_python_has_too() -> None:
    parents = {
        sj.AggregateOverflowError: OverflowError,
        sj.ArgumentError: ValueError,
        sj.ArgumentTypeError: (ValueError, TypeError),
        sj.ConfigError: ValueError,
        sj.FeedEmptyError: queue.Empty,
        sj.FeedFullError: queue.Full,
        sj.JoinClosedError: RuntimeError,
        sj.MemoryLimitError: MemoryError,
        sj.MissingPackageError: ImportError,
        sj.PredicateError: ValueError,
        sj.SchemaError: TypeError,
        sj.StateError: ValueError,
    }
    every = {getattr(errors, name) for name in errors.__all__ if name.endswith("Error")}
    assert every == {sj.SlideJoinError, *parents}
    for kind, python in parents.items():
        for parent in python if isinstance(python, tuple) else (python,):
            assert issubclass(kind, sj.SlideJoinError)
            assert issubclass(kind, parent)
        copy = pickle.loads(pickle.dumps(kind("what was got")))
        assert (type(copy), str(copy)) == (kind, "what was got")


JUNK: tuple[Any, ...] = (
    *(None, 0, -5, 10**30, 1.5, float("nan"), True, "", "x", "10 minutes", "l.a < r.b", "9" * 30 + " weeks", "\ud800"),
    *(b"x", "a\0b", [], [1], ["l.a"], (), ("l", "r"), ("a", "a"), {}, {"a": 1}, {"a": [1]}, set(), range(3)),
    *(object(), NoRepr(), NoRepr, Stream(), len, iter([1]), decimal.Decimal(3), dt.timedelta(1)),
    *(np.int64(5), np.array([1, 2]), np.array([["a", "b"]]), pd.Series([1]), pd.DataFrame({"a": [1]}), pd.NA, pd.NaT),
    *(pa.int64(), SCHEMAS[0], SCHEMAS, sj.left, sj.left.a, sj.left.a < sj.right.b, *GOOD.values()),
)


def at(function: Callable[..., object], name: str, **others: Any) -> Call:
    """Return what calls a function with junk for one of its arguments."""
    return lambda junk: function(**others | {name: junk})


def arguments_of_a_join() -> list[Call]:
    names = ("on", "window", "how", "output", "order", "select", "suffix", "self_join", "aliases", "algorithm")
    return [at(sj.StreamJoin, name, **GOOD) for name in (*names, "threads", "memory_limit", "schemas")]


def arguments_of_windows() -> list[Call]:
    calls: list[Call] = []
    for name in ("size", "left", "right", "slide"):
        calls += [at(sj.CountWindow, name, size=5), at(sj.CountWindow, name, left=5, right=5)]
    for name in ("length", "left", "right", "on", "left_on", "right_on", "lateness"):
        calls.append(at(sj.TimeWindow, name, length=5, on="a"))
        calls.append(at(sj.TimeWindow, name, left=5, right=5, left_on="a", right_on="b"))
    return calls


def into(schemas: object) -> list[Call]:
    return [
        lambda junk: join(schemas=schemas).push(junk),
        lambda junk: join(schemas=schemas).push({"a": junk}),
        lambda junk: list(join(schemas=schemas).push_iter(right=junk)),
        lambda junk: join(schemas=schemas).push({"a": [1]}, {"b": [2]}, order_by=junk),
    ]


def arguments_of_pushes() -> list[Call]:
    return [
        lambda junk: list(sj.join_streams(junk, [{"b": [1]}], **GOOD)),
        lambda junk: list(sj.join_streams([junk], [{"b": [1]}], **GOOD)),
        sj.StreamJoin.restore,
        lambda junk: sj.StreamJoin.restore(join().snapshot(), threads=junk),
        lambda junk: sj.StreamJoin.restore(join().snapshot(), algorithm=junk),
        *into(None),
        *into(SCHEMAS),
    ]


OPERATORS = ("add", "sub", "mul", "truediv", "mod", "floordiv", "pow", "eq", "ne", "lt", "le", "gt", "ge", "and", "or")


def arguments_of_expressions() -> list[Call]:
    return [
        sj.lit,
        lambda junk: sj.left[junk],
        lambda junk: sj.left.a.between(junk, 5),
        sj.left.a.is_in,
        lambda junk: sj.left.a.is_in([junk]),
        *(getattr(sj.left.a, f"__{name}__") for name in OPERATORS),
    ]


def arguments_of_structures() -> list[Call]:
    kinds = (*options.STRUCTURES.values(), options.BiSort)
    return [at(kind, field.name) for kind in kinds for field in fields(kind)]


CALLS = chain(
    arguments_of_a_join(),
    arguments_of_windows(),
    arguments_of_pushes(),
    arguments_of_expressions(),
    arguments_of_structures(),
)


@pytest.mark.parametrize("call", list(CALLS))
def test_whatever_an_argument_is_no_other_error_comes(call: Call) -> None:
    """Values of every kind in every place: each is taken, or refused by an error of slidejoin."""
    messages = list(filter(None, (refusal(call, junk) for junk in JUNK)))
    assert messages
    for message in messages:
        assert len(message) > len("got x, expected y")
        assert "\n" not in message


def refusal(call: Call, junk: Any) -> str | None:
    try:
        call(junk)
    except sj.SlideJoinError as error:
        return str(error)
    return None


def test_a_wrong_order_leaves_the_join_as_it_was() -> None:
    """What is refused takes nothing: the next push finds the rows of the one before, and no interrupted one."""
    one = join(schemas=SCHEMAS)
    one.push({"a": [1]})
    with pytest.raises(sj.ArgumentTypeError):
        one.push({"a": [1]}, {"b": [5]}, order_by=["a"])
    assert one.push(right={"b": [5]}).num_rows == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        ("x" * 100, "a str"),
        ("two\nlines", r"'two\nlines'"),
        (pd.Series([1, 2]), "a Series"),
        (NoRepr(), "a NoRepr"),
        (list(range(99)), "a list"),
        (pa.table({"a": range(99)})["a"], "a ChunkedArray"),
    ],
)
def test_values_in_errors_are_one_short_line(value: Any, text: str) -> None:
    assert shown(value) == text


def test_a_finish_that_fails_has_not_finished() -> None:
    join = sj.StreamJoin(
        on="l.k = r.k", window=sj.CountWindow(9), output=sj.Aggregate(total="sum(r.v)"), select=["l.k"]
    )
    join.push(left={"k": [1]}, right={"k": [1, 1], "v": [2**63 - 1, 1]})
    with pytest.raises(sj.AggregateOverflowError):
        join.finish()
    for call in (join.finish, join.snapshot, join.push):
        with pytest.raises(
            sj.JoinClosedError, match=r"a call was interrupted by AggregateOverflowError.*restore the last"
        ):
            call()


def test_a_clock_that_fails_in_restore_says_so_itself() -> None:
    def fails() -> float:
        msg = "my clock"
        raise LookupError(msg)

    options = {"on": "l.k = r.k", "window": sj.TimeWindow(5, on="k"), "idle_timeout": "1 second"}
    schema = pa.schema([("k", pa.int64())])
    state = sj.StreamJoin(**options, schemas=(schema, schema), wall_clock=lambda: 3.0).snapshot()
    with pytest.raises(LookupError, match=r"^my clock$"):
        sj.StreamJoin.restore(state, wall_clock=fails)
    times = iter([5.0, *[6.0] * 9])
    again = sj.StreamJoin.restore(state, wall_clock=lambda: next(times))
    assert again.push({"k": [1]}, {"k": [1]}).num_rows == 1


def test_a_restored_join_does_not_say_where_its_schemas_come_from() -> None:
    schema, window = pa.schema([("k", pa.int64())]), sj.CountWindow(5)
    one = sj.StreamJoin("l.k = r.k", window, schemas=(schema, schema))
    many = sj.MultiJoin({"left": window, "b": window}, "left.k = b.k", schemas={"left": schema, "b": schema})
    for join in (one, many, sj.StreamJoin.restore(one.snapshot()), sj.MultiJoin.restore(many.snapshot())):
        known = "as schemas= said" if join in (one, many) else "as the restored join has it"
        with pytest.raises(sj.SchemaError, match=f"column 'k' of the left batch is string, expected int64 {known}"):
            join.push(left=pa.table({"k": ["x"]}))
