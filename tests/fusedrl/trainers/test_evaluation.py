"""Evaluation and generation on ranks: the same responses whatever the layout, and after an interruption."""

import json
from pathlib import Path
from typing import Any

import pytest

from fusedrl.config.load import load
from fusedrl.config.schema import EvaluateConfig, GenerateConfig
from fusedrl.trainers.confidence import Interval
from fusedrl.trainers.evaluation import Told, figure_lines
from fusedrl.trainers.repeats import pass_at_k
from fusedrl.trainers.response_file import part_path
from tests.distributed.pool import RankPool
from tests.fusedrl.config.conftest import changed
from tests.fusedrl.trainers.test_preflight import model

ROWS, N = 11, 4
LAYOUTS = {"dp2": (1, 1), "tp2": (2, 1), "pp2": (1, 2)}
REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": len(solution_str) / 10, "acc": sum(map(ord, solution_str)) % 2, "pred": solution_str[:1]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, prompts of two sources and unlike lengths, a reward function."""
    found = tmp_path_factory.mktemp("evaluation")
    model(found / "model")
    rows = [{"prompt": f"{i}+{'1' * (i % 4 + 1)}=", "data_source": "ab"[i % 2], "answer": str(i)} for i in range(ROWS)]
    (found / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found / "reward.py").write_text(REWARD)
    return found


def configs(folder: Path, name: str) -> tuple[EvaluateConfig, GenerateConfig]:
    """At one rank, or in one of the layouts of two."""
    tp, pp = LAYOUTS.get(name, (1, 1))
    values: dict[str, Any] = {
        "model.path": str(folder / "model"),
        "rollout.n": N,
        "rollout.temperature": 1.0,
        "rollout.max_running_requests": 6,
        "rollout.tensor_model_parallel_size": tp,
        "rollout.pipeline_model_parallel_size": pp,
        "data.task.name": None,
        "trainer.default_local_dir": str(folder / name),
        "trainer.seed": 3,
    }
    evaluate, generate = EVALUATE, GENERATE
    function = {
        "custom_reward_function.path": str(folder / "reward.py"),
        "custom_reward_function.name": "compute_score",
    }
    files = [str(folder / "rows.jsonl")]
    written = {"output.path": str(folder / name / "responses.jsonl"), "output.tokens": True, "output.logprobs": True}
    return (
        changed(evaluate, values | function | {"data.val_files": files, "custom_reward_function.num_workers": 1}),
        changed(generate, values | written | {"data.files": files}),
    )


EVALUATE, GENERATE = load("evaluate", ["experiment=arithmetic"]), load("generate", ["experiment=arithmetic"])
JOB = "tests.fusedrl.trainers.generation_jobs:run_all"


@pytest.fixture(scope="module")
def finished(ranks: RankPool, folder: Path) -> dict[str, Any]:
    """Figures of each layout's evaluation; both commands ran in it."""
    (found,) = ranks.run(JOB, limit=500.0, world=1, configs=configs(folder, "one"))
    every = [config for name in LAYOUTS for config in configs(folder, name)]
    ours, theirs = ranks.run(JOB, limit=500.0, world=2, configs=every)
    assert ours == theirs
    return {"one": found[0]} | dict(zip(LAYOUTS, ours[::2], strict=True))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_layout_gives_the_same_tokens(finished: dict[str, Any], folder: Path) -> None:
    expected = lines(folder / "one/responses.jsonl")
    assert [line["index"] for line in expected] == list(range(ROWS))
    assert len({tuple(tokens) for line in expected for tokens in line["response_tokens"]}) > ROWS
    for name in LAYOUTS:
        found = lines(folder / name / "responses.jsonl")
        for ours, theirs in zip(found, expected, strict=True):
            for row_ours, row_theirs in zip(ours.pop("logprobs"), theirs["logprobs"], strict=True):
                assert row_ours == pytest.approx(row_theirs, abs=1e-5)
            assert ours == {key: value for key, value in theirs.items() if key != "logprobs"}


def test_every_layout_gives_the_same_figures_and_evaluates_what_generate_writes(
    finished: dict[str, Any], folder: Path
) -> None:
    assert all(figures == finished["one"] for figures in finished.values())
    samples = (folder / "one/samples.jsonl").read_text()
    assert all((folder / name / "samples.jsonl").read_text() == samples for name in LAYOUTS)
    texts = [response for line in lines(folder / "one/responses.jsonl") for response in line["responses"]]
    assert [line["response"] for line in lines(folder / "one/samples.jsonl")] == texts


def test_a_line_is_its_row_with_n_responses(finished: dict[str, Any], folder: Path) -> None:
    for line, row in zip(lines(folder / "one/responses.jsonl"), lines(folder / "rows.jsonl"), strict=True):
        assert (line["prompt"], line["data_source"]) == (row["prompt"], row["data_source"])
        assert line["reward_model"] == {"ground_truth": row["answer"]}
        for name in ("responses", "finish_reasons", "response_lengths", "response_tokens", "logprobs"):
            assert len(line[name]) == N
        assert [len(tokens) for tokens in line["response_tokens"]] == line["response_lengths"]
        assert [len(each) for each in line["logprobs"]] == line["response_lengths"]


def test_the_report_s_figures_follow_from_its_samples(finished: dict[str, Any], folder: Path) -> None:
    report = json.loads((folder / "one/evaluation.json").read_text())
    samples = lines(folder / "one/samples.jsonl")
    assert report["metrics"] == finished["one"]
    assert (report["prompts"], report["n"], report["failed_calls"]) == (ROWS, N, 0)
    rows = [each for each in range(ROWS) if each % 2 == 0]  # of source a
    right = [sum(line["acc"] for line in samples if line["index"] == row) for row in rows]
    assert 0 < sum(right) < N * len(rows)
    found = finished["one"]["val-core/a/acc/mean@4"]
    assert found["value"] == pytest.approx(sum(right) / N / len(rows), rel=1e-15)
    assert found["low"] < found["value"] < found["high"]
    passed = [pass_at_k(N, int(count), 2) for count in right]
    assert finished["one"]["val-aux/a/acc/pass@2"]["value"] == pytest.approx(sum(passed) / len(rows), rel=1e-15)
    assert finished["one"]["val-core/b/acc/maj@4/mean"]["prompts"] == ROWS - len(rows)
    assert (folder / "one/samples.html").read_text().count("<tr>") == 1 + ROWS * N


def test_an_interrupted_generation_goes_on_in_another_layout_and_no_sample_comes_twice(
    ranks: RankPool, folder: Path, finished: dict[str, Any]
) -> None:
    _, first = configs(folder, "dp2")
    _, then = configs(folder, "tp2")
    output = {"output.path": str(folder / "broken.jsonl")}
    first, then = changed(first, output), changed(then, output)
    assert ranks.run(JOB, limit=500.0, world=2, configs=[first], interrupt_first=True) == [["interrupted"]] * 2
    begun = part_path(folder / "broken.jsonl").read_text()
    assert 0 < (there := begun.count("\n")) < ROWS
    (went_on, again), _ = ranks.run(JOB, limit=500.0, world=2, configs=[then, then])
    assert went_on[0] == there
    assert again is None
    expected = lines(folder / "one/responses.jsonl")
    assert [{**line, "logprobs": 0} for line in lines(folder / "broken.jsonl")] == [
        {**line, "logprobs": 0} for line in expected
    ]
    whole = (folder / "broken.jsonl").read_text()
    assert all(line in whole for line in begun.splitlines(keepends=True))


def test_the_console_tells_each_figure_with_its_interval() -> None:
    told = [Told("val-core/a/acc/mean@1", 0.5, Interval(0.25, 0.75, "binomial"), 8), Told("b", 1.25, None, 1)]
    assert figure_lines(told, confidence=0.9) == [
        "val-core/a/acc/mean@1    0.5000  [0.2500, 0.7500]  90% binomial, 8 prompts",
        "b                        1.2500  (1 prompt: no interval)",
    ]
