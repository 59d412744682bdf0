"""The queries of the case ``terms``: predicates of several terms, their streams, and each one's best form in Polars.

Rows are drawn push by push from a seed. The numbers in a predicate follow from the window, so that a row finds as many
rows as the query says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.random import Generator

    from slidejoin.spec.join_options import Output

    Columns = dict[str, Any]
    """A table's columns by name, as NumPy or Arrow arrays."""

    PolarsJoin = Callable[[Any, Any, Any], Any]
    """Joins two lazy frames, the right one's columns prefixed ``r_``, given the module."""

__all__ = ["QUERIES", "TermQuery", "query_named"]

FILLING = 9 / 8
"""Windows pushed before the clock starts."""

FILLING_PUSH, FILLING_NUMBER = 1 << 16, 1 << 40
"""Rows a side of the pushes that fill the windows, and the number of the first of them."""

SPAN = 1 << 31
"""Values are drawn from 0 to this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TermQuery:
    """A predicate over two streams.

    Attributes
    ----------
    name : str
    terms : callable
        Returns the predicate for a window of so many rows.
    columns : callable
        Draws the columns of both sides for so many rows, and windows of so many.
    polars : callable
        Returns the form for Polars for a window of so many rows.
    window, push : int
        Rows kept of each side, and rows a push, half of them of each side.
    output : str
    against : str or None
        A query that is pushed in turns with this one; the ratio of their speeds is told.
    po_join : bool
        Whether SPO-Join serves it, and is measured.
    duckdb : callable or None
        Returns, for a window of so many rows, the terms that DuckDB joins by, and those of a second query over its
        pairs: given four comparisons, it compares all rows. None where the predicate serves as it is.
    on_spark : bool
        Whether it is measured on Spark too.
    """

    name: str
    terms: Callable[[int], str]
    columns: Callable[[Generator, int, int], tuple[Columns, Columns]]
    polars: Callable[[int], PolarsJoin]
    window: int = 1 << 20
    push: int = 1 << 15
    output: Output = "positions"
    against: str | None = None
    po_join: bool = False
    duckdb: Callable[[int], tuple[str, str]] | None = None
    on_spark: bool = False

    @property
    def on(self) -> str:
        """The predicate."""
        return self.terms(self.window)

    @property
    def size(self) -> int:
        """Rows of a push on each side."""
        return self.push // 2

    @property
    def count_window(self) -> CountWindow:
        """The window as slidejoin takes it."""
        return CountWindow(self.window)

    def scaled(self, share: float) -> TermQuery:
        """Return the query with another window, and with pushes that are no larger than it."""
        window = max(2, round(self.window * share))
        return replace(self, window=window, push=min(self.push, 2 * window))

    def tables(self, number: int, rows: int, seed: int) -> tuple[pa.Table, pa.Table]:
        """Return push `number` of the streams, of so many rows a side."""
        random = np.random.Generator(np.random.Philox(key=np.array([seed, number], np.uint64)))
        left, right = self.columns(random, rows, self.window)
        return pa.table(left), pa.table(right)

    def filling(self, seed: int) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Return the pushes that fill the windows, and a little more, so that old rows leave."""
        size = min(self.window, FILLING_PUSH)
        for number in range(round(-(-FILLING * self.window // size))):
            yield self.tables(FILLING_NUMBER + number, size, seed)


# -- one equality, one band, for comparison ----------------------------------------------------------------------------


def _both(draw: Callable[[], Columns]) -> tuple[Columns, Columns]:
    return draw(), draw()


def _keys(random: Generator, rows: int, window: int) -> tuple[Columns, Columns]:
    """Draw keys of which there are two each in a window."""
    return _both(lambda: {"k": random.integers(0, max(window // 2, 1), rows)})


def _prices(random: Generator, rows: int, _window: int) -> tuple[Columns, Columns]:
    return _both(lambda: {"p": random.integers(0, SPAN, rows)})


def _half(window: int, matches: float, share: float = 1.0) -> int:
    """Return the half width of a band in which a row finds so many rows of that share of the window."""
    return max(0, round((matches * SPAN / (window * share) - 1) / 2))


def _in_band(name: str, half: int) -> str:
    return f"l.{name} BETWEEN r.{name} - {half} AND r.{name} + {half}"


def _band(window: int) -> str:
    return _in_band("p", _half(window, 2.0))


def _polars_band(half: int, name: str = "p") -> PolarsJoin:
    def join(pl: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
        low, high = pl.col(f"r_{name}") - half, pl.col(f"r_{name}") + half
        right = right.with_columns(low=low, high=high)
        return left.join_where(right, pl.col(name) >= pl.col("low"), pl.col(name) <= pl.col("high"))

    return join


def _polars_equal(*names: str) -> PolarsJoin:
    return lambda _pl, left, right: left.join(right, left_on=list(names), right_on=[f"r_{name}" for name in names])


# -- equalities and a range --------------------------------------------------------------------------------------------


def _symbols(random: Generator, rows: int, _window: int, *, count: int, text: bool = False) -> tuple[Columns, Columns]:
    """Draw symbols, as numbers or as text, and prices."""

    def side() -> Columns:
        symbol = random.integers(0, count, rows)
        return {"s": _named(symbol) if text else symbol, "p": random.integers(0, SPAN, rows)}

    return _both(side)


def _symbol_half(window: int, count: int) -> int:
    return _half(window, 1.5, 1 / count)


def _symbol_band(window: int, *, count: int) -> str:
    return f"l.s = r.s AND {_in_band('p', _symbol_half(window, count))}"


def _polars_symbol_band(window: int, *, count: int) -> PolarsJoin:
    """Return the hash join and a filter; for few symbols the band and a filter, which has fewer candidates."""
    half = _symbol_half(window, count)

    def join(pl: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
        if count * count < window:
            return _polars_band(half)(pl, left, right).filter(pl.col("s") == pl.col("r_s"))
        near = (pl.col("p") - pl.col("r_p")).abs() <= half
        return _polars_equal("s")(pl, left, right).filter(near)

    return join


SYMBOLS_ON_SPARK = 1_000
"""Of fewer symbols the query is measured on Spark too."""


def _symbol_query(name: str, count: int, *, text: bool = False) -> TermQuery:
    return TermQuery(
        name=name,
        terms=partial(_symbol_band, count=count),
        columns=partial(_symbols, count=count, text=text),
        polars=partial(_polars_symbol_band, count=count),
        against="one band",
        on_spark=count < SYMBOLS_ON_SPARK,
    )


ONE_SIDED_SYMBOLS = 10_000


def _ahead(window: int) -> int:
    """Return by how much the left price must be lower, so that ten rows of a symbol match on average."""
    # Of two uniform prices one is lower by the share d of the span in (1 - d)^2 / 2 of the cases.
    share = 1.0 - min(1.0, (2 * 10.0 * ONE_SIDED_SYMBOLS / window) ** 0.5)
    return int(share * SPAN)


def _one_sided(window: int) -> str:
    return f"l.s = r.s AND l.p < r.p - {_ahead(window)}"


def _polars_one_sided(window: int) -> PolarsJoin:
    def join(pl: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
        return _polars_equal("s")(pl, left, right).filter(pl.col("p") < pl.col("r_p") - _ahead(window))

    return join


def _equalities(random: Generator, rows: int, window: int, *, names: str) -> tuple[Columns, Columns]:
    """Draw columns of few values, of whose combinations there are about two rows each in a window."""
    values = max(1, round((window / 2) ** (1 / len(names))))
    return _both(lambda: {name: random.integers(0, values, rows) for name in names})


def _equality_query(name: str, names: str) -> TermQuery:
    return TermQuery(
        name=name,
        terms=lambda _window: " AND ".join(f"l.{one} = r.{one}" for one in names),
        columns=partial(_equalities, names=names),
        polars=lambda _window: _polars_equal(*names),
        against="one equality",
    )


def _texts(random: Generator, rows: int, window: int) -> tuple[Columns, Columns]:
    """Draw texts of a dozen letters, of which there are two each in a window."""
    return _both(lambda: {"name": _named(random.integers(0, max(window // 2, 1), rows))})


def _named(numbers: Any) -> pa.Array[Any]:  # noqa: ANN401
    return pa.array(np.char.add("user ", numbers.astype(np.str_))) if len(numbers) else pa.array([], pa.string())


# -- two ranges --------------------------------------------------------------------------------------------------------


def _quotes(random: Generator, rows: int, _window: int) -> tuple[Columns, Columns]:
    """Draw prices, and quotes whose two prices differ by up to 1,000."""
    bid = random.integers(0, SPAN, rows)
    return {"price": random.integers(0, SPAN, rows)}, {"bid": bid, "ask": bid + random.integers(0, 1000, rows)}


def _quote_half(window: int) -> int:
    return max(0, round((1.5 * SPAN / window - 500) / 2))


def _quoted(window: int) -> str:
    half = _quote_half(window)
    return f"l.price BETWEEN r.bid - {half} AND r.ask + {half}"


def _polars_quoted(window: int) -> PolarsJoin:
    half = _quote_half(window)

    def join(pl: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
        right = right.with_columns(low=pl.col("r_bid") - half, high=pl.col("r_ask") + half)
        return left.join_where(right, pl.col("price") >= pl.col("low"), pl.col("price") <= pl.col("high"))

    return join


def _opposed(random: Generator, rows: int, window: int, *, matches: float) -> tuple[Columns, Columns]:
    """Draw two columns that rise together but for a noise that makes one larger and one smaller so often."""
    # Two noises, uniform to both sides of 0, differ by a third of their range on average, half of it upward.
    noise = max(1, round(3 * matches * SPAN / window))

    def side() -> Columns:
        x = random.integers(0, SPAN, rows)
        return {"x": x, "y": x + random.integers(-noise, noise + 1, rows)}

    return _both(side)


INEQUALITIES = "l.x > r.x AND l.y < r.y"
ONE_FOR_ALL = f"l.a < r.a AND {INEQUALITIES}"


def _behind(random: Generator, rows: int, window: int) -> tuple[Columns, Columns]:
    """Draw the same, and before them a column that is always smaller on the left."""
    left, right = _opposed(random, rows, window, matches=5.0)
    low, high = random.integers(0, SPAN, (2, rows))
    return {"a": low - SPAN} | left, {"a": high} | right


def _polars_one_for_all(pl: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
    # Collected first: as one query, Polars joins by the comparison that all pairs pass.
    return _polars_inequalities(pl, left, right).collect().lazy().filter(pl.col("a") < pl.col("r_a"))


def _polars_inequalities(pl: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
    return left.join_where(right, pl.col("x") > pl.col("r_x"), pl.col("y") < pl.col("r_y"))


def _counted(name: str, window: int) -> TermQuery:
    """Return the count of rows that go further and cost less, 87 of 100,000 as with a city's taxi trips."""
    return TermQuery(
        name=name,
        terms=lambda _window: INEQUALITIES,
        columns=partial(_opposed, matches=87e-5 * window),
        polars=lambda _window: _polars_inequalities,
        window=window,
        output="count",
        po_join=True,
    )


def _places(random: Generator, rows: int, _window: int) -> tuple[Columns, Columns]:
    return _both(lambda: {name: random.integers(0, SPAN, rows) for name in "xy"})


def _square_half(window: int) -> int:
    """Return half the side of a square in which two rows of the window lie."""
    return int(SPAN * float(2 / window) ** 0.5 / 2)


def _two_bands(window: int) -> tuple[str, str]:
    half = _square_half(window)
    return _in_band("x", half), _in_band("y", half)


def _polars_two_bands(window: int) -> PolarsJoin:
    """Return one band and a filter: of four comparisons ``join_where`` takes minutes."""
    half = _square_half(window)

    def join(pl: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
        return _polars_band(half, "x")(pl, left, right).filter((pl.col("y") - pl.col("r_y")).abs() <= half)

    return join


FOUR = 4.0
"""Rows in the band of a band and an inequality, of which half match."""


def _band_and_less(window: int) -> tuple[str, str]:
    return _in_band("x", _half(window, FOUR)), "l.y < r.y"


def _polars_band_and_less(window: int) -> PolarsJoin:
    def join(pl: Any, left: Any, right: Any) -> Any:  # noqa: ANN401
        return _polars_band(_half(window, FOUR), "x")(pl, left, right).filter(pl.col("y") < pl.col("r_y"))

    return join


def _two_ranges(name: str, terms: Callable[[int], tuple[str, str]], polars: Callable[[int], PolarsJoin]) -> TermQuery:
    return TermQuery(
        name=name,
        terms=lambda window: " AND ".join(terms(window)),
        columns=_places,
        polars=polars,
        duckdb=terms,
    )


QUERIES = (
    TermQuery(name="one band", terms=_band, columns=_prices, polars=lambda window: _polars_band(_half(window, 2.0))),
    TermQuery(
        name="one equality", terms=lambda _window: "l.k = r.k", columns=_keys, polars=lambda _window: _polars_equal("k")
    ),
    _symbol_query("100 symbols and a band", 100),
    _symbol_query("10 thousand symbols and a band", 10_000),
    _symbol_query("1 million symbols and a band", 1_000_000),
    TermQuery(
        name="10 thousand symbols and a one-sided range",
        terms=_one_sided,
        columns=partial(_symbols, count=ONE_SIDED_SYMBOLS),
        polars=_polars_one_sided,
    ),
    _equality_query("two equalities", "ab"),
    _equality_query("three equalities", "abc"),
    TermQuery(
        name="strings", terms=lambda _window: "l.name = r.name", columns=_texts, polars=lambda _w: _polars_equal("name")
    ),
    _symbol_query("10 thousand strings and a band", 10_000, text=True),
    TermQuery(name="price between two columns", terms=_quoted, columns=_quotes, polars=_polars_quoted, on_spark=True),
    TermQuery(
        name="two inequalities (5 pairs a row)",
        terms=lambda _window: INEQUALITIES,
        columns=partial(_opposed, matches=5.0),
        polars=lambda _window: _polars_inequalities,
        po_join=True,
        on_spark=True,
    ),
    TermQuery(
        name="three inequalities, all pass the first (5 pairs a row)",
        terms=lambda _window: ONE_FOR_ALL,
        columns=_behind,
        polars=lambda _window: _polars_one_for_all,
        duckdb=lambda _window: (INEQUALITIES, "l.a < r.a"),
        on_spark=True,
    ),
    TermQuery(
        name="two inequalities (1000 pairs a row)",
        terms=lambda _window: INEQUALITIES,
        columns=partial(_opposed, matches=1000.0),
        polars=lambda _window: _polars_inequalities,
        push=1 << 12,
        po_join=True,
    ),
    TermQuery(
        name="two inequalities (256 rows a push)",
        terms=lambda _window: INEQUALITIES,
        columns=partial(_opposed, matches=5.0),
        polars=lambda _window: _polars_inequalities,
        push=256,
        po_join=True,
    ),
    _counted("counts of two inequalities (100 thousand rows)", 100_000),
    _counted("counts of two inequalities (2^20 rows)", 1 << 20),
    _two_ranges("two bands", _two_bands, _polars_two_bands),
    _two_ranges("a band and an inequality", _band_and_less, _polars_band_and_less),
)
"""All of them, the two of one term first."""


def query_named(name: str) -> TermQuery:
    """Return the query of that name."""
    return next(query for query in QUERIES if query.name == name)
