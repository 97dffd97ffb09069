from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fusedrl.pipeline.costs import ConstantCost, CountedCost
from fusedrl.pipeline.plan import METHODS, Planned, make_problem, plan_pass, without_training
from schedules.order import Order, OrderError
from schedules.order_file import to_csv
from tests.fusedrl.pipeline.test_costs import Sizes

ACTOR = Planned("actor", ((2, 8), (2, 4), (1, 6), (2, 8)), pp=2)
CRITIC = Planned("critic", ((4, 8), (3, 6)), pp=2, reverse=True, cost=ConstantCost(0.5, 1.0, 0.5))


def test_critic_lies_against_the_actor() -> None:
    problem = make_problem([ACTOR, CRITIC])
    assert problem.model("actor").placement == (0, 1)
    assert problem.model("critic").placement == (1, 0)
    assert [model.microbatches for model in problem.models] == [4, 2]


def test_costs_follow_the_shapes_of_each_micro_batch_and_stage() -> None:
    cost = CountedCost(Sizes(), layers=[2, 2])
    model = make_problem([replace(ACTOR, cost=cost)]).models[0]
    assert model.duration("F", 1, 1) == cost.forward(1, rows=2, length=4)
    assert model.duration("B", 0, 2) == cost.backward(0, rows=1, length=6)
    assert model.activation_of(1, 3) == cost.activation(1, rows=2, length=8)


def test_forward_only_model_has_no_backward() -> None:
    program = plan_pass([ACTOR, replace(CRITIC, trains=False)])
    assert not program.problem.model("critic").trains
    assert sum(op.kind == "B" and op.model == "critic" for row in program.order.rows for op in row) == 0


def test_plan_is_a_pure_function() -> None:
    assert plan_pass([ACTOR, CRITIC]) == plan_pass([ACTOR, CRITIC])


def test_fused_is_never_slower_than_serial() -> None:
    fused, serial = (plan_pass([ACTOR, CRITIC], method=method).planned.makespan for method in ("fused", "serial"))
    assert fused <= serial


def test_serial_finishes_the_actor_first_on_each_column() -> None:
    for row in plan_pass([ACTOR, CRITIC], method="serial").order.rows:
        models = [op.model for op in row]
        assert models == sorted(models)


def kinds(order: Order) -> set[str]:
    return {op.kind for row in order.rows for op in row}


def test_methods_that_split_put_weight_gradients_off_and_no_other() -> None:
    orders = {method: plan_pass([ACTOR, CRITIC], method=method) for method in METHODS if method != "interleaved"}
    assert {method for method, program in orders.items() if "W" in kinds(program.order)} == {
        "fused_split",
        "zero_bubble",
    }
    assert orders["fused_split"].planned.makespan <= orders["fused"].planned.makespan


def test_zero_bubble_beats_serial_within_its_memory() -> None:
    many = replace(ACTOR, shapes=((2, 8),) * 8, pp=4)
    serial, split = (plan_pass([many], method=method).planned for method in ("serial", "zero_bubble"))
    assert split.makespan < serial.makespan
    assert split.max_peak_memory <= serial.max_peak_memory


@pytest.mark.parametrize("method", METHODS)
def test_passes_without_training_have_a_method_that_suits_them(method: str) -> None:
    models = [replace(model, trains=False, shapes=model.shapes[:1]) for model in (ACTOR, CRITIC)]
    assert kinds(plan_pass(models, method=without_training(method)).order) == {"F"}
    assert without_training("file:PATH") == "fused"


FOUR = {  # actor, critic on four ranks: (tp, pp, dp)
    "pp4-pp2": ((1, 4, 1), (1, 2, 2)),
    "pp2-pp4": ((1, 2, 2), (1, 4, 1)),
    "tp2-dp2": ((2, 2, 1), (1, 2, 2)),
    "dp2-tp2": ((1, 2, 2), (2, 2, 1)),
    "tp2-pp4": ((2, 2, 1), (1, 4, 1)),
    "dp4-pp4": ((1, 1, 4), (1, 4, 1)),
}


def laid_out(actor: tuple[int, int, int], critic: tuple[int, int, int], **options: Any) -> list[Planned]:
    return [
        replace(model, **dict(zip(("tp", "pp", "dp"), sizes, strict=True)), **options)
        for model, sizes in ((ACTOR, actor), (replace(CRITIC, shapes=CRITIC.shapes * 2), critic))
    ]


@pytest.mark.parametrize(("actor", "critic"), FOUR.values(), ids=FOUR)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_an_order_for_layouts_that_differ(
    method: str, actor: tuple[int, int, int], critic: tuple[int, int, int]
) -> None:
    models = laid_out(actor, critic, shape="interleaved" if method == "interleaved" else "line")
    program = plan_pass(models, method=method)
    assert program.problem.ranks == 4
    assert [sum(own.count(op) for own in program.order.rows) for op in program.planned.start] == [
        len(program.problem.model(op.model).ranks_of(op.stage)) for op in program.planned.start
    ]


def test_copies_of_a_model_have_its_work_each() -> None:
    actor, critic = laid_out((1, 4, 1), (1, 2, 2))
    problem = make_problem([actor, critic])
    (alone,) = make_problem([critic]).models
    assert [model.name for model in problem.models] == ["actor", "critic0", "critic1"]
    assert problem.model("critic1") == replace(alone, name="critic1", placement=(3, 1))
    assert make_problem([actor]).models == (problem.model("actor"),)


def test_fused_copies_fill_the_actors_bubbles() -> None:
    """One after the other the critics, side by side, wait for the actor."""
    fused, serial = (
        plan_pass(laid_out((1, 4, 1), (1, 2, 2)), method=method).planned.makespan for method in ("fused", "serial")
    )
    assert fused < serial


def test_models_on_other_ranks_run_beside_each_other() -> None:
    """Each as long as it takes alone, no message between them."""
    beside = plan_pass([ACTOR, replace(CRITIC, ranks=(2, 3))])
    alone = [plan_pass([each]).planned.makespan for each in (ACTOR, CRITIC)]
    assert beside.planned.makespan == max(alone)
    assert [model.placement for model in beside.problem.models] == [(0, 1), (3, 2)]


def test_a_file_that_is_no_text_is_refused_as_an_order(tmp_path: Path) -> None:
    (tmp_path / "order").write_bytes(b"\x7fELF\xd0\xff")
    with pytest.raises(ValueError, match=r"schedule\.method=file:.*order: not text, and so no order"):
        plan_pass([ACTOR], method=f"file:{tmp_path / 'order'}")


def test_unknown_method_and_missing_file_are_refused() -> None:
    with pytest.raises(ValueError, match=r"schedule\.method=magic: must be"):
        plan_pass([ACTOR], method="magic")
    with pytest.raises(ValueError, match="no such file"):
        plan_pass([ACTOR], method="file:/nowhere/order.csv")


def test_model_without_micro_batches_is_refused() -> None:
    with pytest.raises(ValueError, match="actor: no micro-batches"):
        plan_pass([replace(ACTOR, shapes=())])


@pytest.mark.parametrize("suffix", ["csv", "txt"])
def test_order_file_serves_any_durations_of_the_same_work(tmp_path: Path, suffix: str) -> None:
    made = plan_pass([ACTOR, CRITIC], method="serial")
    path = tmp_path / f"order.{suffix}"
    csv, text = to_csv(made.problem, made.order), made.order.to_text(made.problem)
    path.write_text(csv if suffix == "csv" else text)
    other_lengths = replace(ACTOR, cost=ConstantCost(7.0, 9.0))
    assert plan_pass([other_lengths, CRITIC], method=f"file:{path}").order == made.order
    with pytest.raises(OrderError):
        plan_pass([replace(ACTOR, shapes=ACTOR.shapes[:2]), CRITIC], method=f"file:{path}")
