"""The four queries of the comparison: what they are, and their rows.

Both sides have a row every two milliseconds, in turns, so that no two event times are equal and each tool agrees what
the nearest one is. Times are whole milliseconds. A pair of the first three queries is at most `WINDOW` apart, in either
direction; the as-of join takes the last right row of the same key that is no older than `WINDOW`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator

__all__ = ["EVERY", "QUERIES", "WINDOW", "Query", "query_named"]

EVERY, WINDOW = 2, 10_000
"""Milliseconds between two rows of a side, and of the window."""

PRICES = 1_000_000
"""Prices are from 0 to below it; a band is 101 of them wide, so that a row has a pair or two."""

KEYS, WALK = 1_000, 200

NOISE = 600
"""How far air times are above distances at most: with it a row has about a pair."""


@dataclass(frozen=True, slots=True)
class Query:
    """A join of two streams.

    Attributes
    ----------
    name, what : str
        What it is called, and in words.
    on : str
        The predicate, without the window.
    left, right : callable
        Draw the columns of so many rows; ``id`` and ``ts`` are those of every side.
    """

    name: str
    what: str
    on: str
    left: Callable[[Generator, int], dict[str, np.ndarray]]
    right: Callable[[Generator, int], dict[str, np.ndarray]]

    def tables(self, rows: int, seed: int = 1) -> tuple[pa.Table, pa.Table]:
        """Return both sides; the rows of a smaller number are the first ones of a larger.

        Examples
        --------
        >>> left, right = query_named("band").tables(2)
        >>> left["ts"].to_pylist(), right["ts"].to_pylist(), left.column_names
        ([0, 2], [1, 3], ['id', 'price', 'ts'])
        """
        sides = []
        for place, columns in enumerate((self.left, self.right)):
            random = np.random.default_rng((seed, place))
            drawn = columns(random, rows)
            number = np.arange(rows, dtype=np.int64)
            whole: dict[str, Any] = {"id": number, **drawn, "ts": number * EVERY + place}
            sides.append(pa.table(whole))
        return sides[0], sides[1]


def _columns(random: Generator, rows: int, *highest: int) -> list[np.ndarray]:
    """Return columns of whole numbers below some, row by row, so that more rows have the same first ones."""
    return list(random.integers(0, np.array(highest), (rows, len(highest)), dtype=np.int64).T)


def _price(random: Generator, rows: int) -> dict[str, np.ndarray]:
    (price,) = _columns(random, rows, PRICES)
    return {"price": price}


def _trade(random: Generator, rows: int) -> dict[str, np.ndarray]:
    key, price = _columns(random, rows, KEYS, WALK)
    return {"k": key, "price": key * WALK + price}


def _quote(random: Generator, rows: int) -> dict[str, np.ndarray]:
    key, bid = _columns(random, rows, KEYS, WALK)
    return {"k": key, "bid": key * WALK + bid - WALK // 10, "ask": key * WALK + bid + WALK // 10}


def _flight(random: Generator, rows: int) -> dict[str, np.ndarray]:
    distance, noise = _columns(random, rows, PRICES, NOISE)
    return {"distance": distance, "air_time": distance + noise}


def _reading(random: Generator, rows: int) -> dict[str, np.ndarray]:
    key, reading = _columns(random, rows, KEYS, PRICES)
    return {"k": key, "reading": reading}


QUERIES = (
    Query("band", "a band", "l.price BETWEEN r.price - 50 AND r.price + 50", _price, _price),
    Query("equality_band", "an equality and a band", "l.k = r.k AND l.price BETWEEN r.bid AND r.ask", _trade, _quote),
    Query(
        "inequalities",
        "two inequalities",
        "l.distance > r.distance AND l.air_time < r.air_time",
        _flight,
        _flight,
    ),
    Query("asof", "as-of: the last one of a key", "l.k = r.k", _reading, _reading),
)


def query_named(name: str) -> Query:
    """Return the query of that name.

    Raises
    ------
    ValueError
        If there is none.
    """
    for query in QUERIES:
        if query.name == name:
            return query
    msg = f"query {name}: expected one of {', '.join(query.name for query in QUERIES)}"
    raise ValueError(msg)
