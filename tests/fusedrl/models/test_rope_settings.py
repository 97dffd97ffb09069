from typing import Any

import pytest

from fusedrl.data.json_object import JsonObject
from fusedrl.models.rope_settings import Rope, read_rope

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
ORIGINAL = "original_max_position_embeddings"


def read(config: dict[str, Any]) -> Rope:
    return read_rope(JsonObject.of(config, where="config.json"))


CONFIGS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "theta of transformers 4": {"rope_theta": 500.0},
    "theta of transformers 5": {"rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}},
    "theta inside counts more": {"rope_theta": 7.0, "rope_parameters": {"rope_theta": 500.0}},
    "theta outside": {"rope_theta": 500.0, "rope_parameters": {"rope_type": "linear", "factor": 8.0}},
    "old name of the type": {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 8.0}},
    "scaling counts more": {"rope_scaling": {"type": "linear", "factor": 8.0}, "rope_parameters": {"rope_theta": 9.0}},
    "original positions are the present ones": {"max_position_embeddings": 96, "rope_parameters": LLAMA3},
    "original positions outside": {ORIGINAL: 24, "rope_parameters": LLAMA3 | {ORIGINAL: 32}},
    "yarn": {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, ORIGINAL: 32}},
    "factor of the positions": {
        "max_position_embeddings": 96,
        "rope_scaling": {"rope_type": "yarn", "factor": None, ORIGINAL: 32},
    },
    "zeros of yarn": {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "mscale": 0, "beta_fast": 0}},
    "yarn in full": {
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 4.0,
            ORIGINAL: 32,
            "beta_fast": 3.0,
            "beta_slow": 0.5,
            "mscale": 0.7,
            "mscale_all_dim": 0.5,
            "truncate": False,
        }
    },
}


@pytest.mark.parametrize("name", CONFIGS)
def test_keys_of_both_versions_are_read_as_transformers_reads_them(name: str) -> None:
    import torch
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    from fusedrl.models.rope import inverse_frequencies

    config = {"hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 64} | CONFIGS[name]
    theirs, rope = LlamaRotaryEmbedding(LlamaConfig.from_dict(config)), read(config)
    assert torch.equal(inverse_frequencies(rope, head_dim=16), theirs.inv_freq)
    assert rope.attention_factor == pytest.approx(theirs.attention_scaling)


def test_factor_and_theta_of_linear_scaling_are_read() -> None:
    assert read(CONFIGS["theta outside"]) == Rope(theta=500.0, type="linear", scaling={"factor": 8.0})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_scaling: rope_type='dynamic' is not one of"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "rope_parameters: rope_type='longrope' is not one of"),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [2, 3]}}, "rope_type='mrope'"),
        (
            {"rope_scaling": {"rope_type": "default", "mrope_section": [2, 3]}},
            r"mrope_section=\[2, 3\] is not supported",
        ),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "rope_parameters: partial_rotary_factor=0.5"),
        ({"partial_rotary_factor": 0.5}, "config.json: partial_rotary_factor=0.5"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}, "full_attention: layers with positions of"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters: factor is missing"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "truncate": "no"}}, "truncate='no'"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "attention_factor": 0}}, "attention_factor=0 must"),
    ],
)
def test_what_would_turn_otherwise_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(config)


def test_a_whole_rotary_factor_is_no_part() -> None:
    assert read({"partial_rotary_factor": 1.0, "rope_parameters": {"partial_rotary_factor": None}}) == Rope()
