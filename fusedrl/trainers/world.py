"""The ranks of a job: joins torchrun's world, and leaves it.

NCCL on this rank's CUDA device where torch sees one, else gloo on the CPU. To keep a job off the GPUs of its machine,
hide them: CUDA_VISIBLE_DEVICES= torchrun ...
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist


@contextmanager
def joined(*, timeout_s: float) -> Iterator[torch.device]:
    """Join the world; yields this rank's device. Without a launcher the world is this process alone."""
    end_with_launcher()
    timeout, device = timedelta(seconds=timeout_s), _device()
    where = meeting_place(timeout=timeout)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", timeout=timeout, device_id=device, **where)
    else:
        dist.init_process_group("gloo", timeout=timeout, **where)
    try:
        yield device
    finally:
        dist.destroy_process_group()


def meeting_place(*, timeout: timedelta) -> dict[str, Any]:
    """Where ranks meet, as options of init_process_group; none where torch's own way serves.

    torchrun's agent keeps its store when it starts failed ranks again, and torch (2.13, rendezvous.py,
    _create_c10d_store) has them meet under the same names: they find the addresses of those that are gone.
    """
    if "RANK" not in os.environ:
        return {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if start == "0" or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return {}
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(address, port, world, is_master=False, timeout=timeout)
    return {"store": dist.PrefixStore(f"fusedrl/start_{start}", store), "rank": rank, "world_size": world}


def end_with_launcher(*, every_s: float = 1.0) -> None:
    """End this rank when its launcher is gone (killed, out of memory): nobody would stop it otherwise.

    By SIGKILL: a rank that waits for another one for ever takes no other signal (stopping.py).
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    launcher = os.getppid()

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(every_s)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="fusedrl-launcher-watch", daemon=True).start()


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
