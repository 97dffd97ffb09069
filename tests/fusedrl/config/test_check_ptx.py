"""Rows beside the policy loss: what is missing, unused or too large is told with the key to set."""

from pathlib import Path
from typing import Any

from fusedrl.config.check_ptx import KEY, check_ptx
from tests.fusedrl.config.conftest import Numbers, changed, ppo

LONGEST = Numbers().max_position


def found(**values: Any) -> list[str]:
    keys = {f"{KEY}.{name}": value for name, value in values.items()}
    return list(check_ptx(changed(ppo(), keys), world=4, models={"actor": Numbers()}))


def test_off_or_with_rows_it_is_let_through(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.touch()
    assert found() == []
    assert found(coeff=0.1, files=[str(rows)], max_length=LONGEST, batch_size=4) == []


def test_what_is_missing_unused_or_too_large_is_told() -> None:
    (line,) = found(files=["rows.jsonl"])
    assert line == f"{KEY}.files are given but not learnt; set {KEY}.coeff above 0, or leave them out"
    nothing, length = found(coeff=0.1, max_length=LONGEST + 1)
    assert nothing.startswith(f"{KEY}.coeff=0.1: nothing to learn; give {KEY}.files")
    assert length == f"{KEY}.max_length={LONGEST + 1} exceeds the {LONGEST} positions of the actor; lower it"
    actor = "actor_rollout_ref.actor"
    budget = {f"{actor}.use_dynamic_bsz": True, f"{actor}.ppo_max_token_len_per_gpu": 31}
    given = {f"{KEY}.coeff": 0.1, f"{KEY}.files": [str(Path(__file__))], f"{KEY}.max_length": 32}
    (low,) = check_ptx(changed(ppo(), given | budget), world=4, models={"actor": Numbers()})
    assert low == f"{actor}.ppo_max_token_len_per_gpu=31 is below {KEY}.max_length=32; raise it to 32 or more"
    missing, uneven = found(coeff=0.1, files=["nowhere.jsonl"], max_length=8, batch_size=3)
    assert missing == f"{KEY}.files: nowhere.jsonl: there is no such file"
    assert uneven.startswith(f"{KEY}.batch_size=3 does not divide over 2 data-parallel replicas")
