"""What cannot be resumed is told in one line before anything starts; what may change is told and goes on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fusedrl.checkpoint.folder import point_to, state_folder
from fusedrl.checkpoint.manifest import MANIFEST, Manifest, write_manifest
from fusedrl.config.load import load, to_yaml
from fusedrl.config.schema import BaseTrainerConfig, PPOConfig
from fusedrl.models.architecture import Architecture
from fusedrl.models.experts import Experts
from fusedrl.models.hf_export import write_random_hf
from fusedrl.trainers.preflight import ppo_problems, sft_problems
from fusedrl.trainers.resuming import changes, ppo_identity, resume_notes, resume_problems
from tests.fusedrl.trainers.test_preflight import model

EXPERTS: dict[str, Any] = {"family": "qwen3_moe", "experts": Experts(count=3, per_token=2, ffn_hidden_size=12)}


def config(folder: Path, run: Path, *more: str) -> PPOConfig:
    fixed = [f"actor_rollout_ref.model.path={folder}", f"trainer.default_local_dir={run}"]
    return load("ppo", ["experiment=arithmetic", "data.task.train_size=200", *fixed, *more])


def saved(run: Path, found: PPOConfig, *, step: int = 3, command: str = "ppo") -> Path:
    """A state's manifest, which is all that is looked at before a run."""
    checkpoints = run / "checkpoints"
    state_folder(checkpoints, step).mkdir(parents=True)
    values = {"identity": ppo_identity(found)}
    write_manifest(state_folder(checkpoints, step), Manifest(command, step, 4, values, {}))
    point_to(checkpoints, step)
    return state_folder(checkpoints, step)


def other(parent: Path, **sizes: Any) -> Path:
    """The model with other sizes."""
    architecture = replace(Architecture.from_folder(parent / "actor"), **sizes)
    return write_random_hf(architecture, parent / "other", seed=0, tokenizer_folder=parent / "actor")


def problems(found: PPOConfig) -> list[str]:
    return ppo_problems(found, world=4, warm_start=None, speaks=True)


def test_a_run_of_the_same_models_goes_on_and_the_check_says_from_where(tmp_path: Path) -> None:
    folder, run = Path(model(tmp_path / "actor")), tmp_path / "run"
    found = config(folder, run)
    assert resume_notes(found.trainer) == ["it starts afresh"]
    state = saved(run, found)
    assert problems(found) == []
    (note,) = resume_notes(found.trainer)
    assert note.startswith(f"it goes on after step 3, from {state} (")
    (note,) = resume_notes(config(folder, run, "trainer.total_training_steps=3").trainer)
    assert note.startswith("all 3 steps are done already")
    other = config(folder, run, "parallel=tp2", "actor_rollout_ref.actor.optim.lr=1e-3", "algorithm.gamma=0.5")
    assert problems(other) == []
    assert resume_notes(config(folder, run, "trainer.resume_mode=disable").trainer) == ["it starts afresh"]


def test_a_run_of_models_with_experts_goes_on(tmp_path: Path) -> None:
    found = config(Path(model(tmp_path / "actor", **EXPERTS)), tmp_path / "run")
    saved(tmp_path / "run", found)
    assert problems(found) == []


def test_a_state_without_a_manifest_is_passed_over_before_the_run(tmp_path: Path) -> None:
    folder, run = Path(model(tmp_path / "actor")), tmp_path / "run"
    found = config(folder, run)
    saved(run, found, step=2)
    (saved(run, found, step=3) / MANIFEST).unlink()
    assert problems(found) == []
    assert resume_notes(found.trainer)[0].startswith("it goes on after step 2")


@pytest.mark.parametrize(
    ("sizes", "overrides", "said"),
    [
        ({"num_layers": 8}, [], "actor.num_layers 4 saved, 8 now; critic.num_layers 4 saved, 8 now"),
        ({"vocab_size": 20}, [], "actor.vocab_size 16 saved, 20 now"),
        ({}, ["critic.optim.betas=[0.9,0.99]"], "critic.betas [0.9, 0.95] saved, [0.9, 0.99] now"),
        ({}, ["algorithm=grpo"], "critic saved"),
        (EXPERTS, [], "actor.family llama saved, qwen3_moe now; actor.experts None saved, {'count': 3, "),
    ],
)
def test_another_model_vocabulary_or_optimizer_is_refused_in_one_line(
    tmp_path: Path, sizes: dict[str, Any], overrides: list[str], said: str
) -> None:
    run = tmp_path / "run"
    saved(run, config(Path(model(tmp_path / "actor")), run))
    (line,) = problems(config(other(tmp_path, **sizes), run, *overrides))
    assert said in line
    assert line.endswith("or start afresh with trainer.resume_mode=disable")
    assert "global_step_3/state cannot be resumed" in line


def test_a_state_of_another_command_is_refused(tmp_path: Path) -> None:
    folder, run = Path(model(tmp_path / "actor")), tmp_path / "run"
    found = config(folder, run)
    saved(run, found, command="sft")
    assert "it is of fusedrl.sft, this is fusedrl.ppo" in problems(found)[0]
    sft = load("sft", [f"model={{path: {folder}, new: {{alphabet: null}}}}", "data=chain_sum", *_sft(run)])
    assert "actor saved" in sft_problems(sft, world=4, speaks=True)[0]


def _sft(run: Path) -> list[str]:
    return ["data.task.train_size=200", "data.max_length=24", f"trainer.default_local_dir={run}"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"resume_mode": "resume_path"}, "trainer.resume_from_path: a global_step_N folder is needed"),
        ({"resume_from_path": "x"}, "trainer.resume_from_path=x is not used with trainer.resume_mode=auto"),
        (
            {"resume_mode": "resume_path", "resume_from_path": "nowhere/global_step_3"},
            "trainer.resume_from_path=nowhere/global_step_3: there is no saved state",
        ),
    ],
)
def test_keys_that_do_not_fit_together_are_told(keys: dict[str, Any], said: str, tmp_path: Path) -> None:
    trainer = BaseTrainerConfig(default_local_dir=str(tmp_path), **keys)
    (line,) = resume_problems(trainer, command="ppo", own={})
    assert line.startswith(said)


def test_changed_keys_are_told_but_not_where_the_run_lies(tmp_path: Path) -> None:
    folder = Path(model(tmp_path / "actor"))
    before = to_yaml(config(folder, tmp_path / "a"))
    after = to_yaml(config(folder, tmp_path / "b", "algorithm.gamma=0.5", "trainer.resume_mode=disable"))
    assert changes(before, after) == ["algorithm.gamma: 1.0 saved, 0.5 now"]
    assert changes(before, before) == []
