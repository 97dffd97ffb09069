"""docs/pitfalls.md names tests for each pitfall; they must exist, and a pitfall without one must say why."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/pitfalls.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")
SECTIONS = {"Trainers": 31, "Pipeline schedules and messages": 31, "Megatron-Core with two interleaved models": 10}


def rows() -> Iterator[tuple[str, list[str]]]:
    """(section, cells) of each pitfall."""
    section = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif re.match(r"\| \d", line):
            yield section, [cell.strip() for cell in line.strip("|").split(" | ")]


def names_in(path: Path) -> set[str]:
    """Names of a file's tests, CLASS::NAME of those in classes."""
    if not path.is_file():
        return set()
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inner = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}::{each.name}" for each in inner}
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


def test_every_pitfall_is_there_once_with_its_link() -> None:
    for section, count in SECTIONS.items():
        cells = [cells for name, cells in rows() if name == section]
        assert [int(each[0]) for each in cells] == list(range(1, count + 1))
        for _, hazard, where, here, _ in cells:
            assert hazard
            assert here
            assert "](https://github.com/" in where


def test_every_pitfall_names_tests_that_exist_or_is_not_built() -> None:
    for section, cells in rows():
        named = NAMED.findall(cells[-1])
        assert named or "not built" in cells[3], f"{section} {cells[0]}: no test"
        missing = [f"{file}::{test}" for file, test in named if test not in names_in(ROOT / file)]
        assert not missing, f"{section} {cells[0]}"


def test_tests_in_classes_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "class TestA:\n    def test_b(self): ...\n    def helper(self): ...\ndef test_c(): ..."
    )
    assert names_in(tmp_path / "a.py") == {"TestA::test_b", "test_c"}
