from dataclasses import replace
from pathlib import Path

import pytest

from fusedrl.config.schema import ScheduleConfig
from fusedrl.models.options import Recompute, StageOptions
from fusedrl.models.stage_layers import StageLayers
from fusedrl.trainers.costs import planned_cost
from tests.distributed.pool import RankPool
from tests.fusedrl.models.test_architecture import BASE
from tests.fusedrl.trainers.actor_jobs import large_vocabulary


def test_counted_costs_are_those_of_each_stages_layers_and_what_is_computed_again() -> None:
    layers = StageLayers(each=(1, 3))
    asked = {"tp": 1, "stages": 2}
    arch = replace(BASE, num_layers=4)
    uneven = planned_cost(ScheduleConfig(), "critic", arch, **asked, options=StageOptions(layers=layers))
    again = StageOptions(Recompute("full"), layers)
    less = planned_cost(ScheduleConfig(), "critic", arch, **asked, options=again)
    middle = {"rows": 2, "length": 8}
    head = 2 * 16 * arch.hidden_size / 1e9
    assert abs(uneven.forward(1, **middle) - head - 3 * uneven.forward(0, **middle)) < 1e-8
    assert less.backward(0, **middle) > uneven.backward(0, **middle)
    assert less.activation(1, **middle) < uneven.activation(1, **middle)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("entropy_coeff", [0.0, 0.01])
def test_planned_memory_is_what_the_actors_loss_leaves_whatever_it_computes_of_the_logits(
    ranks: RankPool, tmp_path: Path, entropy_coeff: float, rows: int
) -> None:
    """Log-probabilities, KL and entropy read one copy of the logits."""
    job, folder = "tests.fusedrl.trainers.actor_jobs:memory_of_loss", large_vocabulary(tmp_path)
    measured, planned = ranks.run(job, world=2, folder=folder, entropy_coeff=entropy_coeff, rows=rows)[0]
    assert planned == pytest.approx(measured, rel=0.015)  # a row's last token has no logits in the loss
