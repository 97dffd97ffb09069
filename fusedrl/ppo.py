"""PPO with a fused actor+critic pipeline: `torchrun --nproc-per-node 4 -m fusedrl.ppo experiment=NAME key=value`.

Keys: docs/configuration.md, or --help. Where the model's folder does not exist yet and
actor_rollout_ref.model.warm_start names an SFT experiment, that is run first, on the same ranks.
"""

import sys
import time
from pathlib import Path

from fusedrl.config.cli import start
from fusedrl.config.load import load
from fusedrl.config.schema import PPOConfig, SFTConfig
from fusedrl.config.validate import check_ppo
from fusedrl.sft import problems as sft_problems
from fusedrl.sft import run as run_sft
from fusedrl.telemetry.libraries import hush


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
    from fusedrl.models.architecture import Architecture

    policy, reward = config.actor_rollout_ref, config.reward_model
    if needs_warm_start(config):
        if not policy.model.path.endswith("/huggingface"):
            return [
                f"actor_rollout_ref.model.path={policy.model.path}: a warm start writes NAME/huggingface; end it so"
            ]
        first = [f"warm start: {line}" for line in sft_problems(warm_start_config(config), world)]
        return first + check_ppo(config, world=world, models={})
    folders = {"actor": policy.model.path, "critic": config.critic.model.path, "ref": policy.model.path}
    if reward.enable and reward.model.path is not None:
        folders["reward"] = reward.model.path
    models = {role: Architecture.from_folder(folder) for role, folder in folders.items()}
    return check_ppo(config, world=world, models=models)


def run(config: PPOConfig, *, command: list[str]) -> None:
    """Train on the ranks of the joined world."""
    from fusedrl.trainers.setup_ppo import ppo_run
    from fusedrl.trainers.summary import summary_lines

    began = time.monotonic()
    if needs_warm_start(config):
        run_sft(warm_start_config(config), command=command)
    with ppo_run(config, command=command) as (ppo, steps):
        history = ppo.run(steps=steps)
        for line in summary_lines(history, folder=ppo.outputs.folder, minutes=(time.monotonic() - began) / 60):
            ppo.logger.say(line)


def main() -> None:
    hush()
    config = start("ppo", check=problems)
    from fusedrl.trainers.world import joined

    with joined(timeout_s=config.trainer.timeout_s):
        run(config, command=sys.argv)


if __name__ == "__main__":
    main()
