"""The published problems (configs/schedule/exp*.yaml) and what is known of them (RLHFuse, arXiv 2409.13221)."""

from pathlib import Path

from schedules.problem import Problem

FOLDER = Path(__file__).parents[2] / "configs" / "schedule"
LOWER_BOUND = (708, 372, 225, 702, 366, 225, 618, 330, 186, 606, 318, 186)
SERIAL_WITH_BARRIER = (813, 477, 309, 819, 483, 315, 708, 420, 276, 711, 423, 279)
SERIAL_PEAK = (15.6,) * 6 + (26.24,) * 6
GREEDY = (741, 425, 239, 755, 419, 225, 632, 366, 214, 651, 363, 219)


def published(index: int) -> Problem:
    """One of the 12 problems."""
    return Problem.load(FOLDER / f"exp{index}.yaml")
