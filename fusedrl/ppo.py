"""PPO with a fused actor+critic pipeline: `torchrun --nproc-per-node 4 -m fusedrl.ppo experiment=NAME key=value`.

Keys: docs/configuration.md, or --help. Where the model's folder does not exist yet and
actor_rollout_ref.model.warm_start names an SFT experiment, that is run first, on the same ranks.
"""

import sys
import time
from pathlib import Path

from fusedrl.config.check_layout import layouts
from fusedrl.config.cli import start
from fusedrl.config.load import load
from fusedrl.config.schema import PPOConfig, SFTConfig
from fusedrl.sft import problems as sft_problems
from fusedrl.sft import run as run_sft
from fusedrl.telemetry.libraries import hush
from fusedrl.trainers.entry import in_world, is_first_rank, overlap_tensor_parallel, set_up


def needs_warm_start(config: PPOConfig) -> bool:
    model = config.actor_rollout_ref.model
    return model.warm_start is not None and not (Path(model.path) / "config.json").is_file()


def warm_start_config(config: PPOConfig) -> SFTConfig:
    """The SFT run that makes the model's folder."""
    model = config.actor_rollout_ref.model
    made = model.path.removesuffix("/huggingface")
    arguments = [f"experiment={model.warm_start}", f"trainer.default_local_dir={made}", *model.warm_start_overrides]
    return load("sft", arguments)


def problems(config: PPOConfig, world: int) -> list[str]:
    """What is wrong with a configuration on `world` ranks; no process group is needed."""
    overlap_tensor_parallel(largest_tp=max(each.tensor_model_parallel_size for _, each in layouts(config).values()))
    from fusedrl.trainers.preflight import ppo_problems

    if not needs_warm_start(config):
        return ppo_problems(config, world=world, warm_start=None, speaks=is_first_rank())
    model = config.actor_rollout_ref.model
    if not model.path.endswith("/huggingface"):
        missing = f"actor_rollout_ref.model.path={model.path}: no such folder"
        return [f"{missing}; one that the warm start is to make must end in /huggingface"]
    sft = warm_start_config(config)
    if Path(sft.trainer.default_local_dir) != Path(model.path).parent:
        return [
            "warm_start_overrides: trainer.default_local_dir follows from actor_rollout_ref.model.path; leave it out"
        ]
    first = [f"warm start: {line}" for line in sft_problems(sft, world)]
    return first + ppo_problems(config, world=world, warm_start=sft, speaks=is_first_rank())


def notes(config: PPOConfig, world: int) -> list[str]:
    """Where models lie, where that is not on all ranks, and where the run would start."""
    from fusedrl.config.derive import derive_ppo, describe
    from fusedrl.trainers.resuming import resume_notes

    told = [
        line for line in describe(derive_ppo(config, world=world)) if " on ranks " in line or line.startswith("note")
    ]
    return [*told, *resume_notes(config.trainer)]


def run(config: PPOConfig, *, command: list[str]) -> None:
    """Train on the ranks of the joined world. Raises ConfigError where the run cannot be set up."""
    from fusedrl.trainers.setup_ppo import ppo_run
    from fusedrl.trainers.summary import finished_line, summary_lines

    began = time.monotonic()
    if needs_warm_start(config):
        run_sft(warm_start_config(config), command=command)
    with set_up(ppo_run(config, command=command)) as (ppo, steps):
        history = ppo.run(steps=steps)
        if len(history) == 1:
            ppo.logger.say(finished_line(config.trainer, steps=steps))
            return
        for line in summary_lines(history, folder=ppo.outputs.folder, minutes=(time.monotonic() - began) / 60):
            ppo.logger.say(line)


def main() -> None:
    hush()
    config = start("ppo", check=problems, notes=notes)
    in_world("ppo", lambda: run(config, command=sys.argv), timeout_s=config.trainer.timeout_s)


if __name__ == "__main__":
    main()
