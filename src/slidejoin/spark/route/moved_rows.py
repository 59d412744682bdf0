"""Rows of the state that are routed again: to another number of buckets, or by another strategy.

A row may be in several buckets. Of its copies one is moved, to the row's new buckets, and the others are dropped.
Which one follows from the copies or from where the former routing sends the row::

    a copy at home      its home is the one that knows the row's answer
    a numbered row      the first copy that is met: no other row of the side has its number
    any other row       the copy in the first of the buckets that its former routing gives
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.errors import StateError
from slidejoin.sides import SIDES
from slidejoin.spark.job.buckets import parted
from slidejoin.spark.job.join_spec import AT_HOME, HIDDEN, NUMBERS, ROLES, plan_of
from slidejoin.spark.route.copies import copies_of, routed
from slidejoin.spark.route.everywhere import homes_of
from slidejoin.spark.route.routing import turn_of
from slidejoin.spark.state.segments import roles_of, stored_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from slidejoin.sides import Side
    from slidejoin.spark.job.join_spec import SparkJoinSpec

__all__ = ["OneCopy", "check_movable", "rerouted"]

NO_NUMBERS = np.empty(0, np.int64)


def check_movable(old: SparkJoinSpec, new: SparkJoinSpec) -> None:
    """Check that rows of one join can go on as rows of the other.

    Raises
    ------
    StateError
        If they lack what the new buckets need, or what tells their copies apart; it says what to do.
    """
    whole = (old.homes, old.partial, old.scattered)
    config, counted = old.config, old.config.output == "count" and not old.numbered
    what = f"a join with how={old.how!r}" if config.output == "pairs" else f"a join with output={config.output!r}"
    if whole != (new.homes, new.partial, new.scattered):
        msg = (
            f"{what}, strategy {old.strategy} and {len(old.buckets)} buckets keeps other columns of its rows than one "
            f"with strategy {new.strategy} and {len(new.buckets)} buckets, since in one of them all partners of a row "
            "are in one bucket. Choose another number of buckets, or another strategy; or start the query with a new "
            "checkpoint"
        )
    elif counted and (old.strategy.name != "hash" or old.strategy.spread > 1) and not old.probes_everywhere:
        msg = (
            f"{what} over time keeps only compared columns, which do not tell copies of a row in several buckets "
            f"apart; its strategy is {old.strategy}. Start the query with a new checkpoint"
        )
    elif config.self_join and old.matched and not old.scattered:
        msg = (
            f"{what}, self_join=True and strategy {old.strategy} keeps whether a row has matched for each of its roles "
            "in another bucket. Start the query with a new checkpoint"
        )
    elif config.keep is not None and not _in_order(old):
        msg = (
            f"a join with keep={config.keep!r} and strategy {old.strategy} does not keep in which order the right rows "
            "of several buckets arrived, by which ties are decided. Start the query with a new checkpoint"
        )
    else:
        return
    raise StateError(msg)


def _in_order(spec: SparkJoinSpec) -> bool:
    """Return whether it is known in which order the right rows arrived that a left row may have."""
    if spec.numbered or spec.scattered or len(spec.buckets) == 1:
        return True
    return spec.strategy.name in {"hash", "broadcast"} and not spec.config.self_join


class OneCopy:
    """One copy of each row of one stream, of all that the buckets have."""

    def __init__(self, spec: SparkJoinSpec, stream: Side) -> None:
        self._spec, self._stream = spec, stream
        self._seen = NO_NUMBERS

    def among(self, table: pa.Table, bucket: int) -> NDArray[np.bool_]:
        """Return which rows of a segment go on, (n,) bool.

        Parameters
        ----------
        bucket : int
            The number of the bucket that has it.

        Raises
        ------
        StateError
            If the bucket has a row that this join would not have sent there.
        """
        if self._spec.probes_everywhere:
            return np.ones(table.num_rows, np.bool_)
        if AT_HOME in table.schema.names:
            return np.asarray(table.column(AT_HOME)).astype(np.bool_)
        if self._spec.numbered:
            numbers = np.asarray(table.column(NUMBERS[0]))
            fresh = ~np.isin(numbers, self._seen)
            self._seen = np.union1d(self._seen, numbers)
            return fresh
        return self._first(table, bucket)

    def _first(self, table: pa.Table, bucket: int) -> NDArray[np.bool_]:
        spec, plain = self._spec, _plain(table)
        first = np.full(table.num_rows, len(spec.buckets))
        here = np.zeros(table.num_rows, np.bool_)
        for rows, buckets in self._routes(plain):
            np.minimum.at(first, rows, buckets)
            here[rows[buckets == bucket]] = True
        # A row that can match nothing is in one bucket, if in any, and no route leads there.
        nowhere = first == len(spec.buckets)
        lost = np.count_nonzero(~here & ~nowhere)
        if lost:
            msg = (
                f"bucket {spec.buckets[bucket]} has {lost} {self._stream} rows that a join with strategy "
                f"{spec.strategy} does not send there: the state is damaged, or was written by a version of slidejoin "
                "that routes otherwise. Use that version"
            )
            raise StateError(msg)
        chosen: NDArray[np.bool_] = nowhere | (first == bucket)
        return chosen

    def _routes(self, plain: pa.Table) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield rows and their buckets, both (k,), by the former routing; not where chance has chosen the bucket."""
        spec = self._spec
        if not spec.homes:
            for role in roles_of(plan_of(spec), self._stream):
                routes = routed(spec, role, plain)
                yield routes.rows, routes.buckets
            return
        rows, buckets = parted(copies_of(spec, self._stream, plain)[0], len(spec.buckets))
        # A row without a key has its home anywhere, and no other copy.
        several = np.bincount(rows, minlength=plain.num_rows)[rows] > 1
        yield rows[several], buckets[several]


def rerouted(
    spec: SparkJoinSpec, stream: Side, table: pa.Table, matched: Mapping[Side, NDArray[np.bool_]]
) -> Iterator[tuple[int, pa.Table, dict[Side, NDArray[np.bool_]]]]:
    """Yield the copies of rows of the state bucket by bucket: its number, the rows, and which have matched."""
    count, schema = len(spec.buckets), stored_schema(plan_of(spec), stream)
    by_role: dict[Side, NDArray[np.int64]]
    at_home: NDArray[np.bool_] | None
    if spec.probes_everywhere:
        # One copy of each row is stored.
        copies, at_home = np.arange(table.num_rows) * count + _homes(spec, stream, table), np.ones(table.num_rows, bool)
        by_role = dict.fromkeys(SIDES, copies) if spec.config.self_join else {}
    else:
        copies, by_role, at_home = copies_of(spec, stream, _plain(table))
    rows, buckets = parted(copies, count)
    hidden = {ROLES[role]: np.isin(copies, its) for role, its in by_role.items()}
    if at_home is not None:
        hidden[AT_HOME] = at_home
    for bucket in np.unique(buckets):
        chosen = np.flatnonzero(buckets == bucket)
        # In the order in which they were.
        chosen = chosen[np.argsort(rows[chosen], kind="stable")]
        places = rows[chosen]
        taken = table.take(pa.array(places))
        columns: dict[str, Any] = dict(zip(taken.column_names, taken.columns, strict=True))
        columns |= {name: pa.array(values[chosen]) for name, values in hidden.items()}
        its = pa.table([columns[name] for name in schema.names], schema=schema)
        yield int(bucket), its, {role: bits[places] for role, bits in matched.items()}


def _homes(spec: SparkJoinSpec, stream: Side, table: pa.Table) -> NDArray[np.int64]:
    """Return the number of the bucket that is to store each row, where one is."""
    if spec.stored_by_number:
        return turn_of(np.asarray(table.column(NUMBERS[0])), spec.strategy, len(spec.buckets))
    return homes_of(spec, stream, _plain(table))


def _plain(table: pa.Table) -> pa.Table:
    """Return rows without hidden columns, as they were packed."""
    return table.select([name for name in table.column_names if name not in HIDDEN]).combine_chunks()
