"""What the ranks do in the tests of emulated plans."""

from typing import Any

from fusedrl.bench.plan_emulated import Acting, act
from tests.fusedrl.bench.scenes import scenes


def three_plans(*, repeats: int) -> list[list[list[dict[str, Any]]]]:
    """Of each plan, each repeat, each rank: its events and what it ran."""
    return [act(scene, Acting(scale=0.1, block=1e-3, timeout=60.0), repeats) for scene in scenes()]
