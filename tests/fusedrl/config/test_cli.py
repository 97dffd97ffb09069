"""Entry points end clearly: code 2 with all problems on stderr from rank 0 alone, code 0 for questions."""

import pytest

from fusedrl.config import cli
from fusedrl.config.schema import PPOConfig

ARITHMETIC = ["experiment=arithmetic"]


def fine(config: PPOConfig, world: int) -> list[str]:
    return []


def ended(argv: list[str], capsys: pytest.CaptureFixture[str], *, check: cli.Check = fine) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        cli.start("ppo", check=check, argv=argv)
    out, err = capsys.readouterr()
    assert isinstance(caught.value.code, int)
    return caught.value.code, out, err


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cli.time, "sleep", lambda seconds: None)


def test_a_good_configuration_is_returned_and_nothing_printed(capsys: pytest.CaptureFixture[str]) -> None:
    config = cli.start("ppo", check=fine, argv=[*ARITHMETIC, "trainer.seed=7"])
    assert config.trainer.seed == 7
    assert capsys.readouterr() == ("", "")


def test_a_wrong_key_ends_with_code_2_and_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ended([*ARITHMETIC, "critic.optim.lrr=1"], capsys)
    assert (code, out) == (2, "")
    assert err == (
        "fusedrl.ppo: 1 problem in the configuration; nothing was started\n"
        "  - critic.optim.lrr: no such key; did you mean critic.optim.lr?\n"
    )


def test_all_problems_of_the_check_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ended(ARITHMETIC, capsys, check=lambda config, world: ["a: 1", "b: 2"])
    assert code == 2
    assert err.splitlines()[0].startswith("fusedrl.ppo: 2 problems")
    assert err.splitlines()[1:] == ["  - a: 1", "  - b: 2"]


@pytest.mark.parametrize("error", [ValueError("no config.json in m"), FileNotFoundError("m is missing")])
def test_a_model_folder_that_cannot_be_read_is_a_problem(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def check(config: PPOConfig, world: int) -> list[str]:
        raise error

    code, _, err = ended(ARITHMETIC, capsys, check=check)
    assert code == 2
    assert str(error) in err


def test_a_bug_in_a_check_is_not_taken_for_a_problem() -> None:
    def check(config: PPOConfig, world: int) -> list[str]:
        raise KeyError("bug")

    with pytest.raises(KeyError, match="bug"):
        cli.start("ppo", check=check, argv=ARITHMETIC)


def test_other_ranks_are_silent(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert ended(["nonsense=1"], capsys) == (2, "", "")
    assert ended(["--help"], capsys) == (0, "", "")


def test_other_ranks_end_after_rank_0_only(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(cli.time, "sleep", waits.append)
    for rank in (0, 1):
        monkeypatch.setenv("RANK", str(rank))
        with pytest.raises(SystemExit):
            cli.stop("ppo", ["x"])
    assert waits == [cli.WAIT_S]


def test_the_check_sees_the_ranks_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def check(config: PPOConfig, world: int) -> list[str]:
        seen.append(world)
        return []

    cli.start("ppo", check=check, argv=ARITHMETIC)
    monkeypatch.setenv("WORLD_SIZE", "4")
    cli.start("ppo", check=check, argv=ARITHMETIC)
    cli.start("ppo", check=check, argv=[*ARITHMETIC, "--world", "8"])
    assert seen == [1, 4, 8]


def test_check_alone_starts_nothing_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ended([*ARITHMETIC, "--check", "--world", "4"], capsys)
    assert (code, out, err) == (0, "fusedrl.ppo: the configuration fits 4 ranks\n", "")


def test_a_check_may_add_lines(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*ARITHMETIC, "--check"]
    with pytest.raises(SystemExit):
        cli.start("ppo", check=lambda c, w: [], notes=lambda c, w: [f"{c.trainer.resume_mode} on {w}"], argv=arguments)
    assert capsys.readouterr().out == "fusedrl.ppo: the configuration fits 1 rank\nauto on 1\n"


@pytest.mark.parametrize("world", ["0", "-1", "-4", "many", "1.5"])
@pytest.mark.parametrize("source", ["argument", "environment"])
def test_a_job_without_ranks_is_refused(
    world: str, source: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if source == "environment":
        monkeypatch.setenv("WORLD_SIZE", world)
    code, out, err = ended([*ARITHMETIC, "--check", *(["--world", world] if source == "argument" else [])], capsys)
    assert (code, out) == (2, "")
    assert "--world" in err
    assert world in err


def test_cfg_prints_the_resolved_configuration_unchecked(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ended([*ARITHMETIC, "--cfg", "job"], capsys, check=lambda config, world: ["x"])
    assert code == 0
    assert "default_local_dir: runs/arithmetic\n" in out


def test_help_names_every_key_and_group(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ended(["--help"], capsys)
    assert code == 0
    assert "  critic.ppo_epochs=${actor_rollout_ref.actor.ppo_epochs}\n" in out
    assert "  parallel=pp2 | pp4 | single | tp2 | tp2_pp2\n" in out
    assert "  actor_rollout_ref.model.path=(required)\n" in out


def test_processes_that_do_not_know_of_each_other_are_not_a_job_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    code, _, err = ended(ARITHMETIC, capsys)
    assert code == 2
    assert "srun started 4 processes, but RANK is not set" in err
    assert ended([*ARITHMETIC, "--check"], capsys)[0] == 0
