"""Names of output columns: which are the same one, where case counts and where it does not, as on Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["named", "names_twice", "one_name"]

Found = TypeVar("Found")


def one_name(name: str, *, fold: bool) -> str:
    """Return a text that is the same for names of one column; with `fold` case does not count.

    Examples
    --------
    >>> one_name("Id", fold=True), one_name("Id", fold=False)
    ('id', 'Id')
    """
    return name.lower() if fold else name


def names_twice(names: Iterable[str], *, fold: bool) -> list[str]:
    """Return the names that are there more than once, sorted.

    Examples
    --------
    >>> names_twice(["id", "x", "Id"], fold=True)
    ['Id', 'id']
    """
    every = list(names)
    keys = [one_name(name, fold=fold) for name in every]
    times = Counter(keys)
    return sorted({name for name, key in zip(every, keys, strict=True) if times[key] > 1})


def named(name: str, found: Mapping[str, Found], *, fold: bool) -> Found | None:
    """Return what has a name: of that case rather than of another one, which must be the only one then.

    Examples
    --------
    >>> named("L.ID", {"l.Id": 1, "l.x": 2}, fold=True)
    1
    """
    if name in found or not fold:
        return found.get(name)
    same = [one for other, one in found.items() if other.lower() == name.lower()]
    return same[0] if len(same) == 1 else None
