"""What an index found for a batch of probes, in one form for all indexes."""

from __future__ import annotations

from importlib import import_module
from inspect import getmembers, isclass, signature
from pkgutil import walk_packages

import numpy as np

from slidejoin.index.answer import BatchMatches, CountedMatches, MatchesOfParts


class Listed(BatchMatches):
    """Matches that are listed, probe after probe."""

    def __init__(self, matches: list[list[int]]) -> None:
        self.matches = matches
        self.counts = np.array(list(map(len, matches)))

    def fill(self, first, last, places, probes, stored):
        for probe in range(first, last):
            at = slice(places[probe], places[probe] + self.counts[probe])
            probes[at], stored[at] = probe, self.matches[probe]


def pairs(found: BatchMatches, first: int, last: int) -> list[tuple[int, int]]:
    places = np.cumsum(found.counts) - found.counts
    total = int(found.counts.sum())
    probes, stored = np.full(total, -1), np.full(total, -1)
    found.fill(first, last, places, probes, stored)
    return [pair for pair in zip(probes.tolist(), stored.tolist(), strict=True) if pair != (-1, -1)]


def test_all_that_is_found_has_one_base() -> None:
    modules = [
        import_module(module.name)
        for room in ("index", "papers")
        for module in walk_packages(import_module(f"slidejoin.{room}").__path__, f"slidejoin.{room}.")
    ]
    known = {one for module in modules for _, one in getmembers(module, isclass) if "fill" in vars(one)}
    classes = [one for one in known if "places" in signature(vars(one)["fill"]).parameters]
    assert len(classes) > 8
    assert {one.__name__ for one in classes if not issubclass(one, BatchMatches)} == set()


def test_matches_of_parts_come_part_after_part() -> None:
    """Probes 0 1 2; the first part has 5 | | 7 8, the second one 3 | 4 | 9."""
    found = MatchesOfParts(3, [Listed([[5], [], [7, 8]]), Listed([[3], [4], [9]])])
    assert found.counts.tolist() == [2, 1, 3]
    assert pairs(found, 0, 3) == [(0, 5), (0, 3), (1, 4), (2, 7), (2, 8), (2, 9)]
    assert pairs(found, 1, 2) == [(1, 4)]
    assert MatchesOfParts(2, []).counts.tolist() == [0, 0]


def test_counted_matches_are_searched_for_once_and_only_if_pairs_are_needed() -> None:
    searched = []

    def find() -> Listed:
        searched.append(1)
        return Listed([[5], [6, 7]])

    found = CountedMatches(np.array([1, 2]), find)
    assert (found.counts.tolist(), found.bounds, found.divisible, searched) == ([1, 2], (), False, [])
    assert pairs(found, 0, 2) == [(0, 5), (1, 6), (1, 7)]
    assert found.in_ranges is None
    assert len(searched) == 1
