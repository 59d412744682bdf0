"""SPO-Join's figures 7, 9, 11, 12 and 15: the windows that the paper measured, and what it reports of each.

Its numbers come from ten machines and another programme: ratios between joins can be compared, times cannot. They are
those of its text; what only its drawings show is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "AUTO", "CHAIN", "CSS_BITS", "CSS_HASHES", "FIGURES", "MUTABLE_HASHES", "NESTED", "OURS", "PAPERS_WAY", "Figure",
    "Reported", "Setting",
]  # fmt: skip

OURS, PAPERS_WAY, AUTO = "po_join", "po_join, tuple by tuple", "auto"
CSS_BITS, CSS_HASHES, MUTABLE_HASHES = "css_bit_set", "css_hash_set", "mutable hash_set"
CHAIN, NESTED = "chain index", "nested loop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What the paper reports of a join beside SPO-Join, as printed beside ours; None where it reports nothing.

    Attributes
    ----------
    whole, immutable, mutable, merge : str or None
        In multiples of SPO-Join's, if no unit stands with it: of the whole join, of either part, of a merge.
    """

    whole: str | None = None
    immutable: str | None = None
    mutable: str | None = None
    merge: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One window of a figure.

    Attributes
    ----------
    query : str
        Of `benchmarks.cases.paper_streams.QUERIES`.
    slide, intervals, sub_intervals : int
        Rows of a slide interval, how many are in a window, and parts of each that are merged one by one.
    joins : tuple of str
        Which joins are measured; all are compared with the first.
    reported : mapping of str to Reported
        By join.
    """

    query: str
    slide: int
    intervals: int = 10
    sub_intervals: int = 1
    joins: tuple[str, ...] = (OURS, PAPERS_WAY, CSS_BITS, CSS_HASHES, AUTO)
    reported: Mapping[str, Reported] = field(default_factory=dict)

    @property
    def window(self) -> int:
        """Rows kept of each side."""
        return self.slide * self.intervals

    @property
    def threshold(self) -> int:
        """Rows of the mutable part that are merged, the paper's delta."""
        return -(-self.slide // self.sub_intervals)

    def scaled(self, share: int) -> Setting:
        """Return a setting with a slide interval of that part of it, of which the paper reports nothing."""
        return Setting(
            query=self.query, slide=max(self.slide // share, 1), intervals=self.intervals,
            sub_intervals=self.sub_intervals, joins=self.joins,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of the paper: what it shows, and the windows that it was measured with."""

    name: str
    shows: str
    settings: tuple[Setting, ...]


def _q2(slide: int, bits: str, hashes: str, mutable: str, merge: str | None = None) -> Setting:
    """Return a window of figure 7, and of figure 15 (a)."""
    return Setting(
        query="Q2", slide=slide,
        reported={
            CSS_BITS: Reported(immutable=bits, merge=merge),
            CSS_HASHES: Reported(immutable=hashes, mutable=mutable),
        },
    )  # fmt: skip


def _q1(slide: int, bits: str, mutable: str) -> Setting:
    """Return a window of figure 9; 300,000 rows and more are merged in parts, here five."""
    # The paper left hash sets out of the immutable part, where they are slower.
    return Setting(
        query="Q1", slide=slide, sub_intervals=1 if slide < 300_000 else 5,  # noqa: PLR2004 - the paper's
        joins=(OURS, PAPERS_WAY, CSS_BITS, MUTABLE_HASHES, AUTO),
        reported={CSS_BITS: Reported(immutable=bits), MUTABLE_HASHES: Reported(mutable=mutable)},
    )  # fmt: skip


def _chained(query: str, slide: int, chain: str, nested: str) -> Setting:
    """Return a window of figure 11; of the chain index, latencies at the 95th percentile are compared."""
    return Setting(
        query=query, slide=slide, joins=(OURS, CHAIN, NESTED, AUTO),
        reported={CHAIN: Reported(whole=chain), NESTED: Reported(whole=nested)},
    )  # fmt: skip


def _matching(slide: int, parts: int, rows_per_second: int, milliseconds: int) -> Setting:
    """Return a window of figure 12: the paper's speed of the mutable part, and its longest row in the immutable one."""
    reported = Reported(mutable=f"{1000 / rows_per_second:.1f} ms", immutable=f"<{milliseconds} ms")
    return Setting(
        query="match rate", slide=slide, intervals=5, sub_intervals=parts, joins=(OURS, PAPERS_WAY, AUTO),
        reported={OURS: reported},
    )  # fmt: skip


FIGURES = {
    figure.name: figure
    for figure in (
        Figure(
            name="7",
            shows="a self-join, parts against CSS-trees and hash sets; merges are figure 15 (a)",
            settings=(
                _q2(60_000, "16x", "35x", "19x"),
                _q2(70_000, "12x", "25x", "9x"),
                _q2(80_000, "22x", "43x", "12x"),
                _q2(90_000, "22x", "49x", "17.5x"),
                _q2(100_000, "24x", "39x", "44x", merge="0.83x"),
            ),
        ),
        Figure(
            name="9",
            shows="two streams, parts against CSS-trees and hash sets",
            settings=(_q1(100_000, "12x", "4.6x"), _q1(200_000, "19x", "5.25x"), _q1(300_000, "2x", "2x")),
        ),
        Figure(
            name="11",
            shows="against a chain of B+-trees (the paper: latency, 95th percentile) and nested loops (throughput)",
            settings=(
                _chained("Q2", 70_000, "3.7x", "46-78x"),
                _chained("Q2", 100_000, "11.7x", "90x"),
                _chained("Q1", 100_000, "14.1x", "43x"),
            ),
        ),
        Figure(
            name="12",
            shows="15, 62, 140 and 249 million matches a slide (the paper: times of a row, spread over machines)",
            settings=(
                _matching(25_000, 1, 167, 51),
                _matching(50_000, 1, 179, 121),
                _matching(75_000, 5, 115, 164),
                _matching(100_000, 5, 114, 190),
            ),
        ),
    )
}
"""What is measured, by the paper's numbers of figures."""
