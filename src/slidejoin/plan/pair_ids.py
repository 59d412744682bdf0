"""Ids of pairs: 128 bits from the values of both rows, the same in every run, strategy, micro-batch and engine.

Each input row gets two numbers of 64 bits before the join, which pass through it as columns; behind it the id is made
of those of both rows. So an id depends on nothing but the two rows. All are the XXH64 of Spark's function ``xxhash64``,
of a number for each of the two, and then of each value and whether it is NULL, which that function passes over:
Spark computes it on executors, `pipeline.pair_ids` in a process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slidejoin.errors import ArgumentError, PredicateError
from slidejoin.plan.output_schema import one_name
from slidejoin.spec.aggregate import Aggregate
from slidejoin.spec.join_options import ONE_SIDED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slidejoin.spec.join_options import JoinType

__all__ = ["NUMBERS", "PairIdColumn"]

NUMBERS = ("__slidejoin_row_1", "__slidejoin_row_2")
"""Columns of the numbers of a row."""


class PairIdColumn:
    """The column of ids of a join's result.

    Parameters
    ----------
    name : str

    Raises
    ------
    ArgumentError
        If it is no name.
    """

    row_bytes = 16
    """What the numbers add to a row."""

    def __init__(self, name: object) -> None:
        if not isinstance(name, str) or not name.strip():
            msg = f"pair_id must be the name of a column, got {name!r}"
            raise ArgumentError(msg)
        self.name = name

    @staticmethod
    def selected(
        select: Iterable[str] | None, aliases: tuple[str, str], how: JoinType, output: object
    ) -> Iterable[str] | None:
        """Return the columns to select of a join, the numbers among them; None for all."""
        if select is None or isinstance(select, str):  # the latter is refused with the other arguments
            return select
        sides = 1 if how in ONE_SIDED or isinstance(output, Aggregate) else 2
        return [*select, *(f"{alias}.{name}" for alias in aliases[:sides] for name in NUMBERS)]

    @staticmethod
    def numbers(suffix: str) -> tuple[str, ...]:
        """Return the columns of the numbers of both rows in the result of a join."""
        return (*NUMBERS, *(f"{name}{suffix}" for name in NUMBERS))

    def check_free(self, names: Iterable[str], *, fold: bool = False) -> None:
        """Refuse a result that has a column of that name; with `fold` case does not count.

        Raises
        ------
        PredicateError
            If it has.
        """
        if one_name(self.name, fold=fold) in {one_name(name, fold=fold) for name in names}:
            msg = (
                f"pair_id={self.name!r}: the result has a column of that name; give another, or leave it out with "
                "select="
            )
            raise PredicateError(msg)
