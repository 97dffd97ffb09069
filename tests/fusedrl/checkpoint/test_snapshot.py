"""A state is the same to the bit after it went through any other layout; each number is written once."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fusedrl.checkpoint.pieces import SavedModel, open_models
from fusedrl.models.optimizer_state import MOMENTS, VALUE
from tests.distributed.pool import RankPool
from tests.distributed.trainer_jobs import folder_of

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


def test_each_replica_writes_a_part(ranks: RankPool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"source": None, "into": str(tmp_path / "state"), "keys": {}}
    first, second = ranks.run(f"{JOBS}:through", world=2, folder=folder_of(tmp_path), **options)
    assert 0.5 < first["numbers"] / second["numbers"] < 2.0


def test_a_model_that_the_state_lacks_is_an_error(tmp_path: Path) -> None:
    assert isinstance(open_models(tmp_path, [], ["actor"])["actor"], SavedModel)
    with pytest.raises(ValueError, match="has no parameter x of actor"):
        open_models(tmp_path, [], ["actor"])["actor"]._held("x")
