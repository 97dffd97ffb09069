"""Limits of this node: memory, shared memory, open files, locked memory, cores and threads."""

import os
import resource
from collections.abc import Mapping
from pathlib import Path

from fusedrl.machine.finding import Finding, warn
from fusedrl.machine.place import Place

GB = 1 << 30
RANK_GB = 2.0  # a rank of the smallest models with its libraries
SHM_GB = 1.0  # NCCL needs tens of MB a pair of GPUs; containers give 64 MB in all by default
FILES = 4096  # sockets to all ranks, files of checkpoints and libraries


def limit_findings(environment: Mapping[str, str], place: Place) -> list[Finding]:
    """Of this node, shared by its ranks."""
    return [
        memory_finding(available_memory(), place),
        shm_finding(free_bytes(Path("/dev/shm"))),
        files_finding(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        memlock_finding(
            resource.getrlimit(resource.RLIMIT_MEMLOCK)[0], infiniband=Path("/sys/class/infiniband").exists()
        ),
        threads_finding(environment.get("OMP_NUM_THREADS"), place, cores=cores()),
    ]


def available_memory() -> int | None:
    """Bytes that this process may still take, the limit of its control group counted. None: unknown."""
    found = []
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) * 1024)
    limit, used = _lines(Path("/sys/fs/cgroup/memory.max")), _lines(Path("/sys/fs/cgroup/memory.current"))
    if limit and used and limit[0].isdecimal():
        found.append(int(limit[0]) - int(used[0]))
    return min(found, default=None)


def free_bytes(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def cores() -> int:
    """Those that this process may use: its affinity, and its control group's share."""
    allowed = len(os.sched_getaffinity(0))
    share = (_lines(Path("/sys/fs/cgroup/cpu.max")) or ["max"])[0].split()
    if len(share) == 2 and share[0].isdecimal():
        allowed = min(allowed, max(1, int(share[0]) // int(share[1])))
    return allowed


def memory_finding(free: int | None, place: Place) -> Finding:
    if free is None:
        return Finding("memory", "unknown")
    text, needed = f"{free / GB:.1f} GB free", RANK_GB * place.local_world
    if free / GB >= needed:
        return Finding("memory", text)
    change = "end other programs, ask for more memory (sbatch --mem=...), or start fewer ranks on this node"
    return warn("memory", f"{text}; {place.local_world} ranks take {needed:.0f} GB before any model", change=change)


def shm_finding(free: int | None) -> Finding:
    if free is None:
        return warn("/dev/shm", "there is none", change="mount it: NCCL passes messages within a node through it")
    text = f"{free / GB:.2f} GB free"
    if free / GB >= SHM_GB:
        return Finding("/dev/shm", text)
    return warn("/dev/shm", text, change="start the container with --shm-size=8g or --ipc=host, or remove old files")


def files_finding(limit: int) -> Finding:
    if limit == resource.RLIM_INFINITY or limit >= FILES:
        return Finding("open files", _limit(limit))
    return warn("open files", f"at most {limit}", change=f"ulimit -n {FILES} or more before the start")


def memlock_finding(limit: int, *, infiniband: bool) -> Finding:
    if limit == resource.RLIM_INFINITY or not infiniband:
        return Finding("locked memory", "unlimited" if limit == resource.RLIM_INFINITY else f"{limit / 1024:.0f} KB")
    text = f"{limit / 1024:.0f} KB, and there is InfiniBand"
    return warn("locked memory", text, change="ulimit -l unlimited (Slurm: PropagateResourceLimitsExcept=MEMLOCK)")


def threads_finding(threads: str | None, place: Place, *, cores: int) -> Finding:
    """Threads of all ranks of the node against its cores."""
    ranks, fit = place.local_world, max(1, cores // place.local_world)
    text = f"{cores} cores, {ranks} ranks here, OMP_NUM_THREADS {'not set' if threads is None else threads}"
    if cores < ranks:
        change = "ask for a core a rank (sbatch --cpus-per-task): else times and bubbles measure the sharing"
        return warn("cores", text, change=change)
    if threads is None and ranks == 1:
        return Finding("cores", text)
    if threads is None or not threads.isdecimal() or int(threads) * ranks > cores:
        return warn("cores", text, change=f"export OMP_NUM_THREADS={fit}")
    return Finding("cores", text)


def _limit(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else f"at most {limit}"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
