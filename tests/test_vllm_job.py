"""A PPO job that generates with vLLM, as a user starts it: torchrun on two ranks, files in, files out."""

import json
from pathlib import Path

import pytest

from fusedrl.rollout.vllm_library import problem
from tests.test_jobs import REWARD, launch

pytestmark = pytest.mark.skipif(problem() is not None, reason="needs vLLM: launch/test_vllm.sh runs these")


def test_two_steps_of_ppo_with_vllm_draw_what_the_trainer_computes(tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text(REWARD)
    done = launch(
        "fusedrl.ppo",
        "experiment=arithmetic",
        "data.train_batch_size=8",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.actor.ppo_mini_batch_size=16",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        "critic.ppo_micro_batch_size_per_gpu=8",
        "data.task.train_size=64",
        "data.task.val_size=8",
        "custom_reward_function={path: reward.py, name: closeness, num_workers: 1}",
        "trainer={total_training_steps: 2, experiment_name: tiny, test_freq: -1}",
        "actor_rollout_ref.model.path=runs/tiny_sft/huggingface",
        "actor_rollout_ref.model.warm_start_overrides=['trainer.total_training_steps=2','data.task.train_size=200']",
        ranks=2,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in (tmp_path / "runs/tiny/metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["step"]]
    assert [line["step"] for line in steps] == [1, 2]
    for line in steps:
        assert line["training/rollout_probs_diff_max"] < 1e-4  # of the second step: after new weights were handed over
        assert line["timing_s/hand_over"] > 0
        assert line["actor/grad_norm"] > 0
