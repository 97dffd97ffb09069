"""What the runs that train one model are set up from: the folder it starts from, model, executor, planner."""

from pathlib import Path
from typing import Any

import torch.distributed as dist

from fusedrl.config.schema import OneModelConfig, ScheduleConfig
from fusedrl.data.characters import write_character_tokenizer
from fusedrl.models.hf_export import write_random_hf
from fusedrl.parallel.team import current, leads
from fusedrl.trainers.new_model import new_architecture
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.roles import Head, RoleSpec, build_trained_role, make_executor


def start_folder(config: OneModelConfig) -> Path:
    """The folder that training starts from; rank 0 writes it where the model is new. A collective of all ranks."""
    if config.model.path is not None:
        return Path(config.model.path)
    folder = Path(config.trainer.default_local_dir) / "start"
    if leads():
        new = config.model.new
        assert new.alphabet is not None  # the configuration's check
        vocabulary = write_character_tokenizer(folder, new.alphabet)
        write_random_hf(new_architecture(new, vocab_size=vocabulary), folder, seed=config.trainer.seed)
    dist.barrier(group=current().group)
    return folder


def build_model(config: OneModelConfig, folder: Path, *, head: Head, steps: int) -> dict[str, Any]:
    """model, executor and planner of a run (OneModelRun's fields). A collective of all ranks."""
    spec = RoleSpec.of("model", config.megatron, key="megatron", folder=str(folder), head=head)
    timeout_s = config.trainer.timeout_s
    model = build_trained_role(
        spec,
        config.optim,
        distributed_optimizer=config.megatron.use_distributed_optimizer,
        steps=steps,
        seed=config.trainer.seed,
        timeout_s=timeout_s,
    )
    executor = make_executor([model], timeout_s=timeout_s)
    return {"model": model, "executor": executor, "planner": Planner(ScheduleConfig(method="serial"))}
