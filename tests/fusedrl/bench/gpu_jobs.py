"""What ranks run in the tests of the GPU check, with its CPU sizes."""

from typing import Any

import torch

from fusedrl.bench import gpu_steps, law, pair, stage_times
from fusedrl.bench.checks import Failed
from fusedrl.bench.packed_rows import check_packed_rows
from fusedrl.models import attention
from fusedrl.models.implementation import AUTO
from schedules.order import Op


def law_holds() -> dict[str, Any]:
    return law.check_law(law.sizes(small=True))


def gradients_of(*, order: str, seed: int) -> list[Any]:
    """Of both models after one pass."""
    sizes = law.sizes(small=True)
    models = pair.make_pair(sizes.arch, dtype=torch.float32, seed=seed)
    batches = pair.draw_batches(sizes.arch, rows=(1, 2), length=4, device=models.device)
    found = law.train_once(models, batches, order=order)
    return [each.numpy() for name in pair.NAMES for each in found[name]]


def profile() -> dict[str, Any]:
    """The ops in the order they ran, a profile as text, and what forwards hold."""
    size = gpu_steps.scale(on_gpu=False)
    models = pair.make_pair(size.arch, dtype=size.dtype)
    batches = pair.draw_batches(size.arch, rows=size.rows, length=size.length, device=models.device)
    results = stage_times.measure_passes(models, batches, passes=2)
    times, held = stage_times.median_ms(results), stage_times.held_bytes(models, batches)
    problem = stage_times.profile_of(times, held)
    return {
        "passes": len(results),
        "ops": [str(timed.op) for timed in results[0].ops],
        "text": stage_times.to_yaml(problem, tokens=size.tokens, about=["device: none"]),
        "held": {f"{name}@{stage}:{m}": nbytes for (name, stage, m), nbytes in held.items()},
        "weight_ms": times[Op("actor", "W", 0, 1)],
        "whole_ms": times[Op("actor", "W", 0, 1)] + times[Op("actor", "B", 0, 1)],
    }


def memory(*, miscounted: bool) -> dict[str, Any]:
    """The memory check, or how it ends where one micro-batch more is seen than there is."""
    size = gpu_steps.scale(on_gpu=False)
    gather = gpu_steps.gather_report
    if miscounted:
        gpu_steps.gather_report = lambda *args: _one_more(gather(*args))
    try:
        return gpu_steps.check_memory(size, gpu_steps.pair_maker(size, AUTO))
    except gpu_steps.Failed as failed:
        return {"failed": str(failed)}
    finally:
        gpu_steps.gather_report = gather


def _one_more(report: Any) -> Any:
    from dataclasses import replace

    seen = report.peaks.microbatches
    return replace(report, peaks=replace(report.peaks, microbatches=tuple(each + 1 for each in seen)))


def packed_rows(*, mixed: bool) -> str:
    """What the check says; mixed: of an attention that takes all packed rows for one."""
    row_ends = attention.pairwise
    try:
        if mixed:
            attention.pairwise = lambda ends: [(0, ends[-1])]
        size = law.sizes(small=True)
        return str(check_packed_rows(size.arch, size.length, dtype=torch.float32, implementation=AUTO))
    except Failed as failed:
        return f"FAIL: {failed}"
    finally:
        attention.pairwise = row_ends
