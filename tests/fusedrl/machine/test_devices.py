import pytest
import torch

from fusedrl.machine.devices import (
    GB,
    absent_finding,
    device_findings,
    gpus_finding,
    has_gpu,
    memory_finding,
    nccl_version,
)
from fusedrl.machine.place import Place

FOUR = Place(rank=3, world=8, local_rank=3, local_world=4, source="torchrun")


@pytest.mark.parametrize(
    ("driver", "visible", "level", "text"),
    [
        (False, None, "ok", "CPU (gloo); no NVIDIA driver here"),
        (True, "", "ok", "CPU (gloo): CUDA_VISIBLE_DEVICES='' hides the GPUs"),
        (True, None, "warn", "torch sees no GPU, though there is a driver: ranks would be CPU ranks"),
        (True, "0,1", "warn", "torch sees no GPU, though there is a driver: ranks would be CPU ranks"),
    ],
)
def test_without_a_gpu_the_reason_is_told(driver: bool, visible: str | None, level: str, text: str) -> None:
    found = absent_finding(FOUR, visible=visible, driver=driver)
    assert (found.level, found.text) == (level, text)


@pytest.mark.parametrize(("count", "level"), [(8, "ok"), (4, "ok"), (1, "bad")])
def test_every_rank_of_a_node_has_a_gpu(count: int, level: str) -> None:
    found = gpus_finding(FOUR, count=count, name="H200", visible=None)
    assert found.level == level
    assert found.text.startswith(f"{count} x H200")


@pytest.mark.parametrize(("free", "level"), [(75 * GB, "ok"), (40 * GB, "warn")])
def test_memory_that_another_program_holds_is_told(free: int, level: str) -> None:
    assert memory_finding(3, free, 80 * GB).level == level


def test_what_torch_sees_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "H200")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (79 * GB, 80 * GB))
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 27, 5))
    found = device_findings(FOUR, visible="0,1,2,3")
    assert [each.text for each in found] == [
        "4 x H200, CUDA_VISIBLE_DEVICES=0,1,2,3",
        "GPU 3: 79.0 of 80.0 GB free",
        "2.27.5",
    ]


def test_a_broken_torch_has_no_gpu_and_a_build_without_nccl_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> bool:
        raise RuntimeError("driver too old")

    monkeypatch.setattr(torch.cuda.nccl, "version", broken)
    assert nccl_version(torch) == "none in this build of torch (driver too old)"
    monkeypatch.setattr(torch.cuda, "is_available", broken)
    assert not has_gpu()
