"""Documents of a job as they are made: from the history in its checkpoint, from its endpoint, or in its own process."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import ProxyHandler, build_opener

from slidejoin.errors import ConfigError, SlideJoinError, StateError
from slidejoin.watch.document import Document
from slidejoin.watch.history import FILE, OLDER, history_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import BinaryIO, Self

    from slidejoin.watch.view import JobBoard

__all__ = ["CurrentDocument", "EndpointPoll", "Following", "HistoryTail", "Origin", "origin_of"]

POLL, SELDOM = 0.4, 1.0
"""Seconds between two looks for documents that a job makes by itself, one a second, and that it makes on request."""

FIRST_BYTES = 6 << 20
"""Of a history that are read at first: more documents than the charts show."""

TIMEOUT = 3.0
"""Seconds within which an endpoint should answer."""

MOST_BYTES = 8 << 20
"""Of an answer: a document is a thousand times smaller."""

ANSWER = "/watch.json"


class Origin(Protocol):
    """Where documents come from.

    Attributes
    ----------
    what : str
        The same in words.
    local : bool
        Whether times of documents are by the clock of this machine.
    waiting : str
        What is said as long as there is no document.
    every : float
        Seconds between two looks.
    """

    what: str
    local: bool
    waiting: str
    every: float

    def poll(self) -> list[Document]:
        """Return documents that are new, oldest first.

        Raises
        ------
        SlideJoinError, OSError
            If there are none to get; the text says why.
        """

    def close(self) -> None:
        """Give back what is open."""


class HistoryTail:
    """Follows the history in a checkpoint, also where the file becomes the older one and another one begins.

    The file stays open meanwhile: another file could otherwise have its number.

    Parameters
    ----------
    checkpoint : Path
        Of a job that runs, has run, or will.
    """

    local, every = True, POLL

    def __init__(self, checkpoint: Path) -> None:
        self.what = str(checkpoint)
        self.waiting = f"no figures in {checkpoint} yet; a job writes them as it runs"
        self._folder = history_folder(checkpoint)
        self._file: BinaryIO | None = None
        self._rest = b""

    def poll(self) -> list[Document]:
        """Return the documents that were written since the last call; none as long as the job has written none."""
        if self._file is None:
            return _documents([*self._lines_at_first(OLDER), *self._lines_at_first(FILE)])
        lines = self._lines(self._file)  # the rest of a file that may have another name by now
        if self._replaced(self._file):
            lines += self._lines_at_first(FILE)
        return _documents(lines)

    def close(self) -> None:
        """Close the file; `poll` would begin again."""
        if self._file is not None:
            self._file.close()
        self._file, self._rest = None, b""

    def _lines_at_first(self, name: str) -> list[bytes]:
        self.close()
        with suppress(FileNotFoundError):
            self._file = (self._folder / name).open("rb")
            size = self._file.seek(0, os.SEEK_END)
            self._file.seek(max(size - FIRST_BYTES, 0))
            return self._lines(self._file)
        return []

    def _lines(self, file: BinaryIO) -> list[bytes]:
        *lines, self._rest = (self._rest + file.read()).split(b"\n")
        return lines

    def _replaced(self, file: BinaryIO) -> bool:
        """Tell whether the file under that name is another one by now, or has been cut."""
        try:
            there = (self._folder / FILE).stat()
        except FileNotFoundError:
            return True
        return not os.path.samestat(there, os.fstat(file.fileno())) or there.st_size < file.tell()


class EndpointPoll:
    """Gets the newest document of a job from its endpoint.

    Parameters
    ----------
    url : str
        Of the endpoint, such as ``http://127.0.0.1:9464``; what follows the host is replaced.

    Raises
    ------
    ConfigError
        If it is no address of HTTP.
    """

    local, every = False, SELDOM
    waiting = "no figures yet"

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            msg = f"{url}: expected the address of a job's endpoint, such as http://127.0.0.1:9464"
            raise ConfigError(msg)
        self._url = urlunsplit((parts.scheme, parts.netloc, ANSWER, "", ""))
        self.what = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))
        # Not through a proxy of the environment: a job is next door.
        self._opener = build_opener(ProxyHandler({}))

    def poll(self) -> list[Document]:
        """Return the newest document.

        Raises
        ------
        StateError
            If something else answers, or nothing does.
        """
        try:
            with self._opener.open(self._url, timeout=TIMEOUT) as answer:
                return [Document.from_json(json.loads(answer.read(MOST_BYTES)))]
        except HTTPError as error:
            msg = f"{self.what} answered {error.code} {error.reason}; is it the endpoint of a job?"
            raise StateError(msg) from error
        except (URLError, HTTPException, OSError) as error:
            why = getattr(error, "reason", None) or error
            msg = f"{self.what} cannot be reached: {getattr(why, 'strerror', None) or why}"
            raise StateError(msg) from error
        except ValueError as error:
            msg = f"{self.what} answered something else than a document; is it the endpoint of a job?"
            raise StateError(msg) from error

    def close(self) -> None:
        """Do nothing: each request has a connection of its own."""


class CurrentDocument:
    """Has the newest document of a job in this process.

    Parameters
    ----------
    newest : callable
        Returns it.
    """

    local, every = True, SELDOM
    waiting = "the job is starting"

    def __init__(self, newest: Callable[[], Document]) -> None:
        self.what = "this process"
        self._newest = newest

    def poll(self) -> list[Document]:
        """Return the document of now."""
        return [self._newest()]

    def close(self) -> None:
        """Do nothing."""


def origin_of(text: str) -> HistoryTail | EndpointPoll:
    """Return where documents of a job come from: an address, or the folder of a checkpoint.

    Raises
    ------
    ConfigError
        If it is neither.

    Examples
    --------
    >>> origin_of("http://127.0.0.1:9464/metrics").what
    'http://127.0.0.1:9464'
    """
    if "://" in text:
        return EndpointPoll(text)
    folder = Path(text).expanduser()
    if not folder.is_dir():
        msg = (
            f"{text}: there is no such folder; expected the checkpoint of a job, or "
            "the address of its endpoint, such as http://127.0.0.1:9464"
        )
        raise ConfigError(msg)
    return HistoryTail(folder)


class Following:
    """Brings documents to a board, in a thread, while its block runs.

    Parameters
    ----------
    origin : Origin
    board : JobBoard
    """

    def __init__(self, origin: Origin, board: JobBoard) -> None:
        self._origin, self._board = origin, board
        self._ending = Event()
        self._thread = Thread(target=self._follow, name="slidejoin-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self.look()  # the last document of a job in this process
        self._origin.close()

    def look(self) -> None:
        """Bring what there is now."""
        try:
            for document in self._origin.poll():
                self._board.add(document, arrived=document.time if self._origin.local else None)
            self._board.trouble(None if self._board.details() else self._origin.waiting)
        except (SlideJoinError, OSError) as error:
            self._board.trouble(str(error))

    def _follow(self) -> None:
        while not self._ending.is_set():
            self.look()
            self._ending.wait(self._origin.every)


def _documents(lines: Iterable[bytes]) -> list[Document]:
    """Return the documents of lines; lines that are torn or of a later version are skipped."""
    documents = []
    for line in lines:
        with suppress(ValueError, RecursionError, StateError):
            documents.append(Document.from_json(json.loads(line)))
    return documents
