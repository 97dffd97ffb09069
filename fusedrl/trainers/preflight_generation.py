"""What can be known to be wrong with an evaluation or a generation before any process group exists; as preflight.py."""

from collections.abc import Callable, Sequence

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
from fusedrl.trainers.scoring import function_path, open_runner


def evaluate_problems(config: EvaluateConfig, *, world: int, speaks: bool) -> list[str]:
    found = check_evaluate(config, world=world, model=_architecture(config))
    files = config.data.val_files
    return _problems(config, found, files=files, speaks=speaks, more=lambda: attempt(lambda: _load_function(config)))


def generate_problems(config: GenerateConfig, *, world: int, speaks: bool) -> list[str]:
    found = check_generate(config, world=world, model=_architecture(config))
    return _problems(config, found, files=config.data.files, speaks=speaks, more=list)


def _problems(
    config: EvaluateConfig | GenerateConfig,
    found: list[str],
    *,
    files: Sequence[str],
    speaks: bool,
    more: Callable[[], list[str]],
) -> list[str]:
    """`more`: what is costly to look at, and the command's own."""
    found += attempt(lambda: choose(implementation_of_model(config.model), key="model"))
    found += engine_problems(config.rollout, key="rollout")
    if found or not speaks:
        return found
    path = config.model.path
    return [
        *folder_problems(config.trainer),
        *attempt(lambda: _language_model(path)),
        *attempt(lambda: held_out_prompts(config.data, files, Tokenizer(path))),
        *more(),
    ]


def _architecture(config: EvaluateConfig | GenerateConfig) -> Architecture:
    try:
        return Architecture.from_folder(config.model.path)
    except ValueError as error:
        raise ValueError(f"model.path={config.model.path}: {error}") from error


def _language_model(path: str) -> None:
    if VALUE_HEAD in HfFolder(path):
        raise ValueError(f"model.path={path}: {VALUE_HEAD} there: a reward model or critic; give a language model")


def _load_function(config: EvaluateConfig) -> None:
    path = function_path(config)
    assert path is not None  # the configuration's check
    open_runner(path, config.custom_reward_function, workers=1).close()
