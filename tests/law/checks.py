"""What the law says about the output, as assertions shared by the tests beside this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from hypothesis import settings

from tests.predicate.pairs import holding
from tests.tables import ids, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    import slidejoin as sj
    from tests.extremes import Extreme
    from tests.oracle import Oracle, Row, Step
    from tests.strategies import Case

ORDERS = ("probe", "strict", "none")
Line = tuple[str, ...]


def examples(count: int) -> settings:
    """`count` random examples in an ordinary run, and in proportion more in a nightly one."""
    return settings(max_examples=max(count * settings.default.max_examples // 100, 1))


def pair_schema(left: pa.Schema, right: pa.Schema, suffix: str = "_right") -> pa.Schema:
    """Left columns, then right columns, the latter with the suffix where the left has the name too."""
    renamed = [field.with_name(field.name + suffix) if field.name in left.names else field for field in right]
    return pa.schema([*left, *renamed])


def line(*rows: Row | Iterable[Any]) -> Line:
    """One output row in a form that compares: NaN equals itself, -0.0 differs from 0.0."""
    values: list[Any] = []
    for row in rows:
        values += row.values() if isinstance(row, dict) else row
    return tuple(map(repr, values))


def lines(table: pa.Table) -> list[Line]:
    """The rows of an output table as comparable lines."""
    return [line(row) for row in rows_of(table)]


def pair_lines(steps: Iterable[Step]) -> list[list[Line]]:
    """The oracle's pairs as lines, a list for each probe."""
    return [[line(left, right) for left, right in step.rows] for step in steps]


def assert_groups(got: list[Line], groups: list[list[Line]], order: str) -> None:
    """Assert that `got` is the groups' members in the order that `order` promises."""
    flat = [member for group in groups for member in group]
    if order == "strict":
        assert got == flat
    elif order == "probe":
        assert len(got) == len(flat)
        start = 0
        for group in groups:
            assert sorted(got[start : start + len(group)]) == sorted(group)
            start += len(group)
    else:
        assert sorted(got) == sorted(flat)


def assert_same_output(ours: pa.Table, theirs: pa.Table, counts: NDArray[np.int64], order: str = "probe") -> None:
    """Assert that two tables of pairs are the same in all that `order` promises, the sequence of probes included.

    `counts` (arrivals,) int64 has the pairs that each arriving row of the push produces, in arrival order: they tell
    which rows belong to one probe. Within a probe, and everywhere under ``order="none"``, rows may have any order.
    """
    assert ours.schema.equals(theirs.schema)
    assert ours.num_rows == theirs.num_rows == counts.sum()
    if order != "strict" and not same_tables(ours, theirs):
        probe = pa.array(np.repeat(np.arange(counts.size) * (order == "probe"), counts))
        keys = [(name, "ascending") for name in ("#probe", *ours.column_names)]
        ours, theirs = (table.append_column("#probe", probe).sort_by(keys) for table in (ours, theirs))
    assert same_tables(ours, theirs)


def same_tables(one: pa.Table, two: pa.Table) -> bool:
    """Whether two tables are equal, NaN being equal to itself."""
    if one.schema != two.schema or one.num_rows != two.num_rows:
        return False
    return all(
        _same_columns(*(table.column(name).combine_chunks() for table in (one, two))) for name in one.schema.names
    )


def _same_columns(one: pa.Array[Any], two: pa.Array[Any]) -> bool:
    if one.equals(two) or not pa.types.is_floating(one.type):
        return bool(one.equals(two))
    a, b = (column.to_numpy(zero_copy_only=False) for column in (one, two))
    return one.is_null().equals(two.is_null()) and np.array_equal(a, b, equal_nan=True)


def assert_stats(join: sj.StreamJoin, oracle: Oracle) -> None:
    """Assert the counters that follow from the law."""
    stats = join.stats
    assert (stats.pairs, stats.late_rows, stats.null_time_rows) == (
        oracle.pairs,
        oracle.late_rows,
        oracle.null_time_rows,
    )


def assert_pairs(case: Case, order: str, **options: Any) -> None:
    """Assert that every push gives the pairs of the law, columns and types included."""
    join, oracle = case.join(order=order, **options), case.oracle()
    schema = pair_schema(case.left.schema, case.left.schema if case.self_join else case.right.schema)
    for table, steps in zip(case.results(join), case.steps(oracle), strict=True):
        assert table.schema.equals(schema), table.schema
        table.validate(full=True)
        assert_groups(lines(table), pair_lines(steps), order)
    rest = join.finish()
    assert rest.num_rows == 0
    assert rest.schema.equals(schema)
    assert_stats(join, oracle)


def count_lines(case: Case, steps: Iterable[Step]) -> list[Line]:
    """The oracle's counts as lines: side, left columns, right columns, match_count."""
    no_left, no_right = [None] * case.left.num_columns, [None] * case.right.num_columns
    made = []
    for step in steps:
        if step.counted:
            left, right = (step.row, no_right) if step.side == "left" else (no_left, step.row)
            made.append(line([step.side], left, right, [step.pairs]))
    return made


def assert_counts(case: Case, **options: Any) -> None:
    """Assert that every push gives one line for each arrival, with the number of pairs that it produced."""
    join, oracle = case.join(output="count", **options), case.oracle()
    names = pair_schema(case.left.schema, case.left.schema if case.self_join else case.right.schema)
    schema = pa.schema([("side", pa.string()), *names, ("match_count", pa.int64())])
    for table, steps in zip(case.results(join), case.steps(oracle), strict=True):
        assert table.schema.equals(schema), table.schema
        table.validate(full=True)
        assert lines(table) == count_lines(case, steps)
    assert join.finish().num_rows == 0
    assert_stats(join, oracle)


def numbered(table: pa.Table, first: int = 0) -> pa.Table:
    """A table with its column ``id`` counted from `first`."""
    return table.set_column(table.schema.get_field_index("id"), "id", pa.array(range(first, first + table.num_rows)))


def assert_whoever_probes(case: Extreme, law: NDArray[np.bool_] | None = None, **options: Any) -> None:
    """Assert the law's pairs of a join over all rows: left rows, then right ones, then the left ones once more.

    So each pair is found by its right row, and by its left row.
    """
    join, rows = case.join(**options), case.left.num_rows
    found = [join.push(left=case.left), join.push(right=case.right), join.push(left=numbered(case.left, rows))]
    if law is None:
        law = holding(case.predicate, case.left, case.right)
    expected = [(int(one), int(two)) for one, two in zip(*law.nonzero(), strict=True)]
    assert found[0].num_rows == 0
    assert sorted(ids(found[1])) == expected, f"right rows probe\n{case}"
    assert sorted(ids(found[2])) == [(one + rows, two) for one, two in expected], f"left rows probe\n{case}"


def assert_self_join(case: Extreme, **options: Any) -> None:
    """Assert the law's pairs of the left rows among themselves, those of two pushes."""
    join, half = case.join(self_join=True, **options), case.left.num_rows // 2
    found = [join.push(left=case.left.slice(0, half)), join.push(left=case.left.slice(half))]
    law = holding(case.predicate, case.left, case.left)
    np.fill_diagonal(law, val=False)
    expected = [(int(one), int(two)) for one, two in zip(*law.nonzero(), strict=True)]
    assert sorted(pair for table in found for pair in ids(table)) == expected, str(case)
