from types import SimpleNamespace
from typing import Any

import pytest
import torch

import megatron_patches
from fusedrl.parallel.context import share_positions
from megatron_patches import context_rope
from megatron_patches.retarget import PatchError

megatron_patches.apply()

from megatron.core.models.common.embeddings import rope_utils, rotary_pos_embedding  # noqa: E402


def group(*, size: int, rank: int) -> Any:
    return SimpleNamespace(size=lambda: size, rank=lambda: rank)


@pytest.mark.parametrize("rank", [0, 1])
def test_rotary_positions_are_those_of_the_share(rank: int) -> None:
    table = torch.arange(12)[:, None, None, None]
    mine = rotary_pos_embedding.get_pos_emb_on_this_cp_rank(table, 0, group(size=2, rank=rank))
    assert mine.flatten().tolist() == share_positions(12, size=2, rank=rank, device=table.device).tolist()
    assert rope_utils.get_pos_emb_on_this_cp_rank is rotary_pos_embedding.get_pos_emb_on_this_cp_rank


def test_another_signature_upstream_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rope_utils, context_rope.FUNCTION, lambda pos_emb, seq_dim, new_argument: None)
    with pytest.raises(PatchError, match="new_argument"):
        context_rope.apply()
    monkeypatch.delattr(rope_utils, context_rope.FUNCTION)
    with pytest.raises(PatchError, match="moved it"):
        context_rope.apply()
