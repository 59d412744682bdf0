"""The states of all functions of an `Aggregate` for many left rows, also as columns, so that parts can be put together.

Of each left row there is the number of its pairs, then the state of each function::

    0.count │ 1.count 1.limb0 1.limb1 │ 2.value        pairs │ sum of whole numbers │ smallest value
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slidejoin.errors import AggregateOverflowError, StateError
from slidejoin.operator.deferred.accumulators import LOW, Accumulator, Counts, accumulator_of
from slidejoin.rows.stored_tables import int64s
from slidejoin.stored import MOST_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from slidejoin.plan.deferred import AggregateRule

__all__ = ["check_numbers", "empty_states", "loaded_states", "results_of", "state_columns", "state_schema"]

HIGHEST = 1 << 62
"""Of the highest limb of a sum: to so many values as there may be more can be added."""

NULL_STATE = "value"
"""The column of a state in which a row without pairs has NULL; in others it has 0."""


def empty_states(rule: AggregateRule, rows: int) -> list[Accumulator]:
    """Return the state of so many left rows: the number of pairs, and each function's."""
    return [Counts(rows), *(accumulator_of(function, rows) for function in rule.functions)]


def state_columns(states: Sequence[Accumulator]) -> list[pa.Array[Any]]:
    """Return states as columns, a row for each left row."""
    return [column for state in states for column in state.columns().values()]


def state_schema(rule: AggregateRule) -> pa.Schema:
    """Return the schema of these columns."""
    return pa.schema(
        [
            pa.field(f"{number}.{name}", column.type)
            for number, state in enumerate(empty_states(rule, 0))
            for name, column in state.columns().items()
        ]
    )


def loaded_states(rule: AggregateRule, table: pa.Table, places: NDArray[np.int64] | None = None) -> list[Accumulator]:
    """Return the states that columns of a table hold.

    Parameters
    ----------
    places : (n,) int64, optional
        The row of the table of each left row, -1 for one without pairs; all rows, in their order, by default.
    """
    count = table.num_rows if places is None else places.size
    states = empty_states(rule, count)
    index: pa.Array[Any] | None = None if places is None else pa.array(places, mask=places < 0)
    for number, state in enumerate(states):
        loaded = {}
        for name in state.columns():
            column: Any = table.column(f"{number}.{name}")
            column = column if index is None else column.take(index)
            column = column if name == NULL_STATE or not column.null_count else column.fill_null(0)
            loaded[name] = column.combine_chunks()
        state.load(loaded)
    return states


def check_numbers(table: pa.Table) -> None:
    """Check the counts and sums of one state that somebody has stored: none is NULL, none makes a sum overflow.

    Raises
    ------
    StateError
        If one is.
    """
    limbs = sum(name.startswith("limb") for name in table.column_names)
    for name in table.column_names:
        column = table.column(name)
        if name == "count":
            int64s(column, 0, MOST_ROWS, "the numbers of values of aggregates")
        elif name == f"limb{limbs - 1}":
            int64s(column, -HIGHEST, HIGHEST, "the highest limbs of sums")
        elif name.startswith("limb"):
            int64s(column, 0, LOW, "the limbs of sums")
        elif name != NULL_STATE and column.null_count:
            msg = f"{column.null_count} sums of aggregates are NULL"
            raise StateError(msg)


def results_of(
    rule: AggregateRule, states: Sequence[Accumulator], whose: Callable[[int], str], then: str = ""
) -> list[pa.Array[Any]]:
    """Return the value of each function for each row.

    Parameters
    ----------
    whose : function
        Returns how a row is called in an error.
    then : str
        What the error says behind all else.

    Raises
    ------
    AggregateOverflowError
        If a sum has no room in its type.
    """
    for function, state in zip(rule.functions, states[1:], strict=True):
        over = state.overflow()
        if over is not None:
            msg = (
                f"Aggregate {function.name}={function.function}(r.{function.column}) of {whose(over[0])} is {over[1]}, "
                f"which does not fit its type; cast the column to a decimal or a float in the stream before{then}"
            )
            raise AggregateOverflowError(msg)
    return [state.result() for state in states[1:]]
