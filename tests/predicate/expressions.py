"""Hypothesis strategies for expressions in the form in which users' expressions arrive."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import get_args

from hypothesis import strategies as st

from slidejoin.predicate.expression import build
from slidejoin.predicate.expression.expr import Column, Comparator, Compare, Expr, Literal
from slidejoin.predicate.expression.functions import CASTS, FUNCTIONS
from slidejoin.predicate.expression.literals import literal

names = st.sampled_from(["a", "b", "A", "a b", 'q"uote', "back`tick", "select", "date", "1st", "é", "l.x", "_c0", ""])
columns = st.builds(Column, st.sampled_from(["left", "right"]), names)
decimals = st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**6), max_value=10**6)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    decimals,
    st.sampled_from([Decimal("1E+5"), Decimal("-0.0"), Decimal("1E-300"), Decimal(0)]),
    st.sampled_from([math.inf, -math.inf, math.nan]),
    st.floats(),
    texts,
    st.binary(max_size=6),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=st.just(UTC)),
    st.timedeltas(),
    st.sampled_from([timedelta.max, timedelta.min, timedelta(0), date.min, time.max]),
)
literals = scalars.map(literal)


def _larger_value(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(build.arithmetic, st.sampled_from(["+", "-", "*", "/", "%", "//"]), inner, inner),
        st.builds(build.negative, inner, fold=st.booleans()),
        st.builds(build.absolute, inner),
        st.builds(build.cast, inner.filter(_castable), st.sampled_from(list(CASTS))),
        st.builds(build.cast, inner, st.just("DECIMAL(7, 2)")),
        calls(inner),
    )


@st.composite
def calls(draw: st.DrawFn, inner: st.SearchStrategy[Expr]) -> Expr:
    """A call of any function, with as many values as it takes."""
    name = draw(st.sampled_from([name for name in FUNCTIONS if name not in {"like", "ilike", "case", "date_trunc"}]))
    least, most = FUNCTIONS[name]
    return build.call(name, [draw(inner) for _ in range(draw(st.integers(least, least + 2 if most is None else most)))])


def _castable(expr: Expr) -> bool:
    return not (isinstance(expr, Literal) and isinstance(expr.value, str | bytes))


values = st.recursive(st.one_of(columns, literals), _larger_value, max_leaves=5)
comparators = st.sampled_from(get_args(Comparator))


def _larger_condition(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(build.conjunction),
        st.lists(inner, min_size=1, max_size=3).map(build.disjunction),
        st.builds(build.negation, inner),
        st.builds(build.is_null, inner),
        st.builds(build.compare, comparators, inner, inner),
        st.lists(st.tuples(inner, values), min_size=1, max_size=2).map(build.choice),
        st.builds(build.choice, st.lists(st.tuples(inner, values), min_size=1, max_size=2), values),
    )


conditions = st.recursive(
    st.one_of(
        columns,
        st.sampled_from([Literal(value=True), Literal(value=False), Literal(None)]),
        st.builds(Compare, comparators, values, values),
        st.builds(build.between, values, values, values),
        st.builds(build.member, values, st.lists(values, max_size=3)),
        values.map(build.is_null),
        st.builds(lambda *args: build.call("like", args), values, values),
        st.builds(lambda *args: build.call("ilike", args), values, values, st.just(literal("!"))),
    ),
    _larger_condition,
    max_leaves=6,
)
