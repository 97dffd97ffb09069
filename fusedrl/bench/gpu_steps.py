"""The checks of gpu_check.py that compute: what they run, at which size, and what must hold.

Sizes fit a GPU of 80 GB: two models of 1.1 B parameters take 2 + 4 + 4 bytes a parameter (weights, gradients, the
optimizer's copy), 22 GB; activations take some 35 GB more with unfused attention.
"""

import gc
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import megatron_patches
from fusedrl.bench import stage_times
from fusedrl.bench.checks import Failed, Figures, Skipped
from fusedrl.bench.law import sizes
from fusedrl.bench.pair import NAMES, Batches, Pair, draw_batches, make_pair
from fusedrl.checkpoint.atomic import write_file
from fusedrl.libraries import libraries
from fusedrl.models.architecture import Architecture
from fusedrl.models.implementation import Implementation, choose
from fusedrl.pipeline.plan import plan_pass
from fusedrl.pipeline.results import gather_report
from fusedrl.pipeline.training import train_pass

GIB, MIB = 2**30, 2**20
STEPS = 5  # of bf16_step
IN_FLIGHT = 3  # micro-batches of each model in the memory check
ALLOCATOR = (0.5, 2.0)  # the allocator's peak over what autograd holds; beside it there are buffers and workspaces


@dataclass(frozen=True)
class Scale:
    """The model that is measured, the rows of its micro-batches, and how often."""

    arch: Architecture
    rows: tuple[int, ...]
    length: int
    passes: int
    on_gpu: bool

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.on_gpu else torch.float32

    @property
    def tokens(self) -> list[int]:
        return [rows * self.length for rows in self.rows]


def scale(*, on_gpu: bool) -> Scale:
    """A model of 1.1 B parameters, 8 of its 16 layers a stage, 1024 to 4096 tokens; tiny on a CPU."""
    if not on_gpu:
        return Scale(sizes(small=True).arch, rows=(1, 2, 4), length=8, passes=2, on_gpu=False)
    arch = Architecture(
        family="llama",
        hidden_size=2048,
        num_layers=16,
        num_heads=32,
        num_kv_heads=8,
        head_dim=64,
        ffn_hidden_size=8192,
        vocab_size=32768,
        max_position=1024,
    )
    return Scale(arch, rows=(1, 2, 4), length=1024, passes=5, on_gpu=True)


def heading(asked: Implementation, *, on_gpu: bool) -> dict[str, Any]:
    """Versions, device, libraries, and what the models are made of."""
    if on_gpu:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        device = f"{properties.name}, {properties.total_memory / GIB:.0f} GiB, CUDA {torch.version.cuda}"
    else:
        device = "CPU, tiny sizes: no GPU result"
    return {
        "device": device,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "megatron-core": version("megatron-core"),
        "libraries": [str(each) for each in libraries()],
        "implementation": choose(asked).line(),
    }


def check_patches() -> Figures:
    """Stock Megatron-Core runs on CUDA."""
    applied = megatron_patches.apply()
    if not torch.cuda.is_available():
        raise Skipped(f"the CPU needs them: {', '.join(applied)}")
    if applied:
        raise Failed(f"applied on CUDA: {', '.join(applied)}")
    return {"applied": "none"}


def check_bf16_step(size: Scale, asked: Implementation) -> Figures:
    """Some optimizer steps of both models on one batch, in bfloat16, with a fused order."""
    small = sizes(small=not size.on_gpu)
    pair = make_pair(small.arch, dtype=torch.bfloat16, implementation=asked)
    batches = draw_batches(small.arch, rows=(2, 2), length=small.length, device=pair.device)
    before = {name: _matrices(pair, name) for name in NAMES}
    losses: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(STEPS):
        for name, loss in _losses(pair, batches).items():
            losses[name].append(loss)
    pair.executor.close()
    for name in NAMES:
        check_losses(losses[name], name=name)
        still = sum(torch.equal(a, b) for a, b in zip(before[name], _matrices(pair, name), strict=True))
        if still:
            raise Failed(f"{name}: {still} of {len(before[name])} weight matrices did not move in {STEPS} steps")
    return {f"{name}_loss": [round(each[0], 4), round(each[-1], 4)] for name, each in losses.items()}


def _losses(pair: Pair, batches: Batches) -> dict[str, float]:
    program = plan_pass(pair.planned(batches), method="fused")
    result = train_pass(pair.executor, program, pair.work(batches), models=pair.models)
    for model in pair.models.values():
        model.step()
    return {name: result.models[name].sums()["loss"] for name in NAMES}


def check_losses(losses: Sequence[float], *, name: str) -> None:
    """Finite, and lower at the end. Raises Failed."""
    if not all(math.isfinite(loss) for loss in losses):
        raise Failed(f"{name}: losses {losses}")
    if losses[-1] >= losses[0]:
        raise Failed(f"{name}: the loss went from {losses[0]:.4g} to {losses[-1]:.4g} on the same batch")


def _matrices(pair: Pair, name: str) -> list[torch.Tensor]:
    return [each.detach().clone() for each in pair.models[name].module.parameters() if each.dim() > 1]


def pair_maker(size: Scale, asked: Implementation) -> Callable[[], Pair]:
    """The measured pair, made at its first use and shared: its weights take a while to draw."""
    return cache(lambda: make_pair(size.arch, dtype=size.dtype, implementation=asked))


def check_stage_times(size: Scale, make: Callable[[], Pair], *, out: Path, about: Mapping[str, Any]) -> Figures:
    """F, B and W by tokens, written as a problem file."""
    pair = make()
    batches = draw_batches(size.arch, rows=size.rows, length=size.length, device=pair.device)
    times = stage_times.median_ms(stage_times.measure_passes(pair, batches, passes=size.passes))
    problem = stage_times.profile_of(times, stage_times.held_bytes(pair, batches))
    told = [f"{key}: {value}" for key, value in about.items()]
    model = f"{size.arch.num_layers} layers in two stages, hidden size {size.arch.hidden_size}, rows of {size.length}"
    write_file(out / "cost_profile.yaml", stage_times.to_yaml(problem, tokens=size.tokens, about=[*told, model]))
    if size.on_gpu:
        stage_times.check_growth(problem)
    largest = len(size.rows) - 1
    return {
        f"{each.name}_{kind}_ms": round(each.duration(kind, 0, largest, split=True), 3)
        for each in problem.models
        for kind in ("F", "B", "W")
    } | {"tokens": size.tokens[largest], "profile": str(out / "cost_profile.yaml")}


def check_memory(size: Scale, make: Callable[[], Pair]) -> Figures:
    """A fused order with micro-batches in flight: their number as planned, their bytes beside the allocator's."""
    pair = make()
    batches = draw_batches(size.arch, rows=(1,) * IN_FLIGHT, length=size.length, device=pair.device)
    program = plan_pass(pair.planned(batches), method="fused")
    train_pass(pair.executor, program, pair.work(batches), models=pair.models)  # makes what is made once
    base = _start_peak()
    result = train_pass(pair.executor, program, pair.work(batches), models=pair.models, measure_memory=True)
    grown = _peak() - base
    peaks = gather_report(pair.executor, program, result).peaks
    assert peaks is not None
    if peaks.microbatches != peaks.planned_microbatches:
        raise Failed(f"in flight: {peaks.microbatches} micro-batches, planned {peaks.planned_microbatches}")
    held, planned = peaks.nbytes[0], peaks.planned[0] * MIB
    figures: Figures = {
        "in_flight": peaks.microbatches[0],
        "held_MiB": round(held / MIB, 2),
        "counted_over_held": round(planned / held, 3),
    }
    if size.on_gpu:
        check_allocator(grown, held=held)
        figures |= {"allocator_over_held": round(grown / held, 3), "weights_and_gradients_GiB": round(base / GIB, 2)}
    return figures


def check_allocator(grown: int, *, held: int) -> None:
    """What the allocator's peak grew by is what autograd holds, give or take buffers. Raises Failed."""
    low, high = ALLOCATOR
    if not low * held <= grown <= high * held:
        raise Failed(
            f"the allocator's peak grew by {grown / MIB:.0f} MiB in a pass that holds {held / MIB:.0f} MiB for "
            f"backwards; expected {low:g} to {high:g} times that"
        )


def _start_peak() -> int:
    """Bytes allocated now; the allocator's peak is counted anew."""
    free_memory()
    if not torch.cuda.is_available():
        return 0
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def free_memory() -> None:
    """What an earlier check left in cycles goes back to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def _peak() -> int:
    if not torch.cuda.is_available():
        return 0
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()
