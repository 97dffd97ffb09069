"""Faults of each kind, one phase each; every phase: test_matrix.py. A run that goes on is the uninterrupted run."""

from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch import Tensor

from fusedrl.checkpoint.folder import candidates, state_folder
from tests.faults.faults import Fault
from tests.faults.runs import Runs, check_ended
from tests.faults.server import RewardServer


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("faults"))


def test_a_run_that_meets_five_faults_in_a_row_is_the_run_that_meets_none(runs: Runs) -> None:
    """A kill, a rank that stands still, SIGTERM, a full disk and a cut file, each in another phase and step."""
    folder = str(runs.folder)
    killed = runs.start("chain", fault=Fault("kill", "training", 2), steps=6)
    check_ended(killed, codes=(1, -9), said="rank 1 closed the connection; it ended, failed or was killed", lines=0)
    stuck = runs.start("chain", fault=Fault("stuck", "generation", 3, folder=folder), steps=6)
    check_ended(stuck, codes=(1, -9), killed=(1,), said="waited for another rank longer than trainer.timeout_s")
    assert "during gen (" in stuck.text
    asked = runs.start("chain", fault=Fault("term", "inference", 4, rank=0), steps=6)
    check_ended(asked, codes=(75, 75), said="SIGTERM: stopped after step 4, saved in")
    assert candidates(runs.folder / "chain/checkpoints")[0] == 4
    full = runs.start("chain", fault=Fault("full", "save", 5), steps=6)
    check_ended(full, codes=(1, 1), said="step 5 could not be saved: rank 1: [Errno 27]")
    assert "the state of step 4 stays the last good one" in full.text
    state = state_folder(runs.folder / "chain/checkpoints", 4)
    (state / "rank_00001.safetensors").write_bytes((state / "rank_00001.safetensors").read_bytes()[:-1])
    last = runs.check_goes_on("chain", steps=6)
    assert "DAMAGED CHECKPOINT: " in last.text
    assert "RESUMED after step 3, " in last.text


def test_a_rank_killed_in_the_stream_of_samples_ends_the_run_and_it_goes_on(runs: Runs) -> None:
    fault = Fault("kill", "generation", 3, folder=str(runs.folder))
    ended = runs.start("stream", form="stream", fault=fault)
    check_ended(ended, codes=(1, -9), said="instance 1 was last heard", lines=0)
    runs.check_goes_on("stream", form="stream")


def test_losses_that_are_no_numbers_change_nothing_and_too_many_in_a_row_end_the_run(runs: Runs) -> None:
    more = ("trainer.max_skipped_updates=2", "trainer.async_save=false")
    ended = runs.start("nan", *more, fault=Fault("nan", "training", 2, more=9))
    check_ended(ended, codes=(1, 1), said="actor: the gradients of its last 2 updates, up to step 3, were not finite")
    assert "trainer.max_skipped_updates=2 allows no more. the state of step 2 stays the last good one" in ended.text
    before, after = (states(runs.folder / "nan/checkpoints", step=step) for step in (1, 2))
    same = {name: bool(before[name].equal(after[name])) for name in before}
    actor = {name: equal for name, equal in same.items() if "actor" in name}
    assert len(actor) > 20
    assert all(actor.values())
    assert not all(same.values())  # the critic learned
    again = runs.start("nan", *more)
    assert again.codes == (0, 0), again.text
    assert "RESUMED after step 2, " in again.text


def states(checkpoints: Path, *, step: int) -> dict[str, Tensor]:
    """All tensors of a state, by rank."""
    files = sorted(state_folder(checkpoints, step).glob("rank_*.safetensors"))
    return {f"{file.stem} {name}": tensor for file in files for name, tensor in load_file(file).items()}


def test_a_reward_server_that_goes_down_ends_the_run_before_it_learns_from_that_and_it_goes_on(runs: Runs) -> None:
    with RewardServer(answers=8) as server:  # the calls of one step
        more = (f"custom_reward_function.path={server.address}", "custom_reward_function.retries=0")
        ended = runs.start("server", *more, steps=6)
        said = "the server answered none of the 8 calls of step 2"
        check_ended(ended, codes=(1, 1), said=f"custom_reward_function.path={server.address}: {said}")
        assert "status 500" in ended.text
        server.mend()
        runs.check_goes_on("server", *more, steps=6)  # the whole run is that of the test above
