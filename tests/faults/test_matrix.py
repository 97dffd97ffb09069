"""Every fault in every phase: bash launch/test_faults.sh. docs/reliability.md says what each cell holds.

After each fault the same command is started again and ends as the run that met none: files, rows and place to the bit.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fusedrl.checkpoint.folder import state_folder
from tests.faults.faults import Fault
from tests.faults.job import FAULT
from tests.faults.launcher import Ended
from tests.faults.runs import TELLS, Runs, check_ended
from tests.faults.server import RewardServer

pytestmark = pytest.mark.skipif(
    os.environ.get("FUSEDRL_TEST_FAULTS") != "all", reason="every fault in every phase: bash launch/test_faults.sh"
)
ROOT = Path(__file__).resolve().parents[2]
LOST, WAITED = "lost contact with another rank during {}", "longer than trainer.timeout_s allows during {} ("
CLOSED, NO_MESSAGE = "rank {} closed the connection; it ended, failed or was killed", "from rank {} did not come within"
SILENT = "instance 1 was last heard"
PIPELINED = ("actor_rollout_ref.rollout.pipeline_model_parallel_size=2",)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("matrix"))


@pytest.fixture
def run(request: pytest.FixtureRequest) -> str:
    """The name of this cell's run."""
    return re.sub(r"\W+", "_", request.node.name)[:120].strip("_")


@pytest.fixture
def tell_time(request: pytest.FixtureRequest) -> Any:
    """Prints how long a run took to end, for the table."""

    def tell(ended: Ended) -> None:
        print(f"\nTIME {request.node.name}: {ended.seconds:.1f} s from the fault to the last rank's end", flush=True)

    return tell


def others_code(rank: int, *, mine: int, other: int) -> tuple[int, ...]:
    return tuple(mine if each == rank else other for each in range(2))


@pytest.mark.parametrize("rank", [1, 0], ids=["rank-1", "rank-0-with-the-store"])
@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ("hand_over", LOST.format("hand_over")),
        ("generation", LOST.format("gen")),
        ("inference", CLOSED),
        ("training", CLOSED),
        ("optimizer", LOST.format("update_fused")),
        ("save", LOST.format("")),
    ],
    ids=lambda value: value if value.isidentifier() else "",
)
def test_a_killed_rank_ends_the_run_at_once(
    runs: Runs, tell_time: Any, run: str, phase: str, said: str, rank: int
) -> None:
    ended = runs.start(run, fault=Fault("kill", phase, 3, rank=rank), own_store=rank == 0)
    tell_time(ended)
    in_a_pass = said == CLOSED
    check_ended(ended, codes=others_code(rank, mine=-9, other=1), said=said.format(rank), lines=0 if in_a_pass else 1)
    runs.check_goes_on(run)


@pytest.mark.parametrize("phase", ["generation", "reading"])
def test_a_killed_instance_ends_the_stream_within_its_silence(runs: Runs, tell_time: Any, run: str, phase: str) -> None:
    fault = Fault("kill", phase, 3, folder=str(runs.folder))
    ended = runs.start(run, form="stream", fault=fault)
    tell_time(ended)
    check_ended(ended, codes=(1, -9), said=SILENT, lines=0)
    runs.check_goes_on(run, form="stream")


@pytest.mark.parametrize(
    ("phase", "said", "lines"),
    [
        ("hand_over", WAITED.format("hand_over"), 1),
        ("generation", WAITED.format("gen"), 1),
        ("inference", NO_MESSAGE, 0),
        ("forward", NO_MESSAGE, 0),  # of the training pass
        ("optimizer", WAITED.format("update_fused"), 1),
        ("save", WAITED.format("save_checkpoint"), 1),
    ],
    ids=lambda value: value if str(value).isidentifier() else "",
)
@pytest.mark.parametrize("rank", [1, 0], ids=["rank-1", "rank-0-with-the-store"])
def test_a_rank_that_stands_still_ends_the_run_within_the_limit(
    runs: Runs, tell_time: Any, run: str, phase: str, said: str, lines: int, rank: int
) -> None:
    """Those that are well end by themselves; what stands still its launcher kills."""
    more = ["trainer.async_save=false"] if phase == "save" else []
    fault = Fault("stuck", phase, 3, rank=rank, folder=str(runs.folder))
    ended = runs.start(run, *more, fault=fault, own_store=rank == 0)
    tell_time(ended)
    codes = others_code(rank, mine=-9, other=1)
    check_ended(ended, codes=codes, said=said.format(rank), killed=(rank,), lines=lines)
    runs.check_goes_on(run)


@pytest.mark.parametrize("phase", ["generation", "reading"])
def test_an_instance_that_stands_still_ends_the_stream(runs: Runs, tell_time: Any, run: str, phase: str) -> None:
    fault = Fault("stuck", phase, 3, folder=str(runs.folder))
    ended = runs.start(run, form="stream", fault=fault)
    tell_time(ended)
    check_ended(ended, codes=(1, -9), said=SILENT, killed=(1,), lines=0)
    runs.check_goes_on(run, form="stream")


@pytest.mark.parametrize(("kind", "said"), [("kill", "lost contact"), ("stuck", "waited for another rank longer")])
def test_a_stage_of_a_generating_pipeline_that_is_gone_is_named(
    runs: Runs, tell_time: Any, run: str, kind: str, said: str
) -> None:
    stuck = kind == "stuck"
    fault = Fault(kind, "generation", 2, call=1, folder=str(runs.folder) if stuck else "")
    ended = runs.start(run, *PIPELINED, fault=fault)
    tell_time(ended)
    check_ended(ended, codes=(1, -9), said=said, killed=(1,) if stuck else ())
    assert "generation: stage 0 waited for stage 1 (rank 1)" in ended.text


@pytest.mark.parametrize("form", ["stages", "stream"])
@pytest.mark.parametrize("phase", ["hand_over", "generation", "inference", "training", "optimizer", "save", "reading"])
@pytest.mark.parametrize("rank", [0, 1])
def test_sigterm_ends_the_step_and_saves(
    runs: Runs, tell_time: Any, run: str, form: str, phase: str, rank: int
) -> None:
    if phase == ("reading" if form == "stages" else "inference"):
        pytest.skip("the other form's inference")
    ended = runs.start(run, form=form, fault=Fault("term", phase, 2, rank=rank))
    tell_time(ended)
    check_ended(ended, codes=(75, 75), said="SIGTERM: stopped after step ")
    assert "the same command goes on from there" in ended.text
    runs.check_goes_on(run, form=form)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("phase", ["hand_over", "generation", "inference", "training", "save"])
def test_a_full_disk_ends_the_run_at_its_next_state(
    runs: Runs, tell_time: Any, run: str, phase: str, rank: int
) -> None:
    """What a run does not need to go on (metrics, drawings, samples to look at) is told and does not end it."""
    ended = runs.start(run, fault=Fault("full", phase, 3, rank=rank))
    tell_time(ended)
    check_ended(ended, codes=(1, 1), said=f"could not be saved: rank {rank}: [Errno 27] ")
    assert "stays the last good one" in ended.text
    runs.check_goes_on(run)


def test_a_full_disk_under_an_export_ends_the_run(runs: Runs, tell_time: Any, run: str) -> None:
    ended = runs.start(run, "trainer.export_hf=true", fault=Fault("full", "export", 3, rank=0))
    tell_time(ended)
    check_ended(ended, codes=(1, 1), said="could not be written: rank 0: ")
    assert not (runs.folder / run / "checkpoints/global_step_3/actor").exists()
    runs.check_goes_on(run)


def test_a_file_system_without_space_ends_the_run_and_it_goes_on_once_there_is_some(
    runs: Runs, tell_time: Any, tmp_path: Path
) -> None:
    """A file system of 1 MB, which the states of some steps fill; then a larger one with the same files."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.system(f"mount -t tmpfs -o size=1m tmpfs {disk} 2>/dev/null"):
        pytest.skip("no right to mount a file system")
    try:
        ended = runs.start(f"{disk}/run")
        tell_time(ended)
        check_ended(ended, codes=(1, 1), said="No space left on device")
        assert os.system(f"mount -o remount,size=64m {disk}") == 0
        runs.check_goes_on(f"{disk}/run")
    finally:
        os.system(f"umount {disk}")


DAMAGES = {
    "a-cut-file": lambda state: cut(state / "rank_00000.safetensors"),
    "an-altered-byte": lambda state: alter(state / "rank_00001.safetensors"),
    "a-file-that-is-gone": lambda state: (state / "rank_00001.safetensors").unlink(),
    "a-cut-manifest": lambda state: cut(state / "manifest.json"),
    "a-pointer-of-noise": lambda state: (state.parent.parent / "latest_checkpointed_iteration.txt").write_bytes(
        b"\xff"
    ),
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_a_damaged_file_is_found_before_anything_is_loaded(runs: Runs, run: str, damage: str) -> None:
    whole = runs.whole()
    shutil.copytree(runs.folder / "whole_stages_4", runs.folder / run)
    DAMAGES[damage](state_folder(runs.folder / run / "checkpoints", 4))
    ended = runs.start(run)
    assert ended.codes == (0, 0), ended.text
    assert ("DAMAGED CHECKPOINT: " in ended.text) == (damage != "a-pointer-of-noise"), ended.text
    assert runs.left_by(run) == whole


def test_without_a_good_state_the_run_does_not_start(runs: Runs, run: str) -> None:
    runs.whole()
    shutil.copytree(runs.folder / "whole_stages_4", runs.folder / run)
    for step in (1, 2, 3, 4):
        cut(state_folder(runs.folder / run / "checkpoints", step) / "rank_00000.safetensors")
    ended = runs.start(run)
    check_ended(ended, codes=(2, -15), said="is good: ")  # before it begins, the launcher ends the others
    assert f"{TELLS}1 problem in the configuration; nothing was started" in ended.text


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_log_probabilities_that_are_no_numbers_end_the_run_before_it_learns_from_them(
    runs: Runs, tell_time: Any, run: str
) -> None:
    more = ("algorithm=ppo_kl", "algorithm.kl_ctrl.type=adaptive", "algorithm.kl_ctrl.horizon=50")
    ended = runs.start(run, *more, fault=Fault("nan", "inference", 2))
    tell_time(ended)
    check_ended(ended, codes=(1, 1), said="step 2 is not trained on: ref_logp of this step's samples holds NaN")
    again = runs.start(run, *more)
    assert again.codes == (0, 0), again.text
    assert "RESUMED after step 1, " in again.text


def test_a_reward_server_that_is_down_from_the_start_is_told_before_anything_starts(runs: Runs) -> None:
    ended = runs.start("no_server", "custom_reward_function.path=http://127.0.0.1:9/score")
    check_ended(ended, codes=(2, -15), said="nothing answers at 127.0.0.1:9")


def test_a_reward_server_that_goes_down_under_the_stream_ends_the_run_and_it_goes_on(
    runs: Runs, tell_time: Any, run: str
) -> None:
    with RewardServer(answers=8) as server:
        more = (f"custom_reward_function.path={server.address}", "custom_reward_function.retries=0")
        ended = runs.start(run, *more, form="stream")
        tell_time(ended)
        check_ended(ended, codes=(1, 1), said="the server answered none of the 8 calls of step 2")
        server.mend()
        runs.check_goes_on(run, *more, form="stream")


def by_torchrun(runs: Runs, run: str, *more: str, fault: Fault, **given: str) -> subprocess.CompletedProcess[str]:
    """The same run under launch/torchrun.sh."""
    environment = {**os.environ, "FUSEDRL_PYTHON": sys.executable, "NPROC_PER_NODE": "2", "OMP_NUM_THREADS": "1"}
    environment |= {"CI": "true", FAULT: fault.to_text(), **given}
    command = ["bash", str(ROOT / "launch/torchrun.sh"), "tests.faults.job", *runs.arguments(run, *more)]
    return subprocess.run(command, env=environment, cwd=runs.folder, capture_output=True, text=True, timeout=900)


def test_torchrun_starts_all_ranks_again_and_they_go_on_from_the_last_state(runs: Runs, run: str) -> None:
    done = by_torchrun(runs, run, fault=Fault("kill", "training", 3), MAX_RESTARTS="1")
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert CLOSED.format(1) in told
    assert "RESUMED after step " in told
    # a state has the generator of Python's, which an interpreter seeds anew and nothing here draws from
    assert runs.left_by(run)[1:] == runs.whole()[1:]


def test_a_rank_that_stands_still_under_torchrun_ends_the_run_after_timeout_s(runs: Runs, run: str) -> None:
    """The configured limit, on the clock. torchrun kills what stands still SHUTDOWN_TIMEOUT seconds later."""
    fault, began = Fault("stuck", "generation", 3), time.monotonic()
    done = by_torchrun(runs, run, "trainer.timeout_s=30", fault=fault, SHUTDOWN_TIMEOUT="5")
    told = done.stdout + done.stderr
    print(f"\nTIME {run}: {time.monotonic() - began:.1f} s in all")
    assert done.returncode == 1, told
    assert WAITED.format("gen") in told
    assert "Timed out waiting 30000ms" in told
