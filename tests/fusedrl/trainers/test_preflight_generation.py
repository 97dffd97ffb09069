from pathlib import Path
from typing import Any

import pytest

from fusedrl.config.load import load
from fusedrl.trainers.preflight_generation import evaluate_problems, generate_problems
from fusedrl.trainers.response_file import ResponseFile
from tests.fusedrl.config.conftest import changed
from tests.fusedrl.trainers.test_preflight import model

EVALUATE, GENERATE = load("evaluate", ["experiment=arithmetic"]), load("generate", ["experiment=arithmetic"])
REWARD = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("preflight")
    model(found / "model")
    model(found / "critic", head="value")
    (found / "rows.jsonl").write_text('{"prompt": "1+1="}\n')
    (found / "letters.jsonl").write_text('{"prompt": "1+1="}\n{"prompt": "one"}\n')
    (found / "reward.py").write_text(REWARD)
    return found


def problems(command: str, folder: Path, values: dict[str, Any], *, speaks: bool = True) -> list[str]:
    """values: {folder} stands for the folder."""
    shared = {"model.path": "{folder}/model", "data.task.name": None, "trainer.default_local_dir": "{folder}/run"}
    function = {"custom_reward_function.path": "{folder}/reward.py", "custom_reward_function.name": "compute_score"}
    rows = "{folder}/rows.jsonl"
    if command == "evaluate":
        config, own = EVALUATE, {**function, "data.val_files": [rows], "custom_reward_function.num_workers": 1}
    else:
        config, own = GENERATE, {"data.files": [rows], "output.path": "{folder}/run/responses.jsonl"}
    whole = {key: filled(value, folder) for key, value in {**shared, **own, **values}.items()}
    check = evaluate_problems if command == "evaluate" else generate_problems
    return check(changed(config, whole), world=2, speaks=speaks)  # type: ignore[operator]


def filled(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [filled(each, folder) for each in value]
    return value.replace("{folder}", str(folder)) if isinstance(value, str) else value


@pytest.mark.parametrize("command", ["evaluate", "generate"])
def test_what_fits_has_no_problem_and_leaves_nothing(command: str, folder: Path) -> None:
    assert problems(command, folder, {}) == []
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("command", "values", "start"),
    [
        ("evaluate", {"model.path": "{folder}/critic"}, "model.path={folder}/critic: score.weight there"),
        ("generate", {"model.path": "{folder}/critic"}, "model.path={folder}/critic: score.weight there"),
        ("evaluate", {"data.val_files": ["{folder}/letters.jsonl"]}, "{folder}/letters.jsonl:2: 'one' holds"),
        ("generate", {"data.files": ["{folder}/letters.jsonl"]}, "{folder}/letters.jsonl:2: 'one' holds"),
        ("evaluate", {"custom_reward_function.name": "score"}, "custom_reward_function.name=score: "),
        ("evaluate", {"model.transformer_impl": "transformer_engine"}, "model.transformer_impl=transformer_engine: "),
        ("evaluate", {"trainer.default_local_dir": "{folder}/rows.jsonl"}, "trainer.default_local_dir={folder}/rows"),
        ("generate", {"output.path": "{folder}"}, "output.path={folder}: a folder; name a file"),
        (
            "generate",
            {"output.path": "{folder}/rows.jsonl/x"},
            "output.path={folder}/rows.jsonl: {folder}/rows.jsonl is",
        ),
        ("generate", {"output.path": "{folder}/rows.jsonl"}, "output.path={folder}/rows.jsonl: a file of responses is"),
    ],
)
def test_each_mistake_is_one_line_that_begins_with_its_key(
    command: str, values: dict[str, Any], start: str, folder: Path
) -> None:
    (line,) = problems(command, folder, values)
    assert line.startswith(filled(start, folder))
    assert "\n" not in line


def test_a_folder_without_a_model_is_told_with_its_key(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"^model\.path=.*/none: "):
        problems("generate", folder, {"model.path": "{folder}/none"})


def test_other_ranks_leave_costly_looks_to_the_first(folder: Path) -> None:
    assert problems("evaluate", folder, {"custom_reward_function.name": "score"}, speaks=False) == []


def test_responses_to_another_request_are_a_problem_unless_the_run_starts_afresh(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    ResponseFile(path, {"model": "another"}, afresh=False).close()
    output = {"output.path": str(path)}
    (line,) = problems("generate", folder, output)
    assert line.startswith(f"output.path={path}: responses to another request are there (model: ")
    assert problems("generate", folder, {**output, "trainer.resume_mode": "disable"}) == []
