"""A run that goes on from a state is the uninterrupted one: every metric, every parameter, every moment, to the bit."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fusedrl.checkpoint.folder import candidates, saved_steps, state_folder, step_folder
from fusedrl.models.experts import Experts
from fusedrl.models.hf_folder import HfFolder
from tests.distributed.pool import RankFailure, RankPool
from tests.fusedrl.trainers.test_ppo_runs import REWARD, SIZES, overrides
from tests.fusedrl.trainers.test_preflight import model
from tests.fusedrl.trainers.test_reward_model import write_pairs

JOBS = "tests.fusedrl.trainers.checkpoint_jobs"
FOUR_STEPS = ["trainer.total_training_steps=4", "trainer.save_freq=1", "trainer.export_hf=false"]
LEARNS = ["actor_rollout_ref.actor.optim.lr=1e-3", "actor_rollout_ref.actor.optim.lr_decay_style=linear"]
LEARNS += ["critic.optim.lr=1e-3", "critic.optim.lr_warmup_steps=3"]
TWO_UPDATES = ["actor_rollout_ref.actor.ppo_mini_batch_size=4"]  # of each step
TP2_SHARED = ["megatron.pipeline_model_parallel_size=1", "megatron.tensor_model_parallel_size=2"]
TP2_SHARED += ["megatron.sequence_parallel=true"]
ADAPTIVE = ["algorithm=ppo_kl", "algorithm.kl_ctrl.type=adaptive", "algorithm.kl_ctrl.horizon=50"]


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("checkpointing")
    (found / "reward.py").write_text(REWARD)
    model(found / "actor")
    return found


def arguments(parent: Path, run: str, *more: str, after: tuple[str, int] | None = None) -> list[str]:
    """Of a run in a folder of its own; after: another run and the step of it to go on from."""
    function = f"custom_reward_function.path={parent / 'reward.py'}"
    found = overrides(str(parent / "actor"), parent / run, function, *FOUR_STEPS, *LEARNS, *more)
    assert set(SIZES) <= set(found)
    if after is None:
        return found
    path = parent / after[0] / "checkpoints" / f"global_step_{after[1]}"
    return [*found, "trainer.resume_mode=resume_path", f"trainer.resume_from_path={path}"]


def differing(whole: dict[str, Any], resumed: dict[str, Any]) -> list[str]:
    return [
        f"{role} {name}"
        for role, state in whole["state"].items()
        for name, tensor in state.items()
        if not torch.equal(tensor, resumed["state"][role][name])
    ]


def test_from_any_step_it_is_the_uninterrupted_run(ranks: RankPool, parent: Path) -> None:
    """Actor and critic fused on two stages. Other layouts go on from the same state within rounding."""
    more = ["parallel=pp2", *ADAPTIVE]
    runs = {"whole": arguments(parent, "pp/whole", *more)}
    runs |= {str(n): arguments(parent, f"pp/{n}", *more, after=("pp/whole", n)) for n in (1, 3)}
    distributed = "actor_rollout_ref.actor.megatron.use_distributed_optimizer=true"
    for name, layout in {"tp2": ["parallel=tp2"], "dp2": [distributed]}.items():
        runs[name] = arguments(parent, f"pp/{name}", *ADAPTIVE, *layout, after=("pp/whole", 3))
    for found in ranks.run(f"{JOBS}:several", world=2, runs=runs):
        whole = found["whole"]
        assert len(whole["metrics"]) == 4
        assert whole["metrics"][0]["actor/lr"] != whole["metrics"][3]["actor/lr"]
        assert whole["metrics"][0]["actor/reward_kl_penalty_coeff"] != whole["kl"]
        for step in (1, 3):
            assert found[str(step)]["metrics"] == whole["metrics"][step:]
            assert found[str(step)]["kl"] == whole["kl"]
            assert differing(whole, found[str(step)]) == []
            assert any(line.startswith(f"RESUMED after step {step}, from ") for line in found[str(step)]["told"])
        for name in ("tp2", "dp2"):
            (last,) = found[name]["metrics"]
            assert last == pytest.approx(whole["metrics"][3], rel=1e-6, abs=1e-6)
            assert any("equal to rounding, not to the bit" in line for line in found[name]["told"])


@pytest.mark.parametrize(
    ("world", "more"),
    [
        (2, ["algorithm=grpo", "actor_rollout_ref.actor.megatron.use_distributed_optimizer=true", *TWO_UPDATES]),
        (
            4,
            [
                "parallel=pp2",
                "actor_rollout_ref.actor.megatron.use_distributed_optimizer=true",
                "actor_rollout_ref.actor.megatron.overlap_grad_reduce=true",
                "actor_rollout_ref.actor.megatron.overlap_param_gather=true",
                "actor_rollout_ref.actor.megatron.dtype=bfloat16",
            ],
        ),
    ],
    ids=["dp2-distributed-without-critic", "pp2-dp2-distributed-overlapped-bf16"],
)
def test_every_optimizer_goes_on_to_the_bit(ranks: RankPool, parent: Path, world: int, more: list[str]) -> None:
    name = f"{world}{len(more)}"
    runs = {
        "whole": arguments(parent, f"{name}/whole", *more),
        "resumed": arguments(parent, f"{name}/resumed", *more, after=(f"{name}/whole", 2)),
    }
    for found in ranks.run(f"{JOBS}:several", world=world, runs=runs):
        assert found["resumed"]["metrics"] == found["whole"]["metrics"][2:]
        assert differing(found["whole"], found["resumed"]) == []
        if more[-1:] == TWO_UPDATES:  # rates of the last step's two updates: the counter counts updates, not steps
            rates = [1e-3 * left / 8 for left in (2, 1)]
            assert found["resumed"]["metrics"][-1]["actor/lr"] == pytest.approx(sum(rates) / 2, rel=1e-6)


def one_model_arguments(folder: Path, *, command: str, run: str) -> list[str]:
    files = write_pairs(folder / "pairs.jsonl", numbers=range(8))
    rows = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a in range(5) for b in range(5)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [
        f"model.path={folder / 'start'}",
        f"data={{train_files: [{files if command == 'reward_model' else folder / 'rows.jsonl'}], train_batch_size: 8}}",
        "data.micro_batch_size_per_gpu=2",
        "data.max_length=16",
        "optim.lr=1e-2",
        "megatron.pipeline_model_parallel_size=2",
        f"megatron.dtype={'float32' if command == 'sft' else 'bfloat16'}",
        f"trainer={{total_training_steps: 5, save_freq: 2, logger: [], default_local_dir: {folder / run}}}",
    ]


def rows_of(folder: Path) -> list[dict[str, float]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.startswith(("timing", "perf"))} for line in lines]


@pytest.mark.parametrize("command", ["sft", "reward_model"])
def test_an_interrupted_run_goes_on_by_itself_in_the_same_records(
    ranks: RankPool, tmp_path: Path, command: str
) -> None:
    """Interrupted in step 4, saved after step 2: steps 3 to 5 run, and the row of the first step 3 goes."""
    model(tmp_path / "start")
    job: dict[str, Any] = {"target": f"{JOBS}:one_model", "world": 2, "command": command}
    ranks.run(**job, overrides=one_model_arguments(tmp_path, command=command, run="whole"))
    cut = one_model_arguments(tmp_path, command=command, run="cut")
    ranks.run(**job, overrides=cut, stop_after=3)
    assert [row["step"] for row in rows_of(tmp_path / "cut")] == [1, 2, 3]
    assert candidates(tmp_path / "cut/checkpoints") == [2]
    assert not (tmp_path / "cut/huggingface").exists()
    told, _ = ranks.run(**job, overrides=cut)
    assert any("1 rows of " in line and "the steps after 2 run again" in line for line in told)
    assert rows_of(tmp_path / "cut") == rows_of(tmp_path / "whole")
    assert not (tmp_path / "cut/previous").exists()
    whole, resumed = (HfFolder(tmp_path / run / "huggingface") for run in ("whole", "cut"))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    told, _ = ranks.run(**job, overrides=cut)
    assert "all 5 steps of " in told[-1]
    assert rows_of(tmp_path / "cut") == rows_of(tmp_path / "whole")


def test_a_model_with_experts_goes_on_to_the_bit_and_in_another_layout(ranks: RankPool, tmp_path: Path) -> None:
    """Trained on two stages; two ranks of tensor parallelism go on from the same state within rounding."""
    model(tmp_path / "start", family="qwen3_moe", experts=Experts(count=3, per_token=2, ffn_hidden_size=12))
    job: dict[str, Any] = {"target": f"{JOBS}:one_model", "world": 2, "command": "sft"}

    def given(run: str) -> list[str]:
        return [*one_model_arguments(tmp_path, command="sft", run=run), "trainer.total_training_steps=3"]

    ranks.run(**job, overrides=given("whole"))
    state = step_folder(tmp_path / "whole/checkpoints", 2)
    after = ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={state}"]
    ranks.run(**job, overrides=[*given("same"), *after])
    ranks.run(**job, overrides=[*given("tp2"), *after, *TP2_SHARED])
    row = rows_of(tmp_path / "whole")[2]
    assert rows_of(tmp_path / "same") == [row]
    assert rows_of(tmp_path / "tp2") == [pytest.approx(row, rel=1e-5)]
    whole, same, start = (HfFolder(tmp_path / run) for run in ("whole/huggingface", "same/huggingface", "start"))
    assert all(torch.equal(whole[name], same[name]) for name in whole)
    assert all(not torch.equal(whole[name], start[name]) for name in whole if "mlp.experts" in name or "gate." in name)


def test_a_fresh_run_of_the_same_name_sets_states_aside(ranks: RankPool, tmp_path: Path) -> None:
    model(tmp_path / "start")
    job: dict[str, Any] = {"target": f"{JOBS}:one_model", "world": 2, "command": "sft"}
    given = [*one_model_arguments(tmp_path, command="sft", run="run"), "trainer.total_training_steps=1"]
    ranks.run(**job, overrides=given)
    ranks.run(**job, overrides=[*given, "trainer.resume_mode=disable", "trainer.max_ckpt_to_keep=1"])
    assert saved_steps(tmp_path / "run/checkpoints") == [1]
    assert saved_steps(tmp_path / "run/previous/1/checkpoints") == [1]
    other = state_folder(tmp_path / "run/checkpoints", 1)
    (other / "rank_00001.safetensors").write_bytes(b"")
    with pytest.raises(RankFailure, match=r"no state in .* is good: .*rank_00001.safetensors: 0 bytes, \d+ were"):
        ranks.run(**job, overrides=given)
