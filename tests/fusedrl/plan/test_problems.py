"""Costs as a schedules Problem."""

import subprocess
import sys

import pytest

from fusedrl.parallel.layout import Layout
from fusedrl.plan.analytic import AnalyticCosts
from fusedrl.plan.cluster import read_cluster
from fusedrl.plan.measured import MeasuredCosts
from fusedrl.plan.memory import activations, stages_of
from fusedrl.plan.problems import Trained, training_problem
from fusedrl.plan.sizes import read_model
from schedules.problem import Problem, ProblemError
from tests.fusedrl.plan.example_profile import example

TINY = read_model("tiny")
COSTS = MeasuredCosts(example(), read_cluster("cpu_1x2"))
BATCHES = [(64.0, 16.0), (256.0, 64.0)]


def test_durations_are_the_profiles_and_the_critic_runs_against_the_actor() -> None:
    layout = Layout(pp=2)
    critic = Trained("critic", TINY.with_head("value"), layout, BATCHES[:1], reverse=True, layers=(1, 3))
    problem = training_problem(COSTS, [Trained("actor", TINY, layout, BATCHES), critic])
    actor = problem.model("actor")
    layer = [(64 * 16 + 1) / 1e3, (256 * 64 + 1) / 1e3]  # ms
    assert actor.duration("F", 0, 1) == pytest.approx(2 * layer[1] + 0.256, rel=1e-5)
    assert actor.duration("B", 1, 0) == pytest.approx(2 * 2 * layer[0] + 0.128, rel=1e-5)
    assert actor.duration("W", 1, 0) == pytest.approx(2 * layer[0] / 2 + 0.128, rel=1e-5)
    assert problem.model("critic").placement == (1, 0)
    assert problem.model("critic").duration("F", 0, 0) == pytest.approx(layer[0] + 0.064, rel=1e-5)
    held = activations(TINY, stages_of(TINY, layout)[1], layout, tokens=256, length=64, dtype="float32")
    assert actor.activation_of(1, 1) == pytest.approx(held / 2**30, abs=1e-9)
    assert problem.comm == pytest.approx(1e3 * COSTS.message(256 * 32 * 4, across_nodes=False), abs=1e-6)
    assert Problem.from_dict(problem.to_dict()) == problem


def test_sheets_make_problems_too() -> None:
    costs = AnalyticCosts(read_cluster("h100_2x8"))
    model, layout = read_model("llama_7b"), Layout(tp=8, pp=2)
    problem = training_problem(costs, [Trained("actor", model, layout, [(4096.0, 2048.0)])], memory_cap=40.0)
    seconds = 16 * costs.layer(model, tp=8, tokens=4096, length=2048).forward
    assert problem.model("actor").duration("F", 0, 0) > 1e3 * seconds
    assert problem.comm == pytest.approx(1e3 * costs.message(4096 * 4096 * 2 / 8, across_nodes=True), abs=1e-6)
    assert problem.memory_cap == 40.0


def test_one_column_sends_nothing() -> None:
    assert training_problem(COSTS, [Trained("actor", TINY, Layout(tp=2), BATCHES)]).comm == 0.0


def test_models_of_different_depth_of_pipeline_are_refused() -> None:
    sides = [Trained("actor", TINY, Layout(pp=2), BATCHES), Trained("critic", TINY, Layout(pp=4), BATCHES)]
    with pytest.raises(ProblemError, match=r"pipeline sizes differ \(actor 2, critic 4\)"):
        training_problem(COSTS, sides)


def test_costs_and_problems_need_no_torch() -> None:
    modules = "fusedrl.plan.analytic, fusedrl.plan.measured, fusedrl.plan.problems"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
