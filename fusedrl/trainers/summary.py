"""The last lines of a PPO run: validation before and after, the bubble, and how long it took."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fusedrl.config.schema import BaseTrainerConfig

CORE = "val-core/"


def summary_lines(history: Sequence[Mapping[str, float]], *, folder: Path, minutes: float) -> list[str]:
    """`history`: each step's metrics, step 0 being the validation before training."""
    lines = ["", f"done in {minutes:.1f} minutes, {len(history) - 1} steps"]
    for name in sorted({name for metrics in history for name in metrics if name.startswith(CORE)}):
        before, after = history[0].get(name), [metrics[name] for metrics in history if name in metrics][-1]
        start = "" if before is None else f"{before:.3f} before, "
        lines.append(f"{name.removeprefix(CORE)}: {start}{after:.3f} after")
    ratios = {kind: _mean(history, f"perf/bubble_ratio/{kind}") for kind in ("planned", "replayed", "measured")}
    lines.append("bubble ratio: " + ", ".join(f"{kind} {ratio:.3f}" for kind, ratio in ratios.items()))
    return [*lines, f"results in {folder}"]


def finished_line(trainer: BaseTrainerConfig, *, steps: int) -> str:
    """Where the saved state has all steps of the run."""
    return (
        f"all {steps} steps of {trainer.default_local_dir} are done already; trainer.resume_mode=disable starts "
        "afresh, a higher trainer.total_training_steps goes on"
    )


def _mean(history: Sequence[Mapping[str, float]], name: str) -> float:
    values = [metrics[name] for metrics in history if name in metrics]
    return sum(values) / len(values) if values else float("nan")
