"""`problem` on the command line: every option reaches the setup; errors are one line, exit code 2."""

from dataclasses import replace

import pytest

from schedules.arguments import Parser
from schedules.cli import main
from schedules.problem import Problem
from schedules.transformer.command import add_arguments, setup_of
from schedules.transformer.fused import Setup, fused_problem
from schedules.transformer.problem_text import command

SETUP = Setup("llama_65b", "llama_33b", ranks=8, microbatches=4)
LEAST = ["problem", "--actor", "llama_65b", "--critic", "llama_33b", "--ranks", "8", "--microbatches", "4"]


def parsed(words):
    parser = Parser()
    add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tp": 2, "actor_tp": 4, "critic_tp": 2, "actor_stages": 4, "critic_stages": 2},
        {"actor_layers": (10,) * 8, "critic_layers": (15, 15, 15, 15)},
        {"samples": 3, "length": 700, "spread": 0.25, "longest": 900, "seed": 5},
        {"device": "a100", "efficiency": 0.375, "attention": "stored", "sequence_parallel": False},
    ],
)
def test_command_and_setup_are_two_forms_of_one_thing(changes):
    setup = replace(SETUP, **changes)
    assert setup_of(parsed(command(setup, out="p.yaml")[4:])) == setup


def test_a_file_is_written(tmp_path):
    out = tmp_path / "p.yaml"
    assert main([*LEAST, "--out", str(out)]) == 0
    assert Problem.load(out) == fused_problem(SETUP)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tp", "8"], "error: tp: 8 does not divide the 52 heads of llama_33b"),
        (["--critic-stages", "3"], "error: critic_stages: 3 stages do not divide"),
        (["--spread", "-1"], "error: spread: expected a number from 0 to 5, got -1"),
        (["--spread", "wide"], "argument --spread: invalid float value: 'wide'"),
        (["--efficiency", "2"], "argument --efficiency: expected a number above 0, at most 1, got '2'"),
        (["--actor", "gpt"], "argument --actor: invalid choice: 'gpt'"),
        (["--ranks", "0"], "argument --ranks: expected a whole number from 1 to 4096, got '0'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, capsys, words, message):
    try:
        code = main([*LEAST, "--out", str(tmp_path / "p.yaml"), *words])
    except SystemExit as stop:
        code = stop.code
    error = capsys.readouterr().err
    assert (code, error.count("\n"), (tmp_path / "p.yaml").exists()) == (2, 1, False)
    assert message in error


def test_a_folder_that_is_not_there_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*LEAST, "--out", str(tmp_path / "no" / "p.yaml")])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
