"""Models that lie on different ranks do what they do on the same ones."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.distributed import trainer_jobs
from tests.distributed.pool import RankPool
from tests.fusedrl.trainers.test_ppo_runs import REWARD, overrides
from tests.fusedrl.trainers.test_preflight import model

JOBS = "tests.fusedrl.trainers.layout_jobs"
TWO_STEPS = ["trainer.total_training_steps=2", "trainer.save_freq=1"]
ONE_A_BATCH = [
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
    "critic.forward_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1",
]
PLACED = [
    "actor_rollout_ref.actor.megatron.ranks='2-3'",
    "critic.megatron.ranks='0-1'",
    "actor_rollout_ref.ref.megatron.ranks='1-2'",
    "actor_rollout_ref.rollout.ranks='0,3'",
]
BESIDE, ACROSS, OVERLAPPING = ("0-1", "2-3"), ("0,2", "1,3"), ("0-1", "1-2")


def test_training_on_other_ranks_is_bit_equal_to_training_on_the_same_ones(ranks: RankPool, tmp_path: Path) -> None:
    """Side by side, in turn (two replicas each), and with one rank in common while another has nothing; the inference
    before, the optimizers' steps and their metrics, which every rank knows, too."""
    folder, nowhere = trainer_jobs.folder_of(tmp_path), (None, None)
    same = ranks.run(f"{JOBS}:trained", world=2, folder=folder, runs=[(2, nowhere, "fused"), (1, nowhere, "serial")])
    runs = [(2, BESIDE, "fused"), (1, ACROSS, "fused"), (2, OVERLAPPING, "fused"), (2, BESIDE, "serial")]
    apart = ranks.run(f"{JOBS}:trained", world=4, folder=folder, runs=runs)
    pipelines, replicas = ([of_rank[run] for of_rank in same] for run in range(2))
    beside, across, overlapping, serial = ([of_rank[run] for of_rank in apart] for run in range(4))
    for found, expected in ((beside, pipelines), (overlapping, pipelines), (serial, pipelines), (across, replicas)):
        assert [each["metrics"] for each in found] == [expected[0]["metrics"]] * 4
    for column in range(2):
        both = pipelines[column]["state"]
        assert equal(both, beside[column]["state"] + beside[2 + column]["state"])
        assert equal(both, serial[column]["state"] + serial[2 + column]["state"])
        assert equal(replicas[column]["state"], across[2 * column]["state"] + across[2 * column + 1]["state"])
    first, middle, last, nothing = (each["state"] for each in overlapping)
    count = len(first)
    assert equal(pipelines[0]["state"], first + middle[-(len(pipelines[0]["state"]) - count) :])
    assert equal(pipelines[1]["state"], middle[: len(pipelines[1]["state"]) - len(last)] + last)
    assert nothing == []


def equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    assert len(one) > 0
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_generation_on_some_ranks_gives_all_ranks_the_tokens_of_generation_on_all(
    ranks: RankPool, tmp_path: Path
) -> None:
    """The actor lies on others, on a part of them, or nowhere near; the engine is a replica or a pipeline."""
    folder = trainer_jobs.folder_of(tmp_path)
    runs: list[dict[str, Any]] = [
        {"tp": 1, "pp": 2, "ranks": ("0-1", "0-1"), "rollout_tp": 1, "rollout_ranks": "2-3"},
        {"tp": 1, "pp": 2, "ranks": ("1-2", "0-1"), "rollout_tp": 1, "rollout_pp": 2, "rollout_ranks": "2-3"},
    ]
    alone = ranks.run(f"{JOBS}:generated", world=1, folder=folder, runs=[{"tp": 1, "pp": 1, "rollout_tp": 1}])
    found = ranks.run(f"{JOBS}:generated", world=4, folder=folder, runs=runs)
    assert found == [alone[0] * 2] * 4


def test_a_run_on_ranks_of_each_model_goes_on_to_the_bit(ranks: RankPool, tmp_path: Path) -> None:
    """Rank 0 writes and has no part of the actor; a state goes on on other ranks, too, within rounding."""
    (tmp_path / "reward.py").write_text(REWARD)
    model(tmp_path / "actor")
    placed = ["parallel=pp2", *PLACED, "algorithm=ppo_kl", "trainer.export_hf=true"]
    more = [*TWO_STEPS, f"custom_reward_function.path={tmp_path / 'reward.py'}"]
    runs = {"whole": overrides(str(tmp_path / "actor"), tmp_path / "whole", *more, *placed)}
    state = f"trainer.resume_from_path={tmp_path / 'whole/checkpoints/global_step_1'}"
    for name, layout in {"resumed": placed, "elsewhere": ["algorithm=ppo_kl"]}.items():
        resumed = [*more, *layout, "trainer.resume_mode=resume_path", state]
        runs[name] = overrides(str(tmp_path / "actor"), tmp_path / name, *resumed)
    found = ranks.run("tests.fusedrl.trainers.checkpoint_jobs:several", world=4, runs=runs)
    for rank, of_rank in enumerate(found):
        whole, resumed, elsewhere = (of_rank[name] for name in runs)
        assert sorted(whole["state"]) == sorted({"critic"} if rank < 2 else {"actor"})
        assert resumed["metrics"] == whole["metrics"][1:] == found[0]["whole"]["metrics"][1:]
        assert elsewhere["metrics"][0] == pytest.approx(whole["metrics"][1], rel=1e-5, abs=1e-5)
        for name, state_of_role in whole["state"].items():
            assert equal(list(state_of_role.values()), list(resumed["state"][name].values()))
    exported = tmp_path / "whole/checkpoints/global_step_2"
    assert (exported / "actor/config.json").is_file()
    assert (exported / "critic/config.json").is_file()


def test_inference_in_layouts_of_its_own_is_that_of_the_trained_layouts(ranks: RankPool, tmp_path: Path) -> None:
    """To the bit where tensor-parallel sizes are equal. Memory of copies, and of a reference that waits, is there while
    they read alone; the critic's copy stays."""
    (tmp_path / "reward.py").write_text(REWARD)
    model(tmp_path / "actor")
    more = ["parallel=pp2", "algorithm=ppo_kl", f"custom_reward_function.path={tmp_path / 'reward.py'}", *ONE_A_BATCH]
    keys = {
        "actor_rollout_ref.actor.inference_megatron": ["enable=true"],
        "critic.inference_megatron": ["enable=true", "ranks='2-3'", "tensor_model_parallel_size=2", "resident=true"],
        "actor_rollout_ref.ref.megatron": ["resident=false", "ranks='1-2'"],
    }
    more += [f"{key}.{each}" for key, values in keys.items() for each in values]
    found = ranks.run(f"{JOBS}:read", world=4, overrides=overrides(str(tmp_path / "actor"), tmp_path / "run", *more))
    for rank, of_rank in enumerate(found):
        own, trained = of_rank["own"], of_rank["trained"]
        assert set(own) == set(trained) == {"logp", "entropy", "values", "ref_logp"}
        for name in ("logp", "entropy", "ref_logp"):
            assert torch.equal(own[name], trained[name]), name
        assert not torch.equal(own["logp"], own["ref_logp"])
        torch.testing.assert_close(own["values"], trained["values"], rtol=0, atol=1e-5)
        for name, on in {"actor": range(4), "critic": (2, 3), "ref": (1, 2)}.items():
            before, meanwhile, after = of_rank["held"][name]
            assert (meanwhile > 0) == (rank in on)
            assert before == after == (meanwhile if name == "critic" else 0)
