"""A job of the exchange's test: two ranks swap rows."""

from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.rollout.exchange import Exchange
from fusedrl.rollout.reshard import Piece


def swap_rows() -> dict[str, Any]:
    """Rank r holds row r of a 2 x 2 matrix in fp64, rank 0 one number too; both want all, the number in bf16."""
    rank = dist.get_rank()
    source = {"row": torch.tensor([[10.0 * rank, 10.0 * rank + 1]], dtype=torch.float64), "number": torch.tensor([5.0])}
    target = {"whole": torch.zeros(2, 2), "half": torch.zeros(1, dtype=torch.bfloat16)}

    def piece(sender: int, receiver: int, names: tuple[str, str], *, offset: int, elements: int, dtype: str) -> Piece:
        return Piece(sender, receiver, *names, 0, 0, offset, 1, elements, dtype)

    both = [(sender, receiver) for receiver in (0, 1) for sender in (0, 1)]
    # the number first: it pushes the row off its alignment in the message
    pieces = [piece(0, r, ("number", "half"), offset=0, elements=1, dtype="bfloat16") for r in (0, 1)]
    pieces += [piece(s, r, ("row", "whole"), offset=s, elements=2, dtype="float32") for s, r in both]
    traffic = Exchange(source, target).run(pieces)
    return {"whole": target["whole"].tolist(), "half": target["half"].tolist(), "traffic": asdict(traffic)}
