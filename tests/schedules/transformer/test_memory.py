"""Activation bytes against Korthikanti et al.'s formulas and the published problems' activations."""

import pytest

from schedules.transformer.memory import head_bytes, layer_bytes, message_bytes
from schedules.transformer.shapes import SHAPES, Shape
from tests.schedules.published import published

S, H, A = 2048, 6144, 48
GPT = Shape("gpt", layers=1, hidden=H, heads=A, kv_heads=A, ffn=8 * H // 3, vocab=51200)


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_layer_equals_the_published_formulas_less_dropout(tp):
    """Dropout there: two masks of T h whole on each device, and of the 5 a s^2 its mask and its output, 3 in all."""
    theirs = S * H * (10 + 24 / tp + 5 * A * S / (H * tp))
    dropout = 2 * S * H + 3 * A * S * S / tp
    assert layer_bytes(GPT, lengths=[S], tp=tp, sequence_parallel=False, attention="stored") == theirs - dropout
    theirs = S * H / tp * (34 + 5 * A * S / H)
    dropout = (2 * S * H + 3 * A * S * S) / tp
    assert layer_bytes(GPT, lengths=[S], tp=tp, attention="stored") == theirs - dropout
    assert layer_bytes(GPT, lengths=[S], tp=tp, attention="recomputed") == 34 * S * H / tp - 2 * S * H / tp


def test_only_a_stored_core_grows_with_the_square():
    shape = SHAPES["llama_13b"]
    for attention in ("flash", "recomputed"):
        packed = layer_bytes(shape, lengths=[500, 1500], attention=attention)
        assert packed == layer_bytes(shape, lengths=[2000], attention=attention)
    one, packed = (layer_bytes(shape, lengths=lengths, attention="stored") for lengths in ([2000], [500, 1500]))
    assert one - packed == 2 * shape.heads * 2 * 500 * 1500


def test_head_equals_the_published_formula():
    assert head_bytes(GPT, tokens=S, tp=8) == 4 * S * H / 8 * (1 + GPT.vocab / H)
    assert head_bytes(GPT, tokens=S, tp=8, sequence_parallel=False) == 4 * S * H + 4 * S * GPT.vocab / 8


def test_message_is_the_hidden_states_in_bf16():
    assert message_bytes(GPT, tokens=S, sequence_parallel=False, tp=8) == 2 * S * H
    assert message_bytes(GPT, tokens=S, tp=8) == 2 * S * H / 8


def stage_bytes(name, stages):
    return layer_bytes(SHAPES[name], lengths=[S]) * SHAPES[name].layers / stages


@pytest.mark.parametrize(
    ("indices", "actor", "critic"),
    [(range(6), "llama_33b", "llama_13b"), (range(6, 12), "llama_65b", "llama_33b")],
)
def test_published_activations_are_those_of_33b_13b_and_65b_33b(indices, actor, critic):
    """The published problems count in activations of a critic stage of 8 (exp0-5) or 16 (exp6-11)."""
    for problem in map(published, indices):
        unit = stage_bytes(critic, problem.ranks)
        for name, model in ((actor, problem.models[0]), (critic, problem.models[1])):
            assert round(stage_bytes(name, model.stages) / unit, 2) == model.activation
