"""docs/configuration.md is what the schemas say today."""

import pytest

from fusedrl.config.keys import walk
from fusedrl.config.reference import PAGE, main, page
from fusedrl.config.schema import SCHEMAS


def test_page_in_docs_is_current() -> None:
    assert PAGE.read_text() == page(), "run: python -m fusedrl.config.reference"


def test_page_has_one_row_for_each_key_and_one_heading_for_each_group() -> None:
    whole = page()
    lines = whole.splitlines()
    headings = [line for line in lines if line.startswith("### ")]
    for command, schema in SCHEMAS.items():
        section = whole.split(f"## fusedrl.{command}\n")[1]
        assert all(f"| `{key.name.rpartition('.')[2]}` |" in section for key in walk(schema))
    assert sum(line.startswith("| `") and line.count(" | ") >= 3 for line in lines) >= sum(
        len(list(walk(schema))) for schema in SCHEMAS.values()
    )
    assert headings.count("### reward_model") == 1


def test_main_writes_the_page(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    target = f"{tmp_path}/deep/page.md"
    monkeypatch.setattr("sys.argv", ["reference", target])
    main()
    with open(target) as file:
        assert file.read() == page()
