"""The ranks of a job: joins torchrun's world, and leaves it.

with joined(device="auto", timeout_s=600) as device: ...
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist


def world_size() -> int:
    """Ranks that torchrun (or srun) started; 1 where started by hand. Known before any process group exists."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this is the rank that speaks to the user."""
    return int(os.environ.get("RANK", "0")) == 0


@contextmanager
def joined(*, device: str, timeout_s: float) -> Iterator[torch.device]:
    """Join the world with gloo on CPU or NCCL on CUDA; yields this rank's device. `device`: auto, cpu or cuda.

    Raises ValueError where CUDA is asked for and absent.
    """
    chosen = _device(device)
    for key, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        os.environ.setdefault(key, value)
    timeout = timedelta(seconds=timeout_s)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
        dist.init_process_group("nccl", timeout=timeout, device_id=chosen)
    elif "TORCHELASTIC_RUN_ID" in os.environ or world_size() > 1:
        dist.init_process_group("gloo", timeout=timeout)
    else:
        dist.init_process_group("gloo", timeout=timeout, store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield chosen
    finally:
        dist.destroy_process_group()


def _device(wanted: str) -> torch.device:
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "trainer.device=cuda, but torch sees no CUDA device: install a CUDA build, or trainer.device=cpu"
        )
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
