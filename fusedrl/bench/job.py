"""What the benchmarks under torchrun share: joining the job, ending with a reason, a console for tables."""

import os
import sys
import time
from datetime import timedelta
from typing import Any, NoReturn

import torch.distributed as dist
from rich.console import Console

BAD_ARGUMENTS = 2  # exit code
WAIT_S = 20.0  # of ranks other than 0, for the launcher to end them


def join(*, limit_s: float) -> None:
    """The job's gloo world; alone where no launcher made one."""
    alone: dict[str, Any] = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("gloo", timeout=timedelta(seconds=limit_s), **alone)


def console() -> Console:
    """As wide as the table where the output is a file."""
    return Console() if sys.stdout.isatty() else Console(width=140)


def stop(program: str, reason: str, *, rank: int) -> NoReturn:
    """End with code 2; rank 0 tells why, the others wait for the launcher to end them."""
    if rank == 0:
        print(f"{program}: {reason}", file=sys.stderr, flush=True)
    else:
        time.sleep(WAIT_S)
    sys.exit(BAD_ARGUMENTS)
