"""Lists of all ranks of the world, as each has them for its own models: every send meets its receive."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from fusedrl.parallel.layout import Layout
from fusedrl.parallel.placement import place_stages
from fusedrl.pipeline.copies import check_placements, fusion_of, in_program, own_instructions, own_split
from fusedrl.pipeline.megatron_stage import columns_of
from fusedrl.pipeline.plan import Planned, make_problem, plan_pass
from fusedrl.pipeline.stage import PipelineModel
from fusedrl.pipeline.timeline import TimedOp
from schedules.lower import Compute, Instruction
from schedules.order import Op
from schedules.rendezvous import check_rendezvous

WORLDS = {  # (tp, pp, dp) of actor and critic
    "equal": ((2, 2, 2), (2, 2, 2)),
    "pp4-pp2": ((1, 4, 1), (1, 2, 2)),
    "tp2-dp2": ((2, 2, 1), (1, 2, 2)),
    "dp2-tp2": ((1, 2, 2), (2, 2, 1)),
    "tp2-pp4": ((2, 2, 1), (1, 4, 1)),
    "two groups": ((1, 2, 4), (1, 4, 2)),
    "merged tp": ((4, 2, 1), (2, 2, 2)),
    "uneven tp": ((2, 3, 1), (3, 2, 1)),
}


def models(actor: tuple[int, int, int], critic: tuple[int, int, int]) -> dict[str, PipelineModel]:
    found = {}
    for name, (tp, pp, dp) in (("actor", actor), ("critic", critic)):
        placement = place_stages(pp, reverse=name == "critic")
        columns = columns_of(Layout(tp=tp, pp=pp, dp=dp))
        found[name] = PipelineModel(name, placement, columns, {}, lambda microbatch: (), torch.float32, tp=tp)
    return found


def planned(actor: tuple[int, int, int], critic: tuple[int, int, int], *, count: int = 3) -> list[Planned]:
    return [
        Planned(name, ((1, 4),) * count, tp=tp, pp=pp, dp=dp, reverse=name == "critic")
        for name, (tp, pp, dp) in (("actor", actor), ("critic", critic))
    ]


def by_world_rank(row: list[Instruction], rank: int, own: dict[str, PipelineModel]) -> list[Instruction]:
    """Messages between world ranks, as the mailbox of a rank finds them."""
    found = []
    for each in row:
        if not isinstance(each, Compute):
            ranks, message = own[each.message.model].ranks(rank), each.message
            each = replace(
                each, message=replace(message, src_rank=ranks[message.src_rank], dst_rank=ranks[message.dst_rank])
            )
        found.append(each)
    return found


@pytest.mark.parametrize(("actor", "critic"), WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("method", ["fused", "fused_split", "serial"])
def test_every_send_of_the_world_meets_its_receive(
    method: str, actor: tuple[int, int, int], critic: tuple[int, int, int]
) -> None:
    own, program = models(actor, critic), plan_pass(planned(actor, critic), method=method)
    fusion = fusion_of(own.values())
    check_placements(program.problem, fusion)
    rows = []
    for rank, (column, copies) in enumerate(zip(fusion.column_of, fusion.copy_of, strict=True)):
        row = list(own_instructions(program.instructions[column], own, copies=copies))
        for op in (each.op for each in row if isinstance(each, Compute)):
            assert op.stage in own[op.model].held_by(rank)
        rows.append(by_world_rank(row, rank, own))
    check_rendezvous(rows)
    ran = sum(isinstance(each, Compute) for row in rows for each in row)
    kinds = 3 if method == "fused_split" else 2
    assert ran == 3 * kinds * sum(layout[0] * layout[1] * layout[2] for layout in (actor, critic))


def test_lists_of_equal_layouts_stay_as_they_are() -> None:
    own, program = models(*WORLDS["equal"]), plan_pass(planned(*WORLDS["equal"]))
    copies = fusion_of(own.values()).copy_of[0]
    mine = own_instructions(program.instructions[1], own, copies=copies)
    assert all(one is other for one, other in zip(mine, program.instructions[1], strict=True))


def test_names_of_copies_go_and_come_back() -> None:
    copies = {"actor": "actor", "critic": "critic1"}
    split = {("critic1", 0, 2), ("critic0", 0, 1), ("actor", 1, 0)}
    assert own_split(split, copies=copies) == {("critic", 0, 2), ("actor", 1, 0)}
    ops: list[Any] = [TimedOp(Op(name, "F", 0, 0), 1, 2, None, 3) for name in ("actor", "critic")]
    assert [each.op.model for each in in_program(ops, copies=copies)] == ["actor", "critic1"]
    assert [each[1:] for each in in_program(ops, copies=copies)] == [each[1:] for each in ops]


def test_program_made_for_another_placement_is_refused() -> None:
    problem = make_problem(planned((1, 4, 1), (1, 2, 2)))
    lie = fusion_of(models((1, 4, 1), (1, 2, 2)).values())
    turned = replace(lie, copies=(*lie.copies[:2], replace(lie.copies[2], placement=(2, 1))))
    with pytest.raises(ValueError, match=r"critic1: placement \(3, 1\) in the program, \(2, 1\) in the model"):
        check_placements(problem, turned)
