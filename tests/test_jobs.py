"""The two entry points as a user starts them: torchrun, files in, files out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from fusedrl.pipeline.plan import read_order
from schedules.check import check
from schedules.problem import Problem

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("jsonl", "html")
REWARD = """
def closeness(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float(solution_str == ground_truth) + 0.1 * len(solution_str), "seen": data_source}
"""


def launch(module: str, *arguments: str, ranks: int, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "CI": "true"}
    return subprocess.run(
        [*command, "-m", module, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder in which a warm start and two steps of PPO ran on two ranks, and what was printed."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "reward.py").write_text(REWARD)
    done = launch(
        "fusedrl.ppo",
        "experiment=arithmetic",
        "algorithm=ppo_kl",
        "data.train_batch_size=8",
        "actor_rollout_ref.actor.ppo_mini_batch_size=16",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        "critic.ppo_micro_batch_size_per_gpu=8",
        "data.task.train_size=64",
        "data.task.val_size=8",
        "custom_reward_function={path: reward.py, name: closeness, num_workers: 1}",
        "trainer={total_training_steps: 2, experiment_name: tiny, test_freq: 1, profile_steps: [2]}",
        "actor_rollout_ref.model.path=runs/tiny_sft/huggingface",
        "actor_rollout_ref.model.warm_start_overrides=['trainer.total_training_steps=2','data.task.train_size=200']",
        ranks=2,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_console_tells_validation_before_and_after_bubble_and_minutes(finished: tuple[Path, str]) -> None:
    _, printed = finished
    last = printed.strip().splitlines()[-5:]
    assert any(" before, " in line and line.endswith(" after") for line in last)
    assert any(line.startswith("bubble ratio: planned") and "measured" in line for line in last)
    assert any(line.startswith("done in") and "minutes" in line for line in last)


def test_each_step_is_an_object_with_verl_s_names(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    lines = [json.loads(line) for line in (folder / "runs/tiny/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2]
    assert "val-core/reasoning_gym/chain_sum/reward/mean@1" in lines[0]  # the function tells no acc
    wanted = {
        *(f"actor/{name}" for name in ("pg_loss", "pg_clipfrac", "ppo_kl", "entropy", "grad_norm", "lr")),
        *(f"critic/{name}" for name in ("vf_loss", "vf_clipfrac", "grad_norm", "lr", "score/mean", "rewards/mean")),
        *(f"critic/{name}/mean" for name in ("advantages", "returns", "values")),
        *(f"perf/bubble_ratio/{name}" for name in ("planned", "replayed", "measured")),
        *(f"timing_s/{name}" for name in ("gen", "reward", "infer_fused", "adv", "update_fused", "step", "hand_over")),
        "response_length/mean",
        "prompt_length/mean",
        "perf/throughput",
        "training/rollout_probs_diff_mean",
        "actor/reward_kl_penalty",
        "actor/reward_kl_penalty_coeff",
    }
    assert wanted <= set(lines[1])
    assert lines[1]["training/rollout_probs_diff_max"] < 1e-4
    assert lines[1]["actor/reward_kl_penalty"] == pytest.approx(0.0, abs=1e-5)  # the reference is the actor's start
    assert abs(lines[2]["actor/reward_kl_penalty"]) > 1e-6


def test_the_reward_is_the_users_function(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    validation = folder / "runs/tiny/validation"
    assert {path.name for path in validation.iterdir()} == {f"step_{n}.{kind}" for n in range(3) for kind in KINDS}
    rows = [json.loads(line) for line in (validation / "step_2.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    for row in rows:
        expected = float(row["response"] == row["ground_truth"]) + 0.1 * len(row["response"])
        assert row["score"] == pytest.approx(expected)
        assert "acc" not in row


def test_a_profiled_step_leaves_a_trace_of_its_passes(finished: tuple[Path, str]) -> None:
    run = finished[0] / "runs/tiny"
    trace = json.loads((run / "trace_step2.json").read_text())
    assert not (run / "trace_step1.json").exists()
    passes, ops = (
        trace["otherData"]["passes"],
        [e for e in trace["traceEvents"] if e.get("tid") == 0 and e["ph"] == "X"],
    )
    assert len(ops) == len(passes) * 2 * (4 * 2 + 2 * 2)  # ranks; F and B of four and two micro-batches
    phases = [e for e in trace["traceEvents"] if e.get("tid") == 2 and e["ph"] == "X"]
    for rank in range(2):
        named = {e["name"]: e for e in phases if e["pid"] == rank}
        assert {"step", "gen", "reward", "infer_fused", "adv", "update_fused"} <= set(named)
        assert "save_checkpoint" not in named  # of the step before
        update, own = named["update_fused"], [e for e in ops if e["pid"] == rank]
        assert all(update["ts"] <= e["ts"] and e["ts"] + e["dur"] <= update["ts"] + update["dur"] for e in own)
    for each in passes:
        assert each["peak_memory"]["microbatches"] == each["peak_memory"]["planned_microbatches"]
        for measured, planned in zip(each["peak_memory"]["nbytes"], each["peak_memory"]["planned"], strict=True):
            assert 0.3 < measured / 2**20 / planned < 3  # counted from the model's sizes, in MiB


def test_the_order_that_ran_is_saved_with_its_problem(finished: tuple[Path, str]) -> None:
    run = finished[0] / "runs/tiny"
    problem = Problem.load(run / "problem.yaml")
    assert {model.name: model.microbatches for model in problem.models} == {"actor": 4, "critic": 2}
    assert check(problem, read_order(run / "order.csv", problem)).makespan > 0
    assert (run / "order.svg").read_text().lstrip().startswith("<?xml")
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["actor_rollout_ref"]["actor"]["megatron"]["pipeline_model_parallel_size"] == 2
    assert list((run / "tensorboard").iterdir())


def test_the_final_checkpoint_loads_in_hugging_face_and_has_moved(finished: tuple[Path, str]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = finished[0]
    actor = folder / "runs/tiny/checkpoints/global_step_2/actor"
    trained = AutoModelForCausalLM.from_pretrained(actor)
    start = AutoModelForCausalLM.from_pretrained(folder / "runs/tiny_sft/huggingface")
    before, after = start.state_dict(), trained.state_dict()
    assert before.keys() == after.keys()
    assert any(not before[name].equal(after[name]) for name in before)
    assert AutoTokenizer.from_pretrained(actor).decode([3, 4]) == " 0"
    critic = [load_file(path) for path in (actor.parent / "critic").glob("*.safetensors")]
    assert sum("score.weight" in tensors for tensors in critic) == 1


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("trainer.sed=1", "did you mean trainer.seed"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size=100", "ppo_mini_batch_size"),
        ("data.train_batch_size=0", "data.train_batch_size"),
    ],
)
def test_bad_configuration_ends_with_code_2_before_any_group(tmp_path: Path, override: str, named: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fusedrl.ppo", "experiment=arithmetic", override, "--world", "4"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert "megatron" not in done.stderr.lower() or "megatron" in named
    assert list(tmp_path.iterdir()) == []
