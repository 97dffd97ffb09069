"""Places of ranks and arguments; a real cluster runs the job in test_real_launchers.py."""

import sys
from pathlib import Path

import pytest

from tests.launch.scripts import ROOT, module_of

job = module_of("ray_job.py")
ENDS = "import sys, time\nif len(sys.argv) > 1:\n    sys.exit(int(sys.argv[1]))\ntime.sleep(600)\n"
SEATS = [job.Seat("b", "10.0.0.2", ("1",)), job.Seat("a", "10.0.0.1", ("0",)), job.Seat("b", "10.0.0.2", ("0",))]


def test_ranks_of_a_node_are_neighbours_and_the_first_actor_s_node_is_first() -> None:
    assert job.in_order(SEATS) == [0, 2, 1]


def test_each_rank_gets_its_place_and_sees_the_gpus_of_its_node() -> None:
    seats = [SEATS[actor] for actor in job.in_order(SEATS)]
    given = job.environments(seats, port=1234, threads=3)
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES")
    places = [tuple(each[name] for name in names) for each in given]
    assert places == [("0", "0", "2", "1,0"), ("1", "1", "2", "1,0"), ("2", "0", "1", "0")]
    for each in given:
        assert (each["WORLD_SIZE"], each["MASTER_ADDR"], each["MASTER_PORT"]) == ("3", "10.0.0.2", "1234")
        assert (each["OMP_NUM_THREADS"], each["FUSEDRL_LAUNCHER"]) == ("3", "Ray")
        assert each["PYTHONPATH"].split(":")[0] == str(ROOT)


def test_arguments_of_the_ranks_are_left_as_they_are() -> None:
    options, command = job.parse(["--ranks", "2", "--strategy", "SPREAD", "fusedrl.ppo", "a=[b, c]", "--check"])
    assert (options.ranks, options.strategy, options.gpus_per_rank) == (2, "SPREAD", None)
    assert command == ["fusedrl.ppo", "a=[b, c]", "--check"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ranks", "0", "fusedrl.ppo"], "--ranks 0: at least 1 is needed"),
        (["--ranks", "2"], "the module to run is missing"),
        (["--ranks", "2", "trainer.seed=1"], "the module to run is missing"),
    ],
)
def test_what_is_missing_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        job.parse(arguments)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ray_job.py: {said}")


def test_a_python_without_ray_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SystemExit):
        job.main(["--ranks", "2", "fusedrl.ppo"])
    assert capsys.readouterr().err == f"ray_job.py: no ray in {sys.executable}: pip install '.[ray]'\n"


def test_a_rank_s_process_gets_signals_that_came_before_it_and_its_code_is_a_shell_s(
    tmp_path: Path,
) -> None:
    (tmp_path / "ends.py").write_text(
        "import sys, time\nif len(sys.argv) > 1: sys.exit(int(sys.argv[1]))\ntime.sleep(600)"
    )
    assert job.Rank().run(["ends", "75"], {"PYTHONPATH": str(tmp_path)}, str(tmp_path)) == 75
    rank = job.Rank()
    rank.send(15)
    assert rank.run(["ends"], {"PYTHONPATH": str(tmp_path)}, str(tmp_path)) == 128 + 15
