import json

import pytest

from fusedrl import doctor
from fusedrl.doctor import lines, look, main, report
from fusedrl.machine.finding import Finding, bad, is_fit, warn
from fusedrl.machine.place import NEEDED

TWO = dict(zip(NEEDED, ("0", "2", "0", "2", "127.0.0.1", "29500"), strict=True)) | {"TORCHELASTIC_RUN_ID": "x"}


def finding(level: str, topic: str = "memory", text: str = "1 GB") -> dict[str, str]:
    return {"topic": topic, "text": text, "level": level, "change": "" if level == "ok" else "ask for more"}


def test_this_machine_is_looked_at_whole_and_is_fit() -> None:
    found = look({})
    assert is_fit(found)
    topics = {each.topic for each in found}
    assert {"ranks", "interfaces", "gloo binds", "device", "memory", "/dev/shm", "cores", "torch", "vllm"} <= topics


def test_the_place_of_ranks_alone_is_a_part_of_it() -> None:
    assert [each.topic for each in look(TWO, ranks_only=True)][:2] == ["ranks", "interfaces"]
    assert not {"torch", "memory"} & {each.topic for each in look(TWO, ranks_only=True)}


def test_a_process_that_does_not_know_its_place_meets_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "meet", lambda *_, **__: pytest.fail("met"))
    (alone,) = report({"SLURM_STEP_NUM_TASKS": "4"}, ranks_only=True, timeout_s=1.0)
    assert [each["level"] for each in alone["findings"]] == ["bad"]


def test_ranks_meet_and_the_first_tells_what_others_found_besides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"rank": 1, "host": "b", "findings": [finding("ok"), finding("bad", "/dev/shm", "none")]}
    monkeypatch.setattr(doctor, "meet", lambda mine, *_, **__: (Finding("meeting", "met"), [mine, other]))
    for name, value in TWO.items():
        monkeypatch.setenv(name, value)
    assert main(["--ranks"]) == 1
    printed = capsys.readouterr().out
    assert "ok    meeting              met" in printed
    assert "-> ask for more   [rank 1 on b]" in printed
    assert main(["--ranks", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], [rank["rank"] for rank in told["ranks"]]) == (False, [0, 1])
    monkeypatch.setenv("RANK", "1")
    other["findings"].pop()
    assert main(["--ranks"]) == 0
    assert capsys.readouterr().out == ""


def test_what_all_ranks_found_is_told_once() -> None:
    ranks = [{"rank": rank, "host": "a", "findings": [finding("warn"), finding("ok", "cores")]} for rank in range(3)]
    assert len(lines(ranks)) == 2


@pytest.mark.parametrize(("level", "code"), [("ok", 0), ("warn", 0), ("bad", 1)])
def test_the_exit_code_tells_whether_a_run_may_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], level: str, code: int
) -> None:
    made = {"ok": Finding("x", "y"), "warn": warn("x", "y", change="z"), "bad": bad("x", "y", change="z")}
    monkeypatch.setattr(doctor, "look", lambda *_, **__: [Finding("ranks", "1"), made[level]])
    monkeypatch.delenv("RANK", raising=False)
    assert main([]) == code
    assert f"{level:<4}  x" in capsys.readouterr().out
