"""How long ranks wait for one that is stuck, taken away once it is stuck.

A limit of seconds from the start would be a bet on the machine: a run on a busy one would break it without a fault. So
runs start with limits of minutes, and the ranks that are well give them up when the stuck one has told that it stops.
"""

import gc
import time
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist

LIMIT_S = 2.0
_LONG_S = 600.0


def wait_for(condition: Callable[[], bool]) -> None:
    """Until it holds; fails after minutes."""
    ends = time.monotonic() + _LONG_S
    while not condition():
        assert time.monotonic() < ends, "a fault that was to come did not"
        time.sleep(0.02)


def lose() -> None:
    """What trainer.timeout_s and rollout.stream.silence_s limited in this process is limited to LIMIT_S now."""
    from fusedrl.checkpoint.saver import Saver
    from fusedrl.pipeline.executor import Executor
    from fusedrl.pipeline.messages import Mailbox
    from fusedrl.rollout.links import StageLinks
    from fusedrl.stream.liveness import Limits

    limit = timedelta(seconds=LIMIT_S)
    wait = dist.Work.wait  # a gloo message without a limit of its own has that of its group's connections, for good

    def impatient(work: dist.Work, timeout: timedelta = limit) -> bool:
        try:
            return bool(wait(work, timeout))
        except RuntimeError as error:
            if "Operation timed out!" in str(error):  # of a collective; without a limit of its own gloo ends it, so:
                raise RuntimeError("[tests/gloo/wait] Timed out waiting for a collective") from error
            raise

    dist.Work.wait = impatient
    for group in list(dist.distributed_c10d._world.pg_map):
        dist.distributed_c10d._set_pg_timeout(limit, group)
    for found in gc.get_objects():
        kind = type(found)
        if issubclass(kind, Mailbox | StageLinks):
            found._limit = limit
        if issubclass(kind, Mailbox | Executor):
            found._timeout = LIMIT_S
        elif kind is StageLinks:
            found._timeout_s = LIMIT_S
        elif kind is Saver:
            found.timeout_s = LIMIT_S
        elif kind is Limits:
            for name in ("silence_s", "stall_s"):
                object.__setattr__(found, name, LIMIT_S)
