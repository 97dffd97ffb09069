"""LLaMA's sizes: exact parameter counts, and what tensor parallelism divides them."""

import pytest

from schedules.problem import ProblemError
from schedules.transformer.shapes import SHAPES, check_tp

# counts of the released weights' parameters
PARAMETERS = {
    "llama_7b": 6_738_415_616,
    "llama_13b": 13_015_864_320,
    "llama_33b": 32_528_943_616,
    "llama_65b": 65_285_660_672,
    "llama2_70b": 68_976_648_192,
}


@pytest.mark.parametrize("name", SHAPES)
def test_parameters_are_those_of_the_released_weights(name):
    assert SHAPES[name].parameters == PARAMETERS[name]


def test_grouped_heads_narrow_keys_and_values():
    assert SHAPES["llama2_70b"].kv_hidden == 1024
    assert SHAPES["llama_65b"].kv_hidden == SHAPES["llama_65b"].hidden


def test_tensor_parallelism_must_divide_the_heads():
    for name, tp in (("llama_33b", 4), ("llama_13b", 8), ("llama_65b", 32)):
        check_tp(SHAPES[name], tp=tp, key="tp")
    message = "critic_tp: 8 does not divide the 52 heads of llama_33b; take one of 1, 2, 4$"
    with pytest.raises(ProblemError, match=message):
        check_tp(SHAPES["llama_33b"], tp=8, key="critic_tp")
    with pytest.raises(ProblemError, match="the 8 kv_heads of llama2_70b"):
        check_tp(SHAPES["llama2_70b"], tp=16, key="tp")
    with pytest.raises(ProblemError, match="the 13824 ffn of llama_13b"):
        check_tp(SHAPES["llama_13b"], tp=5, key="tp")
