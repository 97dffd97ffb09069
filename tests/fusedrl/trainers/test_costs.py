from dataclasses import replace

from fusedrl.config.schema import ScheduleConfig
from fusedrl.models.options import Recompute, StageOptions
from fusedrl.models.stage_layers import StageLayers
from fusedrl.trainers.costs import planned_cost
from tests.fusedrl.models.test_architecture import BASE


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
