"""Fused problems: placements, copies, costs per stage and micro-batch, and what cannot be posed."""

from dataclasses import replace

import pytest

from schedules.problem import ProblemError
from schedules.transformer.fused import Setup, fused_problem, lengths_of
from tests.schedules.published import published

SETUP = Setup("llama_33b", "llama_13b", ranks=8, microbatches=8)
RAGGED = replace(SETUP, critic_stages=4, samples=2, length=1024, spread=0.6, longest=4096)


def placements(**changes):
    return {model.name: list(model.placement) for model in fused_problem(replace(SETUP, **changes)).models}


def test_actor_and_critic_run_against_each_other():
    assert placements() == {"actor": [*range(8)], "critic": [*range(7, -1, -1)]}


def test_fewer_stages_make_copies():
    critics = {"critic0": [3, 2, 1, 0], "critic1": [7, 6, 5, 4]}
    assert placements(critic_stages=4) == {"actor": [*range(8)], **critics}
    assert placements(actor_stages=4, ranks=4)["actor"] == [0, 1, 2, 3]


def test_more_tensor_parallelism_takes_more_columns_a_stage():
    wide = placements(actor="llama_65b", ranks=4, actor_tp=8)
    assert wide == {"actor": [(0, 1), (2, 3)], "critic": [3, 2, 1, 0]}
    assert placements(actor="llama_65b", ranks=4, critic_tp=8)["critic"] == [(2, 3), (0, 1)]


def test_copies_share_the_micro_batches_out_in_turn():
    problem = fused_problem(RAGGED)
    tokens = [sum(row) for row in lengths_of(RAGGED)]
    actor, copies = problem.model("actor"), [problem.model("critic0"), problem.model("critic1")]
    assert [model.microbatches for model in problem.models] == [8, 4, 4]
    heavy_first = sorted(range(8), key=lambda m: tokens[m])
    assert sorted(range(8), key=lambda m: actor.activation_of(0, m)) == heavy_first
    interleaved = [copies[m % 2].activation_of(0, m // 2) for m in range(8)]
    assert sorted(range(8), key=interleaved.__getitem__) == heavy_first


def test_micro_batches_of_one_length_cost_the_same_and_the_head_is_heavier():
    problem = fused_problem(replace(SETUP, actor="llama_65b"))
    forward = problem.model("actor").forward
    assert len(set(forward[:7])) == 1
    assert forward[7] > forward[0]
    assert problem.model("critic").forward == pytest.approx(forward[0] * 12.69 / 64.76, rel=0.02)


def test_backward_holds_its_weight_part_and_all_is_rounded():
    for model in fused_problem(RAGGED).models:
        for s in range(model.stages):
            for m in range(model.microbatches):
                times = [model.duration(kind, s, m) for kind in "FBW"]
                assert times[2] < times[0] < times[1] < 2.1 * times[0]
                assert [round(t, 2) for t in times] == times
                assert round(model.activation_of(s, m), 3) == model.activation_of(s, m)


def test_a_stage_by_hand():
    """Critic: 5 layers of 317.2e6 weights on 2048 tokens, 4 devices of 445 TFLOP/s; message 6.8 MB at 50 GB/s."""
    problem = fused_problem(SETUP)
    linear, attention = 2 * 317_194_240 * 2048 * 5, 2 * 2048**2 * 5120 * 5
    critic, per_ms = problem.model("critic"), 4 * 989e12 * 0.45 / 1000
    assert critic.forward == round((linear + attention) / per_ms, 2)
    assert critic.backward == round((2 * linear + 2.5 * attention) / per_ms, 2)
    assert critic.backward_weight == round(linear / per_ms, 2)
    assert critic.activation == round(5 * 2048 * (16 * 5120 + 6 * 13824) / 4 / 2**30, 3)
    assert problem.comm == round(1000 * (10e-6 + 2048 * 6656 * 2 / 4 / 50e9), 2)


def test_layers_are_shared_out_unless_named():
    forward = fused_problem(SETUP).model("actor").forward
    assert forward[0] == forward[2] < forward[3] == forward[6] > forward[7] > forward[0]
    assert fused_problem(replace(SETUP, actor_layers=(7,) * 4 + (8,) * 4)).model("actor").forward[3] == forward[0]


def test_a_seed_names_the_problem():
    assert fused_problem(RAGGED) == fused_problem(RAGGED) != fused_problem(replace(RAGGED, seed=1))


def test_sum_over_stages_is_the_model_whatever_the_layers():
    even, uneven = (
        fused_problem(replace(SETUP, actor_layers=layers)).model("actor") for layers in (None, (8, 8, 8, 8, 8, 8, 8, 4))
    )
    totals = [sum(model.duration("F", s, 0) for s in range(8)) for model in (even, uneven)]
    assert totals[0] == pytest.approx(totals[1], abs=0.05)
    assert list(uneven.activation[:7]) == [uneven.activation[0]] * 7


def test_proportions_of_the_published_problems():
    """exp3: 33B and 13B on 8 ranks, forward 5 : 2, activation 1.95 : 1; exp9: 65B and 33B on 16, 2 : 1 and 1.64 : 1."""
    for index, actor, critic in ((3, "llama_33b", "llama_13b"), (9, "llama_65b", "llama_33b")):
        theirs = published(index)
        ours = fused_problem(Setup(actor, critic, ranks=theirs.ranks, microbatches=1))
        sums = [[sum(m.duration("F", s, 0) for s in range(m.stages)) for m in p.models] for p in (ours, theirs)]
        assert sums[0][0] / sums[0][1] == pytest.approx(sums[1][0] / sums[1][1], rel=0.03)


def test_options_change_what_they_should():
    base = fused_problem(SETUP)
    slow = fused_problem(replace(SETUP, efficiency=0.225)).model("critic")
    assert slow.forward == pytest.approx(2 * base.model("critic").forward, abs=0.02)
    assert fused_problem(replace(SETUP, device="a100")).comm > base.comm
    stored = fused_problem(replace(SETUP, attention="stored")).model("critic")
    assert stored.activation > base.model("critic").activation
    assert fused_problem(replace(SETUP, sequence_parallel=False)).comm > base.comm


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actor": "gpt"}, "actor: 'gpt' is none of llama_7b, "),
        ({"device": "tpu"}, "device: 'tpu' is none of a100, h100"),
        ({"ranks": 0}, "ranks: expected a whole number of at least 1, got 0"),
        ({"critic_stages": 0}, "critic_stages: expected a whole number of at least 1, got 0"),
        ({"spread": float("nan")}, "spread: expected a number from 0 to 5, got nan"),
        ({"efficiency": 1.5}, "efficiency: expected a number above 0, at most 1, got 1.5"),
        ({"longest": 100}, "longest: 100 is below the median length 2048"),
        ({"length": 2**25}, "longest: 16777216 is below the median length"),
        ({"samples": 10**6}, "more than 5000000 ops or samples"),
        ({"tp": 8}, "tp: 8 does not divide the 52 heads of llama_33b"),
        ({"critic_tp": 3}, "critic_tp: 3 does not divide the 40 heads"),
        ({"critic_tp": 2}, "critic_tp: 2 is not a multiple of a column's 4 devices"),
        ({"critic_tp": 8, "ranks": 5}, "ranks: 5 columns cannot be shared out by 2 to a stage of the critic"),
        ({"critic_stages": 3}, "critic_stages: 3 stages do not divide the 8 that fill the columns"),
        ({"critic_stages": 2, "microbatches": 6}, "microbatches: 6 cannot be shared out among 4 critics"),
        ({"actor_layers": (30, 30), "actor_stages": 4}, "actor_layers: 2 numbers for 4 stages"),
        ({"actor_layers": (8,) * 8}, "actor_layers: they add up to 64, but llama_33b has 60 layers"),
        ({"actor_layers": (60, 0, 0, 0, 0, 0, 0, 0)}, "leave one without"),
        ({"ranks": 64}, "actor_stages: 60 layers on 64 stages leave one without; take fewer"),
    ],
)
def test_what_cannot_be_posed_is_one_line_that_names_the_key(changes, message):
    with pytest.raises(ProblemError, match=message.replace("(", r"\(")) as caught:
        fused_problem(replace(SETUP, **changes))
    assert "\n" not in str(caught.value)
