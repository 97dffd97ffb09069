"""What is lent, and when; that passes read the same numbers is test_layouts.py's."""

from types import SimpleNamespace
from typing import Any

import pytest

from fusedrl.trainers import reading
from fusedrl.trainers.reading import Lent, Reading


def lent(name: str, told: list[str], *, copy: bool, waits: bool) -> Lent:
    memory: Any = SimpleNamespace(
        onload=lambda: told.append(f"{name} comes"), offload=lambda: told.append(f"{name} goes")
    )
    source: Any = SimpleNamespace(module=f"{name}'s", name=name)
    role: Any = SimpleNamespace(module=name)
    return Lent(role, source if copy else None, memory if waits else None)


def test_models_of_a_pass_come_before_it_and_go_after_it_also_where_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(reading, "hand_over", lambda source, target: told.append(f"{source} weights to {target}"))
    found = Reading(
        {
            "actor": lent("actor", told, copy=True, waits=True),
            "critic": lent("critic", told, copy=True, waits=False),
            "ref": lent("ref", told, copy=False, waits=True),
            "reward": lent("reward", told, copy=False, waits=True),
        }
    )

    def broken_pass() -> None:
        with found.lent(["ref", "actor", "critic"]):
            told.append("reads")
            raise RuntimeError("pass")

    with pytest.raises(RuntimeError, match="pass"):
        broken_pass()
    come = ["actor comes", "actor's weights to actor", "critic's weights to critic", "ref comes"]
    assert told == [*come, "reads", "actor goes", "ref goes"]
    assert found.copies == [found.models["actor"].role, found.models["critic"].role]


def test_a_role_without_a_copy_reads_by_itself() -> None:
    role: Any = SimpleNamespace(name="actor")
    assert Reading().of(role) is role
    copy = lent("actor", [], copy=True, waits=True)
    assert Reading({"actor": copy}).of(role) is copy.role
