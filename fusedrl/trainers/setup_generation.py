"""From a checked configuration to a run that only generates on this rank. Every rank runs this in the same sequence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fusedrl.checkpoint.atomic import write_file
from fusedrl.config.load import to_yaml
from fusedrl.config.schema import EvaluateConfig, GenerateConfig
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.parallel.comm import broadcast_object
from fusedrl.parallel.team import leads
from fusedrl.trainers.evaluation import Evaluation
from fusedrl.trainers.generation import Generator, standing_generator
from fusedrl.trainers.prompting import held_out_prompts
from fusedrl.trainers.responding import Responding, request_of
from fusedrl.trainers.response_file import ResponseFile
from fusedrl.trainers.scoring import function_path, open_runner


@contextmanager
def evaluation_run(config: EvaluateConfig) -> Iterator[Evaluation]:
    """Worker processes end with it."""
    tokenizer = Tokenizer(config.model.path)
    rows, too_long = held_out_prompts(config.data, config.data.val_files, tokenizer)
    save_config(config)
    generator = generator_of(config)
    path, function = function_path(config), config.custom_reward_function
    assert path is not None  # the configuration's check
    if not leads():
        yield Evaluation(config, tokenizer, rows, too_long, generator, None)
        return
    with open_runner(path, function, workers=function.num_workers) as runner:
        yield Evaluation(config, tokenizer, rows, too_long, generator, runner)


@contextmanager
def generation_run(config: GenerateConfig) -> Iterator[Responding | None]:
    """None where all responses are there already. The file closes with it."""
    tokenizer = Tokenizer(config.model.path)
    rows, too_long = held_out_prompts(config.data, config.data.files, tokenizer)
    file = None
    if leads():
        afresh = config.trainer.resume_mode == "disable"
        file = ResponseFile(Path(config.output.path), request_of(config, rows), afresh=afresh)
    there = broadcast_object(None if file is None else [file.finished, sorted(file.done)])
    finished, done = bool(there[0]), frozenset(there[1])
    try:
        save_config(config)
        yield None if finished else Responding(config, tokenizer, rows, too_long, done, generator_of(config), file)
    finally:
        if file is not None:
            file.close()


def generator_of(config: EvaluateConfig | GenerateConfig) -> Generator:
    """The model in its generation layout. A collective of all ranks."""
    length = config.data.max_prompt_length + config.data.max_response_length
    return standing_generator(config.model, config.rollout, max_length=length, timeout_s=config.trainer.timeout_s)


def save_config(config: EvaluateConfig | GenerateConfig) -> None:
    """What the run runs with, in its folder; on rank 0."""
    if leads():
        folder = Path(config.trainer.default_local_dir)
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / "config.yaml", to_yaml(config))
