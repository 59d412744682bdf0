"""Secrets in options and settings: never on a command line, in messages as ``***``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HIDDEN", "NAMES", "SECRETS", "Secrets", "is_secret", "shows_secret"]

HIDDEN = "***"
NAMES = "(?i)passw|secret|token|key(?!tab)|jaas|credential"
"""Names of settings and options whose values are secrets, for Java too; a keytab is the path of a file."""

NAME = re.compile(NAMES)
LOGIN = re.compile(r"""(?<=://)[^/\s:'"]*:[^\s'"]+(?=@)""")
"""A user and a password in an address, up to its last ``@``: a password may have signs that should be escaped."""

PROPERTY = re.compile(r"""-D([^\s=]+)=(?:"([^"]*)"|'([^']*)'|(\S+))""")
"""A system property among options of Java."""

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


def shows_secret(name: str, value: str) -> bool:
    """Tell whether a setting is a secret or has one in its value: a login in an address, or a property of Java.

    Examples
    --------
    >>> shows_secret("url", "jdbc:x://me:pencil@host/db"), shows_secret("options", "-Xmx1g -Dssl.keyPassword=pencil")
    (True, True)
    """
    return is_secret(name) or LOGIN.search(value) is not None or bool(_properties(value))


def _properties(value: str) -> set[str]:
    """Return the values of secret properties among options of Java."""
    return {next(filter(None, parts[1:]), "") for parts in PROPERTY.findall(value) if is_secret(parts[0])}


def _forms(value: str) -> set[str]:
    """Return a text as messages may write it: as it is, in JSON, in Python, and one within the other."""
    forms = {value}
    for _ in range(2):
        forms |= {
            made[1:-1] for one in forms for made in (json.dumps(one), json.dumps(one, ensure_ascii=False), repr(one))
        }
    return forms


class Secrets:
    """The secrets of a job, to be taken out of whatever is written."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, options: Mapping[str, str]) -> None:
        """Take the secrets among options or settings."""
        values = {value for name, value in options.items() if is_secret(name)}
        values = values.union(*map(_properties, options.values())) - {"true", "false"}
        self._values = self._values.union(*(_forms(value) for value in values if len(value) >= SHORTEST))

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
