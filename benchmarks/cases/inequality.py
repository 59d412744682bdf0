"""The case ``inequality``: SPO-Join's figures on this machine, its baselines on the same windows, and `auto`.

Windows are full before the clock starts, and the mutable part holds half of what is merged at once. Every join counts
the matches of the same rows, as the paper's Q2 does; other counts than po_join's are an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.cases.paper_figures import (
    AUTO,
    CHAIN,
    CSS_BITS,
    CSS_HASHES,
    FIGURES,
    MUTABLE_HASHES,
    NESTED,
    OURS,
    PAPERS_WAY,
    Reported,
)
from benchmarks.cases.paper_streams import QUERIES
from slidejoin.bench.case import at_least, choice
from slidejoin.bench.report import Report, millions
from slidejoin.errors import ConfigError, SlideJoinError
from slidejoin.operator.join_operator import JoinOperator
from slidejoin.papers.cell_join.options import NestedLoop
from slidejoin.papers.pim_tree.options import ChainedBPlusTree
from slidejoin.papers.spo_join.options import POJoin
from slidejoin.plan.plan import make_plan
from slidejoin.spec.join_spec import make_join_spec
from slidejoin.spec.window import CountWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from benchmarks.cases.paper_figures import Setting
    from benchmarks.cases.paper_streams import PaperQuery
    from slidejoin.options import Options
    from slidejoin.sides import Side

__all__ = ["InequalityReport", "JoinSpeed", "run"]

PUSH = 1 << 12
FEW = 64
"""Rows of the first push, whose counts are compared, and of a second: the slowest joins take seconds for so many."""

GROWTH = 8
"""The mutable part grows by this part of what is merged at most while a join is measured, or by one push, so that it is
about as large for joins that are measured with few rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSpeed:
    """A join in one window of a figure.

    Attributes
    ----------
    figure, query, join : str
    slide, window, sub_intervals : int
        As of the figure.
    rows : int
        Measured.
    rows_per_second : float
        Of the whole join.
    ratio : float
        Speed of po_join in multiples of it.
    mutable, immutable : float or None
        Microseconds of all threads that a row takes in each part; None of a join without such parts.
    merge : float or None
        Milliseconds of a merge of one part of a slide interval.
    matches_per_row : float
    checked_rows : int
        Rows whose counts are po_join's.
    reported : Reported
        By the paper.
    """

    figure: str
    query: str
    join: str
    slide: int
    window: int
    sub_intervals: int
    rows: int
    rows_per_second: float
    ratio: float
    mutable: float | None
    immutable: float | None
    merge: float | None
    matches_per_row: float
    checked_rows: int
    reported: Reported


@dataclass(frozen=True, slots=True, kw_only=True)
class InequalityReport(Report):
    """All joins of all figures."""

    threads: int
    push: int
    speeds: tuple[JoinSpeed, ...]

    def lines(self) -> Iterator[str]:
        """Return the measurements as lines of text."""
        yield f"case {self.case}: {self.threads} threads, counts as output, at most {self.push:,} rows a push"
        yield "times of a row in each part, and of a merge, beside po_join's; in brackets what the paper reports"
        for figure in dict.fromkeys(one.figure for one in self.speeds):
            yield ""
            yield f"figure {figure}: {FIGURES[figure].shows}"
            yield (
                f"  {'':<26}{'rows/s':>10}{'po_join is':>20}{'immutable':>14}{'':18}{'mutable':>14}{'':18}{'merge':>14}"
            )
            speeds = [one for one in self.speeds if one.figure == figure]
            for place in dict.fromkeys((one.query, one.slide, one.sub_intervals) for one in speeds):
                here = [one for one in speeds if (one.query, one.slide, one.sub_intervals) == place]
                ours = here[0]
                parts = "" if ours.sub_intervals == 1 else f" in {ours.sub_intervals} parts"
                yield (
                    f"  {ours.query}: {QUERIES[ours.query].on}; slide {ours.slide:,}{parts}, "
                    f"window {ours.window:,}, {ours.matches_per_row:,.0f} matches a row, "
                    f"{ours.checked_rows} rows checked"
                )
                yield from (_line(one, ours).rstrip() for one in here)
        yield ""


def _line(one: JoinSpeed, ours: JoinSpeed) -> str:
    """Return the line of a join, beside po_join."""
    said = one.reported
    line = f"    {one.join:<24}{millions(one.rows_per_second):>10}{_times(one.ratio, said.whole):>20}"
    for mine, took, reported, unit in (
        (ours.immutable, one.immutable, said.immutable, "us"),
        (ours.mutable, one.mutable, said.mutable, "us"),
        (ours.merge, one.merge, said.merge, "ms"),
    ):
        beside = "" if took is None else _times(took / mine if mine else 0.0, reported)
        line += f"{'':>32}" if took is None else f"{took:11,.1f} {unit}{beside:>18}"
    return line


def _times(ratio: float, reported: str | None) -> str:
    return (f"{ratio:,.1f}x" if ratio >= 1 else f"{ratio:.2f}x") + ("" if reported is None else f" ({reported})")


def algorithms_of(setting: Setting) -> dict[str, str | Options]:
    """Return every join that can be measured in a window, by its name in the report."""

    def po_join(**changed: Any) -> POJoin:
        return POJoin(slide_interval=setting.slide, sub_intervals=setting.sub_intervals, **changed)

    return {
        OURS: po_join(),
        PAPERS_WAY: po_join(tuple_by_tuple=True),
        CSS_BITS: po_join(immutable="css_bit_set"),
        CSS_HASHES: po_join(immutable="css_hash_set", mutable="hash_set"),
        MUTABLE_HASHES: po_join(mutable="hash_set"),
        CHAIN: ChainedBPlusTree(chain_length=setting.intervals + 1),
        NESTED: NestedLoop(),
        AUTO: "auto",
    }


@dataclass(slots=True)
class Timed:
    """A join with full windows; `seconds` are of its parts since it was made."""

    operator: JoinOperator
    merge: float | None
    rows: int = 0
    matches: int = 0
    took: float = 0.0

    def seconds(self) -> dict[str, float]:
        """Return the time by step of both sides' structures, none where they keep none."""
        total: dict[str, float] = {}
        for window in self.operator.windows.values():
            for step, spent in getattr(window.index, "seconds", {}).items():
                total[step] = total.get(step, 0.0) + spent
        return total

    def restart(self) -> dict[str, float]:
        """Count rows, matches and time from here on; return `seconds`."""
        self.rows, self.matches, self.took = 0, 0, 0.0
        return self.seconds()

    def push(self, tables: dict[Side, pa.Table]) -> NDArray[np.int64]:
        """Push rows, and return how many matches each has."""
        start = perf_counter()
        out = self.operator.push(tables)
        self.took += perf_counter() - start
        counts: NDArray[np.int64] = out["match_count"].to_numpy()
        self.rows, self.matches = self.rows + counts.size, self.matches + int(counts.sum())
        return counts


def _filled(setting: Setting, algorithm: str | Options, threads: int, tables: tuple[pa.Table, ...]) -> Timed:
    """Return a join whose windows hold the given rows."""
    query = QUERIES[setting.query]
    spec = make_join_spec(
        on=query.on, window=CountWindow(setting.window), output="count", select=[], self_join=query.self_join,
        algorithm=algorithm, threads=threads,
    )  # fmt: skip
    left, right = tables[0], tables[-1]
    operator = JoinOperator(make_plan(spec, left.schema, right.schema))
    operator.load(
        {"left": (left, [(0, left.num_rows)], left.num_rows), "right": (right, [(0, right.num_rows)], right.num_rows)}
    )
    merges = sum(getattr(window.index, "merges", 0) for window in operator.windows.values())
    timed = Timed(operator, None)
    spent = timed.seconds().get("merge")
    timed.merge = None if spent is None or not merges else 1e3 * spent / merges
    return timed


class Stream:
    """The rows of a query: those that fill the windows, and then pushes.

    Parameters
    ----------
    query : PaperQuery
    filling, coming : int
        Rows of each side before the first push, and from there on.
    """

    def __init__(self, query: PaperQuery, filling: int, coming: int, seed: int) -> None:
        self.query, self._at = query, filling
        self._tables = query.tables(filling + coming, seed)
        self.filling = tuple(table.slice(0, filling) for table in self._tables)

    def rows(self, first: int, count: int) -> dict[Side, pa.Table]:
        """Return a push of so many rows, all sides together, from that row of them on."""
        each = count // len(self._tables)
        at = self._at + first // len(self._tables)
        left, right = self._tables[0], self._tables[-1]
        return {
            "left": left.slice(at, each),
            "right": right.slice(0, 0) if self.query.self_join else right.slice(at, each),
        }


def measure_setting(
    figure: str, setting: Setting, *, threads: int, push: int, seconds: float, seed: int
) -> list[JoinSpeed]:
    """Measure all joins of a window.

    Raises
    ------
    SlideJoinError
        If one counts other matches than po_join.
    """
    filling = setting.window + setting.threshold // 2
    rows = max(setting.threshold // GROWTH // push, 1) * push
    stream = Stream(QUERIES[setting.query], filling, 2 * FEW + rows, seed)
    found: list[JoinSpeed] = []
    expected: NDArray[np.int64] | None = None
    for name in setting.joins:
        timed = _filled(setting, algorithms_of(setting)[name], threads, stream.filling)
        counts = timed.push(stream.rows(0, FEW))
        expected = counts if expected is None else expected
        if not np.array_equal(counts, expected):
            msg = (
                f"{name} counted {int(counts.sum()):,} matches of the first {counts.size} rows of {setting.query}, "
                f"{setting.joins[0]} {int(expected.sum()):,}; please report it"
            )
            raise SlideJoinError(msg)
        # The first push may have finished what filling left to do. What is slow is known after the second, what is fast
        # goes on in pushes of the full size.
        before = timed.restart()
        timed.push(stream.rows(FEW, FEW))
        done = 2 * FEW
        if timed.took / FEW * push < seconds:
            before = timed.restart()
            while timed.rows < rows and timed.took < seconds:
                timed.push(stream.rows(done, push))
                done += push
        spent = {step: took - before[step] for step, took in timed.seconds().items()}
        parts = {step: 1e6 * spent[step] / timed.rows if step in spent else None for step in ("mutable", "immutable")}
        speed = timed.rows / timed.took
        found.append(
            JoinSpeed(
                figure=figure, query=setting.query, join=name, slide=setting.slide, window=setting.window,
                sub_intervals=setting.sub_intervals, rows=timed.rows, rows_per_second=speed,
                ratio=found[0].rows_per_second / speed if found else 1.0, **parts, merge=timed.merge,
                matches_per_row=timed.matches / timed.rows, checked_rows=counts.size,
                reported=setting.reported.get(name, Reported()),
            )
        )  # fmt: skip
    return found


def run(
    *,
    only: tuple[str, ...] | None = None,
    threads: int = 1,
    push: int = PUSH,
    seconds: float = 3.0,
    quick: bool = False,
    seed: int = 1,
) -> InequalityReport:
    """Measure the figures.

    Parameters
    ----------
    only : tuple of str, optional
        Some of `FIGURES`; all by default.
    threads : int
        Of each join. Times of the parts are those of all threads together.
    push : int
        Rows a push; joins that take too long for as many get `FEW`.
    seconds : float
        For each join in each window, at most.
    quick : bool
        One window of each figure, a twentieth of the size.
    seed : int
        Of the streams.

    Raises
    ------
    SlideJoinError
        If two joins count other matches.
    ConfigError
        For impossible options.
    """
    for name, least in (("threads", 1), ("push", 2)):
        at_least(name, {"threads": threads, "push": push}[name], least)
    if not seconds > 0:
        msg = f"seconds: got {seconds}, expected a number above 0"
        raise ConfigError(msg)
    for name in only or ():
        choice("only", name, FIGURES)
    speeds: list[JoinSpeed] = []
    for figure in only or FIGURES:
        settings = FIGURES[figure].settings
        for setting in (settings[0].scaled(20),) if quick else settings:
            speeds += measure_setting(figure, setting, threads=threads, push=push // 2 * 2, seconds=seconds, seed=seed)
    return InequalityReport(case="inequality", threads=threads, push=push, speeds=tuple(speeds))
