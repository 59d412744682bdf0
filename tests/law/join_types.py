"""What the law says about the output of joins of every type, as assertions shared by tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slidejoin.spec.join_options import JOIN_TYPES
from tests.law.checks import assert_groups, line, lines, pair_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    import slidejoin as sj
    from tests.law.checks import Line
    from tests.oracle import Oracle, Output, Step
    from tests.strategies import Case

HOWS = JOIN_TYPES[1:]
ONE_SIDED = ("left_semi", "left_anti")


def right_of(case: Case) -> pa.Schema:
    """The schema of the right rows."""
    return case.left.schema if case.self_join else case.right.schema


def schema_of(case: Case, how: str) -> pa.Schema:
    """The output columns of pairs."""
    return case.left.schema if how in ONE_SIDED else pair_schema(case.left.schema, right_of(case))


class Lines:
    """Output rows of the law as comparable lines: all columns, or positions."""

    def __init__(self, case: Case, how: str, output: str = "pairs") -> None:
        self.case, self.how, self.output = case, how, output
        self.numbers: dict[tuple[str, int], int] = {}
        self.next = {"left": 0, "right": 0}

    def arrive(self, step: Step) -> None:
        """Number a row that counts."""
        if step.counted:
            self.numbers[step.side, step.row["id"]] = self.next[step.side]
            self.next[step.side] += 1

    def of(self, row: Output) -> Line:
        left, right = row
        if self.output == "positions":
            of_right = "left" if self.case.self_join else "right"
            return line(
                [
                    None if left is None else self.numbers["left", left["id"]],
                    None if right is None else self.numbers[of_right, right["id"]],
                ]
            )
        no_left, no_right = [None] * self.case.left.num_columns, [None] * len(right_of(self.case))
        parts = [no_left if left is None else left, no_right if right is None else right]
        return line(*(parts[:1] if self.how in ONE_SIDED else parts))

    def groups(self, steps: Iterable[Step]) -> list[list[Line]]:
        """The pairs of each arrival as a group, and each row that it made known behind them."""
        made = []
        for step in steps:
            self.arrive(step)
            pairs = [row for row in step.rows if self.how == "left_semi" or None not in row]
            made.append([self.of(row) for row in pairs])
            made += [[self.of(row)] for row in step.rows if row not in pairs]
        return made


def assert_join_type(
    case: Case,
    how: str,
    order: str,
    *,
    output: str = "pairs",
    between: Callable[[sj.StreamJoin], sj.StreamJoin] = lambda join: join,
    **options: Any,
) -> sj.StreamJoin:
    """Assert that every push, and `finish`, gives the rows of the law; `between` may replace the join after a push."""
    join, oracle = case.join(how=how, order=order, output=output, **options), case.oracle(how)
    expected, schema = Lines(case, how, output), schema_of(case, how)
    for push, steps in zip(case.pushes, case.steps(oracle), strict=True):
        table = join.push(**push.arguments(self_join=case.self_join))
        assert output == "positions" or table.schema.equals(schema), table.schema
        table.validate(full=True)
        assert_groups(lines(table), expected.groups(steps), order)
        join = between(join)
    pending = [expected.of(row) for row in oracle.finish()]
    assert lines(join.finish()) == pending
    assert_counters(join, oracle)
    return join


def assert_counters(join: sj.StreamJoin, oracle: Oracle) -> None:
    """Assert the counters that follow from the law; all rows have been put out."""
    stats, unmatched = join.stats, {"left": 0, "right": 0}
    for side, sides in {"left": ("left", "full", "left_anti"), "right": ("right", "full")}.items():
        if oracle.how in sides:
            unmatched[side] = sum(not kept.matched for kept in oracle.kept[side])
    assert (stats.pairs, stats.late_rows, stats.null_time_rows) == (
        oracle.pairs, oracle.late_rows, oracle.null_time_rows,
    )  # fmt: skip
    assert (stats.unmatched_left, stats.unmatched_right) == (unmatched["left"], unmatched["right"])
