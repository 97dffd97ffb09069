"""From a checked configuration to an SFT run on this rank. Every rank runs this in the same sequence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch.distributed as dist

from fusedrl.config.derive import derive_sft, total_steps
from fusedrl.config.schema import ScheduleConfig, SFTConfig
from fusedrl.data.characters import write_character_tokenizer
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.models.hf_export import write_random_hf
from fusedrl.trainers.new_model import new_architecture
from fusedrl.trainers.outputs import Outputs
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.prompting import example_source
from fusedrl.trainers.records import open_records
from fusedrl.trainers.roles import RoleSpec, build_trained_role, make_executor
from fusedrl.trainers.sft import SFT


@contextmanager
def sft_run(config: SFTConfig, *, command: list[str]) -> Iterator[tuple[SFT, Outputs, int]]:
    """(the run, what exports its model, its number of steps)."""
    folder = start_folder(config)
    source = example_source(config.data, Tokenizer(folder))
    sizes = derive_sft(config, world=dist.get_world_size())
    steps = total_steps(config.trainer, rows=len(source.examples), batch=config.data.train_batch_size)
    with open_records(config, sizes=sizes, steps=steps, command=command) as logger:
        if source.too_long:
            logger.say(f"{source.too_long} rows were too long (data.truncation={config.data.truncation})")
        spec = RoleSpec.of("model", config.megatron, key="megatron", folder=str(folder))
        model = build_trained_role(
            spec,
            config.optim,
            distributed_optimizer=config.megatron.use_distributed_optimizer,
            steps=steps,
            seed=config.trainer.seed,
            timeout_s=config.trainer.timeout_s,
        )
        executor = make_executor([model], timeout_s=config.trainer.timeout_s)
        run = SFT(config, source, model, executor, Planner(ScheduleConfig(method="serial")), logger)
        yield run, Outputs(Path(config.trainer.default_local_dir), str(folder)), steps


def start_folder(config: SFTConfig) -> Path:
    """The folder that training starts from; rank 0 writes it where the model is new. A collective of all ranks."""
    if config.model.path is not None:
        return Path(config.model.path)
    folder = Path(config.trainer.default_local_dir) / "start"
    if dist.get_rank() == 0:
        new = config.model.new
        assert new.alphabet is not None  # the configuration's check
        vocabulary = write_character_tokenizer(folder, new.alphabet)
        write_random_hf(new_architecture(new, vocab_size=vocabulary), folder, seed=config.trainer.seed)
    dist.barrier()
    return folder
