"""A bound predicate against the law, on every pair of two small tables."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.index.answer import MatchPositions
from slidejoin.operator.pair_filter import pair_filter
from slidejoin.predicate.bind import BoundFilter, BoundPredicate, bind
from slidejoin.rows.payload import Payload
from tests.oracle import condition
from tests.render import to_python, to_sql
from tests.tables import rows_of

if TYPE_CHECKING:
    from slidejoin.predicate.ranges.terms import RangeTerm
    from slidejoin.sides import Side

Node = tuple[Any, ...]


def bound(predicate: Node, left: pa.Table, right: pa.Table) -> BoundPredicate:
    """The predicate bound to the schemas of two tables."""
    return bind(to_python(predicate).node, left.schema, right.schema)


def columns(table: pa.Table) -> dict[str, pa.ChunkedArray[Any]]:
    """The columns of a table by name."""
    return dict(zip(table.column_names, table.columns, strict=True))


def chosen(table: pa.Table, rows: Any) -> dict[str, pa.ChunkedArray[Any]]:
    """Some rows of a table, also of the types that Arrow's own take does not know."""
    indices = pa.array(rows, pa.int64())
    return {
        name: column.cast(pa.string()).take(indices).cast(column.type)
        if pa.types.is_string_view(column.type)
        else column.take(indices)
        for name, column in columns(table).items()
    }


def holding(predicate: Node, left: pa.Table, right: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """What the law says: bool (left rows, right rows)."""
    lefts, rights, holds = rows_of(left), rows_of(right), condition(predicate)
    return np.array([[holds(one, two) is True for two in rights] for one in lefts], bool).reshape(
        len(lefts), len(rights)
    )


def in_ranges(term: RangeTerm, probe: Side, left: pa.Table, right: pa.Table) -> tuple[Any, bool]:
    """How many of the probe's ranges hold the stored key: int (left rows, right rows); and whether that is exact."""
    tables: dict[Side, pa.Table] = {"left": left, "right": right}
    stored: Side = "right" if probe == "left" else "left"
    keys = term.key(stored, columns(tables[stored]))
    found = term.ranges(probe, columns(tables[probe]))
    n, m = tables[probe].num_rows, tables[stored].num_rows
    assert keys.values.dtype == found.lo.dtype == found.hi.dtype == np.int64
    assert keys.values.shape == (m,)
    pieces = len(found.lo)
    assert pieces <= term.pieces
    assert found.lo.shape == found.hi.shape == (pieces, n)
    empty = found.lo > found.hi
    assert (found.lo[empty] == 1).all()
    assert (found.hi[empty] == 0).all()
    for before, after in itertools.pairwise(range(pieces)):
        assert (empty[after] | ~empty[before] & (found.hi[before] < found.lo[after])).all()
    inside = (found.lo[:, :, None] <= keys.values) & (keys.values <= found.hi[:, :, None])
    if keys.valid is not None:
        inside &= keys.valid
    counts = inside.sum(axis=0)
    return (counts if probe == "left" else counts.T), term.exact and keys.exact and found.exact


def check(predicate: Node, left: pa.Table, right: pa.Table) -> BoundPredicate:
    """Assert everything that a bound predicate promises about every pair of rows."""
    what = bound(predicate, left, right)
    law = holding(predicate, left, right)
    n, m = law.shape
    if what.never:
        assert not law.any()
        return what
    # as a whole, pair by pair
    rows = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
    pairs = chosen(left, rows[0]), chosen(right, rows[1])
    everything = what.filter(range(len(what.terms)))
    passed = np.ones((n, m), bool)
    for axis, side, table in ((1, "left", left), (0, "right", right)):
        kept = what.prefilter(side, columns(table))
        assert (kept is None) != what.filters_side(side)
        if kept is not None:
            assert kept.shape == (table.num_rows,)
            passed &= np.expand_dims(kept, axis)
    assert not (law & ~passed).any(), "the prefilter drops a pair"
    full = passed.copy()
    if everything is not None:
        holds = everything.holds(*pairs, n * m)
        full &= holds.reshape(n, m)
        check_program(everything, left, right, holds)
    np.testing.assert_array_equal(full, law, to_sql(predicate))
    # by ranges, whichever side probes
    for probe in ("left", "right"):
        ranged, inexact = passed.copy(), []
        for number, term in enumerate(what.terms):
            counts, exact = in_ranges(term, probe, left, right)
            assert counts.max(initial=0) <= 1, "a stored key lies in two ranges"
            assert not (law & (counts == 0)).any(), f"{term.label} loses a pair of {to_sql(predicate)}, {probe} probes"
            ranged &= counts == 1
            if not exact:
                inexact.append(number)
        rest = what.filter(inexact)
        if rest is not None:
            ranged &= rest.holds(*pairs, n * m).reshape(n, m)
        np.testing.assert_array_equal(ranged, law, f"{to_sql(predicate)}, {probe} probes")
    for term in what.terms:
        check_routes(term, law, left, right)
    return what


def check_program(condition: BoundFilter, left: pa.Table, right: pa.Table, holds: Any) -> bool:
    """Assert that a program and what is left to evaluate hold for the same pairs; tell whether there was a program."""
    if condition.program is None:
        assert condition.rest is not None
        return False
    windows: Any = {"left": held(left), "right": held(right)}
    program = pair_filter(condition.program, windows)
    n, m = left.num_rows, right.num_rows
    if program is None:
        return False
    rows = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
    flags = np.empty(n * m, np.bool_)
    if not program.holds(*rows, flags):
        return False
    if condition.rest is not None:
        flags &= condition.rest.holds(chosen(left, rows[0]), chosen(right, rows[1]), n * m)
    np.testing.assert_array_equal(flags, holds)
    # The same from what each probe matched, on either side.
    for role, probes, stored in (("left", n, m), ("right", m, n)):
        found = MatchPositions(
            0,
            probes,
            n * m,
            np.full(probes, stored, np.int32),
            np.tile(np.arange(1, stored + 1), probes).astype(np.uint32),
        )
        its = np.empty(n * m, np.bool_)
        assert program.holds_matches(role, found, (0, probes), 0, (0, 0), its)
        if condition.rest is None:
            np.testing.assert_array_equal(
                its.reshape(probes, stored), holds.reshape(n, m) if role == "left" else holds.reshape(n, m).T
            )
    return True


def held(table: pa.Table) -> SimpleNamespace:
    """A window that has the rows of a table."""
    payload = Payload(table.schema)
    if table.num_rows:
        payload.append_rows(0, table, None, table.num_rows)
    return SimpleNamespace(payload=payload)


def check_routes(term: RangeTerm, law: Any, left: pa.Table, right: pa.Table) -> None:
    """Assert that both rows of every pair have the same route."""
    one, two = term.route("left", columns(left)), term.route("right", columns(right))
    assert (one is None) == (two is None) == (term.shape != "equality")
    if one is None or two is None:
        return
    for keys, axis in ((one, 1), (two, 0)):
        if keys.valid is not None:
            assert not (law & ~np.expand_dims(keys.valid, axis)).any()
    assert not (law & (one.values[:, None] != two.values[None, :])).any()
