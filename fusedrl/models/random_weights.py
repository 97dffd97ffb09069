"""Random weights that depend on (seed, name) alone: any layout of the same model starts from the same numbers."""

import hashlib
from collections.abc import Callable

import torch
from torch import Tensor

from fusedrl.models.architecture import Architecture
from fusedrl.models.weights import VALUE_HEAD, shapes

Source = Callable[[str], Tensor]
"""Hugging Face name -> the whole tensor."""


def random_source(arch: Architecture, *, head: str, seed: int) -> Source:
    """Linear and embedding weights from N(0, initializer_range), norms 1, biases and the value head 0. fp32."""
    known = dict(shapes(arch, head=head))

    def tensor(name: str) -> Tensor:
        shape = known[name]
        if name.endswith("norm.weight"):
            return torch.ones(shape)
        if name.endswith(".bias") or name == VALUE_HEAD:
            return torch.zeros(shape)
        return torch.empty(shape).normal_(0.0, arch.initializer_range, generator=_generator(seed, name))

    return tensor


def _generator(seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
