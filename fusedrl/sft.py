"""Supervised fine-tuning: `torchrun --nproc-per-node 4 -m fusedrl.sft experiment=arithmetic key=value`.

Keys: docs/configuration.md, or --help. The result is a Hugging Face folder, runs/NAME/huggingface.
"""

import sys

from fusedrl.config.cli import start
from fusedrl.config.schema import SFTConfig
from fusedrl.config.validate import check_sft
from fusedrl.telemetry.libraries import hush


def problems(config: SFTConfig, world: int) -> list[str]:
    """What is wrong with a configuration on `world` ranks; no process group is needed."""
    from fusedrl.models.architecture import Architecture
    from fusedrl.trainers.new_model import new_architecture

    path, new = config.model.path, config.model.new
    architecture = None
    if path is not None:
        architecture = Architecture.from_folder(path)
    elif new.alphabet is not None:
        architecture = new_architecture(new, vocab_size=len(new.alphabet) + 3)
    return check_sft(config, world=world, model=architecture)


def run(config: SFTConfig, *, command: list[str]) -> None:
    """Train and export on the ranks of the joined world."""
    from fusedrl.trainers.setup_sft import sft_run

    with sft_run(config, command=command) as (sft, outputs, steps):
        metrics = sft.run(steps=steps)
        outputs.export(sft.model, outputs.folder / "huggingface")
        sft.logger.say(f"SFT done: loss {metrics['train/loss']:.4f}; model in {outputs.folder / 'huggingface'}")


def main() -> None:
    hush()
    config = start("sft", check=problems)
    from fusedrl.trainers.world import joined

    with joined(timeout_s=config.trainer.timeout_s):
        run(config, command=sys.argv)


if __name__ == "__main__":
    main()
