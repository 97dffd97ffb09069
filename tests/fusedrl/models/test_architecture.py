import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fusedrl.models.architecture import Architecture, Rope, check_layout, pad_vocab
from fusedrl.models.experts import Experts
from fusedrl.parallel.layout import Layout
from tests.fusedrl.models.conftest import FAMILIES

BASE = Architecture(
    family="llama",
    hidden_size=32,
    num_layers=6,
    num_heads=8,
    num_kv_heads=4,
    head_dim=8,
    ffn_hidden_size=44,
    vocab_size=50,
)
MOE = {"family": "qwen3_moe", "experts": Experts(count=4, per_token=2, ffn_hidden_size=18)}
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "intermediate_size": 44,
    "vocab_size": 50,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_config_written_is_the_config_read(folders: dict[str, Path], family: str) -> None:
    arch = Architecture.from_folder(folders[family])
    assert Architecture.from_config(json.loads(json.dumps(arch.to_config()))) == arch


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("head", ["lm", "value"])
def test_transformers_reads_the_config_as_it_was(
    folders: dict[str, Path], family: str, head: str, tmp_path: Path
) -> None:
    from transformers import AutoConfig

    arch = Architecture.from_folder(folders[family])
    (tmp_path / "config.json").write_text(json.dumps(arch.to_config(head=head)))
    ours, theirs = AutoConfig.from_pretrained(tmp_path), AutoConfig.from_pretrained(folders[family])
    for name in ("hidden_size", "num_key_value_heads", "vocab_size", "tie_word_embeddings", "rms_norm_eps", "head_dim"):
        assert getattr(ours, name, None) == getattr(theirs, name, None), name
    assert ours.rope_parameters == theirs.rope_parameters
    assert (ours.num_labels == 1) == (head == "value")


def test_defaults_are_hugging_faces() -> None:
    arch = Architecture.from_config(CONFIG)
    assert (arch.num_kv_heads, arch.head_dim, arch.rope, arch.tied) == (8, 4, Rope(), False)


def test_explicit_head_dim_is_kept() -> None:
    assert Architecture.from_config(CONFIG | {"head_dim": 16}).head_dim == 16


def test_end_tokens_are_a_set_of_one_or_several() -> None:
    assert Architecture.from_config(CONFIG | {"eos_token_id": 2}).eos_token_ids == (2,)
    assert Architecture.from_config(CONFIG | {"eos_token_id": [2, 3]}).eos_token_ids == (2, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "model_type='gpt2'"),
        (
            {"model_type": "mixtral", "num_local_experts": 8},
            "num_local_experts=8: of the mixtures of experts, qwen3_moe",
        ),
        ({"model_type": "deepseek_v3", "n_routed_experts": 256}, "n_routed_experts=256: of the mixtures of experts"),
        ({"model_type": "qwen3_moe"}, "num_experts is missing"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"attention_bias": True}, "attention_bias=true"),
        ({"mlp_bias": True}, "mlp_bias=true"),
        ({"num_key_value_heads": 3}, "num_attention_heads=8 is not a multiple of num_key_value_heads=3"),
        ({"hidden_size": 36}, "hidden_size=36 is not a multiple of num_attention_heads=8"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "rope_type='longrope'"),
        ({"model_type": "mistral", "sliding_window": 8, "max_position_embeddings": 64}, "sliding_window=8 is shorter"),
        ({"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": True}, "sliding_window=8"),
    ],
)
def test_what_would_be_computed_differently_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Architecture.from_config(CONFIG | change)


def test_experts_belong_to_their_family_alone() -> None:
    with pytest.raises(ValueError, match="model_type='llama' has experts=Experts"):
        replace(BASE, experts=MOE["experts"])
    with pytest.raises(ValueError, match="model_type='qwen3_moe' has experts=None"):
        replace(BASE, family="qwen3_moe")


def test_sliding_window_that_never_bites_is_accepted() -> None:
    Architecture.from_config(CONFIG | {"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": False})
    Architecture.from_config(CONFIG | {"model_type": "mistral", "sliding_window": 64, "max_position_embeddings": 64})


def test_folder_without_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no config\.json"):
        Architecture.from_folder(tmp_path)


LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0, "factor": "8"}
MALFORMED: dict[str, tuple[Any, ...]] = {
    "hidden_size": ("32", None, 0, -1, 32.0, True, [32]),
    "num_hidden_layers": ("four", None, 0),
    "num_attention_heads": (0, None, "8"),
    "num_key_value_heads": (0, "4", 3),
    "head_dim": (0, 3, "8"),
    "intermediate_size": (None, 0),
    "vocab_size": (None, "50"),
    "max_position_embeddings": ("long", 0),
    "rms_norm_eps": ("1e-6", 0, float("nan")),
    "model_type": (None, ["llama"], {}, "gpt2"),
    "hidden_act": (3, "gelu"),
    "attention_bias": ("no",),
    "tie_word_embeddings": ("yes",),
    "use_sliding_window": ("no",),
    "rope_theta": ("big", -1),
    "rope_parameters": ([1], "linear", {"rope_type": "linear"}, {"rope_type": "yarn", "truncate": False}, LLAMA3),
    "rope_scaling": (3, {"type": ["linear"]}),
    "eos_token_id": ("2", [2, "3"]),
    "bos_token_id": ([1, 2], 1.5),
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in MALFORMED.items() for value in values])
def test_a_malformed_value_is_one_line_of_file_and_key(tmp_path: Path, key: str, value: Any) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {key: value}))
    with pytest.raises(ValueError, match=key) as caught:
        Architecture.from_folder(tmp_path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", CONFIG)
def test_a_missing_key_is_named_with_its_file(tmp_path: Path, key: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({name: value for name, value in CONFIG.items() if name != key}))
    with pytest.raises(ValueError, match=f": {key} is missing") as caught:
        Architecture.from_folder(tmp_path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("content", ["", "[]", "no json"])
def test_a_config_that_is_no_object_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"config\.json: "):
        Architecture.from_folder(tmp_path)


@pytest.mark.parametrize(("tp", "rows"), [(1, 128), (2, 256), (3, 384)])
def test_vocabulary_is_padded_once_to_128_times_tp(tp: int, rows: int) -> None:
    assert pad_vocab(50, tp=tp) == pad_vocab(rows, tp=tp) == rows
    assert pad_vocab(rows + 1, tp=tp) == 2 * rows


@pytest.mark.parametrize(
    ("change", "layout", "message"),
    [
        ({}, Layout(tp=3), r"actor\.tensor_model_parallel_size=3 .*num_attention_heads=8; set it to 2 "),
        ({}, Layout(tp=8), r"actor\.tensor_model_parallel_size=8 .*num_key_value_heads=4; set it to 4 "),
        ({"ffn_hidden_size": 42}, Layout(tp=4), r"intermediate_size=42; set it to 3 "),
        (MOE, Layout(tp=4), r"moe_intermediate_size=18; set it to 3 "),
        ({}, Layout(pp=4), r"actor\.pipeline_model_parallel_size=4 .*num_hidden_layers=6; set it to 3 "),
    ],
)
def test_layout_that_does_not_divide_names_key_and_numbers(
    change: dict[str, Any], layout: Layout, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_layout(replace(BASE, **change), layout, key="actor")


def test_layout_of_absurd_sizes_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="num_hidden_layers=6; set it to 6 "):
        check_layout(BASE, Layout(pp=10**18), key="actor")


def test_layout_that_divides_is_accepted() -> None:
    check_layout(BASE, Layout(tp=4, pp=3, dp=5), key="actor")
