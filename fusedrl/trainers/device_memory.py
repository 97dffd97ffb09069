"""The memory cap of a schedule as a share of what is free on the devices."""

import torch
import torch.distributed as dist

from fusedrl.config.schema import ScheduleConfig
from fusedrl.parallel.team import current

_MIB = 2**20


def check_memory_share(schedule: ScheduleConfig, device: torch.device) -> None:
    """Raises ValueError where there is no device to measure."""
    if schedule.memory_share is not None and device.type != "cuda":
        raise ValueError(
            f"schedule.memory_share={schedule.memory_share:g}: the ranks run on {device.type}, not on GPUs whose free "
            "memory could be measured; set it to null, and schedule.memory_cap to a number of MiB for a limit"
        )


def shared_cap(device: torch.device, *, share: float, before: float | None) -> float:
    """MiB: the share of what is free on the fullest rank, never more than `before`. A collective of all ranks.

    It only falls, so that orders made within it stay valid: optimizer states come with the first step.
    """
    least = torch.tensor([free_memory(device)], dtype=torch.float64, device=device)
    dist.all_reduce(least, op=dist.ReduceOp.MIN, group=current().group)
    cap = round(share * float(least) / _MIB, 1)
    return cap if before is None else min(before, cap)


def free_memory(device: torch.device) -> int:
    """Bytes that the driver has left, and what the allocator holds but does not use."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
