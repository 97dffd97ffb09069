"""Tiny jobs that the rank pool's own tests run."""

import os
import time

import torch
import torch.distributed as dist


def sum_of_ranks() -> int:
    value = torch.tensor([dist.get_rank()])
    dist.all_reduce(value)
    return int(value)


def pid() -> int:
    return os.getpid()


def raise_on(rank: int) -> None:
    if dist.get_rank() == rank:
        raise RuntimeError(f"rank {rank} was told to fail")


def sleep(seconds: float) -> None:
    time.sleep(seconds)
