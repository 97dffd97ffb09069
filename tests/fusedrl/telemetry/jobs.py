"""What the ranks of the distributed tests run."""

import torch
import torch.distributed as dist

from fusedrl.telemetry.stats import Stat, all_reduce

SHARES = ([1.0, 2.0, 6.0], [], [-4.0])  # of three ranks; one has nothing


def reduce_shares() -> dict[str, Stat]:
    rank = dist.get_rank()
    return all_reduce({"x": Stat.of(torch.tensor(SHARES[rank])), "nobody": Stat()})


def reduce_other_names() -> str:
    names = [["a"], ["a", "b"], []][dist.get_rank()]
    try:
        all_reduce({name: Stat() for name in names})
    except ValueError as error:
        return str(error)
    return "no error"
