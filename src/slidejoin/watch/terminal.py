"""A running join in a terminal, by Rich: what the live page shows, as text."""

from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich import box
from rich.columns import Columns
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from slidejoin.errors import SlideJoinError
from slidejoin.watch.view import LOST_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from threading import Event

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from slidejoin.watch.view import JobBoard

__all__ = ["JobScreen", "show_job"]

COLORS = ("dodger_blue1", "dark_orange", "medium_purple1", "hot_pink", "chartreuse3", "turquoise2")
BLOCKS = " ▁▂▃▄▅▆▇█"
STATES = {"running": "green", "waiting": "yellow", "lost": "red", "ended": "default"}

EVERY = 0.5
"""Seconds between two looks at the board."""

SPARK = 40
"""Points of a line of blocks."""

WIDE = 100
"""Columns of a terminal with room for all figures of a stream."""

BAR = 14
PANEL = 40
"""Columns that a panel needs, to be next to another one."""

MOST_ROWS, MOST_LINES, MOST_BARS = 10, 6, 16
"""Pairs, log lines, and buckets or steps that are shown."""

NONE = "-"
UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
WHOLE = 1e5
"""Counts below it are shown whole."""

BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
TIMES = (
    (172_800.0, 86_400.0, "days"), (7200.0, 3600.0, "h"), (120.0, 60.0, "min"), (1.0, 1.0, "s"), (1e-3, 1e-3, "ms"),
)  # fmt: skip
"""From what time on, a unit, and its name."""


def show_job(board: JobBoard, console: Console, stop: Event, patience: float = LOST_AFTER) -> None:
    """Show a job until `stop` is set; where nothing can be overwritten, once, as soon as there are figures.

    Parameters
    ----------
    board : JobBoard
    console : Console
    stop : threading.Event
    patience : float
        Seconds to wait for figures where there is no terminal: a script has nobody who would end it.

    Raises
    ------
    SlideJoinError
        If there are none after that time.
    """
    if not console.is_terminal or console.is_dumb_terminal:
        deadline = monotonic() + patience
        while not stop.is_set() and (state := board.state()).name == "waiting":
            if monotonic() > deadline:
                msg = (
                    f"{state.text}; waited {patience:g} s. Start the job first, "
                    "or wait longer with --lost-after SECONDS"
                )
                raise SlideJoinError(msg)
            stop.wait(EVERY)
        console.print(JobScreen(board))
        return
    with Live(JobScreen(board), console=console, screen=True, auto_refresh=False) as live:
        while not stop.wait(EVERY):
            live.refresh()


class JobScreen:
    """What a board shows, as something that Rich prints: each time as it is then.

    Parameters
    ----------
    board : JobBoard

    Examples
    --------
    >>> from rich.console import Console
    >>> from slidejoin.watch.view import JobBoard
    >>> Console(width=60).print(JobScreen(JobBoard()))
    waiting: no figures yet
    """

    def __init__(self, board: JobBoard) -> None:
        self._board = board

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        state, details = self._board.state(), self._board.details()
        _, points = self._board.since(0)
        if not details:
            yield Text(f"{state.name}: {plain(state.text)}")
            return
        job = details["job"]
        age = "" if state.age is None else f", figures {seconds(state.age)} old" if state.name != "running" else ""
        head = Text.assemble(
            (plain(job["name"]), "bold"), "  ", ("● ", STATES[state.name]), (state.name, f"bold {STATES[state.name]}"),
            (f"  {plain(state.text)}{age}" if state.name == "lost" else "", "red"),
            (f"   {'on Spark' if job['engine'] == 'spark' else 'in one process'}", "dim"),
        )  # fmt: skip
        condition = Text.assemble(("on ", "dim"), plain(job["on"]), ("  window ", "dim"), plain(job["window"]))
        yield head
        yield condition
        yield self._streams(details, points, options.max_width, running=state.name == "running")
        panels = [panel for panel in (_latency(details, points), _bars(details), _terms(details)) if panel is not None]
        width = options.max_width // max(len(panels), 1)
        yield Columns(panels, width=width, padding=0) if options.max_width >= PANEL * len(panels) else Group(*panels)
        if details["newest"] is not None and details["newest"]["columns"]:
            yield _newest(details["newest"])
        if details["log"]:
            yield _log(details["log"])
        if job["plan"]:
            lines = Text("\n".join(plain(line) for line in job["plan"].splitlines()))
            yield Panel(lines, title="plan", title_align="left", box=box.ROUNDED, border_style="dim")

    def _streams(
        self, details: dict[str, Any], points: Sequence[dict[str, Any]], width: int, *, running: bool
    ) -> RenderableType:
        wide = width >= WIDE
        length = SPARK if wide else max(min(width - 66, SPARK), 8)
        points = points[-length:]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("stream", overflow="fold", min_width=6)
        for name in ("a second", "all", "window", "watermark", *(["behind the clock"] if wide else [])):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("rate" if not wide else f"rate, last {length} documents", no_wrap=True)
        for place, side in enumerate(details["sides"]):
            color = COLORS[place % len(COLORS)]
            watermark = NONE if side["watermark"] is None else moment(side["watermark"])
            table.add_row(
                Text(plain(side["name"]), style=f"bold {color}"),
                count(side["rate"] if running else None), count(side["rows"]),
                count(side["window"]), watermark + (" ◂" if side["holds"] else ""),
                *([seconds(side["lag"])] if wide else []),
                Text(spark(_at(point.get("rows"), place) for point in points), style=color),
            )  # fmt: skip
        pairs = details["pairs"]
        line = Text(spark(point.get("pairs") for point in points), style="green")
        table.add_row(
            Text("pairs", style="bold green"),
            count(pairs["rate"] if running else None),
            count(pairs["total"]),
            *[""] * (3 if wide else 2),
            line,
        )
        marks = [side["watermark"] for side in details["sides"] if side["watermark"] is not None]
        notes = [f"{count(one['rows'])} {one['name']}" for one in details["lost"]]
        notes += [
            f"{count(side['unmatched'])} of {plain(side['name'])} without a match"
            for side in details["sides"]
            if side["unmatched"]
        ]
        if details["feed"]["rows"] is not None:
            notes.append(f"{count(details['feed']['rows'])} rows wait in the queue")
        if len(marks) > 1:
            notes.insert(0, f"gap of the watermarks {seconds(max(marks) - min(marks))}")
        if details["window_bytes"] is not None:
            notes.append(f"windows take {size(details['window_bytes'])}")
        return Group(table, Text("   ".join(notes), style="dim"))


def _latency(details: dict[str, Any], points: Sequence[dict[str, Any]]) -> Panel | None:
    latency = details["latency"]
    if latency is None:
        return None
    table = Table.grid(padding=(0, 2))
    for name, value in latency.items():
        line = Text(spark(point.get(name) for point in points[-16:]), style="cyan")
        table.add_row(name, Text(seconds(value), style="bold"), line)
    what = "a micro-batch" if details["job"]["engine"] == "spark" else "a push"
    return Panel(table, title=f"time of {what}", title_align="left", box=box.ROUNDED, border_style="dim")


def _bars(details: dict[str, Any]) -> Panel | None:
    """Return buckets with their skew; steps of a join that has no buckets."""
    buckets = details["buckets"]
    if buckets:
        largest = max(one["rows"] for one in buckets) or 1.0
        shown = [(one["name"], one["rows"] / largest, count(one["rows"])) for one in buckets[:MOST_BARS]]
        skew = "" if details["skew"] is None else f", skew {details['skew']:.2f}"
        more = "" if len(buckets) <= MOST_BARS else f", {len(buckets) - MOST_BARS} more"
        return _shares(shown, f"rows of buckets{skew}{more}")
    steps = [(one["name"], one["share"], percent(one["share"])) for one in details["steps"][:MOST_BARS]]
    return _shares(steps, "where the time goes") if steps else None


def _terms(details: dict[str, Any]) -> Panel | None:
    terms = [(one["term"], one["passed"], percent(one["passed"])) for one in details["terms"]]
    return _shares(terms, "row pairs that pass a term") if terms else None


def _shares(shown: Iterable[tuple[str, float, str]], title: str) -> Panel:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(width=BAR, no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for name, share, text in shown:
        filled = round(BAR * min(max(share, 0.0), 1.0))
        table.add_row(plain(name), Text("█" * filled, style="cyan"), text)
    return Panel(table, title=title, title_align="left", box=box.ROUNDED, border_style="dim")


def _newest(newest: dict[str, Any]) -> Panel:
    table = Table(box=None, pad_edge=False)
    for name in newest["columns"]:
        table.add_column(Text(plain(name)), no_wrap=True, overflow="ellipsis", header_style="dim")
    for row in list(reversed(newest["rows"]))[:MOST_ROWS]:
        table.add_row(*(Text(plain(value)) for value in row))
    return Panel(table, title="newest pairs", title_align="left", box=box.ROUNDED, border_style="dim")


def _log(lines: Sequence[dict[str, Any]]) -> Panel:
    styles = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}
    shown = [
        Text.assemble(
            (f"{moment(line['time'])} ", "dim"), (f"{plain(line['level']).lower()} ", styles.get(line["level"], "dim")),
            plain(line["text"]),
        )
        for line in list(reversed(lines))[:MOST_LINES]
    ]  # fmt: skip
    return Panel(Group(*shown), title="log", title_align="left", box=box.ROUNDED, border_style="dim")


# -- text --------------------------------------------------------------------------------------------------------------


def plain(text: str) -> str:
    r"""Return a text without what a terminal would take for a command.

    Examples
    --------
    >>> plain("a\x1b[2Jb\nc")
    'a�[2Jb c'
    """
    return "".join(one if one.isprintable() else " " if one.isspace() else "�" for one in text)


def spark(values: Iterable[float | None]) -> str:
    """Return values as blocks from zero to the largest one; a space where there is none.

    Examples
    --------
    >>> spark([0.0, 1.0, None, 4.0])
    '▁▂ █'
    """
    given = list(values)
    largest = max((value for value in given if value is not None), default=0.0) or 1.0
    return "".join(" " if one is None else BLOCKS[max(round(8 * max(one, 0.0) / largest), 1)] for one in given)


def count(value: float | None) -> str:
    """Return a count in at most seven characters or so.

    Examples
    --------
    >>> count(950.4), count(123456.0), count(None)
    ('950', '123 k', '-')
    """
    if value is None:
        return NONE
    if value < WHOLE:
        return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"  # noqa: PLR2004 - two digits
    unit, name = next(one for one in UNITS if value >= one[0])
    return f"{value / unit:.3g} {name}"


def seconds(value: float | None) -> str:
    """Return a time in the unit that suits it.

    Examples
    --------
    >>> seconds(0.00321), seconds(600.0), seconds(2e-5)
    ('3.21 ms', '10 min', '20 µs')
    """
    if not value:
        return NONE if value is None else "0 s"
    for least, unit, name in TIMES:
        if abs(value) >= least:
            return f"{value / unit:.3g} {name}"
    return f"{value * 1e6:.3g} µs"


def size(value: float) -> str:
    """Return bytes in the unit that suits them.

    Examples
    --------
    >>> size(12_300_000.0)
    '12.3 MB'
    """
    unit, name = next((one for one in BYTES if value >= one[0]), BYTES[-1])
    return f"{value / unit:.3g} {name}"


def percent(share: float) -> str:
    """Return a share as percent.

    Examples
    --------
    >>> percent(0.0123)
    '1.23 %'
    """
    return f"{100 * share:.3g} %"


def moment(time: float) -> str:
    """Return a time of day, in UTC.

    Examples
    --------
    >>> moment(34_200.0)
    '09:30:00'
    """
    return f"{datetime.fromtimestamp(time, UTC):%H:%M:%S}"


def _at(values: Sequence[float | None] | None, place: int) -> float | None:
    return None if values is None or place >= len(values) else values[place]
