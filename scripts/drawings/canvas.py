"""A drawing as SVG, once for light and once for dark pages: one palette, one font stack, a few shapes.

Shapes name colours by what they mean ("left", "pair", "late"); `Drawing.svg` puts those of a theme in their place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["THEMES", "WIDTH", "Drawing", "Point"]

Point = tuple[float, float]

WIDTH = 760
"""Width of every drawing: about the width of a page's text, so that letters are shown in the size they have here."""

SANS = "-apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"

THEMES = {
    "light": {
        "ground": "#fbfcfe",
        "frame": "#d5dbe5",
        "card": "#ffffff",
        "line": "#c3cbd8",
        "ink": "#1b2430",
        "soft": "#5a6675",
        "faint": "#8b95a3",
        "shade": "#eef2f8",
        "left": "#1f5fae",
        "left-soft": "#dce9f9",
        "right": "#a9540a",
        "right-soft": "#fbe6cf",
        "pair": "#0b7a61",
        "pair-soft": "#d3f2e8",
        "late": "#b3261e",
        "late-soft": "#fbdfdc",
    },
    "dark": {
        "ground": "#151a22",
        "frame": "#323b49",
        "card": "#1d242f",
        "line": "#475263",
        "ink": "#e8edf4",
        "soft": "#aab5c4",
        "faint": "#7d8999",
        "shade": "#222b38",
        "left": "#7bb6f7",
        "left-soft": "#1d3a5c",
        "right": "#f2ac62",
        "right-soft": "#50341a",
        "pair": "#56d6b3",
        "pair-soft": "#14463a",
        "late": "#ff938a",
        "late-soft": "#552523",
    },
}
"""Colours by what they mean. Blue is the left side everywhere, orange the right one, green a pair, red what is lost."""

COLOUR = re.compile(r"@([a-z-]+)@")


def number(value: float) -> str:
    """Return a coordinate without superfluous digits.

    Examples
    --------
    >>> number(12.0), number(1 / 3)
    ('12', '0.33')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")


@dataclass(slots=True)
class Drawing:
    """A drawing of `WIDTH` by `height`.

    Attributes
    ----------
    name : str
        Of its files: ``<name>-light.svg`` and ``<name>-dark.svg``.
    title, text : str
        What it shows, in a few words and in a sentence, for readers who do not see it.
    """

    name: str
    height: float
    title: str
    text: str
    parts: list[str] = field(default_factory=list)

    def svg(self, theme: str) -> str:
        """Return the whole file in the colours of a theme.

        Raises
        ------
        ValueError
            If a shape names a colour that there is not.
        """
        colours = THEMES[theme]
        unknown = {name for part in self.parts for name in COLOUR.findall(part)} - colours.keys()
        if unknown:
            msg = f"{self.name}: no such colours: {', '.join(sorted(unknown))}; there are {', '.join(colours)}"
            raise ValueError(msg)
        size = f'width="{WIDTH}" height="{number(self.height)}" viewBox="0 0 {WIDTH} {number(self.height)}"'
        frame = ("ground", "frame", 1, "", 1)
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{SANS}">',
            f"<title>{escape(self.title)}</title>",
            f"<desc>{escape(self.text)}</desc>",
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{number(self.height - 1)}" rx="10"{_paint(*frame)}/>',
        ]
        body = "\n".join([*head, *self.parts, "</svg>"])
        return COLOUR.sub(lambda match: colours[match[1]], body) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Write the files of all themes, and return their paths."""
        paths = [folder / f"{self.name}-{theme}.svg" for theme in THEMES]
        for path, theme in zip(paths, THEMES, strict=True):
            path.write_text(self.svg(theme), encoding="utf-8")
        return paths

    # -- shapes --------------------------------------------------------------------------------------------------------

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str = "card",
        stroke: str = "line",
        radius: float = 5,
        thick: float = 1.5,
        dash: str = "",
        opacity: float = 1,
    ) -> None:
        """Add a rectangle; an empty `fill` or `stroke` means none."""
        place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
        corner = f' rx="{number(radius)}"' if radius else ""
        self.parts.append(f"<rect {place}{corner}{_paint(fill, stroke, thick, dash, opacity)}/>")

    def dot(self, x: float, y: float, radius: float = 5, *, fill: str = "ink", stroke: str = "") -> None:
        """Add a circle."""
        place = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
        self.parts.append(f"<circle {place}{_paint(fill, stroke, 2, '', 1)}/>")

    def line(self, points: Sequence[Point], *, stroke: str = "soft", thick: float = 1.5, dash: str = "") -> None:
        """Add a line through points."""
        places = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self.parts.append(f'<polyline points="{places}"{_paint("", stroke, thick, dash, 1)}/>')

    def arrow(self, points: Sequence[Point], *, stroke: str = "soft", thick: float = 1.5, dash: str = "") -> None:
        """Add a line through points with a head at the last one."""
        (x0, y0), (x1, y1) = points[-2], points[-1]
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1
        along, across = ((x1 - x0) / length, (y1 - y0) / length), 4.2
        back = (x1 - 9 * along[0], y1 - 9 * along[1])
        self.line([*points[:-1], (x1 - 7 * along[0], y1 - 7 * along[1])], stroke=stroke, thick=thick, dash=dash)
        corners = [
            (x1, y1),
            (back[0] - across * along[1], back[1] + across * along[0]),
            (back[0] + across * along[1], back[1] - across * along[0]),
        ]
        places = " ".join(f"{number(x)},{number(y)}" for x, y in corners)
        self.parts.append(f'<polygon points="{places}" fill="@{stroke}@"/>')

    def curve(self, path: str, *, stroke: str = "soft", thick: float = 1.5, dash: str = "", fill: str = "") -> None:
        """Add a path in SVG's own notation."""
        self.parts.append(f'<path d="{path}"{_paint(fill, stroke, thick, dash, 1)}/>')

    def write_text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 14,
        fill: str = "ink",
        anchor: str = "start",
        bold: bool = False,
        mono: bool = False,
    ) -> None:
        """Add a line of text; `y` is its base line, `anchor` start, middle or end."""
        style = f' font-family="{MONO}"' if mono else ""
        style += ' font-weight="600"' if bold else ""
        style += f' text-anchor="{anchor}"' if anchor != "start" else ""
        place = f'x="{number(x)}" y="{number(y)}" font-size="{number(size)}" fill="@{fill}@"'
        self.parts.append(f"<text {place}{style}>{escape(text)}</text>")

    def lines_of_text(
        self, x: float, y: float, texts: Iterable[str], *, size: float = 13, fill: str = "soft", anchor: str = "start"
    ) -> None:
        """Add lines of text, one below the other."""
        for place, text in enumerate(texts):
            self.write_text(x, y + place * (size + 4.5), text, size=size, fill=fill, anchor=anchor)

    def chip(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        text: str,
        role: str,
        *,
        size: float = 13,
        mono: bool = False,
        hollow: bool = False,
    ) -> None:
        """Add a small box with a text in its middle, in the colours of a role: left, right, pair, late or soft."""
        soft = "shade" if role in {"soft", "faint"} else f"{role}-soft"
        self.rect(
            x,
            y,
            width,
            height,
            fill="" if hollow else soft,
            stroke=role,
            radius=4,
            dash="4 3" if hollow else "",
        )
        self.write_text(
            x + width / 2, y + height / 2 + size * 0.35, text, size=size, fill=role, anchor="middle", mono=mono
        )


def _paint(fill: str, stroke: str, thick: float, dash: str, opacity: float) -> str:
    """Return the attributes of a shape's paint."""
    attributes = f' fill="@{fill}@"' if fill else ' fill="none"'
    if stroke:
        attributes += f' stroke="@{stroke}@" stroke-width="{number(thick)}"'
    if dash:
        attributes += f" stroke-dasharray={quoteattr(dash)}"
    return attributes + (f' opacity="{number(opacity)}"' if opacity != 1 else "")
