"""Supervised fine-tuning: `torchrun --nproc-per-node 4 -m fusedrl.sft experiment=arithmetic key=value`.

Keys: docs/configuration.md, or --help. The result is a Hugging Face folder, runs/NAME/huggingface.
"""

import sys

from fusedrl.config.cli import start
from fusedrl.config.schema import SFTConfig
from fusedrl.telemetry.libraries import hush
from fusedrl.trainers.entry import in_world, is_first_rank, overlap_tensor_parallel, set_up


def problems(config: SFTConfig, world: int) -> list[str]:
    """What is wrong with a configuration on `world` ranks; no process group is needed."""
    overlap_tensor_parallel(largest_tp=config.megatron.tensor_model_parallel_size)
    from fusedrl.trainers.preflight import sft_problems

    return sft_problems(config, world=world, speaks=is_first_rank())


def notes(config: SFTConfig, world: int) -> list[str]:
    """Where the run would start."""
    from fusedrl.trainers.resuming import resume_notes

    return resume_notes(config.trainer)


def run(config: SFTConfig, *, command: list[str]) -> None:
    """Train and export on the ranks of the joined world. Raises ConfigError where the run cannot be set up."""
    from fusedrl.trainers.setup_sft import sft_run
    from fusedrl.trainers.summary import finished_line

    with set_up(sft_run(config, command=command)) as (sft, outputs, steps):
        metrics = sft.run(steps=steps)
        outputs.export(sft.model, outputs.folder / "huggingface")
        if not metrics:
            sft.logger.say(finished_line(config.trainer, steps=steps))
            return
        sft.logger.say(f"SFT done: loss {metrics['train/loss']:.4f}; model in {outputs.folder / 'huggingface'}")


def main() -> None:
    hush()
    config = start("sft", check=problems, notes=notes)
    in_world("sft", lambda: run(config, command=sys.argv), timeout_s=config.trainer.timeout_s)


if __name__ == "__main__":
    main()
