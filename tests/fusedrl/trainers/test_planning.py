"""What configurations name is what plans know; test_update.py runs the programs."""

from fusedrl.config.schema import CostConfig, ScheduleConfig
from fusedrl.config.schema.schedule import METHODS
from fusedrl.pipeline import plan
from fusedrl.trainers.costs import planned_cost
from tests.fusedrl.models.test_architecture import BASE


def test_methods_of_the_configuration_are_those_of_plans() -> None:
    assert tuple(plan.METHODS) == METHODS


def test_costs_count_the_layers_of_each_stage() -> None:
    two, six = (planned_cost(ScheduleConfig(), "critic", BASE, tp=1, stages=stages) for stages in (2, 6))
    size = {"rows": 2, "length": 8}
    assert two.weight(0, **size) == 3 * six.weight(0, **size) > 0


def test_constant_weight_part_is_the_configured_one_or_half() -> None:
    schedule = ScheduleConfig(costs="constant", actor=CostConfig(backward=3.0, backward_weight=1.0))
    costs = [planned_cost(schedule, role, BASE, tp=1, stages=1) for role in ("actor", "critic")]
    assert [cost.weight(0, rows=1, length=1) for cost in costs] == [1.0, 1.0]
