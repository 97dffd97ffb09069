"""FLOPs against the rules known for whole models."""

import pytest

from schedules.transformer.flops import Flops, head_flops, layer_flops
from schedules.transformer.shapes import SHAPES, Shape

GPT3 = Shape("gpt3", layers=96, hidden=12288, heads=96, kv_heads=96, ffn=4 * 12288 * 2 // 3, vocab=51200)


def model_flops(shape, *, lengths, attention="flash"):
    layers = layer_flops(shape, lengths=lengths, attention=attention) * shape.layers
    return layers + head_flops(shape, tokens=sum(lengths))


@pytest.mark.parametrize("name", SHAPES)
def test_forward_and_backward_are_six_flops_a_parameter_and_token(name):
    flops = model_flops(SHAPES[name], lengths=[512])
    assert flops.forward + flops.backward == pytest.approx(6 * SHAPES[name].parameters * 512, rel=0.03)


def test_unfused_layers_follow_the_published_formula():
    """72 T n h^2 (1 + s / 6 h + v / 12 n h), Korthikanti et al.; SwiGLU of 8 h / 3 has as many weights as their MLP."""
    s, h, n, v = 2048, GPT3.hidden, GPT3.layers, GPT3.vocab
    flops = model_flops(GPT3, lengths=[s], attention="stored")
    theirs = 72 * s * n * h * h * (1 + s / (6 * h) + v / (12 * n * h))
    assert flops.forward + flops.backward == pytest.approx(theirs, rel=1e-12)


def test_attention_is_quadratic_in_the_sequence_and_all_else_linear():
    shape = SHAPES["llama_13b"]
    one, two, packed = (layer_flops(shape, lengths=lengths) for lengths in ([1000], [2000], [1000, 1000]))
    assert packed == one * 2
    assert two.forward - packed.forward == 2 * 1000**2 * 2 * shape.hidden
    assert two.weight_gradient == packed.weight_gradient


def test_weight_gradient_is_the_forward_without_attention():
    shape, lengths = SHAPES["llama_33b"], [100, 300]
    flops = layer_flops(shape, lengths=lengths)
    attention = 2 * (100**2 + 300**2) * shape.hidden
    assert flops.weight_gradient == flops.forward - attention == 2 * shape.layer_weights * 400
    assert flops.input_gradient == flops.weight_gradient + 2.5 * attention
    assert flops.backward == flops.input_gradient + flops.weight_gradient


def test_parts_add_and_scale_by_part():
    assert Flops(1, 2, 3) + Flops(10, 20, 30) == Flops(11, 22, 33)
    assert Flops(1, 2, 3) * 2 == Flops(2, 4, 6)
