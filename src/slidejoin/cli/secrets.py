"""Secrets in options and settings: never on a command line, in messages as ``***``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HIDDEN", "SECRETS", "Secrets", "is_secret"]

HIDDEN = "***"
NAME = re.compile(r"passw|secret|token|key|jaas|credential", re.IGNORECASE)
LOGIN = re.compile(r"(?<=://)[^/@\s:]+:[^/@\s]+(?=@)")
"""A user and a password in an address."""

SHORTEST = 4
"""Letters that a value needs to be looked for in texts: ``true`` and ``1`` are everywhere."""


def is_secret(name: str) -> bool:
    """Tell whether the value of an option or setting is a secret, by its name.

    Examples
    --------
    >>> is_secret("spark.hadoop.fs.s3a.secret.key"), is_secret("header")
    (True, False)
    """
    return NAME.search(name) is not None


class Secrets:
    """The secrets of a job, to be taken out of whatever is written."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, options: Mapping[str, str]) -> None:
        """Take the secrets among options or settings."""
        self._values |= {value for name, value in options.items() if is_secret(name) and len(value) >= SHORTEST}
        self._values -= {"true", "false"}

    def out_of(self, text: str) -> str:
        """Return a text without them.

        Examples
        --------
        >>> secrets = Secrets()
        >>> secrets.add({"api.token": "a1b2c3"})
        >>> secrets.out_of("refused: a1b2c3, from s3a://me:pencil@bucket/x")
        'refused: ***, from s3a://***@bucket/x'
        """
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return LOGIN.sub(HIDDEN, text)


SECRETS = Secrets()
"""Those that this process knows of."""
