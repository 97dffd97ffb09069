from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist

from fusedrl.trainers.world import meeting_place

NAMES = (
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_USE_AGENT_STORE",
)
LIMIT = timedelta(seconds=60)


def place(monkeypatch: pytest.MonkeyPatch, **given: str) -> dict[str, Any]:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return meeting_place(timeout=LIMIT)


def test_ranks_that_start_again_on_the_launchers_store_do_not_find_what_the_earlier_ones_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    fixed = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(agent.port)}
    fixed["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    agent.set("address of rank 0", "gone")
    again = [place(monkeypatch, **fixed, TORCHELASTIC_RESTART_COUNT=count) for count in ("1", "1", "2")]
    first, same, next_one = (each["store"] for each in again)
    first.set("address of rank 0", "here")
    assert same.get("address of rank 0") == b"here"
    assert not next_one.check(["address of rank 0"])
    assert [(each["rank"], each["world_size"]) for each in again] == [(1, 2)] * 3


def test_torch_s_own_way_serves_the_first_start_and_stores_of_rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    assert place(monkeypatch, RANK="0", TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_USE_AGENT_STORE="True") == {}
    assert place(monkeypatch, RANK="0", TORCHELASTIC_RESTART_COUNT="1", TORCHELASTIC_USE_AGENT_STORE="False") == {}
    assert place(monkeypatch, RANK="0") == {}
    assert place(monkeypatch)["world_size"] == 1
