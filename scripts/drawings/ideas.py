"""Drawings of the ideas of five papers, in the words and colours of the other pages."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np

from scripts.drawings.canvas import Drawing, Point

__all__ = ["borders_after", "cell_join", "pan_join", "pim_tree", "split_join", "spo_join"]


def _tree(drawing: Drawing, top: Point, leaves: list[Point], role: str, *, thick: float = 1.3) -> None:
    """Draw lines from a node to its children."""
    for leaf in leaves:
        drawing.line([top, leaf], stroke=role, thick=thick)


def pim_tree() -> Drawing:
    """Draw a large packed tree with small trees below its ranges."""
    drawing = Drawing(
        "pim-tree",
        412,
        "PIM-Tree: a packed tree, and small trees for new rows",
        "Older rows are in a packed tree that does not change. Each range of its keys has a small B+-tree for new "
        "rows. A probe reads the range in both parts. A merge makes one packed tree of both, and leaves out expired "
        "rows.",
    )
    drawing.write_text(24, 36, "older rows: a packed tree, never changed", size=14, bold=True, fill="right")
    drawing.rect(296, 54, 60, 22, fill="right-soft", stroke="right", radius=3)
    inner = [(76 + 150 * place, 104) for place in range(4)]
    _tree(drawing, (326, 76), [(x + 30, 104) for x, _ in inner], "right")
    for place, (x, y) in enumerate(inner):
        drawing.rect(x, y, 60, 20, fill="right-soft", stroke="right", radius=3)
        _tree(drawing, (x + 30, y + 20), [(x - 38 + 46 * leaf + 20, 146) for leaf in range(3)], "right", thick=1)
        for leaf in range(3):
            left = x - 38 + 46 * leaf
            drawing.rect(left, 146, 42, 18, fill="right-soft", stroke="right", radius=2, thick=1)
            for key in range(4):
                old = (place * 12 + leaf * 4 + key) % 7 == 3  # noqa: PLR2004 - some rows have expired
                drawing.dot(left + 7 + 9.5 * key, 155, 2.6, fill="line" if old else "right")
    drawing.write_text(656, 160, "keys ascend", size=12, fill="faint")
    drawing.arrow([(656, 166), (732, 166)], stroke="faint")

    drawing.write_text(24, 206, "new rows: a small B+-tree for each range", size=14, bold=True, fill="left")
    for place, rows in enumerate((3, 7, 2, 5)):
        x = 38 + 150 * place
        drawing.line([(x + 68, 166), (x + 68, 188)], stroke="line", dash="3 3")
        drawing.line([(x + 68, 212), (x + 68, 222)], stroke="line", dash="3 3")
        drawing.rect(x, 222, 136, 74, fill="card", stroke="left", radius=6, dash="5 3", thick=1.2)
        drawing.rect(x + 52, 230, 32, 14, fill="left-soft", stroke="left", radius=2, thick=1)
        spots = [x + 68 + (leaf - (rows - 1) / 2) * 17 for leaf in range(rows)]
        _tree(drawing, (x + 68, 244), [(spot, 266) for spot in spots], "left", thick=1)
        for spot in spots:
            drawing.dot(spot, 274, 4.5, fill="left")
    drawing.rect(182, 140, 148, 30, fill="", stroke="pair", thick=2.5, radius=7)
    drawing.rect(182, 217, 148, 84, fill="", stroke="pair", thick=2.5, radius=9)
    drawing.write_text(257, 320, "a probe reads its range in both", size=13, fill="pair", anchor="middle", bold=True)
    drawing.lines_of_text(656, 206, ["threads insert", "into different", "trees without", "waiting"], size=12.5)
    drawing.arrow([(636, 300), (636, 340), (560, 340)], stroke="soft")
    drawing.lines_of_text(
        24,
        346,
        [
            "merge, when the small trees have a share of the window: one new packed tree of both parts,",
            "without the expired rows (grey). No row is ever deleted from a tree by itself. The ranges",
            "are chosen again, so that they follow the keys.",
        ],
    )
    return drawing


def split_join() -> Drawing:
    """Draw a row on its way to all cores, one of which stores it."""
    drawing = Drawing(
        "split-join",
        414,
        "SplitJoin: every core probes, one core stores",
        "Row 14 is sent through a tree to four cores. All compare it with the rows that they store. Only core 2 "
        "stores it, because cores take turns. A second tree merges the results in order of arrival.",
    )
    drawing.chip(340, 20, 80, 32, "row 14", "left", size=14)
    drawing.write_text(440, 41, "both streams take one way", size=13, fill="soft")
    _fan(drawing, (380, 52), [(230, 84), (530, 84)], "left")
    for x in (230, 530):
        drawing.rect(x - 34, 84, 68, 22, fill="shade", stroke="line", radius=11)
        drawing.write_text(x, 99, "send", size=12, fill="soft", anchor="middle")
    xs = (60, 230, 400, 570)
    _fan(drawing, (230, 106), [(xs[0] + 70, 140), (xs[1] + 70, 140)], "left")
    _fan(drawing, (530, 106), [(xs[2] + 70, 140), (xs[3] + 70, 140)], "left")
    for core, x in enumerate(xs):
        stores = core == 2  # noqa: PLR2004 - 14 modulo 4
        drawing.rect(
            x, 140, 140, 104, fill="card", stroke="left" if stores else "line", radius=8, thick=2.5 if stores else 1.5
        )
        drawing.write_text(x + 12, 160, f"core {core}", size=13, bold=True)
        drawing.write_text(x + 128, 160, "probe", size=12, fill="pair", anchor="end")
        for row in range(3):
            drawing.chip(x + 12 + 40 * row, 170, 36, 26, str(core + 4 * row), "right", size=12.5)
        drawing.write_text(x + 12, 226, "stores", size=12, fill="soft")
        drawing.chip(
            x + 56,
            208,
            36,
            26,
            "14" if stores else "\N{EN DASH}",
            "left" if stores else "faint",
            size=12.5,
            hollow=not stores,
        )
    for x0, x1 in ((xs[0], xs[1]), (xs[2], xs[3])):
        middle = (x0 + x1) / 2 + 70
        for x in (x0 + 70, x1 + 70):
            drawing.arrow([(x, 244), (middle, 276)], stroke="pair", thick=1.8)
        drawing.rect(middle - 38, 276, 76, 22, fill="pair-soft", stroke="pair", radius=11)
        drawing.write_text(middle, 291, "merge", size=12, fill="pair", anchor="middle")
        drawing.arrow([(middle, 298), (385, 322)], stroke="pair", thick=1.8)
    drawing.rect(300, 322, 170, 26, fill="pair-soft", stroke="pair", radius=6)
    drawing.write_text(385, 340, "pairs in order of arrival", size=13, fill="pair", anchor="middle")
    drawing.write_text(
        24,
        378,
        "Row n is stored by core n mod 4. Each core counts for itself, so there is no coordinator, and cores",
        size=13,
        fill="soft",
    )
    drawing.write_text(24, 395, "do not talk to each other. Each core also expires its own rows.", size=13, fill="soft")
    return drawing


def _fan(drawing: Drawing, start: Point, ends: list[Point], role: str) -> None:
    """Draw arrows from one place to several."""
    for end in ends:
        drawing.arrow([start, end], stroke=role, thick=1.8)


def cell_join() -> Drawing:
    """Draw a window as basic windows, which pointers divide among workers, before and after one more arrives."""
    drawing = Drawing(
        "cell-join",
        384,
        "CellJoin: a window of basic windows, divided by pointers",
        "A window is twelve basic windows. Three workers have four each. When the oldest leaves and a new one is "
        "added, each pointer moves by one basic window, and no row is moved.",
    )
    roles = ("right", "soft", "right")
    for row, (title, first) in enumerate((("before", 1), ("one basic window later", 2))):
        y = 58 + 152 * row
        drawing.write_text(24, y - 22, title, size=14, bold=True)
        for place in range(13):
            x = 110 + 44 * place
            number = place + 1
            inside = first <= number < first + 12
            worker = (number - first) // 4
            role = roles[worker] if inside else "faint"
            if inside or number < first:
                drawing.chip(x, y, 40, 42, str(number), role, size=14, hollow=not inside)
        for worker, role in enumerate(roles):
            start = 110 + 44 * (first - 1 + 4 * worker)
            drawing.arrow([(start + 2, y + 68), (start + 2, y + 46)], stroke=role, thick=2.2)
            drawing.write_text(start + 10, y + 66, f"worker {worker + 1}", size=13, fill=role, bold=True)
    drawing.write_text(24, 84, "oldest", size=12, fill="faint")
    drawing.write_text(110 + 44 * 12 + 46, 84, "newest", size=12, fill="faint")
    drawing.write_text(110 + 20, 210 + 84, "expired whole", size=12, fill="faint", anchor="middle")
    drawing.lines_of_text(
        24,
        330,
        [
            "Every arriving row is compared by all workers at the same time, each with its own stretch, many keys in",
            "one instruction. A basic window fits into fast memory. Another number of workers needs only other",
            "pointers: no row is moved.",
        ],
    )
    return drawing


def spo_join() -> Drawing:
    """Draw the two sorted columns, the permutation between them, and the bits of a probe."""
    drawing = Drawing(
        "spo-join",
        430,
        "SPO-Join: two inequalities by two orders and a bit array",
        "The rows of a part are sorted by each of the two terms, and a permutation leads from one order to the other."
        " A probe sets bits for the range of the first term, and reads the set bits within the range of the second.",
    )
    rows = [(3, 70), (8, 20), (5, 60), (9, 50), (2, 30), (7, 80), (4, 40), (6, 10)]
    by_first = sorted(range(len(rows)), key=lambda row: rows[row][0])
    by_second = sorted(range(len(rows)), key=lambda row: rows[row][1])
    probe = (5.5, 65)
    drawing.write_text(24, 34, "l.price < r.price AND l.rating > r.rating", size=15, mono=True)
    drawing.chip(470, 14, 262, 30, f"probe: price {probe[0]}, rating {probe[1]}", "left", size=13)
    top, bottom = 96, 212
    drawing.write_text(24, top + 22, "by price", size=13, bold=True)
    drawing.write_text(24, bottom + 22, "by rating", size=13, bold=True)
    drawing.write_text(24, bottom + 72, "bits", size=13, bold=True)
    places = {row: place for place, row in enumerate(by_second)}

    def x(place: int) -> float:
        return 110 + 60 * place

    for place, row in enumerate(by_first):
        inside = rows[row][0] > probe[0]
        start, end = (x(place) + 25, top + 34), (x(places[row]) + 25, bottom)
        drawing.line([start, end], stroke="pair" if inside else "line", thick=1.6 if inside else 1)
    for place, row in enumerate(by_first):
        inside = rows[row][0] > probe[0]
        drawing.chip(x(place), top, 50, 34, str(rows[row][0]), "right" if inside else "faint", size=14)
    for place, row in enumerate(by_second):
        inside = rows[row][1] < probe[1]
        drawing.chip(x(place), bottom, 50, 34, str(rows[row][1]), "right" if inside else "faint", size=14)
        bit = rows[row][0] > probe[0]
        match = bit and inside
        drawing.chip(
            x(place),
            bottom + 50,
            50,
            34,
            "1" if bit else "0",
            "pair" if match else "faint",
            size=14,
            mono=True,
            hollow=not bit,
        )
    first = sum(value[0] <= probe[0] for value in rows)
    drawing.line([(x(first), top - 8), (x(7) + 50, top - 8)], stroke="right", thick=4)
    drawing.write_text(x(7) + 50, top - 16, "price above 5.5: set their bits", size=12.5, fill="right", anchor="end")
    second = sum(value[1] < probe[1] for value in rows)
    drawing.line([(x(0), bottom + 96), (x(second - 1) + 50, bottom + 96)], stroke="right", thick=4)
    drawing.write_text(x(0), bottom + 114, "rating below 65: read the bits of this stretch", size=12.5, fill="right")
    drawing.write_text(596, (top + bottom) / 2 + 22, "permutation", size=12.5, fill="soft")
    count = sum(a > probe[0] and b < probe[1] for a, b in rows)
    drawing.write_text(596, bottom + 72, f"{count} matches", size=14, fill="pair", bold=True)

    y = 360
    drawing.write_text(24, y + 22, "window", size=13, bold=True)
    for place in range(4):
        drawing.chip(x(0) + 102 * place, y, 84, 34, "immutable", "right", size=12.5)
        if place:
            drawing.arrow([(x(0) + 102 * place - 17, y + 17), (x(0) + 102 * place - 1, y + 17)], stroke="right")
    drawing.chip(x(0) + 428, y, 130, 34, "mutable: B+-trees", "left", size=12.5)
    drawing.arrow([(x(0) + 427, y + 17), (x(0) + 392, y + 17)], stroke="left")
    drawing.write_text(x(0), y + 54, "expires whole", size=12.5, fill="faint")
    drawing.write_text(x(0) + 428, y + 54, "takes new rows, then is merged", size=12.5, fill="soft")
    return drawing


def borders_after(borders: list[float], counts: list[int]) -> list[float]:
    """Return the borders that a new table takes from how many rows each partition of the one before it had.

    Within a partition rows are taken to be even, as in PanJoin's adjustment, with the partition's smallest key added.

    Examples
    --------
    >>> borders_after([0, 10, 20], [30, 10])
    [0, 6.666666666666667, 20]
    """
    sums = [0, *accumulate(counts)]
    share = sums[-1] / len(counts)
    inner = []
    for place in range(1, len(counts)):
        wanted = place * share
        one = max(i for i in range(len(counts)) if sums[i] <= wanted)
        inner.append(borders[one] + (wanted - sums[one]) / counts[one] * (borders[one + 1] - borders[one]))
    return [borders[0], *inner, borders[-1]]


def pan_join() -> Drawing:
    """Draw a chain of sub-windows whose partitions get even from one to the next."""
    drawing = Drawing(
        "pan-join",
        424,
        "PanJoin: a chain of sub-windows, whose partitions follow the keys",
        "A window is a chain of sub-windows by arrival. Each cuts the axis of keys into partitions; the rows of one "
        "tell the borders of the next, so that their partitions have equally many rows. A probe reads one or two "
        "partitions of each.",
    )
    keys = np.random.Generator(np.random.Philox(3)).normal(46, 11, 2400).clip(0, 99.9)
    borders = [float(border) for border in np.linspace(0, 100, 9)]
    left, wide = 118, 420
    probe = (52.0, 55.0)
    for place, name in enumerate(("sub-window 1", "sub-window 2", "sub-window 3")):
        floor = 130 + 92 * place
        rows = keys[800 * place : 800 * (place + 1)]
        counts = [int(((rows >= a) & (rows < b)).sum()) for a, b in pairwise(borders)]
        drawing.write_text(24, floor - 24, name, size=13, bold=True)
        drawing.write_text(24, floor - 7, ("oldest", "", "newest")[place], size=12, fill="faint")
        for (a, b), count in zip(pairwise(borders), counts, strict=True):
            met = a < probe[1] and b > probe[0]
            x, tall = left + wide * a / 100, 66 * count / 300
            role = "pair" if met else "right"
            drawing.rect(
                x + 1,
                floor - tall,
                wide * (b - a) / 100 - 2,
                tall,
                fill=f"{role}-soft",
                stroke=role,
                radius=1,
                thick=1.2,
            )
        drawing.line([(left, floor), (left + wide, floor)], stroke="line")
        ideal = floor - 66 * (800 / 8) / 300
        drawing.line([(left, ideal), (left + wide, ideal)], stroke="faint", dash="3 4", thick=1)
        share = max(counts) / (sum(counts) / len(counts))
        drawing.write_text(left + wide + 16, floor - 24, f"fullest partition: {share:.1f}", size=13)
        drawing.write_text(left + wide + 16, floor - 8, "times the mean", size=12.5, fill="soft")
        borders = borders_after(borders, [max(count, 1) for count in counts])
    x0, x1 = (left + wide * one / 100 for one in probe)
    drawing.line([(x0, 38), (x0, 320)], stroke="left", dash="4 3")
    drawing.line([(x1, 38), (x1, 320)], stroke="left", dash="4 3")
    drawing.write_text((x0 + x1) / 2, 30, "a probe's range", size=13, fill="left", anchor="middle", bold=True)
    drawing.arrow([(left, 330), (left + wide, 330)], stroke="faint")
    drawing.write_text(left + wide, 346, "keys", size=12, fill="faint", anchor="end")
    drawing.lines_of_text(
        24,
        374,
        [
            "Only the newest sub-window takes rows, and the oldest leaves whole. The borders of each follow from",
            "how many rows the partitions of the one before had. Heights are rows in each partition; keys are normal.",
        ],
        size=12.5,
    )
    return drawing
