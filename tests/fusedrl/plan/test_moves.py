"""Shares of a model that ranks take in, by hand, and against the trainer's own plan of pieces."""

import pytest

from fusedrl.plan.calls import Way
from fusedrl.plan.meshes import Mesh
from fusedrl.plan.moves import fraction_moved, move_seconds
from fusedrl.rollout.reshard import Shard, Span, plan
from tests.fusedrl.plan.pricers import tiny_pricer

LAYERS, ROWS = 4, 8


def shards(first: int, count: int, tp: int, pp: int, *, world: int) -> list[list[Shard]]:
    """Of a model of LAYERS parameters of ROWS rows: what each rank holds."""
    held: list[list[Shard]] = [[] for _ in range(world)]
    for place in range(count):
        tp_i, pp_i = place % tp, place // (count // pp)
        for layer in range(pp_i * LAYERS // pp, (pp_i + 1) * LAYERS // pp):
            span = Span(tp_i * ROWS // tp, 0, ROWS // tp)
            held[first + place].append(Shard(f"layer{layer}", f"layer{layer}", (ROWS // tp,), 0, (span,), "float32"))
    return held


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((0, 8, 2, 4), (0, 8, 4, 1)),
        ((0, 8, 1, 4), (0, 8, 2, 2)),
        ((0, 4, 2, 2), (4, 4, 2, 2)),
        ((0, 4, 2, 2), (0, 8, 1, 1)),
        ((4, 4, 1, 1), (0, 4, 4, 1)),
    ],
)
def test_the_busiest_receiver_takes_what_the_trainer_s_pieces_say(
    source: tuple[int, int, int, int], target: tuple[int, int, int, int]
) -> None:
    pieces = plan(shards(*source, world=8), shards(*target, world=8))
    taken = [sum(p.elements for p in pieces if p.target == rank and p.source != rank) for rank in range(8)]
    most, _ = fraction_moved(source, target, 8)
    total = LAYERS * ROWS
    assert most == pytest.approx(max(max(taken), sum(taken) / source[1]) / total)


def test_a_rank_that_holds_all_it_needs_takes_nothing() -> None:
    assert fraction_moved((0, 8, 1, 1), (0, 8, 4, 2), 8) == (0.0, False)


def test_nodes_with_a_whole_copy_need_no_link_between_nodes() -> None:
    assert fraction_moved((0, 8, 2, 1), (0, 8, 1, 1), 4) == (0.5, False)
    assert fraction_moved((0, 8, 2, 2), (0, 8, 1, 1), 4)[1]
    assert fraction_moved((0, 4, 2, 1), (4, 4, 2, 1), 4) == (1 / 2, True)


def test_equal_layouts_move_nothing_in_no_time() -> None:
    pricer = tiny_pricer()
    way = Way(Mesh(0, 2), tp=2)
    model = pricer.models["actor"]
    assert move_seconds(pricer.costs, model, source=way, target=way) == 0
    assert move_seconds(pricer.costs, model, source=way, target=Way(Mesh(0, 2), pp=2)) > 0
