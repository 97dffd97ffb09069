"""Whole runs of the loop, a few tiny steps each."""

import json
from pathlib import Path

import pytest

from tests.distributed.pool import RankPool
from tests.fusedrl.trainers.test_preflight import model

SIZES = [
    "data=chain_sum",
    "data.task.train_size=40",
    "data.task.val_size=8",
    "data.train_batch_size=4",
    "data.max_prompt_length=16",
    "data.max_response_length=4",
    "actor_rollout_ref.rollout.n=2",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
    "custom_reward_function.num_workers=1",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
    "trainer.logger=[]",
    "trainer.total_training_steps=2",
    "schedule.solver=greedy",
]
PRESETS = {"ppo": True, "grpo": False, "remax": False}  # whether there is a critic
REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return sum(map(ord, solution_str)) / 100
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return model(tmp_path_factory.mktemp("ppo") / "actor")


def overrides(folder: str, run: Path, *more: str) -> list[str]:
    return [*SIZES, f"actor_rollout_ref.model.path={folder}", f"trainer.default_local_dir={run}", *more]


def test_runs_with_and_without_a_critic_train_and_save_what_they_have(
    ranks: RankPool, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "reward.py").write_text(REWARD)
    more = ["parallel=pp2", f"custom_reward_function.path={tmp_path / 'reward.py'}"]
    runs = {name: overrides(folder, tmp_path / name, f"algorithm={name}", *more) for name in PRESETS}
    runs["grpo"] += ["trainer.test_freq=1", "trainer.max_validation_to_keep=1"]
    runs["grpo"] += [f"actor_rollout_ref.rollout.val_kwargs.{key}" for key in ("n=2", "temperature=1", "top_k=5")]
    found, other = ranks.run("tests.fusedrl.trainers.ppo_jobs:run_all", world=2, runs=runs, steps=2)
    for name, with_critic in PRESETS.items():
        for mine, theirs in zip(found[name], other[name], strict=True):
            assert mine["actor/grad_norm"] == theirs["actor/grad_norm"] > 0
            assert ("critic/grad_norm" in mine) == ("critic/values/mean" in mine) == with_critic
        saved = sorted(each.name for each in (tmp_path / name / "checkpoints/global_step_2").iterdir())
        assert saved == (["actor", "critic", "state"] if with_critic else ["actor", "state"])
    check_validation(found["grpo"], folder=tmp_path / "grpo/validation")


def check_validation(history: list[dict[str, float]], *, folder: Path) -> None:
    """Two samples of each prompt, by a function without acc; those of the last validation stay."""
    source = "reasoning_gym/chain_sum/reward"
    for metrics in history:
        core = {name for name in metrics if name.startswith("val-core/")}
        assert core == {f"val-core/{source}/{figure}" for figure in ("mean@2", "best@2/mean")}
        worst, best = metrics[f"val-aux/{source}/worst@2/mean"], metrics[f"val-core/{source}/best@2/mean"]
        assert worst < metrics[f"val-core/{source}/mean@2"] < best
    assert sorted(path.name for path in folder.iterdir()) == ["step_2.html", "step_2.jsonl"]
    lines = [json.loads(line) for line in (folder / "step_2.jsonl").read_text().splitlines()]
    assert [(line["index"], line["sample"]) for line in lines] == [(row, copy) for row in range(8) for copy in range(2)]
    mean = sum(line["score"] for line in lines) / len(lines)
    assert mean == pytest.approx(history[-1][f"val-core/{source}/mean@2"], rel=1e-12)
