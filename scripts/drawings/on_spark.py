"""Drawings of joins on Spark: where rows go, and why each micro-batch counts once."""

from __future__ import annotations

from scripts.drawings.canvas import Drawing

__all__ = ["exactly_once", "pipeline", "sequencer", "strategies"]

PANEL_WIDTH, PANEL_HEIGHT = 236, 212
BOX, GAP = 78, 10
"""Buckets of a square; those of a row are narrower."""


def strategies() -> Drawing:
    """Draw to which of four buckets one left and one right row go by each strategy."""
    drawing = Drawing(
        "strategies",
        540,
        "Six routing strategies",
        "Four buckets for each strategy: hash, cell, grid, broadcast, split and sub_windows. For a left and a right "
        "row the buckets that store it are filled, and those in which it only probes are hollow. The two rows of a "
        "pair meet in one.",
    )
    panels = (_hash, _cell, _grid, _broadcast, _split, _sub_windows)
    for place, panel in enumerate(panels):
        x, y = 18 + (PANEL_WIDTH + 8) * (place % 3), 18 + (PANEL_HEIGHT + 10) * (place // 3)
        drawing.rect(x, y, PANEL_WIDTH, PANEL_HEIGHT, fill="card", stroke="frame", radius=8)
        panel(drawing, x + 16, y + 28)
    y = 490
    for x, text, role, hollow in (
        (24, "stored here: left", "left", False),
        (206, "right", "right", False),
        (316, "only probes here", "soft", True),
    ):
        drawing.chip(x, y - 14, 24, 18, "", role, hollow=hollow)
        drawing.write_text(x + 32, y, text, size=13, fill="soft")
    drawing.rect(492, y - 15, 26, 20, fill="", stroke="pair", thick=2.5, radius=6)
    drawing.write_text(526, y, "the pair is joined here, once", size=13, fill="soft")
    drawing.write_text(
        24,
        y + 30,
        "L and R are two rows that match. A box is a bucket: one key of Spark's exchange, with a state of its own.",
        size=12.5,
        fill="soft",
    )
    return drawing


def _title(drawing: Drawing, x: float, y: float, name: str, *lines: str) -> None:
    """Write a panel's name, and what it is for below the boxes."""
    drawing.write_text(x, y, name, size=15, mono=True, bold=True)
    drawing.lines_of_text(x, y + 152, lines, size=12.5)


def _boxes(drawing: Drawing, x: float, y: float, held: dict[int, tuple[str, ...]], meets: int) -> None:
    """Draw four buckets in a row, each with its marks: "L", "R", or "l", "r" where a row only probes."""
    for bucket in range(4):
        _bucket(drawing, x + 52 * bucket, y, 48, 96, held.get(bucket, ()), meets=bucket == meets)


def _bucket(
    drawing: Drawing, x: float, y: float, width: float, height: float, marks: tuple[str, ...], *, meets: bool
) -> None:
    drawing.rect(x, y, width, height, fill="shade", stroke="line", radius=6)
    if meets:
        drawing.rect(x - 3, y - 3, width + 6, height + 6, fill="", stroke="pair", thick=2.5, radius=8)
    for place, mark in enumerate(marks):
        role = "left" if mark in "Ll" else "right"
        wide = 24
        if height > width:
            left, top = x + (width - wide) / 2, y + 14 + 40 * place
        else:
            left, top = x + 9 + 33 * place, y + (height - 24) / 2
        drawing.chip(left, top, wide, 24, mark.upper(), role, hollow=mark in "lr")


def _hash(drawing: Drawing, x: float, y: float) -> None:
    _title(drawing, x, y, "hash", "Equal keys have one bucket.", "Each row is stored once.")
    _boxes(drawing, x, y + 20, {2: ("L", "R")}, 2)


def _cell(drawing: Drawing, x: float, y: float) -> None:
    _title(drawing, x, y, "cell", "A band: R is in each cell that", "its band overlaps, 1.25 on average.")
    drawing.line([(x, y + 128), (x + 204, y + 128)], stroke="line")
    for cell in range(4):
        drawing.line([(x + 52 * cell - 2, y + 124), (x + 52 * cell - 2, y + 132)], stroke="line")
    drawing.line([(x + 86, y + 128), (x + 122, y + 128)], stroke="right", thick=4)
    drawing.dot(x + 94, y + 128, 4.5, fill="left")
    _boxes(drawing, x, y + 18, {1: ("L", "R"), 2: ("R",)}, 1)


def _grid(drawing: Drawing, x: float, y: float) -> None:
    _title(drawing, x, y, "grid", "Any predicate: L in one bucket of", "each column, R in all of one column.")
    for bucket in range(4):
        column, row = bucket % 2, bucket // 2
        marks = (("L",) if row == 1 else ()) + (("R",) if column == 0 else ())
        _bucket(drawing, x + 24 + (BOX + GAP) * column, y + 16 + 58 * row, BOX, 48, marks, meets=len(marks) > 1)


def _broadcast(drawing: Drawing, x: float, y: float) -> None:
    _title(drawing, x, y, "broadcast", "Any predicate, few right rows:", "R is stored in every bucket.")
    _boxes(drawing, x, y + 20, {0: ("R",), 1: ("L", "R"), 2: ("R",), 3: ("R",)}, 1)


def _split(drawing: Drawing, x: float, y: float) -> None:
    _title(drawing, x, y, "split", "Stored once, by a hash of the row.", "Joined where R, the older, is stored.")
    _boxes(drawing, x, y + 20, {0: ("l", "r"), 1: ("L", "r"), 2: ("l", "r"), 3: ("l", "R")}, 3)


def _sub_windows(drawing: Drawing, x: float, y: float) -> None:
    _title(drawing, x, y, "sub_windows", "Stored once, by time, in turns.", "Joined where R, the older, is stored.")
    for part in range(8):
        role = {4: "right", 6: "left"}.get(part, "line")
        fill = "shade" if role == "line" else f"{role}-soft"
        drawing.rect(x + 25.5 * part, y + 116, 24, 16, fill=fill, stroke=role, radius=2, thick=1.2)
        text = "faint" if role == "line" else role
        drawing.write_text(x + 25.5 * part + 12, y + 128, str(part % 4 + 1), size=11, fill=text, anchor="middle")
    _boxes(drawing, x, y + 12, {0: ("l", "R"), 1: ("l", "r"), 2: ("L", "r"), 3: ("l", "r")}, 0)


def exactly_once() -> Drawing:
    """Draw a micro-batch that is killed and runs again."""
    drawing = Drawing(
        "exactly-once",
        396,
        "A killed micro-batch runs again, and counts once",
        "Micro-batch 7 is killed after it has written a part of its results. Its offsets were written before, so the "
        "second attempt reads the same rows, routes them to the same buckets, finds the state after micro-batch 6, "
        "and commits.",
    )
    columns = (24, 168, 350, 532)
    names = ("offsets", "rows and buckets", "state and results", "commit")
    for x, name in zip(columns, names, strict=True):
        drawing.write_text(x, 34, name, size=14, bold=True)
    drawing.lines_of_text(24, 54, ["written down", "before reading"], size=12.5)
    drawing.lines_of_text(168, 54, ["a pure function of", "the row"], size=12.5)
    drawing.lines_of_text(350, 54, ["new versions, which", "nobody counts yet"], size=12.5)
    drawing.lines_of_text(532, 54, ["offsets, state and output", "of batch 7 count, together"], size=12.5)

    y = 104
    drawing.write_text(24, y + 4, "first attempt", size=13, fill="late", bold=True)
    drawing.chip(24, y + 16, 118, 40, "7: rows 600\N{EN DASH}699", "soft", size=12.5)
    drawing.arrow([(144, y + 36), (166, y + 36)])
    _spread(drawing, 168, y + 16)
    drawing.arrow([(326, y + 36), (348, y + 36)])
    drawing.chip(350, y + 16, 62, 40, "state 7", "late", hollow=True, size=12.5)
    drawing.chip(418, y + 16, 66, 40, "pairs 1\N{EN DASH}3", "late", hollow=True, size=12.5)
    drawing.line([(508, y + 22), (536, y + 50)], stroke="late", thick=4)
    drawing.line([(508, y + 50), (536, y + 22)], stroke="late", thick=4)
    drawing.write_text(548, y + 42, "kill -9", size=15, fill="late", mono=True, bold=True)
    drawing.lines_of_text(620, y + 32, ["the worker, the", "executor, the driver"], size=12.5)

    drawing.arrow([(522, y + 60), (522, y + 92), (83, y + 92), (83, y + 118)], stroke="soft", dash="5 4")
    drawing.write_text(
        302, y + 86, "start again on the checkpoint: state 6, offsets 7", size=13, fill="soft", anchor="middle"
    )

    y = 226
    drawing.write_text(92, y + 4, "second attempt", size=13, fill="pair", bold=True)
    drawing.chip(24, y + 16, 118, 40, "7: rows 600\N{EN DASH}699", "soft", size=12.5)
    drawing.arrow([(144, y + 36), (166, y + 36)])
    _spread(drawing, 168, y + 16)
    drawing.arrow([(326, y + 36), (348, y + 36)])
    drawing.chip(350, y + 16, 62, 40, "state 7", "pair", size=12.5)
    drawing.chip(418, y + 16, 66, 40, "pairs 1\N{EN DASH}5", "pair", size=12.5)
    drawing.arrow([(488, y + 36), (530, y + 36)])
    drawing.chip(532, y + 16, 190, 40, "batch 7 is done", "pair", size=14)
    drawing.lines_of_text(24, y + 86, [
        "The same rows go to the same buckets and meet the same state, so the pairs are the same.",
        "What the first attempt left is not read: the state's manifest and the sink's list of files say what counts.",
        "The sink takes a batch once: Spark's file sink, Delta, Iceberg, or a foreachBatch by batch number.",
    ], size=13)  # fmt: skip
    drawing.write_text(
        24,
        y + 150,
        "Everything outside of the checkpoint, such as cache files and kernels, may be lost at any time.",
        size=13,
        fill="soft",
    )
    return drawing


def _spread(drawing: Drawing, x: float, y: float) -> None:
    """Draw four buckets with rows in them, the same each time."""
    for bucket, rows in enumerate((2, 1, 3, 2)):
        drawing.rect(x + 40 * bucket, y, 34, 40, fill="shade", stroke="line", radius=4)
        for row in range(rows):
            drawing.dot(x + 40 * bucket + 9 + 8.5 * row, y + 20, 3.4, fill="left" if (bucket + row) % 2 else "right")


def pipeline() -> Drawing:
    """Draw the way of rows through a query, from both sources to the sink."""
    drawing = Drawing(
        "spark-pipeline",
        330,
        "How a join runs on Spark",
        "Rows of both streams pass the watermark, are packed into one block for each bucket, and are sent through one "
        "exchange. Each bucket joins its blocks with its window, which is in Spark's state store.",
    )
    for row, side in enumerate(("left", "right")):
        y = 58 + 106 * row
        drawing.chip(24, y, 84, 40, f"{side} rows", side)
        drawing.arrow([(110, y + 20), (130, y + 20)])
        drawing.chip(132, y, 92, 40, "watermark", "soft")
        drawing.arrow([(226, y + 20), (246, y + 20)])
        drawing.rect(248, y - 14, 128, 68, fill="card", stroke="line", radius=6)
        drawing.write_text(312, y + 6, "pack, by task", size=13, anchor="middle", bold=True)
        for bucket in range(4):
            drawing.rect(262 + 26 * bucket, y + 18, 22, 24, fill=f"{side}-soft", stroke=side, radius=3, thick=1.2)
            drawing.write_text(273 + 26 * bucket, y + 34, str(bucket + 1), size=11, fill=side, anchor="middle")
    drawing.write_text(312, 250, "one Arrow block", size=13, fill="soft", anchor="middle")
    drawing.write_text(312, 267, "for each bucket", size=13, fill="soft", anchor="middle")
    for bucket in range(4):
        y = 34 + 52 * bucket
        for start in (78, 184):
            drawing.line([(378, start), (470, y + 20)], stroke="line", thick=1.2)
    for bucket in range(4):
        y = 34 + 52 * bucket
        drawing.rect(470, y, 118, 40, fill="card", stroke="pair", radius=6)
        drawing.write_text(482, y + 25, f"bucket {bucket + 1}", size=13, bold=True)
        drawing.rect(548, y + 9, 15, 22, fill="left-soft", stroke="left", radius=2, thick=1)
        drawing.rect(566, y + 9, 15, 22, fill="right-soft", stroke="right", radius=2, thick=1)
        drawing.arrow([(590, y + 20), (640, 112)], stroke="pair")
    drawing.chip(642, 92, 94, 40, "result rows", "pair")
    drawing.write_text(424, 24, "one exchange", size=13, fill="soft", anchor="middle")
    drawing.rect(470, 262, 118, 46, fill="shade", stroke="line", radius=6)
    drawing.write_text(529, 281, "state store:", size=12.5, anchor="middle", bold=True)
    drawing.write_text(529, 298, "segments, manifest", size=12.5, fill="soft", anchor="middle")
    drawing.arrow([(529, 232), (529, 260)])
    drawing.rect(610, 262, 126, 46, fill="", stroke="faint", radius=6, dash="4 3")
    drawing.write_text(673, 281, "cache files:", size=12.5, fill="soft", anchor="middle", bold=True)
    drawing.write_text(673, 298, "may be lost", size=12.5, fill="soft", anchor="middle")
    drawing.line([(588, 285), (610, 285)], stroke="faint", dash="3 3")
    drawing.write_text(24, 298, "Rows never pass one by one. A bucket runs", size=13, fill="soft")
    drawing.write_text(24, 315, "the code of the embedded join.", size=13, fill="soft")
    return drawing


def sequencer() -> Drawing:
    """Draw how rows get ordinals in a query over counted rows."""
    drawing = Drawing(
        "sequencer",
        236,
        "One task numbers the rows of a count window",
        "Tasks pack rows into blocks by bucket, and send the order column to the sequencer. It numbers the rows of "
        "both sides in one order, and hands the blocks on unread. A bucket's window is then a range of ordinals.",
    )
    for row, y in enumerate((42, 118)):
        drawing.rect(24, y, 150, 58, fill="card", stroke="line", radius=6)
        drawing.write_text(99, y + 20, f"pack, task {row + 1}", size=13, anchor="middle", bold=True)
        for block in range(4):
            drawing.rect(40 + 30 * block, y + 29, 26, 20, fill="left-soft", stroke="left", radius=3, thick=1.2)
        drawing.arrow([(176, y + 40), (256, 128 if row else 104)], thick=2)
        drawing.arrow([(176, y + 16), (256, 116 if row else 92)], stroke="pair", thick=1.3, dash="4 3")
    drawing.write_text(234, 50, "order column", size=12.5, fill="pair", anchor="middle")
    drawing.write_text(206, 182, "blocks", size=12.5, fill="soft", anchor="middle")
    drawing.rect(258, 74, 176, 76, fill="card", stroke="pair", radius=8, thick=2)
    drawing.write_text(346, 96, "sequencer: one task", size=13, anchor="middle", bold=True)
    drawing.write_text(346, 116, "numbers rows in one order,", size=12.5, fill="soft", anchor="middle")
    drawing.write_text(346, 133, "hands blocks on unread", size=12.5, fill="soft", anchor="middle")
    for bucket in range(4):
        y = 26 + 46 * bucket
        drawing.arrow([(436, 112), (506, y + 17)])
        drawing.rect(508, y, 100, 34, fill="card", stroke="line", radius=6)
        drawing.write_text(558, y + 22, f"bucket {bucket + 1}", size=13, anchor="middle")
    drawing.lines_of_text(624, 98, ["a row's window:", "ordinals n - 1000", "to n - 1"], size=12.5)
    drawing.write_text(24, 218, "State of the sequencer: how many rows of each side it has seen.", size=13, fill="soft")
    return drawing
