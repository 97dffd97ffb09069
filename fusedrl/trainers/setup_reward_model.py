"""From a checked configuration to the training of a reward model on this rank. Every rank runs this in one sequence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fusedrl.config.derive import derive_rm, total_steps
from fusedrl.config.schema import RMConfig
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.parallel.team import current
from fusedrl.trainers.checkpointing import Checkpoints, resume_from
from fusedrl.trainers.outputs import Outputs
from fusedrl.trainers.pairing import pair_source
from fusedrl.trainers.records import open_records
from fusedrl.trainers.resuming import one_model_identity
from fusedrl.trainers.reward_model import RM
from fusedrl.trainers.setup_one_model import build_model, start_folder


@contextmanager
def rm_run(config: RMConfig, *, command: list[str]) -> Iterator[tuple[RM, Outputs, int]]:
    """(the run, what exports its model, its number of steps)."""
    folder = start_folder(config)
    source = pair_source(config.data, Tokenizer(folder))
    sizes = derive_rm(config, world=current().size)
    steps = total_steps(config.trainer, rows=len(source.pairs), batch=config.data.train_batch_size)
    own = one_model_identity(config, folder)
    start = resume_from(config.trainer, command="reward_model", own=own)
    with open_records(config, sizes=sizes, steps=steps, command=command, start=start) as logger:
        dropped = source.dropped
        if dropped.too_long:
            logger.say(f"{dropped.too_long} pairs were too long (data.truncation={config.data.truncation})")
        if dropped.equal:
            logger.say(f"{dropped.equal} pairs were left out: chosen and rejected are the same")
        built = build_model(config, folder, head="value", steps=steps)
        models = {"model": built["model"]}
        checkpoints = Checkpoints(config, "reward_model", own, models, source.sampler, start, logger.say)
        run = RM(config=config, source=source, logger=logger, checkpoints=checkpoints, **built)
        checkpoints.restore()
        yield run, Outputs(Path(config.trainer.default_local_dir), str(folder)), steps
