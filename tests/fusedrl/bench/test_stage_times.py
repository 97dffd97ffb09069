from pathlib import Path
from typing import Any

import pytest

from fusedrl.bench.checks import Failed
from fusedrl.bench.stage_times import GIB, check_growth, median_ms, profile_of, to_yaml
from fusedrl.pipeline.pass_run import PassResult
from fusedrl.pipeline.timeline import TimedOp
from schedules.order import Op
from schedules.problem import Kind, Problem
from schedules.solve import solve
from tests.distributed.pool import RankPool

KINDS: tuple[Kind, ...] = ("F", "B", "W")


@pytest.fixture(scope="module")
def profile(ranks: RankPool) -> dict[str, Any]:
    return ranks.run("tests.fusedrl.bench.gpu_jobs:profile", world=1)[0]  # type: ignore[no-any-return]


def passed(ms: float) -> PassResult:
    return PassResult({}, (TimedOp(Op("actor", "F", 0, 0), 5, 5 + int(ms * 1e6)),))


def times(scale: float = 1.0) -> dict[Op, float]:
    """Of the critic twice the actor's, by micro-batch 1, 2 times F 1, B 2, W 3, plus the stage."""
    return {
        Op(name, kind, m, s): factor * (1 + scale * m) * (KINDS.index(kind) + 1) + s
        for name, factor in (("actor", 1.0), ("critic", 2.0))
        for kind in KINDS
        for m in range(2)
        for s in range(2)
    }


def held() -> dict[tuple[str, int, int], int]:
    return {(name, s, m): GIB * (1 + m + s) for name in ("actor", "critic") for s in range(2) for m in range(2)}


def test_the_profile_is_a_problem_in_ms_and_gib_with_the_critic_reversed() -> None:
    actor, critic = profile_of(times(), held()).models
    assert (actor.placement, critic.placement) == ((0, 1), (1, 0))
    assert [actor.duration(kind, 1, 1) for kind in KINDS] == [3, 12, 7]  # B is the whole backward
    assert actor.duration("B", 1, 1, split=True) == 5
    assert critic.duration("F", 0, 1) == 4
    assert actor.activation_of(1, 1) == 3


def test_the_file_is_read_and_solved_by_schedules(tmp_path: Path) -> None:
    path = tmp_path / "cost_profile.yaml"
    problem = profile_of(times(), held())
    path.write_text(to_yaml(problem, tokens=[8, 16], about=["device: some GPU: fast"]))
    assert Problem.load(path) == problem
    assert path.read_text().startswith("# device: some GPU: fast\n# Micro-batches: 8, 16 tokens.")
    assert solve(Problem.load(path), method="greedy").replay.makespan > 0


def test_medians_are_taken_by_op_and_a_time_of_nothing_fails() -> None:
    assert median_ms([passed(1.0), passed(9.0), passed(2.0)]) == {Op("actor", "F", 0, 0): 2.0}
    with pytest.raises(Failed, match=r"actor:F0@0 took 0\.0 ms"):
        median_ms([passed(0.0)])


def test_more_tokens_must_take_longer() -> None:
    check_growth(profile_of(times(), held()))
    with pytest.raises(Failed, match="actor stage 0: F\\+B took"):
        check_growth(profile_of(times(scale=-0.5), held()))


def test_each_microbatch_is_measured_alone(profile: dict[str, Any]) -> None:
    assert profile["passes"] == 2
    first = "F0@0 F0@1 B0@1 W0@1 B0@0 W0@0"
    assert profile["ops"][:6] == [f"actor:{op}" for op in first.split()]
    assert profile["ops"][-6:] == [f"critic:{op}".replace("0@", "2@") for op in first.split()]


def test_measured_times_and_bytes_come_out_in_the_file(profile: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "cost_profile.yaml"
    path.write_text(profile["text"])
    actor = Problem.load(path).model("actor")
    assert actor.duration("W", 1, 0) == pytest.approx(profile["weight_ms"], abs=1e-6)
    assert actor.duration("B", 1, 0) == pytest.approx(profile["whole_ms"], abs=1e-6)
    assert actor.activation_of(1, 2) == pytest.approx(profile["held"]["actor@1:2"] / GIB, rel=1e-4)


def test_held_bytes_grow_with_the_rows(profile: dict[str, Any]) -> None:
    one, two, four = (profile["held"][f"critic@0:{m}"] for m in range(3))
    assert four - two == 2 * (two - one) > 0


def test_held_bytes_are_a_stages_own(profile: dict[str, Any]) -> None:
    first, last = profile["held"]["critic@0:2"], profile["held"]["critic@1:2"]
    assert first < last < 1.2 * first  # two layers each; the last stage has a norm and a value head more
