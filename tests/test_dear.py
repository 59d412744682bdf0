"""The list of dear tests names tests that there are, and by day some case of each runs."""

from __future__ import annotations

from pathlib import Path

from tests.dear import DEAR, ONE_OF, leave_to_the_night


class Case:
    """A collected test as far as it is looked at."""

    def __init__(self, nodeid: str, *, nightly: bool = False) -> None:
        self.nodeid, self.nightly = nodeid, nightly

    def get_closest_marker(self, _: str) -> object:
        return self if self.nightly else None

    def add_marker(self, _: object) -> None:
        self.nightly = True


def test_names_are_those_of_tests():
    for name in DEAR:
        module, _, function = name.partition("::")
        assert f"def {function}(" in (Path(__file__).parent / module).read_text(encoding="utf-8"), name


def test_one_of_three_cases_runs_by_day():
    for name in DEAR:
        cases = [Case(f"tests/{name}[{number}]", nightly=number == 1) for number in range(1 + 3 * ONE_OF)]
        leave_to_the_night(cases)
        assert sum(not case.nightly for case in cases) == ONE_OF
    other = Case("tests/law/test_seeds.py::test_other[1]")
    leave_to_the_night([other] * 5)
    assert not other.nightly
