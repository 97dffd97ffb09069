"""GPUs: those that torch sees, whether this rank has one, what is free on it, and why there is none where one is.

No line of this has run on a GPU: there, what torch answers is shown as it is.
"""

from pathlib import Path
from typing import Any

from fusedrl.machine.finding import Finding, bad, warn
from fusedrl.machine.place import Place

GB = 1 << 30


def has_gpu() -> bool:
    """Whether torch sees one. False where torch itself is broken: versions.py tells that."""
    try:
        import torch

        return torch.cuda.is_available()
    except Exception:
        return False


def device_findings(place: Place, *, visible: str | None) -> list[Finding]:
    """visible: CUDA_VISIBLE_DEVICES."""
    if not has_gpu():
        return [absent_finding(place, visible=visible, driver=Path("/dev/nvidiactl").exists())]
    import torch

    found = [gpus_finding(place, count=torch.cuda.device_count(), name=torch.cuda.get_device_name(0), visible=visible)]
    if place.local_rank < torch.cuda.device_count():
        found.append(memory_finding(place.local_rank, *torch.cuda.mem_get_info(place.local_rank)))
    return [*found, Finding("nccl", nccl_version(torch))]


def absent_finding(place: Place, *, visible: str | None, driver: bool) -> Finding:
    """driver: whether this machine has NVIDIA's."""
    if not driver:
        return Finding("device", "CPU (gloo); no NVIDIA driver here")
    if visible is not None and visible in ("", "-1", "NoDevFiles"):
        return Finding("device", f"CPU (gloo): CUDA_VISIBLE_DEVICES={visible!r} hides the GPUs")
    text = "torch sees no GPU, though there is a driver: ranks would be CPU ranks"
    return warn("device", text, change="install a CUDA build of torch that fits the driver (docs/gpu.md; nvidia-smi)")


def gpus_finding(place: Place, *, count: int, name: str, visible: str | None) -> Finding:
    """A rank takes the GPU of its LOCAL_RANK."""
    text = f"{count} x {name}" + (f", CUDA_VISIBLE_DEVICES={visible}" if visible else "")
    if place.local_world <= count:
        return Finding("device", text)
    change = f"start {count} ranks on this node, or give each node {place.local_world} GPUs (no --gpus-per-task)"
    return bad("device", f"{text}, but {place.local_world} ranks here", change=change)


def memory_finding(index: int, free: int, total: int) -> Finding:
    """Of this rank's GPU."""
    text = f"GPU {index}: {free / GB:.1f} of {total / GB:.1f} GB free"
    if free > 0.9 * total:
        return Finding("gpu memory", text)
    return warn("gpu memory", text, change="another program holds it: nvidia-smi names it")


def nccl_version(torch: Any) -> str:
    try:
        return ".".join(str(part) for part in torch.cuda.nccl.version())
    except Exception as error:  # a build without NCCL
        return f"none in this build of torch ({error})"
