"""docs/numeric_cases.md names tests for each reported case; they must exist."""

import re
from collections.abc import Iterator

from tests.test_pitfalls import NAMED, ROOT, names_in

PAGE = ROOT / "docs/numeric_cases.md"
CASES = 41


def rows() -> Iterator[list[str]]:
    """id, property, link, tests of each case."""
    for line in PAGE.read_text().splitlines():
        if re.match(r"\| C\d", line):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_every_case_is_there_once_with_its_link_and_property() -> None:
    found = list(rows())
    assert len(found) == CASES
    assert len({name for name, *_ in found}) == CASES
    for _, held, where, _ in found:
        assert held
        assert "](https://github.com/" in where


def test_every_case_names_tests_that_exist() -> None:
    for name, _, _, tests in rows():
        named = NAMED.findall(tests)
        assert named, name
        assert not [f"{file}::{test}" for file, test in named if test not in names_in(ROOT / file)], name
