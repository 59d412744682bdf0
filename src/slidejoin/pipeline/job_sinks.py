"""All sinks of a job: that of its results, and those of rows that are not joined: bad ones and late ones.

A micro-batch is ready when all of them are. A sink that knows by itself what it has, such as a topic, may have a
micro-batch that another one has not, if a job was killed in between: the micro-batch runs again for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from slidejoin.pipeline.sink import ResultSink

__all__ = ["JobSinks"]

MORE = "more"
"""The key of what further sinks have made ready."""


class JobSinks:
    """The sinks of a job, as one.

    Parameters
    ----------
    results : ResultSink
    bad : Mapping of str to ResultSink, optional
        Of rows that cannot be read, by their source.
    late : ResultSink, optional
        Of late rows, which are rows of the result otherwise.
    late_side : str
        The column of the result that says of which side a late row is.
    """

    def __init__(
        self,
        results: ResultSink,
        bad: Mapping[str, ResultSink] | None = None,
        late: ResultSink | None = None,
        late_side: str = "late_side",
    ) -> None:
        self._results, self._late_side = results, late_side
        self._more = {f"bad {name}": sink for name, sink in (bad or {}).items()}
        if late is not None:
            self._more["late"] = late
        self._has: dict[int, int] = {}
        """By the identity of each sink the last micro-batch that it knows to have."""
        self._number = -1

    def _all(self) -> list[ResultSink]:
        # What is not joined is published first: where results are, the rest of their rows is.
        return [*self._more.values(), self._results]

    def committed(self) -> int:
        """Return the last micro-batch that all sinks know to have; -1 if one relies on the checkpoint."""
        self._has = {id(sink): sink.committed() for sink in self._all()}
        return min(self._has.values())

    def recover(self, last: int, ready: dict[str, Any]) -> None:
        """Publish the last committed micro-batch again, and remove what later ones have left.

        Raises
        ------
        ConfigError
            If one holds something that does not belong to the checkpoint.
        """
        more = ready.get(MORE, {})
        for name, sink in self._more.items():
            sink.recover(last, more.get(name, {}))
        self._results.recover(last, ready)

    def _open(self, sink: ResultSink) -> bool:
        return self._number > self._has.get(id(sink), -1)

    def begin(self, number: int) -> None:
        """Begin a micro-batch."""
        self._number = number
        for sink in self._all():
            sink.begin(number)

    def write(self, rows: pa.Table) -> int:
        """Take rows of the result, and return how many these are; late rows have a sink of their own, or are some."""
        late = self._more.get("late")
        if late is None:
            self._write(self._results, rows)
            return rows.num_rows
        if rows.column(self._late_side).null_count:  # then no row is late
            self._write(self._results, rows.drop_columns([self._late_side]))
            return rows.num_rows
        self._write(late, rows)
        return 0

    def write_bad(self, source: str, rows: pa.Table) -> None:
        """Take rows of a source that cannot be read."""
        self._write(self._more[f"bad {source}"], rows)

    def _write(self, sink: ResultSink, rows: pa.Table) -> None:
        if rows.num_rows and self._open(sink):
            sink.write(rows)

    def ready(self) -> dict[str, Any]:
        """Make all rows durable, though unseen, and return what `publish` needs, as JSON values."""
        more = {name: sink.ready() for name, sink in self._more.items() if self._open(sink)}
        ready = self._results.ready() if self._open(self._results) else {}
        return ready | {MORE: more} if more else ready

    def publish(self, number: int, ready: dict[str, Any]) -> None:
        """Let the rows of a micro-batch be seen."""
        more = ready.get(MORE, {})
        for name, sink in self._more.items():
            sink.publish(number, more.get(name, {}))
        self._results.publish(number, ready)

    def close(self) -> None:
        """Remove what was begun and is not ready."""
        for sink in self._all():
            sink.close()
