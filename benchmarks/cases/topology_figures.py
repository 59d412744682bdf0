"""SplitJoin's figures 10 to 19 and CellJoin's 7 to 13: what each shows, what it is, and what the texts say of it.

Numbers come from a machine with 32 cores (SplitJoin, section 7) and from a Cell processor with 8 co-processors at
3.2 GHz and its simulator (CellJoin, section 8): ratios can be compared, times cannot. They are those of the texts; what
only a curve shows is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FIGURES", "PaperFigure"]

Kind = Literal["measured", "measured on a simulator", "computed", "a drawing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFigure:
    """A figure of a paper.

    Attributes
    ----------
    paper : str
    number : int
    shows : str
    kind : str
        Whether its numbers were measured, computed from a model, or whether it is a drawing without numbers.
    reported : tuple of str
        What the text says of it, with the section.
    """

    paper: Literal["SplitJoin", "CellJoin"]
    number: int
    shows: str
    kind: Kind
    reported: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return how it is asked for.

        Examples
        --------
        >>> FIGURES["split12"].name
        'split12'
        """
        return f"{self.paper.removesuffix('Join').lower()}{self.number}"


FIGURES = {
    figure.name: figure
    for figure in (
        PaperFigure(
            paper="SplitJoin",
            number=10,
            shows="the chain of low-latency handshake join, and where two rows meet in it",
            kind="a drawing",
            reported=("latency T_CL + (k - 1)(T_CL + T_ML) + w T_P + T_Col, so O(k) (section 6, formulas 1 and 2)",),
        ),
        PaperFigure(
            paper="SplitJoin",
            number=11,
            shows="SplitJoin with its two trees",
            kind="a drawing",
            reported=("latency T_CL log_b k + w T_P + T_CL log_c k, so O(log k) (section 6, formulas 5 and 6)",),
        ),
        PaperFigure(
            paper="SplitJoin",
            number=12,
            shows="rows a second over join cores, time windows",
            kind="measured",
            reported=(
                "up to 60 % more than low-latency handshake join, 15 minutes (7.1)",
                "28 cores, 15 minutes: 4,400 rows/s, which makes windows of about 2^21 (7.2)",
                "32 cores on 32 processors are slower than 28: distribution and gathering find none free (7.1)",
            ),
        ),
        PaperFigure(
            paper="SplitJoin",
            number=13,
            shows="visiting latency over join cores, time windows",
            kind="measured",
            reported=(
                "as low-latency handshake join's with 4 cores, up to 3.3 times less with 28: 8.1 ms against 26 (7.1)",
            ),
        ),
        PaperFigure(paper="SplitJoin", number=14, shows="the stages of the pipeline", kind="a drawing"),
        PaperFigure(
            paper="SplitJoin",
            number=15,
            shows="latency by stage over join cores, time windows",
            kind="measured",
            reported=(
                "distribution and execution fall with more cores; gathering with punctuation is the largest (7.1)",
            ),
        ),
        PaperFigure(
            paper="SplitJoin",
            number=16,
            shows="rows a second over join cores, count windows",
            kind="measured",
            reported=(
                "28 cores, 2^21: 5,200 rows/s; some 20 % more than in time windows (7.2)",
                "larger windows suffer less from 32 cores on 32 processors (7.2)",
            ),
        ),
        PaperFigure(
            paper="SplitJoin",
            number=17,
            shows="rows a second over selectivity, 28 join cores",
            kind="measured",
            reported=("robust, also in windows of 28 x 2^15 rows (7.3)",),
        ),
        PaperFigure(
            paper="SplitJoin",
            number=18,
            shows="latency by stage and visiting latency over join cores, count windows",
            kind="measured",
            reported=(
                "28 cores: visiting latency 2.5 times less than in time windows (7.2)",
                "28 cores: visiting latency 8.3 times less than low-latency handshake join's (7.2)",
            ),
        ),
        PaperFigure(
            paper="SplitJoin",
            number=19,
            shows="rows a second over the punctuation interval, 28 join cores",
            kind="measured",
            reported=(
                "sub-windows of 2^15: intervals of 2^11 to 2^15 comparisons make no difference (7.4)",
                "from 2^10 down to 2 each costs more (7.4)",
            ),
        ),
        PaperFigure(
            paper="CellJoin",
            number=7,
            shows="cycles and cycles a byte of a scan, over the size of a basic window",
            kind="measured on a simulator",
            reported=(
                "the scalar loop takes 10 times as many cycles as SIMD, SIMD without unrolling 1.8 times (8.1.1)",
            ),
        ),
        PaperFigure(
            paper="CellJoin",
            number=8,
            shows="cycles an instruction of a scan",
            kind="measured on a simulator",
            reported=("1.5 at best; 46 % more without SIMD, which issues more instructions besides (8.1.2)",),
        ),
        PaperFigure(
            paper="CellJoin",
            number=9,
            shows="the best size of basic windows by the cost model, over rates and lengths of windows",
            kind="computed",
            reported=("larger for higher rates and longer windows; mostly below the limit of 16 KB (8.1.3)",),
        ),
        PaperFigure(
            paper="CellJoin",
            number=10,
            shows="output and dropped rows over the input rate",
            kind="measured",
            reported=(
                "nothing dropped up to 1,000 rows/s with SIMD, 750 without unrolling, 500 without SIMD (8.2.1)",
                "13.4 GB/s are compared at 1,000 rows/s of each stream, 15 minutes, 8 workers (8.2.1)",
            ),
        ),
        PaperFigure(
            paper="CellJoin",
            number=11,
            shows="output over the input rate, with 1 to 8 workers",
            kind="measured",
            reported=("twice the workers, twice the output; 8 workers: 8.3 times two Xeons with SSE (8.2.2)",),
        ),
        PaperFigure(
            paper="CellJoin",
            number=12,
            shows="time of a row over the size of a batch",
            kind="measured",
            reported=("flat from 128 bytes on, 16 rows of two attributes (8.2.3)",),
        ),
        PaperFigure(
            paper="CellJoin",
            number=13,
            shows="time of a row over the size of basic windows",
            kind="measured",
            reported=("up to 10 % more away from the best size, which grows with the window (8.2.4)",),
        ),
    )
}
"""All figures, by name."""
