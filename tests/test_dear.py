"""The lists of dear tests name tests that there are, and by day some case of each runs."""

from __future__ import annotations

from pathlib import Path

from tests.dear import BY_NIGHT, DEAR, ONE_OF, leave_to_the_night


class Case:
    """A collected test as far as it is looked at."""

    def __init__(self, nodeid: str, *, nightly: bool = False) -> None:
        self.nodeid, self.nightly = nodeid, nightly

    def get_closest_marker(self, _: str) -> object:
        return self if self.nightly else None

    def add_marker(self, _: object) -> None:
        self.nightly = True


def test_names_are_those_of_tests():
    assert DEAR.isdisjoint(BY_NIGHT)
    for name in DEAR | BY_NIGHT:
        module, _, function = name.partition("::")
        assert f"def {function}(" in (Path(__file__).parent / module).read_text(encoding="utf-8"), name


def of_day(name: str, cases: int) -> int:
    """How many of some cases, and one that is nightly anyway, run by day."""
    every = [Case(f"tests/{name}[{number}]", nightly=number == 1) for number in range(cases + 1)]
    leave_to_the_night(every)
    return sum(not case.nightly for case in every)


def test_some_cases_run_by_day():
    for name in DEAR:
        assert of_day(name, 3 * ONE_OF) == 3
        assert of_day(name, 1) == of_day(name, 2) == of_day(name, ONE_OF - 1) == 1
    assert {of_day(name, 5) for name in BY_NIGHT} == {0}
    assert of_day("law/test_seeds.py::test_other", 4) == 4
