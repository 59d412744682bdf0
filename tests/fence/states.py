"""Snapshots as earlier versions wrote them: of all cases of `tests.api.hostile`, all structures and topologies.

``python -m tests.fence.states`` writes them anew, which only a new format of snapshots needs.
"""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import slidejoin as sj
from tests.api.hostile import BAND, COUNT, SCHEMA, Case, cases, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = Path(__file__).parent / "snapshots.zip"
PREDICATES = (BAND, "l.s = r.s", "l.a < r.a AND l.b > r.b")


def predicate_of(algorithm: str) -> str:
    """The first of some predicates that a structure answers."""
    for on in PREDICATES:
        with suppress(sj.SlideJoinError):
            sj.StreamJoin(on, COUNT, algorithm=algorithm, schemas=(SCHEMA, SCHEMA))
            return on
    raise AssertionError(algorithm)


def joins_by_name() -> Iterator[tuple[str, dict[str, Any]]]:
    """Joins with each structure and each topology."""
    for name in sj.algorithms():
        if name != "auto":
            yield f"algorithm {name}", {"on": predicate_of(name), "algorithm": name}
    for name in sj.topologies():
        if name != "auto":
            yield f"topology {name}", {"on": BAND, "topology": name, "threads": 2}


def restored(state: bytes) -> sj.StreamJoin:
    return sj.StreamJoin.restore(state)


def every_case() -> dict[str, Case]:
    """All of them, as this version writes them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sj.PartialSchemaWarning)
        known = list(cases())
    seen = Counter[str]()
    made: dict[str, Case] = {}
    for case in (*known, *cases_by_name()):
        seen[case.name] += 1
        made[f"{case.name} {seen[case.name]}"] = case
    return made


def cases_by_name() -> Iterator[Case]:
    """A state of each structure and topology."""
    for name, given in joins_by_name():
        join = sj.StreamJoin(**{"window": COUNT, "schemas": (SCHEMA, SCHEMA), "threads": 1} | given)
        for first in (0, 20):
            join.push(left=rows(20, first, "left"), right=rows(20, first, "right"))
        yield Case(name, join.snapshot(), restored, ("left", "right"))


def written() -> dict[str, bytes]:
    """The states of the file, by the names of their cases."""
    with ZipFile(FILE) as file:
        return {name: file.read(name) for name in file.namelist()}


def write() -> None:
    with ZipFile(FILE, "w", ZIP_DEFLATED) as file:
        for name, case in every_case().items():
            file.writestr(ZipInfo(name), case.state, ZIP_DEFLATED)


if __name__ == "__main__":
    write()
