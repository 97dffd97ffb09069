"""Every rank's stream carries the checkpoint's tensors, whole and once, from any layout and in any number of rounds."""

import pytest
import torch
from safetensors.torch import load_file

from fusedrl.models.architecture import Architecture
from fusedrl.rollout.hf_stream import whole_parameters
from fusedrl.rollout.reshard import Shard, Span

JOB = "tests.distributed.vllm_jobs:whole_stream"
SOURCES = {
    "tp2xpp2": {"layout": {"tp": 2, "pp": 2}},
    "reversed_pp2xdp2": {"layout": {"pp": 2, "dp": 2}, "reverse": True},
    "interleaved_tp2xpp2": {"layout": {"tp": 2, "pp": 2}, "placement": "interleaved"},
}


@pytest.mark.parametrize(
    ("source", "family", "bucket_bytes"),
    [
        ("tp2xpp2", "qwen2", 1 << 28),
        ("tp2xpp2", "qwen3_moe", 5000),
        ("reversed_pp2xdp2", "llama_tied_mha", 1 << 28),
        ("interleaved_tp2xpp2", "llama", 1),
    ],
)
def test_tensors_equal_the_checkpoints(ranks, checkpoint, source, family, bucket_bytes):
    folder = checkpoint(family)
    expected = load_file(f"{folder}/model.safetensors")
    job = {"folder": folder, "source": SOURCES[source], "bucket_bytes": bucket_bytes}
    for first, again, traffic in ranks.run(JOB, world=4, **job):
        assert first.keys() == again.keys() == expected.keys()
        for name, tensor in expected.items():
            assert torch.equal(first[name], tensor), name
            assert torch.equal(again[name], tensor * 1.5 + 0.125), name
        assert traffic["bytes_received"] > 0
        received = traffic["bytes_received"] + traffic["bytes_copied"]
        assert received == sum(tensor.numel() * tensor.element_size() for tensor in expected.values())


def test_layers_leave_in_the_models_sequence(ranks, checkpoint):
    job = {"folder": checkpoint("llama"), "source": SOURCES["reversed_pp2xdp2"], "bucket_bytes": 3000}
    for first, _, _ in ranks.run(JOB, world=4, **job):
        names = list(first)
        layers = [int(name.split(".")[2]) for name in names if ".layers." in name]
        assert layers == sorted(layers)
        assert names[0] == "model.embed_tokens.weight"
        assert names[-1] == "lm_head.weight"


def test_whole_parameters_are_as_long_as_all_shards_together(checkpoint):
    arch = Architecture.from_folder(checkpoint("llama"))

    def shard(name: str, start: int, dim: int = 0) -> Shard:
        shape = (8, 4) if dim == 0 else (4, 8)
        return Shard(name, f"0.{name}", shape, dim, (Span(start, 0, 8),), "float32")

    table, columns = "embedding.word_embeddings.weight", "decoder.layers.0.self_attention.linear_proj.weight"
    ranks = [[shard(columns, 0, dim=1), shard(table, 0)], [shard(columns, 8, dim=1), shard(table, 8)]]
    found = whole_parameters(ranks, arch=arch)
    assert [(s.name, s.local_name, s.shape) for s in found] == [
        (table, table, (arch.vocab_size, 4)),  # without padding
        (columns, columns, (4, 16)),
    ]
    assert found[1].spans == (Span(start=0, offset=0, length=16),)
