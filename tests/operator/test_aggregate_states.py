"""States of aggregates over parts of the pairs, put together, are those of all pairs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.errors import AggregateOverflowError
from slidejoin.operator.deferred.accumulators import (
    Accumulator,
    PairValues,
    empty_states,
    loaded_states,
    results_of,
    state_columns,
    state_schema,
)
from slidejoin.plan.deferred import AggregateRule, bind_rule
from slidejoin.spec.aggregate import Aggregate
from slidejoin.spec.join_spec import make_join_spec
from slidejoin.spec.window import CountWindow

ROWS = 4
RIGHT = pa.schema(
    [("whole", pa.int64()), ("real", pa.float64()), ("money", pa.decimal128(20, 2)), ("name", pa.string())]
)
ALL = Aggregate(
    n="count", known="count(r.name)", total="sum(r.whole)", mean="mean(r.whole)", reals="sum(r.real)",
    middle="mean(r.real)", low="min(r.real)", money="sum(r.money)", each="mean(r.money)", first="min(r.name)",
    last="max(r.name)", top="max(r.money)",
)  # fmt: skip

wholes = st.sampled_from([None, 0, 1, -1, 2**62, -(2**62)])
reals = st.sampled_from([None, 0.0, 1.5, -2.0, float("nan"), float("inf")])
moneys = st.sampled_from([None, Decimal("0.01"), Decimal("-7.50"), Decimal(10) ** 17])
names = st.sampled_from([None, "ann", "bob", "zoë"])
pairs = st.lists(st.tuples(st.integers(0, ROWS - 1), wholes, reals, moneys, names), max_size=12)


def rule_of(aggregate: Aggregate) -> AggregateRule:
    config = make_join_spec(on="l.whole = r.whole", window=CountWindow(1), output=aggregate)
    rule = bind_rule(config, RIGHT, RIGHT)
    assert isinstance(rule, AggregateRule)
    return rule


def added_up(rule: AggregateRule, found: list[tuple[Any, ...]]) -> list[Accumulator]:
    """The states over some pairs, by left row."""
    states, rows = empty_states(rule, ROWS), sorted(found, key=lambda pair: pair[0])
    places = np.array([row[0] for row in rows], np.int64)
    columns = {field.name: pa.array([row[at + 1] for row in rows], field.type) for at, field in enumerate(RIGHT)}
    states[0].add(PairValues(places, None))
    for function, state in zip(rule.functions, states[1:], strict=True):
        state.add(PairValues(places, None if function.column is None else columns[function.column]))
    return states


def values(rule: AggregateRule, states: list[Accumulator]) -> list[str]:
    """The results as text, in which NaN is NaN; or what has no room."""
    try:
        return [str(one.to_pylist()) for one in results_of(rule, states, lambda row: f"row {row}")]
    except AggregateOverflowError as error:
        return [str(error)]


@given(parts=st.lists(pairs, max_size=4), order=st.permutations(range(ROWS)))
def test_parts_put_together_are_the_whole(parts: list[list[tuple[Any, ...]]], order: list[int]) -> None:
    rule = rule_of(ALL)
    whole = empty_states(rule, ROWS)
    for part in parts:
        states = added_up(rule, part)
        table = pa.Table.from_arrays(state_columns(states), schema=state_schema(rule))
        # Rows of a table stand in any order, and those without pairs are not sent.
        sent = [row for row in order if table.column("0.count")[row].as_py()]
        places = np.array([sent.index(row) if row in sent else -1 for row in range(ROWS)])
        batches = table.take(pa.array(sent, pa.int64())).to_batches()
        taken = pa.Table.from_batches([batch for batch in batches if batch.num_rows], schema=table.schema)
        for state, more in zip(whole, loaded_states(rule, taken, places), strict=True):
            state.merge(more, 0)
    assert values(rule, whole) == values(rule, added_up(rule, [pair for part in parts for pair in part]))


def test_the_error_says_whose_sum_has_no_room() -> None:
    rule = rule_of(Aggregate(total="sum(r.whole)"))
    states = added_up(rule, [(2, 2**62, None, None, None)] * 2)
    message = f"Aggregate total=sum.r.whole. of row 2 is {2**63}, which does not fit its type"
    with pytest.raises(AggregateOverflowError, match=message):
        results_of(rule, states, lambda row: f"row {row}")
