"""Drawings of joins in one process: the join itself, windows, lateness, join types."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from scripts.drawings.canvas import Drawing

if TYPE_CHECKING:
    from collections.abc import Callable

    from scripts.drawings.canvas import Point

__all__ = ["join_types", "the_join", "watermark", "windows"]


def the_join() -> Drawing:
    """Draw the first example: an order meets the quotes of its window whose widened spread has its price."""
    drawing = Drawing(
        "join",
        404,
        "An order joins quotes within a window",
        "An order of price 103 arrives. Of the four quotes before it, one has left the window, one is too dear, and "
        "two match, because the price lies between bid - 5 and ask + 5. Two pairs are emitted.",
    )
    drawing.write_text(24, 36, "l.price BETWEEN r.bid - 5 AND r.ask + 5", size=16, mono=True)
    left, right, top, bottom = 70, 540, 62, 352

    def height(price: float) -> float:
        return bottom - (price - 85) / (155 - 85) * (bottom - top)

    drawing.rect(196, top, right - 196, bottom - top, fill="shade", stroke="", radius=4)
    drawing.write_text(right - 10, top + 20, "the window", size=13, fill="soft", anchor="end")
    drawing.line([(196, top), (196, bottom)], stroke="faint", dash="5 4")
    drawing.line([(left, top), (left, bottom)], stroke="line")
    for tick in (90, 100, 110, 120, 130, 140, 150):
        drawing.line([(left - 5, height(tick)), (left, height(tick))], stroke="line")
        drawing.write_text(left - 10, height(tick) + 4, str(tick), size=12, fill="faint", anchor="end")
    drawing.write_text(24, top + 4, "price", size=12, fill="faint")
    drawing.arrow([(left, bottom), (right + 24, bottom)], stroke="faint")
    drawing.write_text(right + 22, bottom + 18, "time", size=12, fill="faint", anchor="end")

    price = height(103)
    drawing.line([(196, price), (500, price)], stroke="left", thick=2, dash="2 4")
    quotes = [
        ("z", 130, 100, 103, "late"),
        ("a", 240, 98, 101, "pair"),
        ("b", 320, 140, 144, "no"),
        ("c", 400, 104, 106, "pair"),
    ]
    for name, x, bid, ask, kind in quotes:
        gone = kind == "late"
        role, soft = ("faint", "shade") if gone else ("right", "right-soft")
        tall = height(bid - 5) - height(ask + 5)
        drawing.rect(x - 13, height(ask + 5), 26, tall, fill=soft, stroke=role, radius=4, dash="4 3", thick=1.2)
        drawing.rect(x - 13, height(ask), 26, height(bid) - height(ask), fill=role, stroke="", radius=2)
        drawing.write_text(x, height(ask + 5) - 8, f"quote {name}", size=13, fill=role, anchor="middle")
        if kind == "pair":
            drawing.dot(x, price, 8, fill="pair-soft", stroke="pair")
            drawing.dot(x, price, 3, fill="pair")
    drawing.write_text(130, height(93) + 4, "expired", size=12, fill="faint", anchor="middle")
    drawing.write_text(340, height(147) + 4, "+ 5", size=12, fill="right", mono=True)
    drawing.write_text(340, height(142) + 4, "bid to ask: too dear", size=12, fill="soft")
    drawing.write_text(340, height(137) + 4, "- 5", size=12, fill="right", mono=True)
    drawing.dot(500, price, 8, fill="left")
    drawing.write_text(500, price - 18, "order 1", size=13, fill="left", anchor="middle", bold=True)
    drawing.write_text(500, price + 28, "103", size=13, fill="left", anchor="middle", mono=True)

    drawing.arrow([(520, price), (572, price), (572, 188), (592, 188)], stroke="pair", thick=2)
    drawing.write_text(600, 124, "two pairs, at once", size=14, fill="pair", bold=True)
    for place, (quote, bid, ask) in enumerate((("a", 98, 101), ("c", 104, 106))):
        y = 144 + 50 * place
        drawing.rect(600, y, 136, 40, fill="pair-soft", stroke="pair")
        drawing.write_text(612, y + 25, "103", size=14, fill="left", mono=True, bold=True)
        drawing.write_text(648, y + 25, f"{quote}  {bid}\N{EN DASH}{ask}", size=14, fill="right", mono=True)
    drawing.lines_of_text(
        600,
        268,
        [
            "An index over the window",
            "returns these two. It does",
            "not read the others.",
            "",
        ],
        size=12.5,
    )
    drawing.write_text(
        24, 388, "A quote that arrives later probes the window of the orders in the same way.", size=13, fill="soft"
    )
    return drawing


def windows() -> Drawing:
    """Draw the two kinds of windows, with the rows of the page's examples."""
    drawing = Drawing(
        "windows",
        404,
        "Windows counted in rows and windows of time",
        "A count window of two rows: the arriving row sees the last two rows of the other side. A time window of one "
        "minute: the arriving row sees rows whose event times are at most one minute away, whatever the order of "
        "arrival.",
    )
    drawing.write_text(24, 34, "CountWindow(2)", size=15, mono=True, bold=True)
    drawing.write_text(172, 34, "the last two rows of the other side, in order of arrival", size=13, fill="soft")
    drawing.rect(236, 66, 190, 96, fill="shade", stroke="", radius=6)
    drawing.write_text(331, 82, "what row 1 sees", size=12, fill="soft", anchor="middle")
    drawing.write_text(24, 122, "right", size=14, fill="right", bold=True)
    drawing.write_text(24, 178, "left", size=14, fill="left", bold=True)
    drawing.arrow([(90, 117), (680, 117)], stroke="line")
    drawing.arrow([(90, 173), (680, 173)], stroke="line")
    drawing.write_text(734, 122, "arrival", size=12, fill="faint", anchor="end")
    for x, name, role, hollow in ((150, "10", "faint", True), (250, "11", "right", False), (350, "12", "right", False)):
        drawing.rect(x, 101, 60, 32, fill="card", stroke="", radius=4)
        drawing.chip(x, 101, 60, 32, name, role, hollow=hollow)
    drawing.write_text(180, 150, "expired", size=12, fill="faint", anchor="middle")
    drawing.chip(470, 157, 60, 32, "1", "left")
    drawing.arrow([(482, 156), (398, 136)], stroke="pair", thick=2)
    drawing.arrow([(470, 166), (312, 137)], stroke="pair", thick=2)
    drawing.lines_of_text(556, 144, ["right rows that arrive", "later make 11 expire"], size=12, fill="faint")

    drawing.line([(24, 212), (736, 212)], stroke="frame")
    drawing.write_text(24, 244, 'TimeWindow("1 minute", on="ts")', size=15, mono=True, bold=True)
    drawing.write_text(320, 244, "event times at most a minute apart, both ends included", size=13, fill="soft")

    def at(second: float) -> float:
        return 110 + second * 4.2

    drawing.rect(at(1), 262, at(121) - at(1), 92, fill="shade", stroke="", radius=6)
    drawing.write_text(24, 300, "right", size=14, fill="right", bold=True)
    drawing.write_text(24, 344, "left", size=14, fill="left", bold=True)
    drawing.arrow([(90, 295), (656, 295)], stroke="line")
    drawing.arrow([(90, 339), (656, 339)], stroke="line")
    drawing.write_text(734, 300, "event time", size=12, fill="faint", anchor="end")
    for second, name, role, hollow in ((0, "10", "faint", True), (30, "11", "right", False), (108, "?", "right", True)):
        width = 40
        drawing.rect(at(second) - width / 2, 280, width, 30, fill="card", stroke="", radius=4)
        drawing.chip(at(second) - width / 2, 280, width, 30, name, role, hollow=hollow)
    drawing.chip(at(61) - 20, 324, 40, 30, "1", "left")
    drawing.arrow([(at(61) - 16, 324), (at(30) + 8, 312)], stroke="pair", thick=2)
    for second, text in ((0, "12:00:00"), (30, "12:00:30"), (61, "12:01:01"), (121, "12:02:01")):
        drawing.line([(at(second), 362), (at(second), 370)], stroke="faint")
        drawing.write_text(at(second), 386, text, size=12, fill="faint", anchor="middle", mono=True)
    drawing.write_text(at(108) - 26, 287, "may still arrive", size=12, fill="right", anchor="end")
    return drawing


ARRIVALS: list[tuple[str, float]] = [
    ("left", 12),
    ("right", 18),
    ("left", 30),
    ("left", 26),
    ("right", 24),
    ("left", 42),
    ("right", 40),
    ("left", 58),
    ("left", 52),
    ("right", 34),
    ("right", 62),
    ("left", 70),
    ("left", 36),
    ("right", 66),
    ("left", 78),
]
"""Rows in order of arrival: side and event time in seconds."""
LATENESS = 10


def watermarks(arrivals: list[tuple[str, float]], lateness: float) -> tuple[list[dict[str, float]], list[float | None]]:
    """Return each side's watermark, and the join's, after every arrival.

    Examples
    --------
    >>> watermarks([("left", 12), ("right", 18), ("left", 30)], 10)[1]
    [None, 2, 8]
    """
    newest: dict[str, float] = {}
    sides, joins = [], []
    for side, time in arrivals:
        newest[side] = max(time, newest.get(side, time))
        marks = {one: value - lateness for one, value in newest.items()}
        sides.append(marks)
        joins.append(min(marks.values()) if len(marks) > 1 else None)
    return sides, joins


def watermark() -> Drawing:
    """Draw event times over arrivals, the watermark of each side and of the join, and the rows below it."""
    drawing = Drawing(
        "watermark",
        420,
        "The watermark and late rows",
        "Event times in order of arrival. Each side's watermark is its largest event time minus the lateness of ten "
        "seconds. The join's watermark is the smaller of the two. Rows that arrive below it are late.",
    )
    left, right, top, bottom = 84, 548, 40, 360
    step = (right - left) / (len(ARRIVALS) + 0.6)

    def x(place: float) -> float:
        return left + (place + 0.7) * step

    def y(time: float) -> float:
        return bottom - time / 84 * (bottom - top)

    for tick in range(0, 81, 20):
        drawing.line([(left, y(tick)), (right, y(tick))], stroke="frame", thick=1)
        drawing.write_text(
            left - 10,
            y(tick) + 4,
            f"{tick // 60}:{tick % 60:02}",
            size=12,
            fill="faint",
            anchor="end",
            mono=True,
        )
    drawing.write_text(24, 30, "event time", size=12, fill="faint")
    drawing.arrow([(left, bottom), (right + 16, bottom)], stroke="faint")
    drawing.write_text(right + 16, bottom + 20, "order of arrival", size=12, fill="faint", anchor="end")

    sides, joins = watermarks(ARRIVALS, LATENESS)
    for side in ("left", "right"):
        steps = [(place, marks[side]) for place, marks in enumerate(sides) if side in marks]
        drawing.line(_stairs(steps, x, y), stroke=side, thick=1.4, dash="3 3")
    common = [(place, mark) for place, mark in enumerate(joins) if mark is not None]
    stairs = _stairs(common, x, y)
    floor = [(stairs[-1][0], bottom), (stairs[0][0], bottom)]
    area = "M" + " L".join(f"{a:.1f} {b:.1f}" for a, b in [*stairs, *floor]) + " Z"
    drawing.parts.append(f'<path d="{area}" fill="@late-soft@" opacity="0.45"/>')
    drawing.line(stairs, stroke="ink", thick=3)
    before: float | None = None
    for place, ((side, time), mark) in enumerate(zip(ARRIVALS, joins, strict=True)):
        late = before is not None and time < before
        if late:
            drawing.dot(x(place), y(time), 9, fill="card", stroke="late")
        drawing.dot(x(place), y(time), 5, fill=side)
        before = mark
    drawing.write_text(x(12) - 4, y(36) + 26, "late", size=13, fill="late", anchor="middle", bold=True)

    drawing.dot(584, 62, 5, fill="left")
    drawing.write_text(598, 67, "left row", size=13)
    drawing.dot(584, 88, 5, fill="right")
    drawing.write_text(598, 93, "right row", size=13)
    drawing.line([(572, 114), (592, 114)], stroke="left", thick=1.4, dash="3 3")
    drawing.line([(572, 120), (592, 120)], stroke="right", thick=1.4, dash="3 3")
    drawing.write_text(598, 121, "a side's watermark:", size=13)
    drawing.lines_of_text(598, 139, ["largest event time", "minus the lateness"], size=12.5)
    drawing.line([(572, 182), (592, 182)], stroke="ink", thick=3)
    drawing.write_text(598, 187, "the join's watermark:", size=13, bold=True)
    drawing.lines_of_text(598, 205, ["the smaller one, held by", "the side that is behind"], size=12.5)
    drawing.dot(582, 248, 9, fill="card", stroke="late")
    drawing.dot(582, 248, 5, fill="left")
    drawing.write_text(598, 253, "late row: below the", size=13, fill="late", bold=True)
    drawing.write_text(598, 271, "line as it arrives", size=13, fill="late", bold=True)
    drawing.lines_of_text(598, 290, ["dropped and counted,", 'or late="emit"'], size=12.5)
    drawing.write_text(
        24,
        404,
        "Out of order is fine. A row is late only if it is older than what both sides have passed.",
        size=13,
        fill="soft",
    )
    return drawing


def _stairs(steps: list[tuple[int, float]], x: Callable[[float], float], y: Callable[[float], float]) -> list[Point]:
    """Return the corners of a line that goes up in steps."""
    points = [(x(steps[0][0]), y(steps[0][1]))]
    for (_, low), (place, high) in pairwise(steps):
        points += [(x(place), y(low)), (x(place), y(high))]
    return [*points, (x(steps[-1][0] + 0.6), y(steps[-1][1]))]


LEFT_ROWS, RIGHT_ROWS = ("1", "2", "3"), ("a", "b", "c")
MATCHES = (("1", "a"), ("1", "b"), ("3", "b"))
"""Who matches whom in the drawing of join types."""


def rows_of(how: str) -> list[tuple[str | None, str | None]]:
    """Return the rows that a join type emits for the matches of the drawing; None is the missing row.

    Examples
    --------
    >>> rows_of("left_anti"), rows_of("left_semi")
    ([('2', '')], [('1', ''), ('3', '')])
    """
    matched = {one for one, _ in MATCHES}, {other for _, other in MATCHES}
    alone_left = [one for one in LEFT_ROWS if one not in matched[0]]
    alone_right = [other for other in RIGHT_ROWS if other not in matched[1]]
    if how == "left_semi":
        return [(one, "") for one in LEFT_ROWS if one in matched[0]]
    if how == "left_anti":
        return [(one, "") for one in alone_left]
    rows: list[tuple[str | None, str | None]] = list(MATCHES)
    rows += [(one, None) for one in alone_left] if how in {"left", "full"} else []
    rows += [(None, other) for other in alone_right] if how in {"right", "full"} else []
    return rows


def join_types() -> Drawing:
    """Draw which rows each join type emits for the same matches."""
    drawing = Drawing(
        "join-types",
        380,
        "What each join type emits",
        "Left row 1 matches right rows a and b, left row 3 matches b; left row 2 and right row c match nothing. Six "
        "lists show the output of inner, left, right, full, left_semi and left_anti.",
    )
    drawing.write_text(24, 34, "rows and their matches", size=14, bold=True)
    places = {name: 66 + 52 * place for place, name in enumerate(LEFT_ROWS)}
    places |= {name: 66 + 52 * place for place, name in enumerate(RIGHT_ROWS)}
    for one, other in MATCHES:
        drawing.line([(74, places[one] + 16), (150, places[other] + 16)], stroke="pair", thick=2.2)
    for name in LEFT_ROWS:
        drawing.chip(32, places[name], 42, 32, name, "left", size=15)
    for name in RIGHT_ROWS:
        drawing.chip(150, places[name], 42, 32, name, "right", size=15)
    drawing.write_text(53, 240, "left", size=13, fill="left", anchor="middle", bold=True)
    drawing.write_text(171, 240, "right", size=13, fill="right", anchor="middle", bold=True)
    drawing.lines_of_text(
        24,
        276,
        [
            "Pairs are emitted at once.",
            "A row without a match is",
            "emitted as it expires, when",
            "no later row can match it.",
        ],
    )
    drawing.line([(224, 20), (224, 360)], stroke="frame")
    for place, how in enumerate(("inner", "left", "right", "full", "left_semi", "left_anti")):
        x, y = 246 + 168 * (place % 3), 34 + 172 * (place // 3)
        drawing.write_text(x, y, f'"{how}"', size=14, mono=True, bold=True)
        for row, (left, right) in enumerate(rows_of(how)):
            top = y + 12 + 26 * row
            drawing.chip(x, top, 40, 22, left or "NULL", "left" if left else "faint", size=12.5)
            if right != "":
                drawing.chip(x + 44, top, 46, 22, right or "NULL", "right" if right else "faint", size=12.5)
    return drawing
