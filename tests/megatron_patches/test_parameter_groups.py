from types import SimpleNamespace
from typing import Any

import megatron.core.optimizer as place
import pytest
import torch
import torch.distributed as dist

from megatron_patches import parameter_groups


def test_gathers_of_that_module_go_over_the_group_meanwhile_and_nothing_else_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(dist, "all_gather_object", lambda found, mine, group=None: asked.append((mine, group)))
    monkeypatch.setattr(dist, "get_world_size", lambda group=None: 2 if group is ours else 8)
    ours: Any = SimpleNamespace()
    here: Any = vars(place)  # where the module looks up the name
    with parameter_groups.within(ours):
        here["torch"].distributed.all_gather_object([], "keys")
        assert here["torch"].distributed.get_world_size() == 2
        assert here["torch"].nn is torch.nn
        assert here["torch"].distributed.ReduceOp is dist.ReduceOp
        assert dist.get_world_size() == 8
    assert asked == [("keys", ours)]
    assert here["torch"] is torch


def test_the_name_comes_back_where_building_fails() -> None:
    def broken() -> None:
        with parameter_groups.within(SimpleNamespace()):
            raise RuntimeError("building")

    with pytest.raises(RuntimeError, match="building"):
        broken()
    assert vars(place)["torch"] is torch
