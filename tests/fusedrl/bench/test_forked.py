import multiprocessing
import time
from typing import Any

import pytest
import torch
import torch.distributed as dist

from fusedrl.bench.forked import on_forked_ranks
from tests.distributed.pool import RankPool
from tests.fusedrl.bench.test_bubble_ranks import start_server

SMALL: dict[str, Any] = {"world": 2, "timeout": 60.0, "imported": ["fusedrl.bench.forked"]}


def summed(added: int) -> tuple[int, int]:
    total = torch.tensor([dist.get_rank() + added])
    dist.all_reduce(total)
    return dist.get_rank(), int(total)


def second_fails() -> None:
    if dist.get_rank():
        raise ValueError("no such thing")


def never() -> None:
    time.sleep(600)


def test_every_rank_s_answer_comes_in_the_order_of_ranks(ranks: RankPool) -> None:
    start_server(ranks)
    assert on_forked_ranks(summed, 5, limit=60, **SMALL) == [(0, 11), (1, 11)]


def test_what_fails_is_told_what_never_ends_is_left_and_no_process_stays(ranks: RankPool) -> None:
    start_server(ranks)
    before = set(multiprocessing.active_children())
    with pytest.raises(RuntimeError, match=r"rank 1 of 2: ValueError: no such thing"):
        on_forked_ranks(second_fails, limit=60, **SMALL)
    with pytest.raises(RuntimeError, match=r"2 of 2 ranks gave no answer in 0 s"):
        on_forked_ranks(never, limit=0.0, **SMALL)
    assert set(multiprocessing.active_children()) <= before
