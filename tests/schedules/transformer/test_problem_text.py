"""Files of fused problems: the header's command writes the file again, the committed ones among them."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from schedules.builders import greedy
from schedules.check import check
from schedules.cli import main
from schedules.problem import Problem
from schedules.transformer.fused import Setup, fused_problem
from schedules.transformer.problem_text import command, fused_text
from tests.schedules.published import FOLDER

COMMITTED = sorted(FOLDER.glob("llama*.yaml"))
SETUP = Setup("llama_65b", "llama_33b", ranks=8, microbatches=4)
MOST_OPS_A_RANK = 200


def header(text: str) -> list[str]:
    return [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]


def command_of(text: str) -> list[str]:
    (line,) = (line for line in header(text) if line.startswith("python -m schedules problem"))
    return shlex.split(line)


def test_problems_are_committed():
    assert len(COMMITTED) >= 6


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_committed_problem_is_what_its_command_writes(path, tmp_path, monkeypatch):
    text = path.read_text()
    words = command_of(text)
    assert Path(words[-1]) == path.relative_to(FOLDER.parents[1])
    monkeypatch.chdir(tmp_path)
    Path(words[-1]).parent.mkdir(parents=True)
    assert main(words[3:]) == 0
    assert Path(words[-1]).read_text() == text


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_committed_problem_can_be_split_ordered_and_is_small(path):
    problem = Problem.load(path)
    assert all(model.backward_weight is not None for model in problem.models)
    for rank in range(problem.ranks):
        own = [(model, len(model.stages_on(rank))) for model in problem.models]
        assert sum(3 * stages * model.microbatches for model, stages in own) <= MOST_OPS_A_RANK
    check(problem, greedy(problem))


def test_the_problem_under_the_header_is_the_problem(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(fused_text(SETUP, out="p.yaml"))
    assert Problem.load(path) == fused_problem(SETUP)


def test_command_leaves_out_defaults_and_quotes():
    words = command(SETUP, out="a b.yaml")
    least = "python -m schedules problem --actor llama_65b --critic llama_33b --ranks 8 --microbatches 4"
    assert words == [*shlex.split(least), "--out", "a b.yaml"]
    assert command_of(fused_text(SETUP, out="a b.yaml")) == words


def test_header_tells_the_assumptions():
    odd = replace(
        SETUP,
        critic_stages=4,
        actor_tp=8,
        device="a100",
        efficiency=0.4,
        samples=2,
        spread=0.5,
        longest=3000,
        seed=7,
        attention="recomputed",
        sequence_parallel=False,
    )
    text = " ".join(header(fused_text(odd, out="p.yaml")))
    for part in (
        "a100: 312 TFLOP/s dense bf16, 0.4 of it reached (assumed); messages 25 GB/s after 10 us",
        "2 samples of log-normal length, median 2048, spread 0.5, at most 3000, seed 7: ",
        "4 stages on 2 columns of 20 layers, tp 8, language-model head on the last",
        "2 copies, each 4 stages of 15 layers, tp 4, value head without cost",
        "unfused attention, recomputed for the backward",
        "norms and inputs whole on each device",
    ):
        assert part in text
    assert "1 sample of 2048 tokens" in fused_text(SETUP, out="p.yaml")
