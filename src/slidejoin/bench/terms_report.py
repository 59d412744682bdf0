"""What the case ``terms`` reports: the speed of every tool on every query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slidejoin.bench.report import Percentiles, Report, Spread, millions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slidejoin.bench.terms_on_spark import SparkSpeed

__all__ = ["SMALL_PUSH", "QuerySpeed", "TermsReport", "ToolSpeed"]

SMALL_PUSH = 1 << 10
"""Rows of a push below which its time is told, too."""


@dataclass(frozen=True, slots=True)
class ToolSpeed:
    """Another tool on a query.

    Attributes
    ----------
    tool, version : str
    rows_per_second : float or None
        Of all measured pushes by their time; None if the tool is not installed.
    ratio : float or None
        Speed of slidejoin in multiples of it.
    pushes : int
        Measured pushes.
    """

    tool: str
    version: str
    rows_per_second: float | None
    ratio: float | None
    pushes: int

    def text(self) -> str:
        """Return the line for people."""
        label = f"{self.tool} {self.version}".strip()
        if self.rows_per_second is None or self.ratio is None:
            return f'  {label:<23} not installed: pip install "slidejoin[bench]"'
        speed = millions(self.rows_per_second)
        return f"  {label:<23} {speed:>8} rows/s   slidejoin is {self.ratio:,.2g} times as fast ({self.pushes} pushes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySpeed:
    """All tools on a query.

    Attributes
    ----------
    name, on, output : str
    window, push : int
        Rows of each side's window, and of a push on both sides.
    rows_per_second : float
        Of slidejoin: all measured rows by the time of all pushes, rare slow ones included.
    pushes : Spread
        The same over the pushes, one by one.
    microseconds : Percentiles
        Of slidejoin's pushes.
    pairs_per_row, pairs_per_second : float
    window_bytes_per_row : float
        Rows and index by the join's own count, for each stored row.
    against : str or None
        The query that was pushed in turns with this one.
    ratio : float or None
        Speed in multiples of that of `against`: the median over the turns.
    tools : tuple of ToolSpeed
    """

    name: str
    on: str
    output: str
    window: int
    push: int
    rows_per_second: float
    pushes: Spread
    microseconds: Percentiles
    pairs_per_row: float
    pairs_per_second: float
    window_bytes_per_row: float
    against: str | None
    ratio: float | None
    tools: tuple[ToolSpeed, ...]

    def lines(self) -> Iterator[str]:
        """Return the lines for people."""
        pushes, times = self.pushes, self.microseconds
        yield f"{self.name}: {self.on}"
        yield (
            f"  windows of {self.window:,} rows, {self.push:,} rows a push, {self.output}, {self.pairs_per_row:,.3g} "
            f"pairs a row, {self.window_bytes_per_row:.0f} bytes a stored row"
        )
        against = "" if self.ratio is None else f"; {self.ratio:.2f} of {self.against} in turns"
        yield (
            f"  {'slidejoin':<23} {millions(self.rows_per_second):>8} rows/s   "
            f"middle half {millions(pushes.lower_quartile)} to "
            f"{millions(pushes.upper_quartile)}, {millions(self.pairs_per_second)} pairs/s{against}"
        )
        yield from (one.text() for one in self.tools)
        if self.push < SMALL_PUSH:
            yield f"  a push takes {times.p50:,.0f} µs (p50), {times.p99:,.0f} (p99), {times.p99_9:,.0f} (p99.9)"
        yield ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsReport(Report):
    """All tools on all queries."""

    threads: int
    seed: int
    scale: float
    queries: tuple[QuerySpeed, ...]
    on_spark: tuple[SparkSpeed, ...] = ()

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        scale = "" if self.scale == 1 else f", windows {self.scale:g} times as large"
        yield f"case {self.case}: {self.threads} threads, seed {self.seed}{scale}; all tools found the same pairs"
        yield ""
        for one in self.queries:
            yield from one.lines()
        tools = list(dict.fromkeys(tool.tool for one in self.queries for tool in one.tools))
        yield f"| {' | '.join(['rows a second', 'slidejoin', *tools])} |"
        yield "| --- | --- |" + " --- |" * len(tools)
        for one in self.queries:
            speeds = {tool.tool: tool.rows_per_second for tool in one.tools}
            cells = ["" if (speed := speeds.get(tool)) is None else f"{speed:,.0f}" for tool in tools]
            yield f"| {' | '.join([one.name, f'{one.rows_per_second:,.0f}', *cells])} |"
        yield ""
        yield from (one.text() for one in self.on_spark)
