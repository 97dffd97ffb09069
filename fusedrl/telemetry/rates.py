"""Speed of a step under verl's names, from its timers and token counts."""

import resource
import sys
from collections.abc import Mapping

import torch

GIGA = 1e9


def rates(timing_s: Mapping[str, float], *, tokens: int, response_tokens: int, ranks: int) -> dict[str, float]:
    """perf/* and timing_per_token_ms/* of a step; timing_s/step must be among the timers.

    Generation is divided by the tokens it made, every other phase by all tokens. perf/throughput: tokens/s and rank.
    """
    seconds = timing_s["timing_s/step"]
    found = {
        "perf/total_num_tokens": float(tokens),
        "perf/time_per_step": seconds,
        "perf/throughput": tokens / seconds / ranks,
    }
    for name, spent in timing_s.items():
        phase = name.removeprefix("timing_s/")
        counted = response_tokens if phase == "gen" else tokens
        if phase != "step" and counted:
            found[f"timing_per_token_ms/{phase}"] = 1000.0 * spent / counted
    return found


def memory() -> dict[str, float]:
    """Peak memory of this process in GB: resident, and on its CUDA device where there is one."""
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is bytes there, KiB on Linux
    found = {"perf/max_cpu_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / GIGA}
    if torch.cuda.is_available():
        found["perf/max_memory_allocated_gb"] = torch.cuda.max_memory_allocated() / GIGA
        found["perf/max_memory_reserved_gb"] = torch.cuda.max_memory_reserved() / GIGA
    return found
