"""The past of a job: what the history in its checkpoint says, run by run, as lines over time and as totals.

A history has readings of counters. A counter begins again with a process, unless a snapshot has it; so growth is
counted within a run, from where the run began.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from slidejoin import __version__
from slidejoin.errors import ConfigError, StateError
from slidejoin.pipeline.checkpoint import is_embedded
from slidejoin.watch.document import VERSION, Document
from slidejoin.watch.history import FILE, OLDER, history_folder
from slidejoin.watch.reading import Histogram, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["Line", "PastJob", "PastRun", "check_checkpoint", "read_past"]

Line: TypeAlias = "list[tuple[float, float | None]]"
"""Unix times and values; None is a gap."""

SPARK = ("metadata", "offsets", "commits")
"""What a checkpoint of Spark has."""

IN_SNAPSHOTS = frozenset({
    "slidejoin_rows_total", "slidejoin_pairs_total", "slidejoin_late_rows_total", "slidejoin_null_time_rows_total",
    "slidejoin_unmatched_rows_total", "slidejoin_step_seconds_total",
})  # fmt: skip
"""Counters that a job in one process goes on counting after a restart; all others count one process."""

ROWS, PAIRS, RESULTS = "slidejoin_rows_total", "slidejoin_pairs_total", "slidejoin_result_rows_total"
PUSHES = "slidejoin_push_seconds"

MOST_POINTS = 1200
"""Of a line. Where there are more documents, some are left out: what grew is then a mean over a longer time."""

ENOUGH, RECENT = 100, 60.0
"""Pushes of which a quantile is taken, and the seconds that they may be old."""

IDLE = 10.0
"""Seconds without growth after which a rate is 0."""

MOST_NAMED = 5
"""Lines of a file that are named, if they cannot be read."""


class PastRun(NamedTuple):
    """What one process of a job has written.

    Attributes
    ----------
    documents : tuple of Document
        Oldest first, at least one.
    began : Reading or None
        The counters as it began; None if that is not known.
    """

    documents: tuple[Document, ...]
    began: Reading | None

    @property
    def last(self) -> Reading:
        """Its newest reading."""
        return self.documents[-1].reading

    @property
    def seconds(self) -> float:
        """From its begin to its newest reading."""
        return max(self.last.time - self.documents[0].job.started, 0.0)


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job as its history shows it.

    Attributes
    ----------
    runs : tuple of PastRun
        Oldest first, at least one.
    notes : tuple of str
        What the history does not have, in words.
    """

    runs: tuple[PastRun, ...]
    notes: tuple[str, ...] = ()

    @property
    def newest(self) -> Document:
        """The last document of all."""
        return self.runs[-1].documents[-1]

    @property
    def first_time(self) -> float:
        """When the figures begin."""
        run = self.runs[0]
        return run.documents[0].time if run.began is None else run.began.time

    @property
    def drawn_from(self) -> float:
        """The last time before rows were counted: a session of Spark takes a while to start."""
        before = self.first_time
        for reading in self._readings():
            if reading.of(ROWS):
                break
            before = reading.time
        return before

    @property
    def seconds(self) -> float:
        """How long all runs took together."""
        return sum(run.seconds for run in self.runs)

    def labels(self, name: str) -> list[str]:
        """Return the labels of a figure that have a value somewhere, in the order in which they appear."""
        return list(dict.fromkeys(label for reading in self._readings() for label in reading.of(name)))

    def _readings(self) -> Iterator[Reading]:
        return (document.reading for run in self.runs for document in run.documents)

    # -- lines -------------------------------------------------------------------------------------------------------

    def rate(self, name: str, **labels: str) -> Line:
        """Return how fast a counter has grown, a second, from each growth of rows and pairs to the next."""

        def speed(before: Reading, now: Reading) -> float | None:
            value, was = now.value(name, **labels), before.value(name, **labels)
            if value is None or now.time <= before.time:
                return None
            return max(value - (was or 0.0), 0.0) / (now.time - before.time)

        return self._steps(speed, shown=_growing)

    def quantile(self, share: float) -> Line:
        """Return a quantile of the times of pushes at each reading, over the last `ENOUGH` of them or so."""

        def between(before: Reading, now: Reading) -> float | None:
            pushes, earlier = now.histogram(PUSHES), before.histogram(PUSHES)
            if pushes is not None and earlier is not None and earlier.bounds == pushes.bounds:
                counts = tuple(one - two for one, two in zip(pushes.counts, earlier.counts, strict=True))
                pushes = Histogram(pushes.bounds, counts, pushes.sum - earlier.sum)
            return pushes.quantile(share) if pushes is not None and pushes.count > 0 else None

        return self._steps(between, since=_some_pushes_before)

    def gauge(self, name: str, **labels: str) -> Line:
        """Return a value at each reading."""
        return self.of(lambda reading: reading.value(name, **labels))

    def of(self, value: Callable[[Reading], float | None]) -> Line:
        """Return what a function says of each reading."""
        line: Line = []
        for run in self.runs:
            line += [(line[-1][0], None)] if line else []
            line += [(one.time, value(one)) for one in self._shown(run)]
        return line

    def _steps(
        self,
        value: Callable[[Reading, Reading], float | None],
        since: Callable[[list[Reading], int], int] = lambda _, place: place - 1,
        shown: Callable[[list[Reading]], list[Reading]] = list,
    ) -> Line:
        """Return what a function says of readings and earlier ones of the run.

        Parameters
        ----------
        since : callable
            Returns the place of the earlier one.
        shown : callable
            Returns those of the readings that there are points of.
        """
        line: Line = []
        for run in self.runs:
            line += [(line[-1][0], None)] if line else []
            points = shown([*([] if run.began is None else [run.began]), *self._shown(run)])
            line += [
                (points[place].time, value(points[since(points, place)], points[place]))
                for place in range(1, len(points))
            ]
        return line

    def _shown(self, run: PastRun) -> list[Reading]:
        """Return the readings of a run that make points: the last one, and evenly many before it."""
        step = -(-sum(len(one.documents) for one in self.runs) // MOST_POINTS)
        return [one.reading for one in run.documents[::-1][::step]][::-1]

    # -- totals ------------------------------------------------------------------------------------------------------

    def total(self, name: str, **labels: str) -> float | None:
        """Return how much a counter has counted in all runs; None if the job does not have it."""
        sums = []
        for run in self.runs:
            value = run.last.value(name, **labels)
            before = None if run.began is None else run.began.value(name, **labels)
            if value is not None:
                sums.append(max(value - (before or 0.0), 0.0))
        return sum(sums) if sums else None

    def total_of_all(self, name: str) -> float | None:
        """Return the sum of a counter over all its labels; None if the job does not have it."""
        named = {labels for reading in self._readings() for own, labels in reading.values if own == name}
        sums = [self.total(name, **dict(labels)) for labels in named]
        return sum(one for one in sums if one is not None) if sums else None

    def largest(self, name: str, **labels: str) -> float | None:
        """Return the largest value of a gauge in all readings; None if the job does not have it."""
        values = [value for one in self._readings() if (value := one.value(name, **labels)) is not None]
        return max(values, default=None)

    def pushes(self) -> Histogram | None:
        """Return the times of all pushes; None if the job has none."""
        whole: Histogram | None = None
        for run in self.runs:
            more = run.last.histogram(PUSHES)
            if more is None:
                continue
            if whole is None or whole.bounds != more.bounds:  # a newer version may count by other bounds
                whole = more
                continue
            counts = tuple(one + two for one, two in zip(whole.counts, more.counts, strict=True))
            whole = Histogram(whole.bounds, counts, whole.sum + more.sum)
        return whole


def _growing(readings: list[Reading]) -> list[Reading]:
    """Return the readings at which rows or pairs have grown since the one before, and some of those of idle times.

    Of micro-batches that take longer than a reading, all other readings would say that nothing happens. Of readings
    before the first rows, the last one is there.
    """
    grown: list[Reading] = []
    counts: tuple[float | None, float | None] = (None, None)
    for one in readings:
        rows = one.of(ROWS)
        now = one.value(PAIRS), sum(rows.values()) if rows else None
        if now == counts == (None, None):
            grown = [one]
        elif not grown or now != counts or one.time - grown[-1].time >= IDLE:
            grown.append(one)
            counts = now
    return grown


def _some_pushes_before(shown: list[Reading], place: int) -> int:
    """Return the place of an earlier reading, with enough pushes since then, but not long ago."""
    earlier, now = place - 1, shown[place]
    pushes = now.value(PUSHES) or 0.0
    while (
        earlier and pushes - (shown[earlier].value(PUSHES) or 0.0) < ENOUGH and now.time - shown[earlier].time < RECENT
    ):
        earlier -= 1
    return earlier


# -- reading ---------------------------------------------------------------------------------------------------------


def read_past(checkpoint: Path) -> PastJob:
    """Read the history in a checkpoint.

    Raises
    ------
    ConfigError
        If the folder is no checkpoint of a job, or has no history yet.
    StateError
        If the history is of another version, or damaged throughout. Of single lines that cannot be read there is a
        note.
    """
    check_checkpoint(checkpoint)
    lines = _HistoryLines(checkpoint)
    # The newer file first: should it become the older one meanwhile, its lines are there twice, and not missing.
    documents = {(one.job.started, one.time): one for name in (FILE, OLDER) for one in lines.documents(name)}
    if not documents:
        raise lines.error()
    ordered = [documents[key] for key in sorted(documents)]
    rotated = (history_folder(checkpoint) / OLDER).exists()
    notes = lines.notes()
    if rotated:
        notes.append("The history is bounded; figures from before its begin are not in the lines.")
    return PastJob(tuple(_runs(ordered, rotated=rotated)), tuple(notes))


def check_checkpoint(folder: Path) -> None:
    """Refuse a folder that is no checkpoint.

    Raises
    ------
    ConfigError
        If it is none.
    """
    if _is_checkpoint(folder):
        return
    inner = folder / "checkpoint"
    hint = f" Its folder {inner} is one: give that." if _is_checkpoint(inner) else ""
    if folder.name == history_folder(folder).name and _is_checkpoint(folder.parent):
        hint = f" It is the history in a checkpoint: give {folder.parent}."
    raise ConfigError(
        f"{folder} is not a checkpoint: expected a folder with embedded.json, of a job in one process, or with "
        f"{', '.join(SPARK[:-1])} and {SPARK[-1]}, of one on Spark.{hint}"
    )


def _is_checkpoint(folder: Path) -> bool:
    return is_embedded(folder) or all((folder / name).exists() for name in SPARK) or history_folder(folder).is_dir()


class _HistoryLines:
    """Reads the lines of a history, and notes which of them cannot be read."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._damaged: list[str] = []
        self._versions: dict[object, str] = {}

    def documents(self, name: str) -> Iterator[Document]:
        with suppress(FileNotFoundError), (history_folder(self._checkpoint) / name).open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n") or line.isspace():  # being written, or torn as the machine stopped
                    continue
                document = self._read(line, f"{name}, line {number}")
                if document is not None:
                    yield document

    def _read(self, line: bytes, where: str) -> Document | None:
        try:
            plain = json.loads(line)
            if isinstance(plain, dict) and isinstance(plain.get("version"), int) and plain["version"] != VERSION:
                self._versions.setdefault(plain["version"], where)
                return None
            return Document.from_json(plain)
        except (ValueError, RecursionError, StateError):
            self._damaged.append(where)
            return None

    def notes(self) -> list[str]:
        notes = []
        if self._damaged:
            named = "; ".join(self._damaged[:MOST_NAMED])
            more = len(self._damaged) - MOST_NAMED
            notes.append(f"Damaged lines are left out: {named}{f'; and {more} more' if more > 0 else ''}.")
        for version, where in self._versions.items():
            notes.append(f"Lines of version {version} are left out, from {where} on: {self._reads()}.")
        return notes

    def _reads(self) -> str:
        return f"slidejoin {__version__} reads version {VERSION}"

    def error(self) -> ConfigError | StateError:
        """Return why there is no document at all."""
        folder = history_folder(self._checkpoint)
        if self._versions:
            version, where = next(iter(self._versions.items()))
            return StateError(
                f"{folder / where} has version {version}; {self._reads()}. Use a newer slidejoin: docs/upgrades.md "
                "says which version reads which"
            )
        if self._damaged:
            return StateError(
                f"{folder} has no line that can be read; the first one is {self._damaged[0]}. Remove the folder: a job "
                "makes another one as it runs"
            )
        return ConfigError(
            f"{self._checkpoint} has no figures yet. A job of slidejoin run writes them to {folder} once it has "
            "committed a micro-batch; a query that a program of its own starts has none, see slidejoin.spark.watch"
        )


def _runs(documents: list[Document], *, rotated: bool) -> Iterator[PastRun]:
    """Yield runs: documents of one process, and the counters as it began."""
    starts = [place for place, one in enumerate(documents) if not place or _another(documents[place - 1], one)]
    earlier: Reading | None = None
    for first, end in pairwise([*starts, len(documents)]):
        run = tuple(documents[first:end])
        yield PastRun(run, _began(run[0], earlier, unknown=rotated and earlier is None))
        earlier = run[-1].reading


def _another(before: Document, after: Document) -> bool:
    return before.job.started != after.job.started or before.job.sides != after.job.sides


def _began(first: Document, earlier: Reading | None, *, unknown: bool) -> Reading | None:
    """Return the counters as a run began, at the time when it did."""
    started, embedded = first.job.started, first.job.engine == "embedded"
    if unknown or started >= first.time:
        return None
    if not embedded:
        return Reading(started)
    if earlier is None:
        # A checkpoint that is older than its history: the pairs of earlier runs are counted, but not their results.
        pairs, results = first.reading.value(PAIRS), first.reading.value(RESULTS)
        return None if pairs is not None and results is not None and pairs > results else Reading(started)
    rows = first.reading.of(ROWS)
    if any(rows.get(side, 0.0) < count for side, count in earlier.of(ROWS).items()):
        return Reading(started)  # it has not continued from there
    return Reading(started, {key: value for key, value in earlier.values.items() if key[0] in IN_SNAPSHOTS})
