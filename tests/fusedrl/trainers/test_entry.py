import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import torch.distributed as dist

from fusedrl import evaluate, generate, ppo, reward_model, sft
from fusedrl.checkpoint.saver import SaveError
from fusedrl.config.errors import ConfigError
from fusedrl.config.load import load
from fusedrl.parallel.agreed import AgreedError
from fusedrl.pipeline.failure import TELL_S, PipelineError
from fusedrl.telemetry.timers import Timers
from fusedrl.trainers import preflight, preflight_generation, stopping, world
from fusedrl.trainers.entry import CONNECTIONS, in_world, overlap_tensor_parallel, set_up
from fusedrl.trainers.stopping import Stopped


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "joined", lambda *, timeout_s: nullcontext())
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(stopping, "let_tell", lambda limit_s: None)


def raising(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (PipelineError("told already"), 1, ""),
        (SaveError("step 2 could not be saved: rank 1: no space"), 1, "fusedrl.ppo: step 2 could not be saved: rank 1"),
        (Stopped(3, "SIGUSR1", Path("run/global_step_3")), 75, "fusedrl.ppo: SIGUSR1: stopped after step 3, saved in"),
        (KeyboardInterrupt(), 130, "fusedrl.ppo: interrupted"),
        (ConfigError(["a.b=1: must be 2"]), 2, "fusedrl.ppo: 1 problem in the configuration"),
        (AgreedError("the server is down", tells=True), 1, "fusedrl.ppo: the server is down"),
        (AgreedError("another rank tells", tells=False), 1, ""),
    ],
)
def test_failed_passes_and_configurations_end_with_a_code_and_no_traceback(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        in_world("ppo", lambda: raising(error), timeout_s=1.0)
    assert ended.value.code == code
    printed = capsys.readouterr().err
    assert printed.startswith(said)
    assert "Traceback" not in printed
    assert bool(printed) == bool(said)


def test_ranks_that_do_not_tell_wait_for_the_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(stopping, "let_tell", waits.append)
    for rank in (0, 1):
        monkeypatch.setenv("RANK", str(rank))
        with pytest.raises(SystemExit):
            in_world("ppo", lambda: raising(SaveError("full")), timeout_s=1.0)
    assert waits == [TELL_S]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [::1]:2"),
            "lost contact with another",
        ),
        (
            RuntimeError("[../gloo/transport/tcp/x.cc:2] Timed out waiting 9ms for recv operation"),
            "waited for another rank",
        ),
        (dist.DistBackendError("NCCL communicator was aborted"), "lost contact with another rank"),
    ],
)
def test_a_rank_that_loses_another_says_so_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    monkeypatch.setenv("RANK", "3")
    with pytest.raises(SystemExit) as ended:
        in_world("ppo", lambda: raising(error), timeout_s=1.0)
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"fusedrl.ppo: rank 3 {said}")
    assert "pair.cc" not in line


def test_a_lost_rank_is_told_with_the_phase_and_without_gloo_s_advice(capsys: pytest.CaptureFixture[str]) -> None:
    timers, closed = Timers(), "[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [::1]:2"
    with pytest.raises(SystemExit):
        in_world("ppo", lambda: lose(timers, f"{closed}. This is typically caused by a crash. Good luck!"), timeout_s=1)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "fusedrl.ppo: rank 0 lost contact with another rank during gen: it ended, failed or was killed "
        "(Connection closed by peer [::1]:2)"
    )


def lose(timers: Timers, text: str) -> None:
    with timers("step"), timers("gen"):
        raise RuntimeError(text)


def test_runtime_errors_of_other_kinds_pass_through() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        in_world("ppo", lambda: raising(RuntimeError("mat1 and mat2 shapes cannot be multiplied")), timeout_s=1.0)


def test_other_errors_pass_through() -> None:
    with pytest.raises(ZeroDivisionError):
        in_world("ppo", lambda: raising(ZeroDivisionError()), timeout_s=1.0)


def test_errors_of_setting_up_are_the_configurations_but_not_those_of_the_run() -> None:
    @contextmanager
    def run(*, broken: bool) -> Iterator[int]:
        if broken:
            raise ValueError("two\nlines")
        yield 5

    with pytest.raises(ConfigError, match=r"^two lines$"), set_up(run(broken=True)):
        pass
    with pytest.raises(ValueError, match=r"^later$") as later, set_up(run(broken=False)) as made:
        raise ValueError("later") if made == 5 else AssertionError
    assert not isinstance(later.value, ConfigError)


@pytest.mark.parametrize(("tp", "given", "found"), [(1, None, None), (2, None, "1"), (2, "8", "8"), (1, "8", "8")])
def test_one_connection_is_asked_for_with_tensor_parallelism_alone(
    monkeypatch: pytest.MonkeyPatch, tp: int, given: str | None, found: str | None
) -> None:
    monkeypatch.setenv(CONNECTIONS, given or "")
    if given is None:
        monkeypatch.delenv(CONNECTIONS)
    overlap_tensor_parallel(largest_tp=tp)
    assert os.environ.get(CONNECTIONS) == found


@pytest.mark.parametrize(("tp", "found"), [(1, None), (2, "1")])
def test_all_commands_ask_for_it_before_they_look_at_devices(
    monkeypatch: pytest.MonkeyPatch, tp: int, found: str | None
) -> None:
    checks = {preflight: ("ppo_problems", "sft_problems", "rm_problems")}
    checks[preflight_generation] = ("evaluate_problems", "generate_problems")
    keys = {ppo: "critic.megatron", sft: "megatron", reward_model: "megatron", evaluate: "rollout", generate: "rollout"}
    for module, key in keys.items():
        command = module.__name__.removeprefix("fusedrl.")
        monkeypatch.setenv(CONNECTIONS, "")
        monkeypatch.delenv(CONNECTIONS)
        seen: list[str | None] = []
        for place, name in ((place, name) for place, names in checks.items() for name in names):
            monkeypatch.setattr(place, name, lambda *_, seen=seen, **__: seen.append(os.environ.get(CONNECTIONS)) or [])
        module.problems(load(command, ["experiment=arithmetic", f"{key}.tensor_model_parallel_size={tp}"]), 4)
        assert seen[-1] == found
