"""Whether a run may go on from a saved state, and what to tell about it. No process group is needed here.

    identity    what a state is of: its command, and for each trained model its architecture and Adam's constants
    problems    why this configuration cannot go on from where it would; one line each
    notes       from where it would go on (for --check)

Layouts, data types, schedules and step counts may change; what is told then is in docs/checkpoints.md.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from fusedrl.checkpoint.choose import state_of
from fusedrl.checkpoint.folder import candidates, state_folder
from fusedrl.checkpoint.manifest import MANIFEST, DamagedCheckpoint, Manifest, read_manifest
from fusedrl.config.check_layout import needs_critic
from fusedrl.config.schema import BaseTrainerConfig, OneModelConfig, OptimConfig, PPOConfig
from fusedrl.models.architecture import Architecture

NUMBERS = (
    "family",
    "hidden_size",
    "num_layers",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "ffn_hidden_size",
    "vocab_size",
    "tied",
    "rms_norm_eps",
)
FREE = ("trainer.resume_mode", "trainer.resume_from_path", "trainer.default_local_dir")  # no news where they differ


def checkpoints_of(trainer: BaseTrainerConfig) -> Path:
    return Path(trainer.default_local_dir) / "checkpoints"


def identity(models: Mapping[str, tuple[Architecture, OptimConfig]]) -> dict[str, dict[str, Any]]:
    """By model; in JSON's types, so that it equals what a manifest gives back."""
    found = {
        name: {number: getattr(arch, number) for number in NUMBERS}
        | ({"experts": asdict(arch.experts)} if arch.experts else {})
        | {"rope": asdict(arch.rope), "optimizer": "adam", "betas": list(optim.betas), "eps": optim.eps}
        for name, (arch, optim) in models.items()
    }
    plain: dict[str, dict[str, Any]] = json.loads(json.dumps(found))  # the experts' dense layers are a tuple
    return plain


def ppo_identity(config: PPOConfig) -> dict[str, dict[str, Any]]:
    """Of the actor, and of the critic where there is one. Raises ValueError where a folder holds no model."""
    policy, critic = config.actor_rollout_ref, config.critic
    models = {"actor": (Architecture.from_folder(policy.model.path), policy.actor.optim)}
    if needs_critic(config):
        models["critic"] = (Architecture.from_folder(critic.model.path), critic.optim)
    return identity(models)


def one_model_identity(config: OneModelConfig, folder: Path) -> dict[str, dict[str, Any]]:
    """folder: that the model starts from."""
    return identity({"model": (Architecture.from_folder(folder), config.optim)})


def check_keys(trainer: BaseTrainerConfig) -> Iterator[str]:
    """The keys fit together."""
    mode, path = trainer.resume_mode, trainer.resume_from_path
    if mode == "resume_path" and path is None:
        yield "trainer.resume_from_path: a global_step_N folder is needed with trainer.resume_mode=resume_path"
    if mode != "resume_path" and path is not None:
        yield f"trainer.resume_from_path={path} is not used with trainer.resume_mode={mode}; set it to resume_path"


def resume_problems(trainer: BaseTrainerConfig, *, command: str, own: Mapping[str, Any]) -> list[str]:
    """Before anything starts; of damaged files only a missing manifest is found here."""
    if found := list(check_keys(trainer)):
        return found
    try:
        saved = _planned(trainer)
        if saved is not None:
            check_same(saved[1], where=saved[0], command=command, own=own)
    except ValueError as error:
        return [str(error)]
    return []


def resume_notes(trainer: BaseTrainerConfig) -> list[str]:
    """From where a run of this configuration would start. How many steps epochs make is known when rows are read."""
    try:
        saved = _planned(trainer)
    except ValueError as error:
        return [str(error)]
    if saved is None:
        return ["it starts afresh"]
    folder, manifest = saved
    size = f"{manifest.bytes / 1e6:.1f} MB in {manifest.world} files"
    steps = trainer.total_training_steps
    if steps is not None and manifest.step >= steps:
        return [f"all {steps} steps are done already, in {folder}; trainer.resume_mode=disable starts afresh"]
    return [f"it goes on after step {manifest.step}, from {folder} ({size}, whose checksums a run looks at)"]


def _planned(trainer: BaseTrainerConfig) -> tuple[Path, Manifest] | None:
    """The first state in line; under auto a damaged one is passed over, as the run does it."""
    if trainer.resume_mode == "disable":
        return None
    if trainer.resume_from_path is not None:
        folder = state_of(Path(trainer.resume_from_path))
        if not (folder / MANIFEST).is_file():
            raise ValueError(f"trainer.resume_from_path={trainer.resume_from_path}: there is no saved state")
        return folder, read_manifest(folder)
    for step in candidates(checkpoints_of(trainer)):
        folder = state_folder(checkpoints_of(trainer), step)
        try:
            return folder, read_manifest(folder)
        except DamagedCheckpoint:
            continue
    return None


def check_same(manifest: Manifest, *, where: Path, command: str, own: Mapping[str, Any]) -> None:
    """Raises ValueError where the state is of another run: another command, model, vocabulary or optimizer."""
    saved = manifest.values["identity"]
    differing = [f"{name} {'saved' if name in saved else 'not saved'}" for name in sorted(saved.keys() ^ own.keys())]
    differing += [
        f"{name}.{number} {saved[name].get(number)} saved, {own[name][number]} now"
        for name in sorted(saved.keys() & own.keys())
        for number in own[name]
        if saved[name].get(number) != own[name][number]
    ]
    if manifest.command != command:
        differing = [f"it is of fusedrl.{manifest.command}, this is fusedrl.{command}"]
    if differing:
        raise ValueError(
            f"{where} cannot be resumed: {'; '.join(differing)}. Take the saved configuration back, or start afresh "
            "with trainer.resume_mode=disable"
        )


def changes(saved: str, now: str) -> list[str]:
    """Keys of two configurations (YAML) that differ, as lines."""
    before, after = dict(_flat(yaml.safe_load(saved))), dict(_flat(yaml.safe_load(now)))
    names = [name for name in before | after if name not in FREE]
    return [
        f"{name}: {before.get(name)} saved, {after.get(name)} now"
        for name in names
        if before.get(name) != after.get(name)
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
