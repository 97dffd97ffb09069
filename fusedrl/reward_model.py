"""Training of a reward model: `torchrun --nproc-per-node 4 -m fusedrl.reward_model experiment=arithmetic key=value`.

Keys: docs/configuration.md, or --help. The result is a Hugging Face folder with a head of one output,
runs/NAME/huggingface: PPO's reward_model.model.path, and critic.model.path too.
"""

import sys

from fusedrl.config.cli import start
from fusedrl.config.schema import RMConfig
from fusedrl.telemetry.libraries import hush
from fusedrl.trainers.entry import in_world, is_first_rank, overlap_tensor_parallel, set_up


def problems(config: RMConfig, world: int) -> list[str]:
    """What is wrong with a configuration on `world` ranks; no process group is needed."""
    overlap_tensor_parallel(largest_tp=config.megatron.tensor_model_parallel_size)
    from fusedrl.trainers.preflight import rm_problems

    return rm_problems(config, world=world, speaks=is_first_rank())


def notes(config: RMConfig, world: int) -> list[str]:
    """Where the run would start."""
    from fusedrl.trainers.resuming import resume_notes

    return resume_notes(config.trainer)


def run(config: RMConfig, *, command: list[str]) -> None:
    """Train and export on the ranks of the joined world. Raises ConfigError where the run cannot be set up."""
    from fusedrl.trainers.setup_reward_model import rm_run
    from fusedrl.trainers.summary import finished_line

    with set_up(rm_run(config, command=command)) as (rm, outputs, steps):
        metrics = rm.run(steps=steps)
        target = outputs.folder / "huggingface"
        outputs.export(rm.model, target)
        if not metrics:
            rm.logger.say(finished_line(config.trainer, steps=steps))
            return
        held_out = f", held-out accuracy {metrics['val-core/accuracy']:.3f}" if "val-core/accuracy" in metrics else ""
        rm.logger.say(f"reward model done: loss {metrics['rm/loss']:.4f}{held_out}; model in {target}")


def main() -> None:
    hush()
    config = start("reward_model", check=problems, notes=notes)
    in_world("reward_model", lambda: run(config, command=sys.argv), timeout_s=config.trainer.timeout_s)


if __name__ == "__main__":
    main()
