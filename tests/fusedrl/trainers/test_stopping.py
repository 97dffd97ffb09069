"""A run that is asked to stop: its step ends, its state is there, and the same command is the uninterrupted run."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from fusedrl.checkpoint.folder import candidates
from fusedrl.models.hf_folder import HfFolder
from fusedrl.trainers import stopping
from fusedrl.trainers.stopping import asked_anywhere, heeding
from tests.distributed.pool import RankPool
from tests.fusedrl.trainers.test_checkpointing import one_model_arguments, rows_of
from tests.fusedrl.trainers.test_preflight import model

JOB = "tests.fusedrl.trainers.stopping_jobs:whole_stopped_and_resumed"


def test_a_signal_to_one_rank_stops_all_after_the_step_and_the_same_command_goes_on_to_the_bit(
    ranks: RankPool, tmp_path: Path
) -> None:
    model(tmp_path / "start")
    short = ["trainer.total_training_steps=3", "trainer.save_freq=-1"]
    runs = {name: [*one_model_arguments(tmp_path, command="sft", run=name), *short] for name in ("whole", "stopped")}
    found = ranks.run(JOB, world=2, **runs, rank=1, step=2)
    for reason, told, restored in found:
        assert reason == (
            f"SIGUSR1: stopped after step 2, saved in {tmp_path}/stopped/checkpoints/global_step_2; "
            "the same command goes on from there"
        )
        assert any(line.startswith("RESUMED after step 2, from ") for line in told)
        assert restored == [True, True]
    assert candidates(tmp_path / "stopped/checkpoints") == [3, 2]
    assert [row["step"] for row in rows_of(tmp_path / "stopped")] == [1, 2, 3]
    assert rows_of(tmp_path / "stopped") == rows_of(tmp_path / "whole")
    whole, resumed = (HfFolder(tmp_path / run / "huggingface") for run in ("whole", "stopped"))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_is_noted_and_forgotten_by_the_next_run(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(stopping, "all_gather_object", lambda mine: [None, mine])
    before = signal.getsignal(number)
    with heeding():
        assert asked_anywhere() is None
        os.kill(os.getpid(), number)
        assert asked_anywhere() == signal.Signals(number).name
    assert signal.getsignal(number) == before
    with heeding():
        assert asked_anywhere() is None


def test_a_launcher_s_signal_does_not_cut_off_a_rank_that_ends_but_ends_one_that_has_not_begun() -> None:
    """Two children, signalled by themselves: after the run heeded signals, and before."""
    tell = "let_tell(60); os.write(1, b'told'); os._exit(3)"
    body = "import os, signal; from fusedrl.trainers.stopping import *"
    codes = {
        way: subprocess.run(
            [sys.executable, "-c", f"{body}\nwith ending():\n    {run}\n    os.kill(os.getpid(), 15)\n    {tell}"],
            capture_output=True,
            timeout=120,
        )
        for way, run in (("after", "with heeding(): os.getpid()"), ("before", "os.getpid()"))
    }
    assert (codes["after"].returncode, codes["after"].stdout) == (3, b"told")
    assert (codes["before"].returncode, codes["before"].stdout) == (-signal.SIGTERM, b"")


def test_a_run_in_a_thread_of_another_program_leaves_its_handlers_alone() -> None:
    found = []

    def run() -> None:
        with heeding():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]
