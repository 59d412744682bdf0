"""What the steps of a join of many streams did so far: probes, matches and seconds of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from slidejoin.display import Counters
from slidejoin.stored import MOST_COUNTED, StoredValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["MultiStats", "StepFigure", "StepFigures"]


@dataclass(slots=True)
class StepFigure:
    """The figures of one step.

    Attributes
    ----------
    probes, matches : int
        Wide rows that probed, and combinations that went on.
    seconds : float
    """

    probes: int = 0
    matches: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Matches a probe."""
        return self.matches / max(self.probes, 1)


class StepFigures:
    """Counts the probes and matches of each step, by its stored stream and the streams that are bound before it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.steps: dict[tuple[int, frozenset[int]], StepFigure] = {}

    def add(self, stored: int, bound: frozenset[int], probes: int, matches: int, seconds: float) -> None:
        """Count probes of one step."""
        with self._lock:
            figure = self.steps.setdefault((stored, bound), StepFigure())
            figure.probes += probes
            figure.matches += matches
            figure.seconds += seconds

    def since(
        self, before: Mapping[tuple[int, frozenset[int]], tuple[int, int]]
    ) -> dict[tuple[int, frozenset[int]], StepFigure]:
        """Return what was added since `marks` returned `before`."""
        added = {}
        for key, figure in self.steps.items():
            probes, matches = before.get(key, (0, 0))
            added[key] = StepFigure(figure.probes - probes, figure.matches - matches)
        return added

    def marks(self) -> dict[tuple[int, frozenset[int]], tuple[int, int]]:
        """Return the present counts, for `since`."""
        return {key: (figure.probes, figure.matches) for key, figure in self.steps.items()}


@dataclass(slots=True, repr=False)
class MultiStats(Counters):
    """What a join of many streams has seen and done so far; it prints one rounded figure a line.

    Attributes
    ----------
    rows : dict of str to int
        Rows with an ordinal, of each stream: neither late nor without event time.
    pairs : int
        Combinations produced, or counted.
    late_rows, null_time_rows : int
        Rows left out, see the meaning of a time window.
    window_rows : dict of str to int
        Rows stored now, of each stream.
    window_bytes : int
        Bytes stored now, rows and indexes.
    seconds : dict of str to float
        Time spent in each step: ``arrive``, ``insert``, ``probe`` (chains and what they emit), ``expire``.
    """

    rows: dict[str, int] = field(default_factory=dict)
    pairs: int = 0
    late_rows: int = 0
    null_time_rows: int = 0
    window_rows: dict[str, int] = field(default_factory=dict)
    window_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def spent(self, step: str, seconds: float) -> None:
        """Add to ``seconds[step]``."""
        self.seconds[step] = self.seconds.get(step, 0.0) + seconds

    @staticmethod
    def from_json(plain: object, streams: Sequence[str]) -> MultiStats:
        """Read what `to_json` wrote of a join of these streams.

        Raises
        ------
        StateError
            If something else is among them.
        """
        stored = StoredValue(plain, "the counters of the state")
        counts = {
            name: stored[name].whole(0, MOST_COUNTED)
            for name in ("pairs", "late_rows", "null_time_rows", "window_bytes")
        }
        of_streams = {
            name: {stream: stored[name][stream].whole(0, MOST_COUNTED) for stream in streams}
            for name in ("rows", "window_rows")
        }
        seconds = {step: spent.number(0) for step, spent in stored["seconds"].fields.items()}
        return MultiStats(**counts, **of_streams, seconds=seconds)  # type: ignore[arg-type]  # by their names
