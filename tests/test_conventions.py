"""docs/conventions.md names a test for each choice; those tests must exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_convention_names_tests_that_exist() -> None:
    rows = [line for line in (ROOT / "docs/conventions.md").read_text().splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith("| topic |")]
    assert len(rows) > 20
    defined = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    without = [row for row in rows if not re.search(r"`test_\w+`", row)]
    missing = {name for row in rows for name in re.findall(r"`(test_\w+)`", row)} - defined
    assert not without
    assert not missing
