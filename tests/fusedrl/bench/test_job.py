"""A benchmark that cannot run ends with code 2, and one rank tells why."""

import pytest
import torch.distributed as dist

from fusedrl.bench import job


def test_rank_0_tells_and_the_others_wait_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(job, "WAIT_S", 0.0)
    for rank in range(2):
        with pytest.raises(SystemExit) as caught:
            job.stop("some.bench", "out: there is no folder", rank=rank)
        assert caught.value.code == 2
        assert capsys.readouterr().err == ("" if rank else "some.bench: out: there is no folder\n")


def test_without_a_launcher_the_job_has_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    job.join(limit_s=5)
    try:
        assert dist.get_world_size() == 1
    finally:
        dist.destroy_process_group()
