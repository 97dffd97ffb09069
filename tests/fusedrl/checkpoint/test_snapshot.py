"""A state is the same to the bit after it went through any other layout; each number is written once."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fusedrl.checkpoint.pieces import SavedModel, open_models
from fusedrl.models.experts import Experts
from fusedrl.models.optimizer_state import MOMENTS, VALUE
from tests.distributed.pool import RankPool
from tests.distributed.trainer_jobs import folder_of
from tests.fusedrl.trainers import test_preflight

JOBS = "tests.fusedrl.checkpoint.snapshot_jobs"
TP, PP = "tensor_model_parallel_size", "pipeline_model_parallel_size"
DISTRIBUTED = {"use_distributed_optimizer": True}
# layout after layout; the last is the first again
CHAIN: list[tuple[int, dict[str, Any], str]] = [
    (2, {TP: 2, "sequence_parallel": True}, "line"),
    (2, {PP: 2}, "line"),
    (2, {**DISTRIBUTED}, "line"),
    (4, {PP: 2, **DISTRIBUTED, "overlap_grad_reduce": True, "overlap_param_gather": True}, "line"),
    (4, {TP: 2, PP: 2}, "line"),
    (2, {PP: 2}, "v"),
    (2, {"context_parallel_size": 2, **DISTRIBUTED}, "line"),
    (2, {"dtype": "bfloat16"}, "line"),
    (2, {"dtype": "bfloat16", **DISTRIBUTED}, "line"),
    (1, {}, "line"),
]


EXPERTS = Experts(count=3, per_token=2, ffn_hidden_size=12, dense_layers=(1,))
CHAIN_OF_EXPERTS: list[tuple[int, dict[str, Any]]] = [
    (2, {PP: 2}),
    (2, {TP: 2, "sequence_parallel": True}),
    (2, {**DISTRIBUTED}),
    (1, {}),
]


def contents(folder: Path) -> dict[str, Tensor]:
    """All entries of a state that one rank wrote."""
    files = [path.name for path in folder.iterdir()]
    found: dict[str, Tensor] = {}
    for name, model in open_models(folder, files, ["actor", "critic"]).items():
        for shard in (shard for shards in model._shards.values() for shard in shards):
            found |= {f"{name} {kind} {shard.name}": model.entries(shard, kind=kind) for kind in (VALUE, *MOMENTS)}
    return found


@pytest.mark.parametrize("tied", [False, True])
def test_a_state_is_the_same_to_the_bit_after_other_layouts(ranks: RankPool, tmp_path: Path, tied: bool) -> None:
    folder = folder_of(tmp_path, tied=tied)
    first, source = tmp_path / "first", tmp_path / "first"
    (made,) = ranks.run(f"{JOBS}:through", world=1, folder=folder, source=None, into=str(first), keys={})
    chain = [each for index, each in enumerate(CHAIN) if not tied or index in (1, 3, 5, 9)]
    for number, (world, keys, placement) in enumerate(chain):
        target = tmp_path / str(number)
        options: dict[str, Any] = {"source": str(source), "into": str(target), "keys": keys, "placement": placement}
        found = ranks.run(f"{JOBS}:through", world=world, folder=folder, **options)
        assert all(each["rounded"] and each["kept_still"] for each in found), keys
        assert {step for each in found for step in each["steps"]} == {"3"}
        if not tied and keys.get(TP, 1) == 1:  # else the vocabulary is padded further, or a table has two copies
            assert sum(each["numbers"] for each in found) == made["numbers"], keys
        source = target
    before, after = contents(first), contents(source)
    assert before.keys() == after.keys()
    assert len(before) > 100
    assert [name for name in before if not torch.equal(before[name], after[name])] == []
    assert all(float(tensor.std()) > 0 for name, tensor in before.items() if "exp_avg" in name)


def test_routers_and_experts_are_the_same_to_the_bit_after_other_layouts(ranks: RankPool, tmp_path: Path) -> None:
    folder = test_preflight.model(tmp_path / "model", family="qwen3_moe", experts=EXPERTS)
    first, source = tmp_path / "first", tmp_path / "first"
    job: dict[str, Any] = {"target": f"{JOBS}:through", "folder": folder}
    (made,) = ranks.run(**job, world=1, source=None, into=str(first), keys={})
    for number, (world, keys) in enumerate(CHAIN_OF_EXPERTS):
        target = tmp_path / str(number)
        found = ranks.run(**job, world=world, source=str(source), into=str(target), keys=keys)
        assert {step for each in found for step in each["steps"]} == {"3"}
        if keys.get(TP, 1) == 1:  # else the vocabulary is padded further
            assert sum(each["numbers"] for each in found) == made["numbers"], keys
        source = target
    before, after = contents(first), contents(source)
    assert before.keys() == after.keys()
    for layer in (0, 2, 3):
        for part in ("mlp.router", *(f"mlp.experts.local_experts.{n}.linear_fc{k}" for n in range(3) for k in (1, 2))):
            for kind in (VALUE, *MOMENTS):
                assert float(before[f"actor {kind} decoder.layers.{layer}.{part}.weight"].std()) > 0
    assert [name for name in before if not torch.equal(before[name], after[name])] == []


def test_each_replica_writes_a_part(ranks: RankPool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"source": None, "into": str(tmp_path / "state"), "keys": {}}
    first, second = ranks.run(f"{JOBS}:through", world=2, folder=folder_of(tmp_path), **options)
    assert 0.5 < first["numbers"] / second["numbers"] < 2.0


def test_a_model_that_the_state_lacks_is_an_error(tmp_path: Path) -> None:
    assert isinstance(open_models(tmp_path, [], ["actor"])["actor"], SavedModel)
    with pytest.raises(ValueError, match="has no parameter x of actor"):
        open_models(tmp_path, [], ["actor"])["actor"]._held("x")
