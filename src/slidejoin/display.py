"""How objects are displayed: one rounded figure a line as text, tables as HTML in notebooks."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from math import floor, isfinite, log10
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Counters", "Explanation", "Printed", "figure", "figures_html", "figures_text", "size", "table_html"]

UNIT = 1000
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
DIGITS, SMALLEST = 3, 6
"""Digits that are shown of a number, and how many of them may stand behind the point: times go to microseconds."""


class Explanation(str):
    """Text that shows its lines at the prompt of Python and in notebooks, where a text shows one line in quotes.

    Examples
    --------
    >>> Explanation("index: sorted runs")
    index: sorted runs
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


class Printed:
    """What is read as text: it shows as that, also in notebooks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class Counters:
    """A dataclass of figures: it shows one a line, and as a table in notebooks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return figures_text(self._shown())

    def _repr_html_(self) -> str:
        return figures_html(self._shown())

    def _shown(self) -> dict[str, Any]:
        return self.to_json()

    def to_json(self) -> dict[str, Any]:
        """Return all figures as plain JSON values."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]


def size(count: int) -> str:
    """Return a number of bytes in the largest unit of which there is one.

    Examples
    --------
    >>> size(900), size(2_500_000), size(1)
    ('900 bytes', '2.5 MB', '1 byte')
    """
    if count < UNIT:
        return f"{count} byte{'' if count == 1 else 's'}"
    value, unit = float(count), 0
    while value >= UNIT - 0.5 and unit + 1 < len(UNITS):
        value, unit = value / UNIT, unit + 1
    return f"{value:.3g} {UNITS[unit]}"


def figure(name: str, value: object) -> str:
    """Return a figure for people: whole numbers in groups, bytes in a fitting unit, others with three digits.

    Examples
    --------
    >>> figure("pairs", 2097152), figure("window_bytes", 33_554_432), figure("probe", 0.0123456), figure("name", None)
    ('2,097,152', '33.6 MB', '0.0123', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return size(value) if name.endswith("bytes") else f"{value:,}"
    if not value or not isfinite(value):
        return f"{value:g}"
    decimals = DIGITS - 1 - floor(log10(abs(value)))
    return f"{value:,.{min(max(decimals, 0), SMALLEST)}f}"


def _lines(figures: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Yield names and figures; what is in a further mapping comes below its name."""
    for name, value in figures.items():
        if hasattr(value, "items"):
            yield f"{name}:", ""
            yield from ((f"  {part}", figure(name, each)) for part, each in value.items())
        else:
            yield f"{name}:", figure(name, value)


def figures_text(figures: Mapping[str, object]) -> str:
    """Return one figure a line, names on the left, figures on the right.

    Examples
    --------
    >>> print(figures_text({"pairs": 12, "seconds": {"probe": 1.25}}))
    pairs:     12
    seconds:
      probe  1.25
    """
    lines = list(_lines(figures))
    names, values = (max(len(line[place]) for line in lines) for place in (0, 1))
    return "\n".join(f"{name:<{names}} {value:>{values}}".rstrip() for name, value in lines)


def figures_html(figures: Mapping[str, object]) -> str:
    """Return the same as a table."""
    return table_html(None, [(name.rstrip(":"), value) for name, value in _lines(figures)])


def table_html(header: Sequence[str] | None, rows: Iterable[Sequence[str]]) -> str:
    """Return a table for notebooks: the first column on the left, the others, which are figures, on the right."""

    def line(cells: Sequence[str], tag: str) -> str:
        shown = (
            f'<{tag} style="text-align: {"right" if place else "left"}; white-space: pre">{escape(cell)}</{tag}>'
            for place, cell in enumerate(cells)
        )
        return f"<tr>{''.join(shown)}</tr>"

    head = "" if header is None else f"<thead>{line(header, 'th')}</thead>"
    return f"<table>{head}<tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"
