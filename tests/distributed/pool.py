"""Gloo ranks for tests, forked from one process that has Megatron-Core imported, and reused.

A job names a function as "package.module:function". Each of the `world` first workers joins a fresh gloo process group
of that size, calls the function with the job's keyword arguments, and sends the return value (or the traceback) back.
A worker that dies or overruns its limit fails the test with every rank's stack, and the pool starts afresh.
"""

import contextlib
import faulthandler
import gc
import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


def _run_job(target: str, *, rank: int, world: int, store_path: str, limit: float, kwargs: dict[str, Any]) -> Any:
    import torch.distributed as dist

    module, _, function = target.partition(":")
    store = dist.FileStore(store_path, world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=limit))
    try:
        result = getattr(importlib.import_module(module), function)(**kwargs)
        # a rank that leaves first would cut the connections of one that is still making its groups
        with contextlib.suppress(RuntimeError):  # another rank failed: it is the one that tells why
            dist.barrier()
        return result
    finally:
        dist.destroy_process_group()
        _let_go_of_groups()


def _let_go_of_groups() -> None:
    """Threads of gloo groups wake 100 times a second as long as something holds the group: models do, in cycles, and in
    the results that their rotary embeddings remember."""
    rotary = sys.modules.get("megatron.core.models.common.embeddings.rotary_pos_embedding")
    if rotary is not None:
        rotary.RotaryEmbedding.forward.cache_clear()
    gc.collect()


def _worker(connection: Connection, rank: int, stack_file: str) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    with Path(stack_file).open("w") as stacks:
        faulthandler.register(signal.SIGUSR2, file=stacks, all_threads=True)
        import torch

        torch.set_num_threads(1)
        gc.freeze()  # what was imported is not looked through again
        while (job := connection.recv()) is not None:
            try:
                connection.send(("ok", _run_job(job.pop("target"), rank=rank, **job)))
            except BaseException:
                connection.send(("error", traceback.format_exc()))


IMPORTED = ["torch.distributed", "fusedrl.trainers.setup_ppo"]  # 6 s of CPU, once for all ranks; starts no thread


class RankFailure(AssertionError):
    """A rank of a distributed test raised, died or did not answer in time."""


class RankPool:
    """Reusable gloo ranks; `run` is the only call a test needs."""

    def __init__(self, *, grace: float = 10.0) -> None:
        self._grace = grace  # seconds beyond a job's limit before its ranks are killed
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(IMPORTED)
        self._folder = tempfile.TemporaryDirectory(prefix="fusedrl-ranks-")
        self._workers: list[tuple[Any, Connection]] = []
        self._jobs = 0

    def run(self, target: str, *, world: int, limit: float = 120.0, **kwargs: Any) -> list[Any]:
        """Call `target` ("module:function") on `world` ranks; their return values, by rank.

        Raises RankFailure with the first traceback, or with all stacks when a rank exceeds `limit` seconds.
        """
        self._grow(world)
        self._jobs += 1
        store_path = str(Path(self._folder.name) / f"store{self._jobs}")
        for _, connection in self._workers[:world]:
            connection.send(
                {"target": target, "world": world, "store_path": store_path, "limit": limit, "kwargs": kwargs}
            )
        return self._collect(world, target=target, limit=limit)

    def close(self) -> None:
        for process, connection in self._workers:
            if process.is_alive():
                connection.send(None)
                process.join(2)
            if process.is_alive():
                process.kill()
        self._workers = []

    def _grow(self, world: int) -> None:
        for rank in range(len(self._workers), world):
            ours, theirs = self._context.Pipe()
            arguments = (theirs, rank, self._stack_file(rank))
            process = self._context.Process(target=_worker, args=arguments, daemon=False)
            process.start()
            theirs.close()
            self._workers.append((process, ours))

    def _stack_file(self, rank: int) -> str:
        return str(Path(self._folder.name) / f"stacks{rank}.txt")

    def _collect(self, world: int, *, target: str, limit: float) -> list[Any]:
        deadline = time.monotonic() + limit + self._grace
        results: list[Any] = [None] * world
        waiting = set(range(world))
        while waiting:
            for rank in sorted(waiting):
                connection = self._workers[rank][1]
                if not connection.poll(0.002):
                    continue
                try:
                    status, value = connection.recv()
                except EOFError:
                    self._fail(f"{target}: rank {rank} died")
                if status == "error":
                    self._fail(f"{target}: rank {rank} of {world} raised\n{value}")
                results[rank] = value
                waiting.discard(rank)
            if time.monotonic() > deadline:
                self._fail(f"{target}: ranks {sorted(waiting)} of {world} gave no answer in {limit:.0f} s")
        return results

    def _fail(self, reason: str) -> None:
        for process, _ in self._workers:
            if process.is_alive():
                os.kill(process.pid, signal.SIGUSR2)
        time.sleep(0.3)
        stacks = [
            f"--- rank {rank}\n{Path(self._stack_file(rank)).read_text()}"
            for rank in range(len(self._workers))
            if Path(self._stack_file(rank)).exists()
        ]
        for process, _ in self._workers:
            process.kill()
            process.join(5)
        self._workers = []
        raise RankFailure("\n".join([reason, *stacks]))
