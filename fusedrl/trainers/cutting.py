"""Which samples of a pass go into which micro-batch of this replica: by number of samples, or by a budget of tokens.

    by samples   a contiguous share of the rows for each replica, cut into groups of equally many
    by tokens    rows of all replicas packed together (fusedrl.rl.token_budget), so that replicas have like work

All ranks hold the same lengths and so know the micro-batches of every replica.
"""

import torch
from torch import Tensor

from fusedrl.config.budgets import Budget
from fusedrl.rl.token_budget import pack
from fusedrl.trainers.roles import Role


def replica_groups(role: Role, lengths_N: Tensor, *, micro_batch: int, budget: Budget | None) -> list[Tensor]:
    """Indices into `lengths_N` of each micro-batch of this rank's replica. Samples of a `budget` of tokens where there
    is one, `micro_batch` samples each otherwise; none where this rank holds no part of the role. Raises ValueError
    where they do not fit."""
    if not role.held:
        return []
    if budget is None:
        return list(role.share(len(lengths_N)).split(micro_batch))
    packed = pack(
        lengths_N.tolist(),
        tokens=budget.tokens // budget.rows,
        replicas=role.layout.dp,
        multiple=budget.multiple,
        pads_to=budget.pads_to,
        key=budget.key,
    )
    return [torch.tensor(rows) for rows in packed[role.groups.dp.rank()]]
