"""Stages: layers shared out, heads heavier, everything divided by tensor parallelism."""

from dataclasses import replace

import pytest

from schedules.transformer.device import DEVICES
from schedules.transformer.flops import Flops, head_flops, layer_flops
from schedules.transformer.memory import head_bytes, layer_bytes, message_bytes
from schedules.transformer.shapes import SHAPES
from schedules.transformer.stages import Part, split_layers

SHAPE, H100, LENGTHS = SHAPES["llama_33b"], DEVICES["h100"], (700, 900)
ACTOR = Part(SHAPE, (20, 21, 19), head=True, tp=1)


@pytest.mark.parametrize(
    ("name", "stages", "head", "layers"),
    [
        ("llama_13b", 8, True, (5,) * 8),
        ("llama_33b", 8, False, (7, 7, 7, 7, 8, 8, 8, 8)),
        ("llama_33b", 8, True, (7, 7, 7, 8, 8, 8, 8, 7)),
        ("llama_65b", 3, True, (27, 27, 26)),
    ],
)
def test_layers_are_shared_out_by_load_and_later_first(name, stages, head, layers):
    assert split_layers(SHAPES[name], stages=stages, head=head) == layers
    assert sum(layers) == SHAPES[name].layers


def test_a_stage_is_its_layers_and_the_last_has_the_head():
    layer, head = layer_flops(SHAPE, lengths=LENGTHS), head_flops(SHAPE, tokens=1600)
    second = H100.work_seconds(1.0, tp=1)
    assert ACTOR.seconds(0, LENGTHS, device=H100) == layer * 20 * second
    assert ACTOR.seconds(2, LENGTHS, device=H100) == (layer * 19 + head) * second
    assert ACTOR.bytes(1, LENGTHS) == 21 * layer_bytes(SHAPE, lengths=LENGTHS)
    assert ACTOR.bytes(2, LENGTHS) == 19 * layer_bytes(SHAPE, lengths=LENGTHS) + head_bytes(SHAPE, tokens=1600)


def test_a_critic_has_no_head():
    critic = replace(ACTOR, layers=(20, 20, 20), head=False)
    assert critic.seconds(0, LENGTHS, device=H100) == critic.seconds(2, LENGTHS, device=H100)
    assert critic.bytes(0, LENGTHS) == critic.bytes(2, LENGTHS)


def test_tensor_parallelism_divides_everything():
    wide = replace(ACTOR, tp=4)
    whole = ACTOR.seconds(2, LENGTHS, device=H100)
    assert wide.seconds(2, LENGTHS, device=H100) == Flops(
        *(pytest.approx(part / 4) for part in (whole.forward, whole.input_gradient, whole.weight_gradient))
    )
    assert wide.bytes(2, LENGTHS) == pytest.approx(ACTOR.bytes(2, LENGTHS) / 4)
    assert wide.message_bytes(LENGTHS) == ACTOR.message_bytes(LENGTHS) / 4


def test_options_reach_the_formulas():
    odd = replace(ACTOR, tp=4, sequence_parallel=False, attention="stored")
    options = {"tp": 4, "sequence_parallel": False}
    layer = layer_bytes(SHAPE, lengths=LENGTHS, attention="stored", **options)
    assert odd.bytes(2, LENGTHS) == 19 * layer + head_bytes(SHAPE, tokens=1600, **options)
    assert odd.message_bytes(LENGTHS) == message_bytes(SHAPE, tokens=1600, **options)
    stored = layer_flops(SHAPE, lengths=LENGTHS, attention="stored") * 20
    assert odd.seconds(0, LENGTHS, device=H100) == stored * H100.work_seconds(1.0, tp=4)
