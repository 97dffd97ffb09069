"""One GPU, under five minutes: does everything that a CPU cannot show work on it?

    python -m fusedrl.bench.gpu_check out=gpu_check              # launch/gpu_check.sh makes the environment first
    python -m fusedrl.bench.gpu_check out=FOLDER device=cpu      # the same logic with tiny sizes: no GPU result

    patches        megatron_patches change nothing on CUDA
    bf16_step      an optimizer step in bfloat16: loss finite and falling, weights moved
    packed_rows    logits of packed rows are those of padded ones
    stage_times    F, B, W of the stages of an actor and a critic of 1.1 B parameters -> cost_profile.yaml
    memory         what is held for backwards against the plan, and against the allocator
    law            fused and split orders bit-equal to serial, V of two stages on this GPU
    law_two_ranks  the same with messages between two GPUs, where there are two

docs/gpu.md says what each means, and what to do where it fails. Exit code: 0, or 1 where a check failed, 2 for bad
arguments or no GPU. `out` holds report.json and cost_profile.yaml.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fusedrl.bench import arguments
from fusedrl.bench.arguments import ArgumentError
from fusedrl.telemetry.libraries import hush

BAD_ARGUMENTS = 2  # exit code
DEVICES = ("cuda", "cpu")


@dataclass(frozen=True)
class Options:
    """out: folder, made where missing; device: cuda or cpu; time_limit: seconds for all; ranks: of law_two_ranks' job
    on the CPU, 1 for none; transformer_impl, attention_backend: as in the configuration."""

    out: Path = Path("gpu_check")
    device: str = "cuda"
    time_limit: float = 290.0
    ranks: int = 1
    transformer_impl: str = "auto"
    attention_backend: str = "auto"

    def __post_init__(self) -> None:
        arguments.one_of(self.device, DEVICES, key="device")
        if not 0 < self.time_limit <= 3600:
            raise ArgumentError(f"time_limit: {self.time_limit:g} must be above 0 and at most 3600")


def main() -> None:
    try:
        options = arguments.read(Options, sys.argv[1:])
        _choose_device(options.device)
        options.out.mkdir(parents=True, exist_ok=True)
    except (ArgumentError, OSError) as error:
        print(f"fusedrl.bench.gpu_check: {error}", file=sys.stderr, flush=True)
        sys.exit(BAD_ARGUMENTS)
    hush()
    sys.exit(run(options))


def run(options: Options) -> int:
    """All checks; the exit code."""
    from fusedrl.bench.checks import Board
    from fusedrl.bench.gpu_steps import (
        check_bf16_step,
        check_memory,
        check_patches,
        check_stage_times,
        free_memory,
        heading,
        pair_maker,
        scale,
    )
    from fusedrl.bench.law import check_law, sizes
    from fusedrl.bench.packed_rows import check_packed_rows
    from fusedrl.models.implementation import Implementation
    from fusedrl.trainers.world import joined

    asked = Implementation(transformer_impl=options.transformer_impl, attention_backend=options.attention_backend)
    on_gpu = options.device == "cuda"
    size = scale(on_gpu=on_gpu)
    make, about = pair_maker(size, asked), heading(asked, on_gpu=on_gpu)
    for key, value in about.items():
        print(f"{key}: {value}")
    with Board(options.out, heading=about, limit=options.time_limit) as board, joined(timeout_s=120):
        checks: dict[str, Callable[[], dict[str, Any]]] = {
            "patches": check_patches,
            "bf16_step": partial(check_bf16_step, size, asked),
            "packed_rows": partial(check_packed_rows, size.arch, size.length, dtype=size.dtype, implementation=asked),
            "law": partial(check_law, sizes(small=not on_gpu), implementation=asked),
            "law_two_ranks": partial(check_two_ranks, options),
            "stage_times": partial(check_stage_times, size, make, out=options.out, about=about),
            "memory": partial(check_memory, size, make),
        }
        for name, check in checks.items():
            board.run(name, check)
            free_memory()
    print("no GPU result: this ran on the CPU with tiny sizes" if not on_gpu else f"report in {options.out}")
    return board.exit_code


def check_two_ranks(options: Options) -> dict[str, Any]:
    """Messages between two ranks, in a job of its own."""
    import torch

    from fusedrl.bench.checks import Failed, Skipped

    if options.device == "cuda" and torch.cuda.device_count() < 2:
        raise Skipped(
            "one GPU: NCCL takes one rank a GPU, and gloo sends no CUDA tensors; `law` ran two stages a model on it"
        )
    if options.device == "cpu" and options.ranks < 2:
        raise Skipped("ranks=1; ranks=2 runs it on two CPU ranks")
    small = [f"small={str(options.device == 'cpu').lower()}", f"transformer_impl={options.transformer_impl}"]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    job = subprocess.run(
        [*command, "-m", "fusedrl.bench.law", *small], capture_output=True, text=True, timeout=options.time_limit
    )
    if job.returncode != 0:
        told = [line for line in job.stderr.splitlines() if "differs from" in line or "Error" in line]
        raise Failed(f"two ranks ended with {job.returncode}: {(told or [job.stderr[-300:]])[0]}")
    return {"ranks": 2, "said": job.stdout.strip()}


def _choose_device(device: str) -> None:
    """Before CUDA starts: it is hidden for device=cpu, and cuBLAS is told to be deterministic."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return
    import torch

    if not torch.cuda.is_available():
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
        raise ArgumentError(
            f"device=cuda: torch {torch.__version__} ({built}) sees no GPU; see docs/gpu.md, or give device=cpu, "
            "which runs the same logic with tiny sizes and is no GPU result"
        )


if __name__ == "__main__":
    main()
