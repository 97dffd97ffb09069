"""A token's bytes are those of this rank's layers and groups; only GPUs have a budget of their own."""

from types import SimpleNamespace

import torch

from fusedrl.rollout.cache import CacheShape
from fusedrl.rollout.cache_budget import gpu_tokens, token_bytes


def model(
    *, layers: int = 3, groups: int = 2, head_dim: int = 8, dtype: torch.dtype = torch.bfloat16
) -> SimpleNamespace:
    attention = SimpleNamespace(num_query_groups_per_partition=groups, hidden_size_per_attention_head=head_dim)
    layer = SimpleNamespace(self_attention=attention)
    parameters = [torch.zeros(1, dtype=dtype)]
    return SimpleNamespace(decoder=SimpleNamespace(layers=[layer] * layers), parameters=lambda: iter(parameters))


def test_a_token_takes_what_the_cache_holds_of_it():
    shape = CacheShape(layers=3, rows=1, max_length=1, groups=2, head_dim=8, dtype=torch.bfloat16)
    assert token_bytes(model()) == shape.token_bytes == 3 * 2 * 2 * 8 * 2


def test_the_cpu_has_no_budget_of_its_own():
    assert gpu_tokens(model(), share=0.5, max_length=10, max_rows=2) is None


def test_the_gpu_with_least_room_decides(monkeypatch):
    fake = model()
    fake.parameters = lambda: iter([SimpleNamespace(device=torch.device("cuda"), element_size=lambda: 2)])
    made = torch.tensor
    monkeypatch.setattr(torch, "tensor", lambda data, device: made(data))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (192 * 1000, 10**9))
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda found, op, group: found.sub_(100))  # another has less
    assert gpu_tokens(fake, share=0.5, max_length=100, max_rows=9) == 400
    assert gpu_tokens(fake, share=0.5, max_length=100, max_rows=4) is None  # all rows fit
