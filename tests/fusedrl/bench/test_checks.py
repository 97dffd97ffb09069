import json
import threading
from pathlib import Path

import pytest

from fusedrl.bench.checks import Board, Failed, Figures, Skipped


def passes() -> Figures:
    return {"ms": 1.23456, "tokens": 8}


def fails() -> Figures:
    raise Failed("loss is nan")


def skips() -> Figures:
    raise Skipped("one GPU")


def breaks() -> Figures:
    raise RuntimeError("out of memory\ntried to allocate")


def board(folder: Path, **options: object) -> Board:
    return Board(folder, heading={"device": "none"}, **{"limit": 60.0, "say": lambda line: None} | options)  # type: ignore[arg-type]


def report(folder: Path) -> dict[str, object]:
    return json.loads((folder / "report.json").read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("check", "status", "told"),
    [
        (passes, "PASS", "ms 1.235, tokens 8"),
        (fails, "FAIL", "loss is nan"),
        (skips, "SKIP", "one GPU"),
        (breaks, "FAIL", "RuntimeError: out of memory"),
    ],
)
def test_a_check_ends_with_a_status_and_a_reason_in_one_line(
    tmp_path: Path, check: object, status: str, told: str
) -> None:
    outcome = board(tmp_path).run("it", check)  # type: ignore[arg-type]
    assert outcome.status == status
    assert outcome.line().startswith(f"{status}  it (0.")
    assert outcome.line().endswith(f" s)  {told}")


def test_only_a_failure_makes_the_exit_code(tmp_path: Path) -> None:
    checks = board(tmp_path)
    codes = []
    for check in (passes, skips, breaks, passes):
        checks.run("it", check)
        codes.append(checks.exit_code)
    assert codes == [0, 0, 1, 1]


def test_the_report_is_there_after_each_check(tmp_path: Path) -> None:
    checks = board(tmp_path)
    checks.run("first", passes)
    assert report(tmp_path)["counts"] == {"PASS": 1, "FAIL": 0, "SKIP": 0}
    checks.run("second", breaks)
    found = report(tmp_path)
    assert found["device"] == "none"
    assert found["counts"] == {"PASS": 1, "FAIL": 1, "SKIP": 0}
    first, second = found["checks"]  # type: ignore[misc]
    assert first["figures"] == passes()  # type: ignore[has-type]
    assert "tried to allocate" in second["figures"]["traceback"]  # type: ignore[has-type]


def test_a_check_that_overruns_the_limit_fails_by_name_and_ends_the_process(tmp_path: Path) -> None:
    codes: list[int] = []
    ended = threading.Event()

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    with board(tmp_path, limit=1.0, end=end) as checks:
        checks.run("quick", passes)
        checks.run("stuck", lambda: {"ended": ended.wait(30)})
    assert codes == [1]
    assert ("stuck", "FAIL", "not done when the limit of 1 s was over") in [
        (each.name, each.status, each.reason) for each in checks.outcomes
    ]


def test_the_limit_is_lifted_at_the_end(tmp_path: Path) -> None:
    codes: list[int] = []
    with board(tmp_path, limit=60.0, end=codes.append) as checks:
        checks.run("quick", passes)
    checks._timer.join(30)  # one that is lifted ends at once
    assert not checks._timer.is_alive()
    assert codes == []
