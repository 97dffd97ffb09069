"""The ranks of a job: joins torchrun's world, and leaves it.

NCCL on this rank's CUDA device where torch sees one, else gloo on the CPU. To keep a job off the GPUs of its machine,
hide them: CUDA_VISIBLE_DEVICES= torchrun ...
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist


@contextmanager
def joined(*, timeout_s: float) -> Iterator[torch.device]:
    """Join the world; yields this rank's device. Without a launcher the world is this process alone."""
    timeout, device = timedelta(seconds=timeout_s), _device()
    alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    if device.type == "cuda":
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", timeout=timeout, device_id=device, **alone)
    else:
        dist.init_process_group("gloo", timeout=timeout, **alone)
    try:
        yield device
    finally:
        dist.destroy_process_group()


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
