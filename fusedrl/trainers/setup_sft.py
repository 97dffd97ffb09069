"""From a checked configuration to an SFT run on this rank. Every rank runs this in the same sequence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fusedrl.config.derive import derive_sft, total_steps
from fusedrl.config.schema import SFTConfig
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.parallel.team import current
from fusedrl.trainers.checkpointing import Checkpoints, resume_from
from fusedrl.trainers.outputs import Outputs
from fusedrl.trainers.prompting import example_source
from fusedrl.trainers.records import open_records
from fusedrl.trainers.resuming import one_model_identity
from fusedrl.trainers.setup_one_model import build_model, start_folder
from fusedrl.trainers.sft import SFT


@contextmanager
def sft_run(config: SFTConfig, *, command: list[str]) -> Iterator[tuple[SFT, Outputs, int]]:
    """(the run, what exports its model, its number of steps)."""
    folder = start_folder(config)
    source = example_source(config.data, Tokenizer(folder))
    sizes = derive_sft(config, world=current().size)
    steps = total_steps(config.trainer, rows=len(source.examples), batch=config.data.train_batch_size)
    own = one_model_identity(config, folder)
    start = resume_from(config.trainer, command="sft", own=own)
    with open_records(config, sizes=sizes, steps=steps, command=command, start=start) as logger:
        if source.too_long:
            logger.say(f"{source.too_long} rows were too long (data.truncation={config.data.truncation})")
        built = build_model(config, folder, head="lm", steps=steps)
        models = {"model": built["model"]}
        checkpoints = Checkpoints(config, "sft", own, models, source.sampler, start, logger.say)
        run = SFT(config=config, source=source, logger=logger, checkpoints=checkpoints, **built)
        checkpoints.restore()
        yield run, Outputs(Path(config.trainer.default_local_dir), str(folder)), steps
