"""What can be known to be wrong with an evaluation or a generation before any process group exists; as preflight.py."""

from collections.abc import Callable, Sequence
from pathlib import Path

from fusedrl.config.check_generation import check_evaluate, check_generate
from fusedrl.config.schema import EvaluateConfig, GenerateConfig
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.models.architecture import Architecture
from fusedrl.models.hf_folder import HfFolder
from fusedrl.models.implementation import choose
from fusedrl.models.weights import VALUE_HEAD
from fusedrl.trainers.generation import implementation_of_model
from fusedrl.trainers.preflight import attempt, engine_problems, folder_problems
from fusedrl.trainers.prompting import held_out_prompts
from fusedrl.trainers.responding import request_of
from fusedrl.trainers.response_file import other_request
from fusedrl.trainers.scoring import function_path, open_runner


def evaluate_problems(config: EvaluateConfig, *, world: int, speaks: bool) -> list[str]:
    model = _architecture(config)
    return _problems(
        config,
        check_evaluate(config, world=world, model=model),
        model=model,
        files=config.data.val_files,
        speaks=speaks,
        more=lambda: attempt(lambda: _load_function(config)),
    )


def generate_problems(config: GenerateConfig, *, world: int, speaks: bool) -> list[str]:
    model = _architecture(config)
    return _problems(
        config,
        check_generate(config, world=world, model=model),
        model=model,
        files=config.data.files,
        speaks=speaks,
        more=lambda: _responses(config),
    )


def _problems(
    config: EvaluateConfig | GenerateConfig,
    found: list[str],
    *,
    model: Architecture,
    files: Sequence[str],
    speaks: bool,
    more: Callable[[], list[str]],
) -> list[str]:
    """`more`: what is costly to look at, and the command's own."""
    found += attempt(lambda: choose(implementation_of_model(config.model), key="model"))
    found += engine_problems(config.rollout, model, key="rollout")
    if found or not speaks:
        return found
    return [
        *folder_problems(Path(config.trainer.default_local_dir), key="trainer.default_local_dir"),
        *(unreadable := attempt(lambda: _readable(config, files))),
        *([] if unreadable else more()),
    ]


def _responses(config: GenerateConfig) -> list[str]:
    """What is there answers this request, or the run starts afresh; the file can be written."""
    path = Path(config.output.path)
    if path.is_dir():
        return [f"output.path={path}: a folder; name a file"]
    found = list(folder_problems(path.parent, key="output.path"))
    if found or config.trainer.resume_mode == "disable":
        return found
    rows, _ = held_out_prompts(config.data, config.data.files, Tokenizer(config.model.path))
    other = other_request(path, request_of(config, rows))
    return [] if other is None else [other]


def _architecture(config: EvaluateConfig | GenerateConfig) -> Architecture:
    try:
        return Architecture.from_folder(config.model.path)
    except ValueError as error:
        raise ValueError(f"model.path={config.model.path}: {error}") from error


def _readable(config: EvaluateConfig | GenerateConfig, files: Sequence[str]) -> None:
    """A language model, and prompts that its tokenizer reads."""
    path = config.model.path
    if VALUE_HEAD in HfFolder(path):
        raise ValueError(f"model.path={path}: {VALUE_HEAD} there: a reward model or critic; give a language model")
    held_out_prompts(config.data, files, Tokenizer(path))


def _load_function(config: EvaluateConfig) -> None:
    path = function_path(config)
    assert path is not None  # the configuration's check
    open_runner(path, config.custom_reward_function, workers=1).close()
