from dataclasses import replace

import torch

from fusedrl.models.architecture import Architecture
from fusedrl.rollout.requests import Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.rollout.vllm_settings import EngineSettings, cache_bytes, engine_arguments, request_arguments, room

ARCH = Architecture(
    family="llama",
    hidden_size=128,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=32,
    ffn_hidden_size=64,
    vocab_size=300,
)
SETTINGS = EngineSettings(folder="models/a", arch=ARCH, dtype=torch.bfloat16, tp=1, max_length=130, max_rows=4)


def arguments(**changes):
    return engine_arguments(replace(SETTINGS, **changes), processor=object)


def test_engine_takes_the_folders_architecture_and_no_weights_nor_defaults_of_it():
    found = arguments()
    assert (found["model"], found["load_format"], found["generation_config"]) == ("models/a", "dummy", "vllm")
    assert (found["dtype"], found["max_model_len"], found["max_num_seqs"]) == ("bfloat16", 130, 4)
    assert found["trust_remote_code"] is False
    assert found["logits_processors"] == [object]


def test_cpu_has_a_cache_in_bytes_and_gpu_a_share_of_memory_and_sleep():
    cpu, gpu = arguments(), arguments(device="cuda", gpu_memory_utilization=0.4)
    assert (cpu["kv_cache_memory_bytes"], cpu["enforce_eager"], cpu["enable_sleep_mode"]) == (
        cache_bytes(SETTINGS),
        True,
        False,
    )
    assert "gpu_memory_utilization" not in cpu
    assert (gpu["gpu_memory_utilization"], gpu["enforce_eager"], gpu["enable_sleep_mode"]) == (0.4, False, True)
    assert "kv_cache_memory_bytes" not in gpu


def test_cache_holds_every_row_at_full_length_in_whole_blocks():
    # 130 tokens are 2 blocks of 128; keys and values x 3 layers x 2 heads x 32 x 2 bytes
    assert cache_bytes(SETTINGS) == (4 * 2 + 8) * 128 * (2 * 3 * 2 * 32 * 2)
    assert cache_bytes(replace(SETTINGS, tp=2)) * 2 == cache_bytes(SETTINGS)


def test_a_tied_head_is_untied_on_the_cpu_alone():
    tied = replace(ARCH, tied=True)
    assert arguments(arch=tied)["hf_overrides"] == {"tie_word_embeddings": False}
    assert arguments(arch=tied, device="cuda")["hf_overrides"] == arguments()["hf_overrides"] == {}


def test_a_request_asks_for_its_own_stops_and_the_room_that_is_left():
    params = SamplingParams(
        temperature=0.7, top_p=0.9, top_k=5, max_tokens=10, stop_token_ids=frozenset({9, 2}), seed=4
    )
    request = Request(sample_id=1, prompt=(1, 2), response=(3,), logprobs=(-1.0,), params=params)
    found = request_arguments(request, max_length=130)
    assert (found["max_tokens"], found["stop_token_ids"], found["ignore_eos"]) == (9, [2, 9], True)
    assert (found["temperature"], found["logprobs"]) == (0.0, 0)
    carried = found["extra_args"]["fusedrl"]
    assert (carried["temperature"], carried["top_p"], carried["top_k"]) == (0.7, 0.9, 5)
    other = request_arguments(replace(request, sample_id=2), max_length=130)
    assert other["extra_args"]["fusedrl"]["key"] != carried["key"]


def test_room_is_bounded_by_the_engines_length_too():
    request = Request(sample_id=0, prompt=(1,) * 6, params=SamplingParams(max_tokens=10))
    assert [room(request, max_length=length) for length in (100, 8, 6)] == [10, 2, 0]
